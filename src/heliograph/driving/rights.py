"""The right to write, in two modes: alone, by fencing all others, or together with others, in transactions."""

import time
from collections import Counter
from collections.abc import Callable, Container, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

from heliograph.driving.hands import Taken
from heliograph.driving.ownership import Granted, Ownership, group_of
from heliograph.driving.partitions import Attempt, Partition, Stop
from heliograph.driving.roster import Right
from heliograph.kafka.cluster import Cluster, Topic
from heliograph.kafka.offsets import LATEST, find_offsets
from heliograph.kafka.transactions import slice_id, take_over
from heliograph.model import NOWHERE, Position, ProducerIdentity, StopKind, TopicPartition
from heliograph.wire.lease_messages import Ledger


class Saved(Protocol):
    """What slices have committed: positions, and where records went."""

    def read(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, Position]:
        """Return the positions that were committed last; the runs of these partitions are read again, too."""

    def segment_of(self, partition: TopicPartition) -> tuple[int, str] | None:
        """Return the last segment of a partition's runs: where it begins upstream, and its row in hex."""


class Exclusive:
    """A flow that is the only writer of its remote topics: its predecessors are fenced, and their tails are read."""

    is_exclusive = True

    def __init__(self, ownership: Ownership) -> None:
        self._ownership = ownership

    def ledger_of(self, _slice_index: int) -> Ledger | None:
        return None

    def group_of(self, _attempt: Attempt, partition: Partition) -> Hashable:
        return partition.remote.topic if partition.spread else group_of(partition.remote)

    def take(self, target: Cluster, _attempt: Attempt, partitions: Sequence[Partition]) -> Taken:
        others = [p for p in partitions if not p.made]
        remotes = list(dict.fromkeys(r for p in others for r in p.remotes))
        looked = look_at(target, remotes, {p.remote.topic: p.min_in_sync for p in others})
        stops = {p: stop for p in others if (stop := find_loss(p, looked.ends)) is not None}
        going = [p for p in partitions if p not in stops]
        granted = self._take_groups(target, going, looked.trouble)
        rights: dict[Partition, Right] = {}
        refused: dict[Partition, str] = {}
        for partition in going:
            why = next(
                (granted.refused[r] for r in partition.remotes if r in granted.refused), None
            )
            if why is not None:
                refused[partition] = why
                continue
            # Where it was in a remote topic of many lanes is not known: it continues at the end.
            position = None
            if not partition.spread and partition.position.downstream == NOWHERE:
                position = Position(partition.position.upstream, looked.ends[partition.remote])
            own = {remote: granted.identities[remote] for remote in partition.remotes}
            rights[partition] = Right(own, resume=not partition.made, position=position)
            partition.made = False
        return Taken(rights, refused, stops)

    def verify(self, target: Cluster) -> None:
        self._ownership.verify(target)

    def valid_for(self, remotes: Iterable[TopicPartition] = ()) -> float:
        return self._ownership.valid_for(remotes)

    def troubles(self) -> list[str]:
        return self._ownership.troubles()

    def watch(self, on_lost: Callable[[Container[TopicPartition]], None]) -> None:
        self._ownership.on_group_lost = lambda group: on_lost(_Members(group))

    def _take_groups(
        self,
        target: Cluster,
        partitions: Iterable[Partition],
        trouble: Mapping[TopicPartition, str],
    ) -> Granted:
        fence: dict[int, list[TopicPartition]] = {}
        made: dict[int, list[TopicPartition]] = {}
        for partition in partitions:
            for remote in partition.remotes:
                if remote not in trouble:
                    group = group_of(remote)
                    (made if partition.made else fence).setdefault(group, []).append(remote)
        identities: dict[TopicPartition, ProducerIdentity] = {}
        refused = dict(trouble)
        for group in sorted({*fence, *made}):
            granted = self._ownership.take_group(
                target, group, list(dict.fromkeys(fence.get(group, ()))), made.get(group, ())
            )
            identities |= granted.identities
            refused |= granted.refused
        return Granted(identities, refused)


class _Members(Container[TopicPartition]):
    """The remote partitions of a group."""

    def __init__(self, group: int) -> None:
        self._group = group

    def __contains__(self, remote: object) -> bool:
        return isinstance(remote, TopicPartition) and group_of(remote) == self._group


class Looked(NamedTuple):
    """Where remote partitions end, and why others cannot be fenced now."""

    ends: Mapping[TopicPartition, int]
    trouble: Mapping[TopicPartition, str]


