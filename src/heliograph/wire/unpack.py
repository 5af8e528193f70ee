"""From one batch of any magic to its records."""

from heliograph.errors import CorruptRecord
from heliograph.wire.compression import decompress
from heliograph.wire.legacy_records import split_messages
from heliograph.wire.record_batch import (
    APPEND_TIME,
    HEADER_SIZE,
    MAGIC_AT,
    Extent,
    check_crc,
    read_header,
)
from heliograph.wire.records import RawRecord, split_records

UNPACKED_LIMIT = 512 << 20


def unpack(batch: memoryview, limit: int = UNPACKED_LIMIT) -> list[RawRecord]:
    """Return the records of `batch`, its CRC checked, as a consumer would see them."""
    if batch[MAGIC_AT] < 2:
        return split_messages(batch, limit)
    if len(batch) < HEADER_SIZE:
        raise CorruptRecord(f"a batch of {len(batch)} bytes is shorter than its header")
    header = read_header(batch, 0)
    check_crc(batch, Extent(0, len(batch)), header)
    payload = decompress(header.codec, batch[HEADER_SIZE:], limit)
    append_time = header.max_timestamp if header.attributes & APPEND_TIME else None
    return split_records(
        payload, header.records, header.base_offset, header.base_timestamp, append_time
    )
