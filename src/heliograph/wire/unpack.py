"""From one batch of any magic to its records, within bounds that only a hostile batch reaches.

A broker accepts a batch by its compressed size, 1 MB unless configured otherwise, and ignores its
uncompressed size. A record costs some 200 bytes here, however small it is, so both are bounded: the
bytes, and the records to one per 128 of those bytes or one per byte received, whichever is more. By
default that is 256 MB and two million records. A batch that is passed unchanged is never unfolded, so
neither bound applies.
"""

from heliograph.errors import CorruptRecord
from heliograph.wire.compression import decompress
from heliograph.wire.legacy_records import split_messages
from heliograph.wire.primitives import Buffer
from heliograph.wire.record_batch import (
    APPEND_TIME,
    HEADER_SIZE,
    MAGIC_AT,
    BatchHeader,
    Extent,
    check_crc,
    read_header,
)
from heliograph.wire.records import RawRecord, split_records

UNPACKED_LIMIT = 256 << 20
_RECORD_COST = 128


def unpack(batch: memoryview, limit: int = UNPACKED_LIMIT) -> list[RawRecord]:
    """Return the records of `batch`, its CRC checked, as a consumer would see them."""
    if len(batch) <= MAGIC_AT:
        raise CorruptRecord(f"a batch of {len(batch)} bytes is shorter than its header")
    if batch[MAGIC_AT] < 2:
        records = split_messages(batch, limit)
        if records and records[0].offset < 0:
            raise CorruptRecord(f"an old message set claims offset {records[0].offset}")
        return records
    header = read_header(batch, 0)
    payload = unfold(batch, header, limit)
    records = split_records(
        payload, header.records, header.base_offset, header.base_timestamp, append_time_of(header)
    )
    if records:
        check_end(header, records[-1].offset)
    return records


def unfold(batch: memoryview, header: BatchHeader, limit: int = UNPACKED_LIMIT) -> Buffer:
    """Return the uncompressed payload of a v2 batch, its CRC checked."""
    check_crc(batch, Extent(0, len(batch)), header)
    if header.magic != 2:
        raise CorruptRecord(
            f"the batch at upstream offset {header.base_offset} has magic {header.magic}, which is not known"
        )
    if header.records > max(limit // _RECORD_COST, len(batch)):
        raise CorruptRecord(
            f"the batch at upstream offset {header.base_offset} claims {header.records} records "
            f"in {len(batch)} bytes"
        )
    return decompress(header.codec, batch[HEADER_SIZE:], limit)


def append_time_of(header: BatchHeader) -> int | None:
    """Return the time that replaces the timestamp of every record, if the batch has one."""
    return header.max_timestamp if header.attributes & APPEND_TIME else None


def check_end(header: BatchHeader, last: int) -> None:
    """Raise CorruptRecord for a batch whose last record lies beyond its end."""
    if last >= header.next_offset:
        raise CorruptRecord(
            f"the batch at upstream offset {header.base_offset} holds offset {last} "
            f"and claims to end before {header.next_offset}"
        )
