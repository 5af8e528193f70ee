"""A record batch as a broker sees it: it checks what a producer sent, and stores it under an offset.

The layout is read here by a table of its own, because wire/record_batch.py is under test. What is compressed is not
unpacked: a broker would, and refuse records that it cannot read.
"""

import struct
from dataclasses import dataclass, replace

from crc32c import crc32c

from lab.inprocess.code import Code, RefusedRequest

_HEADER = struct.Struct(">qi i b I h i q q q h i i")
_PLACE = struct.Struct(">qii")  # base offset, length, leader epoch: what a broker writes
_MAGIC = 2
_PREFIX = 12
_CRC_FROM = 21
_TRANSACTIONAL, _CONTROL = 0x10, 0x20
_MARKER_KEY = struct.Struct(">hh")
_MARKER_VALUE = struct.Struct(">hi")
_LAST_SEQUENCE = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Batch:
    """A whole batch; `data` is what fetches return."""

    data: bytes
    base_offset: int
    leader_epoch: int
    attributes: int
    last_delta: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    sequence: int
    count: int

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_delta + 1

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & _CONTROL)

    @property
    def last_sequence(self) -> int:
        return (self.sequence + self.last_delta) & _LAST_SEQUENCE

    def stored_at(self, offset: int, leader_epoch: int) -> "Batch":
        """Return the batch as a leader stores it; its CRC covers neither of the two."""
        placed = _PLACE.pack(offset, len(self.data) - _PREFIX, leader_epoch)
        data = placed + self.data[_PLACE.size :]
        return replace(self, data=data, base_offset=offset, leader_epoch=leader_epoch)


def read_batch(records: bytes | None, max_message_bytes: int) -> Batch:
    """Return the one batch that a produce request may have for a partition, or raise with the reason."""
    if not records or len(records) < _HEADER.size:
        raise RefusedRequest(Code.INVALID_RECORD)
    fields = _HEADER.unpack_from(records)
    _, length, _, magic, crc, attributes, last_delta, _, max_timestamp = fields[:9]
    producer_id, producer_epoch, sequence, count = fields[9:]
    if magic != _MAGIC or length + _PREFIX != len(records):
        raise RefusedRequest(Code.INVALID_RECORD)
    if len(records) > max_message_bytes:
        raise RefusedRequest(Code.MESSAGE_TOO_LARGE)
    if crc32c(records[_CRC_FROM:]) != crc:
        raise RefusedRequest(Code.CORRUPT_MESSAGE)
    batch = Batch(
        bytes(records),
        0,
        -1,
        attributes,
        last_delta,
        max_timestamp,
        producer_id,
        producer_epoch,
        sequence,
        count,
    )
    if batch.is_control or count < 1 or count != last_delta + 1:
        raise RefusedRequest(Code.INVALID_RECORD)
    return batch


def make_marker(producer_id: int, epoch: int, *, commit: bool, timestamp: int) -> Batch:
    """Return the control batch that ends a transaction."""
    key = _MARKER_KEY.pack(0, 1 if commit else 0)
    value = _MARKER_VALUE.pack(0, 0)
    # attributes, timestamp delta, offset delta; then lengths as zigzag varints below 64
    body = bytes([0, 0, 0, len(key) << 1]) + key + bytes([len(value) << 1]) + value + b"\0"
    payload = bytes([len(body) << 1]) + body
    attributes = _TRANSACTIONAL | _CONTROL
    size = _HEADER.size - _PREFIX + len(payload)

    def packed(crc: int) -> bytes:
        times = (timestamp, timestamp)
        who = (producer_id, epoch, -1)
        head = _HEADER.pack(0, size, -1, _MAGIC, crc, attributes, 0, *times, *who, 1)
        return head + payload

    data = packed(crc32c(packed(0)[_CRC_FROM:]))
    return Batch(data, 0, -1, attributes, 0, timestamp, producer_id, epoch, -1, 1)