def look_at(
    target: Cluster, remotes: Sequence[TopicPartition], min_in_sync: Mapping[str, int]
) -> Looked:
    """Look at remote partitions before they are fenced: a marker that cannot be written holds up its whole group."""
    if not remotes:
        return Looked({}, {})
    described = target.describe_each({remote.topic for remote in remotes})
    trouble: dict[TopicPartition, str] = {}
    for remote in remotes:
        refusal = described.refused.get(remote.topic)
        topic = described.found.get(remote.topic)
        why = str(refusal) if refusal else why_not(remote, topic, min_in_sync.get(remote.topic, 1))
        if why is not None:
            trouble[remote] = why
    ends = find_offsets(target, [r for r in remotes if r not in trouble], LATEST)
    return Looked(ends.found, trouble | {r: str(fault) for r, fault in ends.missing.items()})


def why_not(remote: TopicPartition, topic: Topic | None, min_in_sync: int) -> str | None:
    """Return why a remote partition cannot be written now; None if it can."""
    if topic is None or remote.index >= len(topic.leaders):
        return f"{remote} does not exist on the target"
    if not topic.leads(remote.index):
        return f"{remote} has no leader"
    replicas = topic.in_sync[remote.index] if topic.in_sync else min_in_sync
    if replicas < min_in_sync:
        return (
            f"{remote} has {replicas} replica{'s' if replicas != 1 else ''} in sync, and its "
            f"min.insync.replicas is {min_in_sync}"
        )
    return None


def find_loss(partition: Partition, ends: Mapping[TopicPartition, int]) -> Stop | None:
    """Return the stop for a remote partition that ends before what was stored in it.

    Checked before the partition is fenced: the markers that fencing writes would hide the loss.
    """
    end, position = ends.get(partition.remote), partition.position
    if partition.spread or end is None or end >= position.downstream:
        return None
    reason = (
        f"{partition.remote} ended at {position.downstream} and now ends at {end}: "
        "it was truncated, or deleted and recreated"
    )
    return Stop(StopKind.TRUNCATED, position.upstream, reason, time.monotonic())


class Shared:
    """A flow whose remote topics may have other writers: each slice commits positions with its records.

    Only what was committed counts: if an attempt ended before it was done, positions are read from the
    ledger again, after its transaction was settled. The flow's own id distinguishes drivers.
    """

    is_exclusive = False

    def __init__(self, ownership: Ownership, ledger: Ledger, saved: Saved) -> None:
        self._ownership = ownership
        self._flow_id = ownership.flow_id
        self._ledger = ledger
        self._saved = saved
        self._turns: Counter[int] = Counter()
        self._held: dict[TopicPartition, tuple[int, int]] = {}
        self._identities: dict[Attempt, ProducerIdentity] = {}

    def ledger_of(self, slice_index: int) -> Ledger | None:
        return replace(self._ledger, transactional_id=slice_id(self._flow_id, slice_index))

    def group_of(self, _attempt: Attempt, _partition: Partition) -> Hashable:
        return None  # one after the other: an attempt may have to settle what another one left

    def take(self, target: Cluster, attempt: Attempt, partitions: Sequence[Partition]) -> Taken:
        self.verify(target)
        others = [p for p in partitions if not p.made]
        limits = {p.remote.topic: p.min_in_sync for p in others}
        # What cannot be written would block the commit of all that is written with it.
        trouble = look_at(target, [p.remote for p in others], limits).trouble
        refused = {p: trouble[p.remote] for p in others if p.remote in trouble}
        going = [p for p in partitions if p not in refused]
        return Taken(self._take(target, attempt, going) if going else {}, refused)

    def _take(
        self, target: Cluster, attempt: Attempt, partitions: Sequence[Partition]
    ) -> dict[Partition, Right]:
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
                self._settle(target, index)  # not settled since the last holder, under that id
        saved = self._saved.read(p.source for p in torn) if torn else {}
        rights = {}
        for partition in partitions:
            self._held[partition.source] = attempt.slice_index, self._turns[attempt.slice_index]
            position = saved.get(partition.source) if partition in torn else None
            own = dict.fromkeys(partition.remotes, identity)
            segment = self._saved.segment_of(partition.source)
            rights[partition] = Right(own, resume=False, position=position, segment=segment)
            partition.made = False
        return rights

    def verify(self, target: Cluster) -> None:
        self._ownership.verify(target)

    def valid_for(self, _remotes: Iterable[TopicPartition] = ()) -> float:
        return self._ownership.valid_for()

    def troubles(self) -> list[str]:
        return self._ownership.troubles()

    def watch(self, on_lost: Callable[[Container[TopicPartition]], None]) -> None:
        """Nothing to watch: each task has its own identity, which is taken again with its slice."""

    def _settle(self, target: Cluster, slice_index: int) -> ProducerIdentity:
        """Return the next identity of a slice; an open transaction of it is aborted by then."""
        self._turns[slice_index] += 1
        return take_over(target, slice_id(self._flow_id, slice_index))
