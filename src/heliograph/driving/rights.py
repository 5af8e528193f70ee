"""The right to write, in the two ways that there are: alone, by fencing everybody else, or beside others, in transactions."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from heliograph.driving.job import Right
from heliograph.driving.ownership import Ownership
from heliograph.driving.partitions import Attempt, Partition
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.offsets import LATEST, list_offsets
from heliograph.kafka.transactions import slice_id, take_over
from heliograph.model import NOWHERE, Position, ProducerIdentity, TopicPartition
from heliograph.wire.lease_messages import Ledger

Rights = Mapping[Partition, Right]
Refused = Mapping[Partition, str]
Saved = Callable[[], Mapping[TopicPartition, Position]]

_FOREVER = float("inf")


class Exclusive:
    """A flow that alone writes to its remote topics: its predecessors are fenced, and their tails are read."""

    is_exclusive = True

    def __init__(self, ownership: Ownership) -> None:
        self._ownership = ownership

    def ledger_of(self, _slice_index: int) -> Ledger | None:
        return None

    def take(
        self, target: Cluster, _attempt: Attempt, partitions: Sequence[Partition]
    ) -> tuple[Rights, Refused]:
        made = [p for p in partitions if p.made]
        others = [p for p in partitions if not p.made]
        lost = [p for p in others if not p.spread and p.position.downstream == NOWHERE]
        ends = list_offsets(target, [p.remote for p in lost], LATEST) if lost else {}
        given = self._ownership.give(target, dict.fromkeys(r for p in made for r in p.remotes))
        fenced = self._ownership.fence(target, dict.fromkeys(r for p in others for r in p.remotes))
        refused = {**given.refused, **fenced.refused}
        identities = {**given.identities, **fenced.identities}
        rights: dict[Partition, Right] = {}
        without: dict[Partition, str] = {}
        for partition in partitions:
            why = next((refused[r] for r in partition.remotes if r in refused), None)
            if why is not None:
                without[partition] = why
                continue
            # What was at work in a remote topic of many lanes is not known: it goes on at the end.
            end = ends.get(partition.remote) if partition in lost else None
            position = None if end is None else Position(partition.position.upstream, end)
            own = {remote: identities[remote] for remote in partition.remotes}
            rights[partition] = Right(own, resume=not partition.made, position=position)
            partition.made = False
        return rights, without

    def verify(self, target: Cluster) -> None:
        self._ownership.open(target)

    def valid_for(self) -> float:
        return _FOREVER


class Shared:
    """A flow whose remote topics may have other writers: each slice commits positions with its records.

    What counts is what was committed: where an attempt ended before it was done, positions are read from the
    ledger again, after its transaction was settled. The flow's own id tells drivers apart.
    """

    is_exclusive = False

    def __init__(self, flow_id: str, own: ProducerIdentity, ledger: Ledger, saved: Saved) -> None:
        self._flow_id = flow_id
        self._own = own
        self._ledger = ledger
        self._saved = saved
        self._turns: Counter[int] = Counter()
        self._held: dict[TopicPartition, tuple[int, int]] = {}
        self._identities: dict[Attempt, ProducerIdentity] = {}

    def ledger_of(self, slice_index: int) -> Ledger | None:
        return replace(self._ledger, transactional_id=slice_id(self._flow_id, slice_index))

    def take(
        self, target: Cluster, attempt: Attempt, partitions: Sequence[Partition]
    ) -> tuple[Rights, Refused]:
        self.verify(target)
        identity = self._identities.get(attempt)
        if identity is None:
            self._identities = {
                a: i for a, i in self._identities.items() if a.slice_index != attempt.slice_index
            }
            identity = replace(self._settle(target, attempt.slice_index), transactional=True)
            self._identities[attempt] = identity
        torn = [p for p in partitions if not p.clean]
        for partition in torn:
            index, turn = self._held.get(partition.source, (attempt.slice_index, -1))
            if index != attempt.slice_index and self._turns[index] == turn:
                self._settle(target, index)  # nobody has since whoever held it last under that id
        saved = self._saved() if torn else {}
        rights = {}
        for partition in partitions:
            self._held[partition.source] = attempt.slice_index, self._turns[attempt.slice_index]
            position = saved.get(partition.source) if partition in torn else None
            own = dict.fromkeys(partition.remotes, identity)
            rights[partition] = Right(own, resume=False, position=position)
        return rights, {}

    def verify(self, target: Cluster) -> None:
        self._own = take_over(target, self._flow_id, self._own)

    def valid_for(self) -> float:
        return _FOREVER

    def _settle(self, target: Cluster, slice_index: int) -> ProducerIdentity:
        """Return the next identity of a slice; what it left open is aborted by then."""
        self._turns[slice_index] += 1
        return take_over(target, slice_id(self._flow_id, slice_index))
