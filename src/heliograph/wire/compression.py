"""The five codecs of a Kafka batch, numbered as in its attributes.

    0 none    1 gzip    2 snappy (xerial blocks)    3 lz4 (frames)    4 zstd (frames)

What is written suits the strictest reader: Java's lz4 stream takes independent blocks only, and its
snappy stream takes xerial blocks only. What is read may also be raw snappy, and several gzip members,
lz4 frames or zstd frames in a row.
"""

import struct
import zlib

import cramjam

from heliograph.errors import CorruptRecord
from heliograph.wire.primitives import Buffer

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES = 32 * 1024
_GZIP_WINDOW = 16 + zlib.MAX_WBITS
_GZIP_STEP = 1 << 10
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_SNAPPY_RATIO = 22  # three bytes expand to 64 at most
_I32 = struct.Struct(">i")


class UnfoldsTooFar(CorruptRecord):
    """A payload that unfolds to more bytes than the caller allows."""


def compress(codec: int, data: Buffer) -> bytes:
    """Return `data` as the payload of a batch whose attributes name `codec`."""
    match codec:
        case 0:
            return bytes(data)
        case 1:
            return zlib.compress(data, wbits=_GZIP_WINDOW)
        case 2:
            return _compress_xerial(data)
        case 3:
            # Level 1 is lz4's fast mode, five times as fast as the library's default.
            writer = cramjam.lz4.Compressor(level=1, content_checksum=False, block_linked=False)
            writer.compress(bytes(data))
            return bytes(writer.finish())
        case 4:
            return bytes(cramjam.zstd.compress(data, level=3))
        case _:
            raise _unknown(codec)


def decompress(codec: int, data: Buffer, limit: int) -> bytes:
    """Return the data that `compress` was given; refuse to unfold it into more than `limit` bytes."""
    match codec:
        case 0:
            if len(data) > limit:
                raise _too_large(limit)
            return bytes(data)
        case 1:
            return _decompress_gzip(data, limit)
        case 2:
            return _decompress_snappy(data, limit)
        case 3 | 4:
            return _decompress_frames(codec, data, limit)
        case _:
            raise _unknown(codec)


def repair_lz4_header(data: Buffer) -> bytes:
    """Return an lz4 frame of a magic 0 message with the header checksum that the format requires.

    Kafka before 0.10 hashed the frame's magic too; KIP-57 left old messages as they were.
    """
    end = 14 if len(data) > 4 and data[4] & 0x08 else 6
    if data[:4] != _LZ4_MAGIC or len(data) <= end:
        raise CorruptRecord("an lz4 payload does not start with a frame header.")
    descriptor = bytes(data[4:end])
    checksum = _xxh32_short(descriptor) >> 8 & 0xFF
    return _LZ4_MAGIC + descriptor + bytes([checksum]) + bytes(data[end + 1 :])


def _compress_xerial(data: Buffer) -> bytes:
    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (_I32.pack(len(block)), block)
    return b"".join(parts)


def _decompress_gzip(data: Buffer, limit: int) -> bytes:
    view = memoryview(data)
    parts: list[bytes] = []
    room, at = limit, 0
    while at < len(view) or not parts:
        member = zlib.decompressobj(_GZIP_WINDOW)
        step = _GZIP_STEP
        while not member.eof:
            # In steps: the library copies what follows a member, and there may be thousands of them.
            piece = view[at : at + step]
            if not piece:
                raise CorruptRecord("a gzip payload ends too early.")
            try:
                # One byte more than allowed distinguishes "too large" from "exactly full"; 0 would be no limit.
                part = member.decompress(piece, room + 1)
            except zlib.error as exc:
                raise CorruptRecord(f"a gzip payload cannot be read: {exc}.") from exc
            if len(part) > room:
                raise _too_large(limit)
            parts.append(part)
            room -= len(part)
            at += len(piece) - len(member.unused_data)
            step *= 2
    return b"".join(parts)


def _decompress_snappy(data: Buffer, limit: int) -> bytes:
    view = memoryview(data)
    if view[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return _decompress_snappy_block(view, limit, limit)
    parts: list[bytes] = []
    room, at, end = limit, 0, len(view)
    while at < end:
        # A stream may be several streams in a row, each with its own header.
        if view[at : at + len(_XERIAL_MAGIC)] == _XERIAL_MAGIC:
            at += len(_XERIAL_HEADER)
            if at > end:
                raise CorruptRecord("a snappy payload ends inside its header.")
            continue
        if at + 4 > end:
            raise CorruptRecord("a snappy payload ends inside a block length.")
        (length,) = _I32.unpack_from(view, at)
        at += 4
        if not 0 <= length <= end - at:
            raise CorruptRecord(f"a snappy block claims {length} bytes where {end - at} are left.")
        parts.append(_decompress_snappy_block(view[at : at + length], room, limit))
        room -= len(parts[-1])
        at += length
    return b"".join(parts)


def _decompress_snappy_block(block: memoryview, room: int, limit: int) -> bytes:
    try:
        claimed = cramjam.snappy.decompress_raw_len(block)
        if claimed > room:
            raise _too_large(limit)
        if claimed > _SNAPPY_RATIO * len(block):
            raise CorruptRecord(
                f"a snappy block of {len(block)} bytes claims to unfold to {claimed}."
            )
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as exc:
        raise CorruptRecord(f"a snappy payload cannot be read: {exc}.") from exc


def _decompress_frames(codec: int, data: Buffer, limit: int) -> bytes:
    """Unfold into a buffer of a likely size, then into larger ones, never one over the limit.

    Frames need not state their size. The library fills either the buffer it is given, or as much
    memory as the sender likes.
    """
    decompress_into = (cramjam.lz4 if codec == LZ4 else cramjam.zstd).decompress_into
    name = "lz4" if codec == LZ4 else "zstd"
    size = min(limit, max(8 * len(data), 4096))
    while True:
        # The library refuses an empty output, even for an empty content.
        room = bytearray(size or 1)
        try:
            written = decompress_into(data, room)
        except cramjam.DecompressionError as exc:
            if str(exc) != "failed to write whole buffer":
                raise CorruptRecord(f"a {name} payload cannot be read: {exc}.") from exc
            if size >= limit:
                raise _too_large(limit) from exc
            size = min(limit, 8 * size)
            continue
        if written > limit:
            raise _too_large(limit)
        return bytes(memoryview(room)[:written])


def _xxh32_short(data: bytes) -> int:
    """Return the 32-bit xxHash of fewer than 16 bytes, seed 0."""
    mask = 0xFFFFFFFF
    prime1, prime2, prime3, prime4, prime5 = (
        0x9E3779B1,
        0x85EBCA77,
        0xC2B2AE3D,
        0x27D4EB2F,
        0x165667B1,
    )
    hashed = prime5 + len(data)
    whole = len(data) - len(data) % 4
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        hashed = (hashed + word * prime3) & mask
        hashed = ((hashed << 17 | hashed >> 15) & mask) * prime4 & mask
    for byte in data[whole:]:
        hashed = (hashed + byte * prime5) & mask
        hashed = ((hashed << 11 | hashed >> 21) & mask) * prime1 & mask
    hashed = (hashed ^ hashed >> 15) * prime2 & mask
    hashed = (hashed ^ hashed >> 13) * prime3 & mask
    return hashed ^ hashed >> 16


def _unknown(codec: int) -> CorruptRecord:
    return CorruptRecord(f"a batch names compression codec {codec}; Kafka has 0 to 4.")


def _too_large(limit: int) -> CorruptRecord:
    return UnfoldsTooFar(f"a batch unfolds to more than {limit} bytes, the most that is allowed.")
