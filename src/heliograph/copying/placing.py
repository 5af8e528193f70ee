"""Where records go if the remote topic has its own partition count: where Kafka's default partitioner puts them.

A record with a key goes where a Java producer would put it. All records without a key of one source
partition go to the same remote partition, so that their order is kept too.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from heliograph.copying.packing import RecordTooLarge, reencode
from heliograph.copying.sections import ChunkSection
from heliograph.errors import CorruptRecord
from heliograph.kafka.lane import Outgoing
from heliograph.model import ProducerIdentity, TopicPartition
from heliograph.policy.batches import AbortedTransactions
from heliograph.wire.primitives import decode_varint, partition_for_key
from heliograph.wire.record_batch import (
    MAGIC_AT,
    Extent,
    check_crc,
    find_batches,
    next_offset_of,
    next_sequence,
    read_header,
)
from heliograph.wire.records import RawRecord
from heliograph.wire.unpack import unpack

_KEYS = 1 << 16
_LONG_KEY = 128  # bytes; longer keys are not cached

_partition_for_short = lru_cache(_KEYS)(partition_for_key)


def _partition_for_key(key: bytes, count: int) -> int:
    find = _partition_for_short if len(key) <= _LONG_KEY else partition_for_key
    return find(key, count)


@dataclass(slots=True)
class PlacedLane:
    """A remote partition that takes records of many source partitions, in the order they arrive."""

    remote: TopicPartition
    identity: ProducerIdentity
    sequence: int
    max_message_bytes: int

    def take_sequence(self, count: int) -> int:
        sequence = self.sequence
        self.sequence = next_sequence(sequence, count)
        return sequence


class Stretch(NamedTuple):
    """The records of consecutive source batches with one codec; `upstream` is the offset after them."""

    codec: int
    upstream: int
    records: list[RawRecord]


def place(
    records: Iterable[RawRecord], source_index: int, count: int
) -> dict[int, list[RawRecord]]:
    """Return records by remote partition, in their original order."""
    placed: dict[int, list[RawRecord]] = {}
    for record in records:
        key = key_of(record.body)
        index = source_index % count if key is None else _partition_for_key(key, count)
        placed.setdefault(index, []).append(record)
    return placed


def key_of(body: bytes) -> bytes | None:
    """Return the key at the start of a record's body."""
    length, at = decode_varint(body, 0, bits=32)
    if length == -1:
        return None
    if not 0 <= length <= len(body) - at:
        raise CorruptRecord(
            f"a record claims a key of {length} bytes where {len(body) - at} are left."
        )
    return body[at : at + length]


def stretches(
    chunk: memoryview, section: ChunkSection, read_to: int, verdicts: Counter[str]
) -> Iterator[Stretch]:
    """Yield the records from `read_to` on; at a corrupt batch, yield those before it, then raise."""
    open_one: Stretch | None = None
    transactions = AbortedTransactions(section.aborted)
    for extent in find_batches(chunk, section.start, section.end):
        view = chunk[extent.start : extent.start + extent.size]
        try:
            records = _deliverable(view, transactions, read_to, verdicts)
        except CorruptRecord:
            if open_one is not None:
                yield open_one
            raise
        if not records:
            continue
        codec = read_header(view, 0).codec if view[MAGIC_AT] >= 2 else 0
        upstream = next_offset_of(view, 0)
        if open_one is not None and open_one.codec == codec:
            open_one = Stretch(codec, upstream, open_one.records + records)
        else:
            if open_one is not None:
                yield open_one
            open_one = Stretch(codec, upstream, records)
    if open_one is not None:
        yield open_one


def _deliverable(
    view: memoryview, transactions: AbortedTransactions, read_to: int, verdicts: Counter[str]
) -> list[RawRecord]:
    """Return the records of a batch that a consumer may see, from `read_to` on."""
    if view[MAGIC_AT] >= 2:
        header = read_header(view, 0)
        if not transactions.delivers(header):
            check_crc(view, Extent(0, len(view)), header)
            verdicts["dropped"] += 1
            return []
    return [record for record in unpack(view) if record.offset >= read_to]


def encode_stretch(
    stretch: Stretch, source_index: int, lanes: Sequence[PlacedLane]
) -> tuple[list[tuple[int, Outgoing]], RecordTooLarge | None]:
    """Return batches, each with its lane; and why they end early, if they do.

    They end before the first record that its lane does not accept. Nothing after that record goes anywhere,
    so continuing from there repeats nothing.
    """
    records, reason = stretch.records, None
    while True:
        sequences = [lane.sequence for lane in lanes]
        try:
            placed = place(records, source_index, len(lanes))
            return [
                (index, batch)
                for index, its in sorted(placed.items())
                for batch in reencode(lanes[index], its, stretch.codec, stretch.upstream)
            ], reason
        except RecordTooLarge as exc:
            reason = exc.with_traceback(None)  # its frames would keep the chunk and itself alive
            records = [record for record in records if record.offset < exc.upstream]
            for lane, sequence in zip(lanes, sequences, strict=True):
                lane.sequence = sequence
