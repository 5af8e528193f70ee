"""The small parts that Kafka's formats are made of: strings, varints, and the hash that places a key."""

import struct
from typing import TypeAlias

from heliograph.errors import CorruptRecord

Buffer: TypeAlias = bytes | bytearray | memoryview

_I16 = struct.Struct(">h")
_STRING_BYTES_MAX = 32767
_EXCERPT_BYTES = 100


def excerpt(data: Buffer | None) -> str:
    """Return bytes for an error's text: the first of them, however many there are."""
    if data is None:
        return "null"
    more = f"... ({len(data)} bytes)" if len(data) > _EXCERPT_BYTES else ""
    return bytes(data[:_EXCERPT_BYTES]).hex() + more


def encode_string(text: str) -> bytes:
    """Return `text` as a STRING: INT16 byte length, then UTF-8."""
    data = text.encode()
    if len(data) > _STRING_BYTES_MAX:
        raise ValueError(f"a Kafka string holds {_STRING_BYTES_MAX} bytes, not {len(data)}")
    return _I16.pack(len(data)) + data


def decode_string(data: Buffer, at: int) -> tuple[str, int]:
    """Return the STRING that starts at `at`, and where it ends."""
    try:
        (length,) = _I16.unpack_from(data, at)
        end = at + 2 + length
        if length < 0 or end > len(data):
            raise CorruptRecord(
                f"a string claims {length} bytes where {len(data) - at - 2} are left."
            )
        return str(data[at + 2 : end], "utf-8"), end
    except (struct.error, UnicodeDecodeError) as exc:
        raise CorruptRecord(f"bytes {excerpt(data)} hold no string at {at}.") from exc


def encode_varint(number: int) -> bytes:
    """Return a zigzag varint; a number beyond 64 bits wraps as in Java."""
    rest = number << 1 ^ -(number < 0)
    if rest < 0x80:
        return bytes((rest,))
    if rest < 0x4000:
        return bytes((rest & 0x7F | 0x80, rest >> 7))
    if rest >> 64:
        return encode_varint((number + (1 << 63)) % (1 << 64) - (1 << 63))
    out = bytearray()
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def decode_varint(data: bytes, at: int, *, bits: int) -> tuple[int, int]:
    """Return the zigzag varint of at most `bits` that starts at `at`, and where it ends."""
    try:
        byte = data[at]
        at += 1
        if byte < 0x80:
            return byte >> 1 ^ -(byte & 1), at
        rest = byte & 0x7F
        shift = 7
        while True:
            byte = data[at]
            at += 1
            rest |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift >= bits:
                raise CorruptRecord(f"a number takes more than {bits} bits")
    except IndexError as exc:
        raise CorruptRecord("the bytes end inside a number") from exc
    if rest >> bits:
        raise CorruptRecord(f"a number takes more than {bits} bits")
    return rest >> 1 ^ -(rest & 1), at


def murmur2(data: bytes) -> int:
    """Return Kafka's 32-bit hash of a key, unsigned."""
    mask, mix = 0xFFFFFFFF, 0x5BD1E995
    hashed = 0x9747B28C ^ len(data)
    whole = len(data) & ~3
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        mixed = word * mix & mask
        mixed = (mixed ^ mixed >> 24) * mix & mask
        hashed = hashed * mix & mask ^ mixed
    tail = data[whole:]
    if tail:
        hashed = (hashed ^ int.from_bytes(tail, "little")) * mix & mask
    hashed = (hashed ^ hashed >> 13) * mix & mask
    return hashed ^ hashed >> 15


def partition_for_key(key: bytes, partitions: int) -> int:
    """Return where Java's default partitioner puts a record of this key."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions
