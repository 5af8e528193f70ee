"""Messages of the formats before v2 (magic 0 and 1), read as records; nothing writes them any more.

    int64 offset | int32 length of the rest | uint32 CRC-32 of what follows | int8 magic | int8 attributes
    | int64 timestamp (magic 1 only) | int32 key length | key | int32 value length | value

Attributes: bits 0-2 codec, 0x08 LogAppendTime (magic 1). A message with a codec wraps others in its
value. The wrapper has the offset of the last message inside; inner offsets are absolute in magic 0 and
relative to the wrapper's first offset in magic 1.
"""

import struct
import zlib
from collections.abc import Iterator
from itertools import islice, pairwise
from typing import NamedTuple

from heliograph.errors import CorruptRecord
from heliograph.wire.compression import LZ4, decompress, repair_lz4_header
from heliograph.wire.primitives import Buffer
from heliograph.wire.records import RawRecord, encode_body

_PREFIX = struct.Struct(">qiIbb")
_I32 = struct.Struct(">i")
_I64 = struct.Struct(">q")
_CODEC_MASK = 0x07
_APPEND_TIME = 0x08
_CRC_START = 16
_NO_TIMESTAMP = -1
_RECORD_COST = 128  # see unpack


class _Message(NamedTuple):
    offset: int
    magic: int
    attributes: int
    timestamp: int
    key: bytes | None
    value: bytes | None

    def record(self, offset: int, timestamp: int) -> RawRecord:
        return RawRecord(offset, timestamp, 0, encode_body(self.key, self.value))


def split_messages(data: Buffer, limit: int) -> list[RawRecord]:
    """Return the records of whole messages in a row, compressed ones unfolded to `limit` bytes in all."""
    records: list[RawRecord] = []
    room = limit
    for message in _walk(memoryview(data)):
        if message.attributes & _CODEC_MASK:
            inside = _unfold(message, room)
            records += _unwrap(message, inside, max(limit // _RECORD_COST, len(data)))
            room -= len(inside)
        else:
            records.append(message.record(message.offset, message.timestamp))
    return records


def _unwrap(wrapper: _Message, inside: bytes, most: int) -> list[RawRecord]:
    inner = list(islice(_walk(memoryview(inside)), most + 1))
    if len(inner) > most:
        raise _corrupt(wrapper.offset, f"holds more than {most} messages")
    if not inner:
        raise _corrupt(wrapper.offset, "is compressed and holds nothing")
    for message in inner:
        if message.magic != wrapper.magic or message.attributes & _CODEC_MASK:
            raise _corrupt(wrapper.offset, "holds a message that is compressed or of another magic")
    base = wrapper.offset - inner[-1].offset if wrapper.magic else 0
    ordered = all(one.offset < next_.offset for one, next_ in pairwise(inner))
    if base + inner[0].offset < 0 or not ordered:
        raise _corrupt(wrapper.offset, f"holds inner offsets up to {inner[-1].offset}")
    append_time = wrapper.timestamp if wrapper.attributes & _APPEND_TIME else None
    return [
        message.record(
            base + message.offset, message.timestamp if append_time is None else append_time
        )
        for message in inner
    ]


def _unfold(wrapper: _Message, limit: int) -> bytes:
    codec = wrapper.attributes & _CODEC_MASK
    if wrapper.value is None or codec > LZ4:
        raise _corrupt(wrapper.offset, f"has codec {codec} and no value that it can unfold")
    value = wrapper.value
    if codec == LZ4 and wrapper.magic == 0:
        value = repair_lz4_header(value)
    return decompress(codec, value, limit)


def _walk(view: memoryview) -> Iterator[_Message]:
    at, end = 0, len(view)
    while at < end:
        if end - at < _PREFIX.size:
            raise CorruptRecord(f"an old message set ends {end - at} bytes into a message.")
        offset, length, crc, magic, attributes = _PREFIX.unpack_from(view, at)
        stop = at + 12 + length
        if not at + _PREFIX.size <= stop <= end:
            raise _corrupt(offset, f"claims {length} bytes where {end - at - 12} are left")
        if magic not in (0, 1):
            raise _corrupt(offset, f"has magic {magic} where 0 or 1 is expected")
        actual = zlib.crc32(view[at + _CRC_START : stop])
        if actual != crc:
            raise _corrupt(offset, f"has CRC {actual:08x} where its header says {crc:08x}")
        yield _read(view[at + _PREFIX.size : stop], offset, magic, attributes)
        at = stop


def _read(rest: memoryview, offset: int, magic: int, attributes: int) -> _Message:
    timestamp, at = _NO_TIMESTAMP, 0
    try:
        if magic:
            (timestamp,) = _I64.unpack_from(rest)
            at = _I64.size
        key, at = _read_bytes(rest, at, offset)
        value, at = _read_bytes(rest, at, offset)
    except struct.error as exc:
        raise _corrupt(offset, "is too short for its format") from exc
    if at != len(rest):
        raise _corrupt(offset, f"has {len(rest) - at} bytes after its value")
    # Magic 0 has no timestamp, so no timestamp type either.
    return _Message(
        offset, magic, attributes if magic else attributes & _CODEC_MASK, timestamp, key, value
    )


def _read_bytes(rest: memoryview, at: int, offset: int) -> tuple[bytes | None, int]:
    (length,) = _I32.unpack_from(rest, at)
    at += _I32.size
    if length == -1:
        return None, at
    if not 0 <= length <= len(rest) - at:
        raise _corrupt(offset, f"claims {length} bytes where {len(rest) - at} are left")
    return bytes(rest[at : at + length]), at + length


def _corrupt(offset: int, what: str) -> CorruptRecord:
    return CorruptRecord(f"the message at upstream offset {offset} {what}.")
