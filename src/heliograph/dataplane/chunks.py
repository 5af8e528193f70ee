"""The rows of the stream: a chunk is the record part of one fetch response, with an index before it.

    row      empty for a tick; else flags u8 (1 if nothing more is there for the moment, 2 if the chunk is
             elsewhere), the number of sections i32, the sections, and then the chunk or where it is
    section  slot i32, start i32 and end i32 of its batches in the chunk, next upstream offset i64,
             aborted transactions i32, then per transaction its producer i64 and first offset i64

Spark's JVM puts rows into pairs for the writer (`ROWS_PER_BATCH`), and hands a pair over when it has seen the row
after it. So the last row of the moment is followed by ticks, in the same Arrow batch: one where it ends its pair,
which is so after the first, and two where it begins one.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from heliograph.dataplane.ring import REFERENCE_SIZE, Borrower, Reference
from heliograph.errors import CorruptRecord

SCHEMA = pa.schema([("row", pa.binary())])
ROWS_PER_BATCH = 2

_HEAD = struct.Struct(">Bi")
_SECTION = struct.Struct(">iiiqi")
_ABORTED = struct.Struct(">qq")
_OFFSETS = struct.Struct("<4i")
_LAST, _ELSEWHERE = 1, 2


class ChunkSection(NamedTuple):
    """The batches of one partition in a chunk; `upstream` is the next offset after all of them.

    `aborted` are the transactions whose batches nobody may see: (producer, first offset).
    """

    slot: int
    start: int
    end: int
    upstream: int
    aborted: tuple[tuple[int, int], ...] = ()


class Row(NamedTuple):
    """What a writer is given. `is_last` if the source had nothing more when it was made; a tick has no chunk."""

    sections: Sequence[ChunkSection]
    chunk: memoryview | None
    is_last: bool


def encode_row(
    sections: Sequence[ChunkSection], chunk: memoryview | Reference, *, is_last: bool = False
) -> bytes:
    """Return a row with its chunk, or with where that is."""
    elsewhere = isinstance(chunk, Reference)
    parts: list[bytes | memoryview] = [
        _HEAD.pack(is_last * _LAST | elsewhere * _ELSEWHERE, len(sections))
    ]
    for slot, start, end, upstream, aborted in sections:
        parts.append(_SECTION.pack(slot, start, end, upstream, len(aborted)))
        parts += [_ABORTED.pack(*transaction) for transaction in aborted]
    parts.append(chunk.encode() if isinstance(chunk, Reference) else chunk)
    return b"".join(parts)


def decode_row(row: memoryview, borrower: Borrower) -> Row:
    """Return what a row holds; its chunk, if that is elsewhere, is borrowed once."""
    if not row:
        return Row((), None, is_last=True)
    try:
        flags, count = _HEAD.unpack_from(row)
        at = _HEAD.size
        sections = []
        for _ in range(count):
            slot, start, end, upstream, transactions = _SECTION.unpack_from(row, at)
            at += _SECTION.size
            after = at + transactions * _ABORTED.size
            aborted = tuple(_ABORTED.iter_unpack(row[at:after])) if transactions else ()
            if len(aborted) != transactions:
                raise CorruptRecord(f"a row claims {transactions} aborted transactions.")
            at = after
            sections.append(ChunkSection(slot, start, end, upstream, aborted))
    except struct.error as exc:
        raise CorruptRecord(f"a row of {len(row)} bytes ends early.") from exc
    if not flags & _ELSEWHERE:
        return Row(sections, row[at:], bool(flags & _LAST))
    if len(row) - at != REFERENCE_SIZE:
        raise CorruptRecord(f"a row says in {len(row) - at} bytes where its chunk is.")
    return Row(sections, borrower.open(row[at:]), bool(flags & _LAST))


def open_row(batch: pa.RecordBatch, number: int, borrower: Borrower) -> Row:
    """Return one row of a batch; a chunk that is in it shares the memory of the batch."""
    content = batch.column(0)[number].as_buffer()
    return decode_row(memoryview(content).cast("B") if content.size else memoryview(b""), borrower)


class Rows:
    """Makes the Arrow batches of one reader; what it knows is where in its pair the next row will be."""

    def __init__(self) -> None:
        self._in_pair = 0

    def batch(self, row: bytes, *, push: bool) -> pa.RecordBatch:
        """Return a batch with this row, which is handed over at once with `push`, and else with the next one."""
        ticks = ROWS_PER_BATCH - self._in_pair if push else 0
        self._in_pair = (self._in_pair + 1 + ticks) % ROWS_PER_BATCH
        return _batch(row, 1 + ticks)


def _batch(row: bytes, count: int) -> pa.RecordBatch:
    """Return `row` with ticks after it, `count` rows in all."""
    offsets = pa.py_buffer(_OFFSETS.pack(0, len(row), len(row), len(row)))
    rows = pa.Array.from_buffers(pa.binary(), count, [None, offsets, pa.py_buffer(row)])
    return pa.RecordBatch.from_arrays([rows], schema=SCHEMA)


TICKS = _batch(b"", ROWS_PER_BATCH)  # wakes the writer, and hands over whatever waits
