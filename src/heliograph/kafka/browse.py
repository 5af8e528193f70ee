"""Records of one partition for a person to look at: some of them, quickly, and never too many bytes.

What a read_committed consumer would not see is not shown. A batch that cannot be unpacked, or that holds
too much, is reported and skipped, so that the records after it can be shown.
"""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, NamedTuple

from kafka.protocol.consumer import FetchRequest

from heliograph.errors import CorruptRecord, KafkaFault
from heliograph.kafka.cluster import NO_LEADER, Cluster, patiently
from heliograph.kafka.fetch import READ_COMMITTED
from heliograph.kafka.offsets import EARLIEST, LATEST, list_offsets
from heliograph.kafka.scan import deliverable
from heliograph.model import TopicPartition
from heliograph.net.codecs import misread
from heliograph.net.faults import fault_for
from heliograph.wire.fetch_response import Section
from heliograph.wire.record_batch import HEADER_SIZE, MAGIC_AT, next_offset_of, read_header
from heliograph.wire.records import RawRecord
from heliograph.wire.unpack import unpack

FETCHED_BYTES: Final = 4 << 20
SHOWN_BYTES: Final = 4 << 20
_UNPACKED_BYTES: Final = 64 << 20
_BATCH_BYTES: Final = 8 << 20
_BATCH_RECORDS: Final = 100_000
_RECORD_BYTES: Final = 150  # memory that a record takes in addition to its body
_FETCH_BYTES: Final = 512 << 10
_READING: Final = timedelta(seconds=3)
_PATIENCE: Final = timedelta(seconds=2)
_GROWTH: Final = 4


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Some records of a partition that spans `start` to `end`; more begin at `next_offset`."""

    start: int
    end: int
    next_offset: int
    records: tuple[RawRecord, ...]
    troubles: tuple[str, ...]


class _Piece(NamedTuple):
    records: list[RawRecord]
    position: int


class Browser:
    """A single look into one partition; it stops early once it has fetched or waited enough."""

    def __init__(self, cluster: Cluster, partition: TopicPartition) -> None:
        """Find out where the partition begins and ends, for a read_committed consumer."""
        self._cluster = cluster
        self._partition = partition
        self._leader = NO_LEADER
        self._fetched = 0
        self._unpacked = 0
        self._troubles: list[str] = []
        self._deadline = time.monotonic() + _READING.total_seconds()
        self.start = self._ask(EARLIEST)
        self.end = self._ask(LATEST)

    def read_since(self, timestamp_ms: int, most: int) -> Excerpt:
        """Return records from the first one on that is not older than `timestamp_ms`."""
        found = self._ask(timestamp_ms)
        return self.read_from(self.end if found < 0 else found, most)

    def read_from(self, offset: int, most: int) -> Excerpt:
        """Return at most `most` records from `offset` on, or from the nearest offset that exists."""
        first = position = min(max(offset, self.start), self.end)
        found: list[RawRecord] = []
        while position < self.end and len(found) < most and not self._is_spent:
            piece = self._fetch(position)
            found += [record for record in piece.records if record.offset >= first]
            position = piece.position
        shown = list(_fitting(found[:most]))
        if len(shown) < len(found):
            position = found[len(shown)].offset
        return self._excerpt(shown, min(position, self.end))

    def read_last(self, most: int) -> Excerpt:
        """Return the last records, at most `most`; the older ones are left out if all of them are too much."""
        found: list[RawRecord] = []
        first = position = self.end
        width = 1
        while first > self.start and len(found) < most and not self._is_spent:
            begin = max(self.start, first - width)
            piece = self._read(begin, first)
            if piece.position < first:  # it does not reach the records found before
                if not found:
                    found, position = piece.records, piece.position
                break
            found = piece.records + found
            first = min([begin, *(record.offset for record in piece.records[:1])])
            width *= _GROWTH
        shown = list(_fitting(reversed(found[-most:])))[::-1]
        return self._excerpt(shown, min(position, self.end))

    @property
    def _is_spent(self) -> bool:
        return self._fetched >= FETCHED_BYTES or self._is_tired

    @property
    def _is_tired(self) -> bool:
        return self._unpacked >= _UNPACKED_BYTES or time.monotonic() > self._deadline

    def _read(self, begin: int, end: int) -> _Piece:
        """Return the records before `end`, from the batch that holds `begin` on, and how far they reach."""
        found: list[RawRecord] = []
        position = begin
        while position < end and (position == begin or not self._is_spent):
            piece = self._fetch(position)
            found += [record for record in piece.records if record.offset < end]
            position = piece.position
        return _Piece(found, position)

    def _excerpt(self, shown: list[RawRecord], next_offset: int) -> Excerpt:
        return Excerpt(
            self.start, self.end, next_offset, tuple(shown), tuple(dict.fromkeys(self._troubles))
        )

    def _ask(self, which: int) -> int:
        def attempt() -> int:
            asked = list_offsets(
                self._cluster, [self._partition], which, committed_only=which == LATEST
            )
            return asked[self._partition]

        return patiently(attempt, _PATIENCE)

    def _fetch(self, offset: int) -> _Piece:
        """Return the records of the next batches, and the offset after them."""
        answer = patiently(lambda: self._ask_leader(offset), _PATIENCE)
        buffer = memoryview(bytes(answer.records or b""))
        self._fetched += len(buffer)
        aborted = [(a.producer_id, a.first_offset) for a in answer.aborted_transactions or ()]
        section = Section(0, 0, 0, 0, 0, tuple(aborted), 0, len(buffer))
        batches, position = deliverable(buffer, section, committed_only=True)
        records: list[RawRecord] = []
        reached = offset
        for batch in batches:
            if self._is_tired:
                position = reached
                break
            after = reached = next_offset_of(batch, 0)
            try:
                records += self._unpack(batch)
            except CorruptRecord as exc:
                self._troubles.append(
                    f"{self._partition}: a batch before offset {after} cannot be read ({exc})"
                )
        shown = [record for record in records if self.start <= record.offset < self.end]
        return _Piece(shown, self.end if position is None else position)

    def _unpack(self, batch: memoryview) -> list[RawRecord]:
        if batch[MAGIC_AT] >= 2 and len(batch) >= HEADER_SIZE:
            records = read_header(batch, 0).records
            if records > _BATCH_RECORDS:
                raise CorruptRecord(
                    f"it claims {records} records, and {_BATCH_RECORDS} are the most that are looked at."
                )
        unpacked = unpack(batch, _BATCH_BYTES)
        self._unpacked += sum(len(record.body) + _RECORD_BYTES for record in unpacked)
        return unpacked

    def _ask_leader(self, offset: int) -> Any:
        """Return the leader's answer for the partition; Any, because kafka-python has no types."""
        if self._leader == NO_LEADER:
            self._leader = self._find_leader()
        spec = FetchRequest.FetchTopic
        asked = spec.FetchPartition(
            partition=self._partition.index,
            current_leader_epoch=-1,
            fetch_offset=offset,
            last_fetched_epoch=-1,
            log_start_offset=-1,
            partition_max_bytes=_FETCH_BYTES,
        )
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=100,
            min_bytes=1,
            max_bytes=_FETCH_BYTES,
            isolation_level=READ_COMMITTED,
            session_id=0,
            session_epoch=-1,
            topics=[spec(topic=self._partition.topic, partitions=[asked])],
            forgotten_topics_data=[],
            rack_id="",
        )
        leader, self._leader = self._leader, NO_LEADER
        answer = self._cluster.call(request, leader, newest=12)
        with misread(f"what broker {leader} sent of {self._partition}"):
            (topic,) = answer.responses
            (found,) = topic.partitions
        if found.error_code:
            raise fault_for(f"read {self._partition}", found.error_code)
        self._leader = leader
        return found

    def _find_leader(self) -> int:
        topic = self._cluster.describe([self._partition.topic]).get(self._partition.topic)
        leaders = topic.leaders if topic is not None else ()
        index = self._partition.index
        if index >= len(leaders) or leaders[index] == NO_LEADER:
            raise KafkaFault(f"read {self._partition}", "LEADER_NOT_AVAILABLE", retriable=True)
        return leaders[index]


def _fitting(records: Iterable[RawRecord]) -> Iterator[RawRecord]:
    """Yield the first record, and more while they are not too many bytes together."""
    total = 0
    for record in records:
        total += len(record.body)
        if total > SHOWN_BYTES and total > len(record.body):
            return
        yield record
