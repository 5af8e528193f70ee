"""Copying in transactions: a commit every so often, with positions and runs inside.

One errand at a time talks to the coordinator: it lets partitions take part, or commits. What it waits for holds up
no other thread; sections that came meanwhile are kept, in order, and nothing more is asked for.
Positions are told to the driver only once they are committed.
"""

import time
from collections.abc import Callable, Mapping, Sequence

from heliograph.copying.slot import Slot
from heliograph.errors import KafkaFault
from heliograph.kafka.background import Bell, Errand
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.plain import plain_batch
from heliograph.kafka.produce import Lane, Producer, Refused
from heliograph.kafka.transactions import Transactions
from heliograph.model import Endpoint, ProducerIdentity, TopicPartition
from heliograph.wire.connect_records import SourceOffset, encode_source_key, encode_source_offset
from heliograph.wire.lease_messages import Ledger
from heliograph.wire.primitives import partition_for_key
from heliograph.wire.record_batch import next_sequence

_WAIT = 0.25


class Commits:
    """The transactions of one slice, as its loop sees them."""

    def __init__(
        self, ledger: Ledger, target: Endpoint, bell: Bell, identity: ProducerIdentity
    ) -> None:
        self._ledger = ledger
        self._bell = bell
        self._book = _Book(Cluster(target), ledger, identity)
        self._joined: set[TopicPartition] = set()
        self._joining: set[TopicPartition] = set()
        self._errand: Errand[None] | None = None
        self._on_done: Callable[[], None] = lambda: None
        self._opened_at = 0.0

    @property
    def is_busy(self) -> bool:
        """Whether the coordinator is being asked: nothing may be offered meanwhile."""
        return self._errand is not None

    @property
    def is_open(self) -> bool:
        return bool(self._joined)

    def due_at(self) -> float:
        """Return the time of the next commit."""
        return self._opened_at + self._ledger.commit_seconds if self._joined else float("inf")

    def lacks(self, remotes: set[TopicPartition]) -> bool:
        """Whether some partition does not take part yet."""
        return not remotes <= self._joined

    def join(self, remotes: set[TopicPartition]) -> None:
        """Let partitions take part; it is done when `settle` says so."""
        new = sorted(remotes - self._joined)
        self._start(lambda: self._book.transactions.join(new), lambda: self._note_joined(new))

    def commit(self, positions: Mapping[bytes, bytes], on_done: Callable[[], None]) -> None:
        """Write positions and commit them with all that was written; everything offered must be stored."""

        def done() -> None:
            self._joined.clear()
            on_done()

        self._start(lambda: self._book.commit(positions), done)

    def settle(self) -> None:
        """Take note of what the coordinator has answered; raises what went wrong."""
        errand = self._errand
        if errand is not None and errand.is_over:
            self._errand = None
            errand.result()
            self._on_done()

    def close(self) -> None:
        if self._errand is None:
            self._book.close()

    def positions(self, slots: Sequence[Slot]) -> dict[bytes, bytes]:
        """Return the rows of the ledger for some slots."""
        rows = {}
        for slot in slots:
            source = slot.share.source
            offset = SourceOffset(
                slot.upstream, slot.downstream, slot.share.topic_id, slot.share.remote_id
            )
            key = encode_source_key(
                self._ledger.connector, self._ledger.cluster, source.topic, source.index
            )
            rows[key] = encode_source_offset(offset)
        return rows

    def _note_joined(self, new: Sequence[TopicPartition]) -> None:
        if not self._joined:
            self._opened_at = time.monotonic()
        self._joined.update(new)

    def _start(self, work: Callable[[], None], on_done: Callable[[], None]) -> None:
        assert self._errand is None, "one errand at a time"
        self._on_done = on_done
        self._errand = self._bell.start(work, "transaction")


class _Book:
    """The ledger's topic, written in the transactions of one producer; for the errands' threads."""

    def __init__(self, cluster: Cluster, ledger: Ledger, identity: ProducerIdentity) -> None:
        self._cluster = cluster
        self._ledger = ledger
        self._identity = identity
        self._sequences = [0] * ledger.partitions
        self._refused: list[Refused] = []
        self._producer = Producer(
            cluster,
            ledger.topic,
            [Lane(i, TopicPartition(ledger.topic, i)) for i in range(ledger.partitions)],
            on_stored=lambda _: None,
            on_refused=self._refused.append,
            transactional_id=ledger.transactional_id,
        )
        self.transactions = Transactions(cluster, ledger.transactional_id, identity)

    def close(self) -> None:
        self._producer.close()
        self._cluster.close()

    def commit(self, rows: Mapping[bytes, bytes]) -> None:
        """Write rows by key, and commit them with all that was written since the last commit."""
        by_partition: dict[int, list[tuple[bytes, bytes]]] = {}
        for key, value in rows.items():
            place = partition_for_key(key, self._ledger.partitions)
            by_partition.setdefault(place, []).append((key, value))
        self.transactions.join([TopicPartition(self._ledger.topic, i) for i in by_partition])
        for index, some in by_partition.items():
            batch = plain_batch(some, None, self._identity, self._sequences[index])
            self._sequences[index] = next_sequence(self._sequences[index], batch.count)
            self._producer.offer(index, batch)
        while not self._producer.idle:
            self._producer.pump(_WAIT)
        if self._refused:
            reason = self._refused[0].reason
            raise KafkaFault(f"write to {self._ledger.topic}", reason, retriable=True)
        if self.transactions.is_open:
            self.transactions.commit()
