"""The 61 bytes before the records of a v2 batch, and how to give a batch a new sender.

    position  size  field                   in the CRC
    0         8     base offset             no
    8         4     length after this field no
    12        4     partition leader epoch  no
    16        1     magic                   no
    17        4     CRC-32C of 21..end      -
    21        2     attributes              yes
    23        4     last offset delta       yes
    27        8     base timestamp          yes
    35        8     max timestamp           yes
    43        8     producer id             yes
    51        2     producer epoch          yes
    53        4     base sequence           yes
    57        4     record count            yes

Attributes: bits 0-2 codec, 0x08 LogAppendTime, 0x10 transactional, 0x20 control, 0x40 delete horizon.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from crc32c import crc32c

from heliograph.errors import CorruptRecord
from heliograph.model import ProducerIdentity
from heliograph.wire.primitives import Buffer

HEADER_SIZE = 61
LOG_OVERHEAD = 12
MAGIC_AT = 16
CRC_FROM = 21
LONE_BYTES = 32 << 10  # above, a batch of one record is large enough to travel alone

CODEC_MASK = 0x07
APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40

MAX_SEQUENCE = 0x7FFFFFFF
_INT64_MAX = (1 << 63) - 1

_HEADER = struct.Struct(">qiibIhiqqqhii")
_PREFIX = struct.Struct(">qi")
_EXTENT = struct.Struct(">8xi4xb")
LONE = struct.Struct(
    ">qi4xbIhiq22xi"
)  # base offset, length, magic, CRC, attributes, last delta, time, records
_BEFORE_CRC = struct.Struct(">qiibI")
_AFTER_CRC = struct.Struct(">hiqqqhii")
_CRC = struct.Struct(">I")


class BatchHeader(NamedTuple):
    """A v2 batch header as the source broker sent it."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records: int

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def has_holes(self) -> bool:
        return self.records != self.last_offset_delta + 1


class Extent(NamedTuple):
    """Where one whole batch lies in a buffer."""

    start: int
    size: int


def next_offset_of(buffer: Buffer, start: int) -> int:
    """Return the offset after the batch at `start`, of any magic."""
    if buffer[start + MAGIC_AT] >= 2:
        return read_header(buffer, start).next_offset
    # An old message set carries its last offset.
    offset = int(_PREFIX.unpack_from(buffer, start)[0])
    if not 0 <= offset < _INT64_MAX:
        raise CorruptRecord(f"an old message set claims to end at offset {offset}")
    return offset + 1


def first_offset_of(header: BatchHeader | None) -> int:
    """Return the first offset of a batch; that of an old message set is unknown until unpacked and counts as lowest."""
    return -1 if header is None else header.base_offset


def read_header(buffer: Buffer, start: int) -> BatchHeader:
    try:
        header = BatchHeader._make(_HEADER.unpack_from(buffer, start))
    except struct.error as exc:
        raise CorruptRecord(
            f"a batch of {len(buffer) - start} bytes is shorter than its header"
        ) from exc
    delta = header.last_offset_delta
    if not 0 <= header.base_offset < _INT64_MAX - delta or delta < 0 or header.records < 0:
        raise _impossible(header)
    return header


def batch_at(buffer: Buffer, start: int, end: int) -> Extent | None:
    """Return the batch that begins at `start`, if it is whole: a broker cuts the last one of a fetch."""
    if end - start < LOG_OVERHEAD + 5:
        return None
    length, magic = _EXTENT.unpack_from(buffer, start)
    size = LOG_OVERHEAD + length
    if size < (HEADER_SIZE if magic >= 2 else LOG_OVERHEAD + 5):
        raise CorruptRecord(f"a batch claims a size of {size} bytes")
    return Extent(start, size) if size <= end - start else None


def find_batches(buffer: Buffer, start: int, end: int) -> Iterator[Extent]:
    """Yield the whole batches between `start` and `end`."""
    while (extent := batch_at(buffer, start, end)) is not None:
        yield extent
        start += extent.size


def last_batch(buffer: Buffer, start: int, end: int) -> Extent | None:
    """Return the last of the whole batches between `start` and `end`: in one pass, for there may be thousands."""
    unpack, last, size = _EXTENT.unpack_from, -1, 0
    while end - start >= LOG_OVERHEAD + 5:
        length, magic = unpack(buffer, start)
        size = LOG_OVERHEAD + length
        if size < HEADER_SIZE and (magic >= 2 or size < LOG_OVERHEAD + 5):
            raise CorruptRecord(f"a batch claims a size of {size} bytes")
        if size > end - start:
            break
        last = start
        start += size
    return Extent(last, start - last) if last >= 0 else None


def is_lone(header: BatchHeader) -> bool:
    """Whether a batch is of a producer that does not linger: one record, not compressed, nothing special."""
    return (
        header.records == 1
        and not header.attributes
        and not header.last_offset_delta
        and header.length <= LONE_BYTES
    )


def crc_matches(batch: memoryview, header: BatchHeader) -> bool:
    """Whether a batch is what its producer and broker wrote."""
    return bool(crc32c(batch[CRC_FROM:]) == header.crc)


def _impossible(header: BatchHeader) -> CorruptRecord:
    return CorruptRecord(
        f"a batch claims {header.records} records from offset {header.base_offset} "
        f"to {header.last_offset_delta} after it"
    )


def corrupt_batch(header: BatchHeader) -> CorruptRecord:
    return CorruptRecord(
        f"the batch at upstream offset {header.base_offset} does not match its CRC {header.crc:08x}"
    )


def check_crc(buffer: memoryview, extent: Extent, header: BatchHeader) -> None:
    """Raise CorruptRecord unless the batch is what its producer and broker wrote."""
    if not crc_matches(buffer[extent.start : extent.start + extent.size], header):
        raise corrupt_batch(header)


def restamp(
    header: BatchHeader, payload: memoryview, identity: ProducerIdentity, sequence: int
) -> bytes:
    """Return the header under which `payload`, untouched, may be produced by `identity`."""
    return build_header(
        payload,
        attributes=header.attributes & CODEC_MASK,
        count=header.records,
        base_timestamp=header.base_timestamp,
        max_timestamp=header.max_timestamp,
        identity=identity,
        sequence=sequence,
    )


def build_header(
    payload: Buffer,
    *,
    attributes: int,
    count: int,
    base_timestamp: int,
    max_timestamp: int,
    identity: ProducerIdentity,
    sequence: int,
) -> bytes:
    """Return the 61 bytes for a batch of `count` records without holes, CRC included."""
    if identity.transactional:
        attributes |= TRANSACTIONAL
    tail = _AFTER_CRC.pack(
        attributes,
        count - 1,
        base_timestamp,
        max_timestamp,
        identity.producer_id,
        identity.epoch,
        sequence,
        count,
    )
    crc = crc32c(payload, crc32c(tail))
    return _BEFORE_CRC.pack(0, HEADER_SIZE - LOG_OVERHEAD + len(payload), -1, 2, crc) + tail


def next_sequence(sequence: int, count: int) -> int:
    """Return the sequence after `count` records; it wraps to 0, as the broker's does."""
    return (sequence + count) & MAX_SEQUENCE
