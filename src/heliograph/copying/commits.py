"""Copying in transactions: a periodic commit, which includes positions and runs.

One errand at a time talks to the coordinator: it adds partitions to the transaction, or commits. Its waits hold up
no other thread. Sections that arrive meanwhile are kept, in order, and nothing more is fetched.
Positions are reported to the driver only once they are committed.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from heliograph.copying.slot import Slot
from heliograph.errors import KafkaFault
from heliograph.kafka.background import Bell, Errand
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.lane import Lane, Refused
from heliograph.kafka.plain import plain_batch
from heliograph.kafka.produce import Producer
from heliograph.kafka.transactions import Transactions
from heliograph.model import Endpoint, ProducerIdentity, TopicPartition
from heliograph.policy.runs import RunMap
from heliograph.wire.connect_records import SourceOffset, encode_source_key, encode_source_offset
from heliograph.wire.lease_messages import Ledger, Share, SlotWritten
from heliograph.wire.primitives import partition_for_key
from heliograph.wire.record_batch import next_sequence
from heliograph.wire.run_records import encode_segment_key

_WAIT = 0.25


class _Row(NamedTuple):
    """A row of one of heliograph's own topics."""

    place: TopicPartition
    key: bytes
    value: bytes | None


class Commits:
    """The transactions of one slice, as its loop sees them."""

    def __init__(
        self, ledger: Ledger, target: Endpoint, bell: Bell, identity: ProducerIdentity
    ) -> None:
        self._ledger = ledger
        self._bell = bell
        self._book = _Book(Cluster(target), ledger, identity)
        self._maps: dict[int, RunMap] = {}
        self._joined: set[TopicPartition] = set()
        self._errand: Errand[None] | None = None
        self._on_done: Callable[[], None] = lambda: None
        self._opened_at = 0.0
        self._is_closed = False

    @property
    def is_busy(self) -> bool:
        """Whether an errand talks to the coordinator: nothing may be offered meanwhile."""
        return self._errand is not None

    @property
    def is_open(self) -> bool:
        return bool(self._joined)

    def due_at(self) -> float:
        """Return the time of the next commit."""
        return self._opened_at + self._ledger.commit_seconds if self._joined else float("inf")

    def lacks(self, remotes: set[TopicPartition]) -> bool:
        """Whether some partition is not in the transaction yet."""
        return not remotes <= self._joined

    def join(
        self,
        remotes: set[TopicPartition],
        on_joined: Callable[[Mapping[TopicPartition, str]], None],
    ) -> None:
        """Add partitions to the transaction. Then `settle` calls `on_joined` with those that were refused, and why."""
        new = sorted(remotes - self._joined)

        refused: dict[TopicPartition, str] = {}

        def done() -> None:
            self._note_joined([remote for remote in new if remote not in refused])
            on_joined(refused)

        self._start(lambda: refused.update(self._book.transactions.join(new)), done)

    def commit(
        self, slots: Mapping[int, Slot], news: Sequence[SlotWritten], on_done: Callable[[], None]
    ) -> None:
        """Write the slots' positions and where their records went, and commit that with all that was written.

        Everything that was offered must be stored already.
        """

        def done() -> None:
            self._joined.clear()
            on_done()

        rows = [
            *self._positions(slots[written.slot] for written in news),
            *(row for written in news for row in self._runs(slots[written.slot], written)),
        ]
        self._start(lambda: self._book.commit(rows), done)

    def settle(self) -> None:
        """Process the coordinator's answer; raises what went wrong."""
        errand = self._errand
        if errand is not None and errand.is_over:
            self._errand = None
            errand.result()
            self._on_done()

    def close(self) -> None:
        """Close the connections; an errand that still runs does it when it ends."""
        self._is_closed = True
        if self._errand is None or self._errand.is_over:
            self._book.close()

    def _positions(self, slots: Iterable[Slot]) -> Iterator[_Row]:
        for slot in slots:
            source = slot.share.source
            offset = SourceOffset(
                slot.upstream, slot.downstream, slot.share.topic_id, slot.share.remote_id
            )
            key = encode_source_key(
                self._ledger.connector, self._ledger.cluster, source.topic, source.index
            )
            place = partition_for_key(key, self._ledger.partitions)
            yield _Row(TopicPartition(self._ledger.topic, place), key, encode_source_offset(offset))

    def _runs(self, slot: Slot, written: SlotWritten) -> Iterator[_Row]:
        found = self._maps.get(slot.share.slot)
        if found is None:
            found = self._maps[slot.share.slot] = _open_map(slot.share)
        for upstream, downstream, count in written.runs:
            found.add(upstream, downstream, count)
        for upstream, value in found.take_changes().items():
            key = encode_segment_key(slot.share.source, upstream)
            yield _Row(TopicPartition(self._ledger.runs_topic, 0), key, value)
        found.forget_closed()

    def forget(self, slot: int) -> None:
        """Note that a slot is handed over: the next writer of its runs begins with what was committed."""
        self._maps.pop(slot, None)

    def _note_joined(self, new: Sequence[TopicPartition]) -> None:
        if new and not self._joined:
            self._opened_at = time.monotonic()
        self._joined.update(new)

    def _start(self, work: Callable[[], None], on_done: Callable[[], None]) -> None:
        assert self._errand is None, "one errand at a time"
        self._on_done = on_done

        def run() -> None:
            try:
                work()
            finally:
                if self._is_closed:
                    self._book.close()

        self._errand = self._bell.start(run, "transaction")


