"""The rows of the stream: a chunk is the record part of one fetch response, with an index beside it.

    column  type    content
    index   binary  flags in one byte: 1 if nothing more is there for the moment, 2 if the chunk is elsewhere;
                    then one section per partition of the response, and at the end where the chunk is if it is
                    elsewhere; empty for a tick
    chunk   binary  the fetch response as the broker sent it; null if it is elsewhere, and for a tick

    section  slot i32, start i32 and end i32 of its batches in the chunk, next upstream offset i64,
             aborted transactions i32, then per transaction its producer i64 and first offset i64

A tick pushes the row before it through the JVM, which asks for the next row before it hands over the current one;
an empty batch after the tick does the same for the tick.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

from heliograph.dataplane.ring import REFERENCE_SIZE, Borrower, Reference
from heliograph.errors import CorruptRecord

SCHEMA = pa.schema([("index", pa.binary()), ("chunk", pa.binary())])

_SECTION = struct.Struct(">iiiqi")
_ABORTED = struct.Struct(">qq")
_OFFSETS = struct.Struct("<ii")
_LAST, _ELSEWHERE = 1, 2

_NO_CHUNK = pa.array([None], pa.binary())
TICK = pa.RecordBatch.from_pylist([{"index": b"", "chunk": None}], schema=SCHEMA)
EMPTY = pa.RecordBatch.from_pylist([], schema=SCHEMA)
PUSH = (TICK, EMPTY)


class ChunkSection(NamedTuple):
    """The batches of one partition in a chunk; `upstream` is the next offset after all of them.

    `aborted` are the transactions whose batches nobody may see: (producer, first offset).
    """

    slot: int
    start: int
    end: int
    upstream: int
    aborted: tuple[tuple[int, int], ...] = ()


def encode_index(sections: list[ChunkSection], *, last: bool = False) -> bytes:
    parts = [bytes([_LAST if last else 0])]
    for slot, start, end, upstream, aborted in sections:
        parts.append(_SECTION.pack(slot, start, end, upstream, len(aborted)))
        parts += [_ABORTED.pack(*transaction) for transaction in aborted]
    return b"".join(parts)


def decode_index(index: bytes) -> Iterator[ChunkSection]:
    at = 1
    while at < len(index):
        if len(index) - at < _SECTION.size:
            raise CorruptRecord(
                f"the index of a chunk ends {len(index) - at} bytes into a section."
            )
        slot, start, stop, upstream, count = _SECTION.unpack_from(index, at)
        at += _SECTION.size
        end = at + count * _ABORTED.size
        if not at <= end <= len(index):
            raise CorruptRecord(f"the index of a chunk claims {count} aborted transactions.")
        aborted = tuple(_ABORTED.iter_unpack(index[at:end]))
        yield ChunkSection(slot, start, stop, upstream, aborted)
        at = end


def is_last(index: bytes) -> bool:
    """Whether the source had nothing more when this row was made."""
    return bool(index and index[0] & _LAST)


def chunk_row(index: bytes, buffer: memoryview) -> pa.RecordBatch:
    """Return a one-row batch around `buffer`, which Arrow shares and does not copy."""
    offsets = pa.py_buffer(_OFFSETS.pack(0, buffer.nbytes))
    chunk = pa.Array.from_buffers(pa.binary(), 1, [None, offsets, pa.py_buffer(buffer)])
    return pa.RecordBatch.from_arrays([pa.array([index], pa.binary()), chunk], schema=SCHEMA)


def reference_row(index: bytes, reference: Reference) -> pa.RecordBatch:
    """Return a one-row batch that says where a chunk is."""
    whole = b"".join((bytes([index[0] | _ELSEWHERE]), index[1:], reference.encode()))
    offsets = pa.py_buffer(_OFFSETS.pack(0, len(whole)))
    column = pa.Array.from_buffers(pa.binary(), 1, [None, offsets, pa.py_buffer(whole)])
    return pa.RecordBatch.from_arrays([column, _NO_CHUNK], schema=SCHEMA)


def open_row(row: pa.RecordBatch, borrower: Borrower) -> tuple[bytes, memoryview | None]:
    """Return the index of a row and a view of its chunk, which is borrowed once; a tick has neither."""
    index = row.column(0)[0].as_py()
    if not index:
        return index, None
    if index[0] & _ELSEWHERE:
        return index[:-REFERENCE_SIZE], borrower.open(index[-REFERENCE_SIZE:])
    return index, memoryview(row.column(1)[0].as_buffer()).cast("B")
