"""The rows of the stream: a chunk is the record part of one fetch response, with an index beside it.

    column  type    content
    index   binary  1 if nothing more is there for the moment, else 0, in one byte; then one section
                    per partition of the response; empty for a tick
    chunk   binary  the fetch response as the broker sent it; null for a tick

    section  slot i32, next upstream offset i64, end offset i64, batches i32,
             then per batch its position i32 and size i32 in the chunk

A tick pushes the row before it through the JVM, which asks for the next row before it hands over the
current one; an empty batch after the tick does the same for the tick.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

from heliograph.errors import CorruptRecord
from heliograph.wire.record_batch import Extent

SQL_SCHEMA = "index binary, chunk binary"
SCHEMA = pa.schema([("index", pa.binary()), ("chunk", pa.binary())])

_SECTION = struct.Struct(">iqqi")
_EXTENT = struct.Struct(">ii")
_OFFSETS = struct.Struct("<ii")
_MORE, _LAST = b"\0", b"\1"

TICK = pa.RecordBatch.from_pylist([{"index": b"", "chunk": None}], schema=SCHEMA)
EMPTY = pa.RecordBatch.from_pylist([], schema=SCHEMA)


class ChunkSection(NamedTuple):
    """The batches of one partition in a chunk; `upstream` is the next offset after all of them."""

    slot: int
    upstream: int
    end_offset: int
    batches: list[Extent]


def encode_index(sections: list[ChunkSection], *, last: bool = False) -> bytes:
    parts = [_LAST if last else _MORE]
    for slot, upstream, end_offset, batches in sections:
        parts.append(_SECTION.pack(slot, upstream, end_offset, len(batches)))
        parts += [_EXTENT.pack(start, size) for start, size in batches]
    return b"".join(parts)


def decode_index(index: bytes) -> Iterator[ChunkSection]:
    at = 1
    while at < len(index):
        if len(index) - at < _SECTION.size:
            raise CorruptRecord(
                f"the index of a chunk ends {len(index) - at} bytes into a section."
            )
        slot, upstream, end_offset, count = _SECTION.unpack_from(index, at)
        at += _SECTION.size
        end = at + count * _EXTENT.size
        if not at <= end <= len(index):
            raise CorruptRecord(f"the index of a chunk claims {count} batches.")
        extents = [Extent(start, size) for start, size in _EXTENT.iter_unpack(index[at:end])]
        yield ChunkSection(slot, upstream, end_offset, extents)
        at = end


def is_last(index: bytes) -> bool:
    """Whether the source had nothing more when this row was made."""
    return index[:1] == _LAST


def chunk_row(index: bytes, buffer: memoryview) -> pa.RecordBatch:
    """Return a one-row batch around `buffer`, which Arrow shares and does not copy."""
    offsets = pa.py_buffer(_OFFSETS.pack(0, buffer.nbytes))
    chunk = pa.Array.from_buffers(pa.binary(), 1, [None, offsets, pa.py_buffer(buffer)])
    return pa.RecordBatch.from_arrays([pa.array([index], pa.binary()), chunk], schema=SCHEMA)


def open_row(row: pa.RecordBatch) -> tuple[bytes, memoryview | None]:
    """Return the index of a row and a view of its chunk; a tick has neither."""
    index = row.column(0)[0].as_py()
    return index, memoryview(row.column(1)[0].as_buffer()) if index else None
