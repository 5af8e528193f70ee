"""The writing half of a slice in transactions: a commit every so often, with the positions inside.

A reader sends something at least twice a second, so an open transaction never waits for the next record.
Positions are told to the driver only once they are committed.
"""

import time
from collections.abc import Iterator

from heliograph.dataplane.assignment import Assignment, Ledger
from heliograph.dataplane.chunks import Row
from heliograph.dataplane.lease import Lease
from heliograph.dataplane.writer import SliceWriter
from heliograph.errors import FlowFenced, KafkaFault
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.plain import plain_batch
from heliograph.kafka.produce import Lane, Producer, Refused
from heliograph.kafka.transactions import Transactions
from heliograph.model import ProducerIdentity, TopicPartition
from heliograph.wire.connect_records import SourceOffset, encode_source_key, encode_source_offset
from heliograph.wire.primitives import partition_for_key
from heliograph.wire.record_batch import next_sequence

_WAIT = 0.25


class TransactionalWriter(SliceWriter):
    """Writes the rows of one slice, and commits them with the positions after them."""

    def __init__(self, lease: Lease, assignment: Assignment, ledger: Ledger) -> None:
        super().__init__(lease, assignment)
        self._terms = ledger
        self._book: _Book | None = None
        if assignment.shares:
            self._book = _Book(Cluster(assignment.endpoint), ledger, assignment.shares[0].identity)
        self._opened_at = 0.0

    def close(self) -> None:
        super().close()
        if self._book is not None:
            self._book.close()

    def _write_row(self, row: Row) -> bool:
        book = self._book
        if book is None:
            return True
        if row.sections:
            slots = [self._slots[section.slot] for section in row.sections]
            if not book.transactions.is_open:
                self._opened_at = time.monotonic()
            book.transactions.join([slot.share.remote for slot in slots if not slot.stopped])
        is_last = super()._write_row(row)
        if (
            book.transactions.is_open
            and time.monotonic() - self._opened_at >= self._terms.commit_seconds
        ):
            self._commit(book)
        return is_last

    def _commit(self, book: "_Book") -> None:
        while not self._producer.idle:
            self._pump(_WAIT)
        book.commit(dict(self._positions()))
        super()._report(final=False)

    def _positions(self) -> Iterator[tuple[bytes, bytes]]:
        terms = self._terms
        for index in sorted(self._changed):
            slot = self._slots[index]
            source = slot.share.source
            offset = SourceOffset(
                slot.upstream, slot.downstream, slot.share.topic_id, terms.remote_ids[index]
            )
            key = encode_source_key(terms.connector, terms.cluster, source.topic, source.index)
            yield key, encode_source_offset(offset)

    def _report(self, *, final: bool) -> None:
        """Tell the driver how it goes; of positions only those that are committed."""
        if final:
            if self._book is not None and (self._changed or self._book.transactions.is_open):
                self._commit(self._book)
            super()._report(final=True)
            return
        waiting, self._changed = self._changed, set()
        super()._report(final=False)
        self._changed |= waiting

    def _fenced(self, exc: FlowFenced) -> None:
        """Let the driver find out: the coordinator also aborts what took too long, which fences nobody."""


class _Book:
    """The ledger's topic, written in the transactions of one producer."""

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

    def commit(self, rows: dict[bytes, bytes]) -> None:
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