class _Book:
    """Heliograph's own topics, written in the transactions of one producer. Used by the errands' threads."""

    def __init__(self, cluster: Cluster, ledger: Ledger, identity: ProducerIdentity) -> None:
        self._cluster = cluster
        self._identity = identity
        places = [TopicPartition(ledger.topic, i) for i in range(ledger.partitions)]
        places.append(TopicPartition(ledger.runs_topic, 0))
        self._lanes = {place: number for number, place in enumerate(places)}
        self._sequences = [0] * len(places)
        self._refused: list[Refused] = []
        self._producer = Producer(
            cluster,
            ledger.topic,
            [Lane(number, place) for place, number in self._lanes.items()],
            on_stored=lambda _: None,
            on_refused=self._refused.append,
            transactional_id=ledger.transactional_id,
        )
        self.transactions = Transactions(cluster, ledger.transactional_id, identity)

    def close(self) -> None:
        self._producer.close()
        self._cluster.close()

    def commit(self, rows: Iterable[_Row]) -> None:
        """Write rows, and commit them with all that was written since the last commit: commit all, or raise."""
        by_place: dict[TopicPartition, list[tuple[bytes, bytes | None]]] = {}
        for place, key, value in rows:
            by_place.setdefault(place, []).append((key, value))
        for place, reason in self.transactions.join(list(by_place)).items():
            raise KafkaFault(f"write to {place}", reason, retriable=True)
        for place, some in by_place.items():
            number = self._lanes[place]
            batch = plain_batch(some, None, self._identity, self._sequences[number])
            self._sequences[number] = next_sequence(self._sequences[number], batch.count)
            self._producer.offer(number, batch)
        while not self._producer.idle:
            self._producer.pump(_WAIT)
        if self._refused:
            lane = self._refused[0].slot
            place = next(place for place, number in self._lanes.items() if number == lane)
            raise KafkaFault(f"write to {place}", self._refused[0].reason, retriable=True)
        if self.transactions.is_open:
            self.transactions.commit()


def _open_map(share: Share) -> RunMap:
    """Return the run map that a task continues: its last segment, which is all that it may change."""
    if share.segment is None:
        return RunMap()
    upstream, value = share.segment
    return RunMap([(upstream, bytes.fromhex(value))])
