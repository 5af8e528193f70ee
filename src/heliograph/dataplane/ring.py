"""Chunks by reference: buffers in memory that the reader and the writer of one task share.

Both are processes on one host, with the JVM between them. The reader receives a response into a free
buffer, and the row says where that is; the writer maps the same memory and gives the buffer back once
nothing refers to it any more: all of it is stored, skipped or given up. So the JVM moves some bytes for
each chunk, and the number of buffers bounds what is on its way: in bytes when the source is far ahead, in
rows when many small responses come, which then grow instead of queueing. The first free buffer is taken, so
pages of the others are touched only when the target is slow.

    page 0   16 bytes that tell this ring from any other; then a byte per buffer, 1 while it is lent
    page 1   the buffers, one after the other

The memory has no name in any folder: it is gone with the last process that has mapped it.
"""

import gc
import mmap
import os
import struct
import weakref
from contextlib import suppress
from typing import NamedTuple

import pyarrow as pa

from heliograph.errors import MirrorError

BUFFERS = 8
_MARK_SIZE = 16
_FREE, _LENT = 0, 1
_REFERENCE = struct.Struct(f">ii{_MARK_SIZE}sqqi")
REFERENCE_SIZE = _REFERENCE.size


class Reference(NamedTuple):
    """Where a chunk lies: `start` and `size` in the memory behind a descriptor of the reader's process."""

    process: int
    descriptor: int
    mark: bytes
    number: int
    start: int
    size: int

    def encode(self) -> bytes:
        return _REFERENCE.pack(*self)


class RingLost(MirrorError):
    """The memory that a row refers to is not there: its reader has ended."""

    def __str__(self) -> str:
        return "a chunk is gone with the process that read it; the slice is read again."


class Ring:
    """The reader's end: lends buffers, and reuses those that came back."""

    def __init__(self, buffer_bytes: int) -> None:
        self._bytes = -(-buffer_bytes // mmap.PAGESIZE) * mmap.PAGESIZE
        size = mmap.PAGESIZE + BUFFERS * self._bytes
        self._file = os.memfd_create("heliograph", os.MFD_CLOEXEC)
        try:
            os.ftruncate(self._file, size)
            self._memory = mmap.mmap(self._file, size)
            self._mark = os.urandom(_MARK_SIZE)
            self._memory[:_MARK_SIZE] = self._mark
        except BaseException:
            os.close(self._file)
            raise
        self._view = memoryview(self._memory)
        self._offered = 0

    def close(self) -> None:
        """Let go of the memory; a writer that has mapped it may go on."""
        os.close(self._file)
        with suppress(BufferError):  # else it goes with the last view
            self._view.release()
            self._memory.close()

    def whole(self) -> Reference:
        """Return where the ring itself is."""
        return Reference(os.getpid(), self._file, self._mark, 0, 0, len(self._memory))

    def is_full(self) -> bool:
        return all(_flags(self._memory))

    def is_idle(self) -> bool:
        """Whether everything that was lent came back."""
        return not any(_flags(self._memory))

    def room(self, size: int) -> memoryview | None:
        """Return a free buffer for `size` bytes; the next call may return the same one, unless it is lent."""
        number = _flags(self._memory).find(_FREE)
        if number < 0 or size > self._bytes:
            return None
        self._offered = number
        start = mmap.PAGESIZE + number * self._bytes
        return self._view[start : start + self._bytes]

    def lend(self, view: memoryview) -> Reference | None:
        """Return where `view` is, if it is what was offered last: lent from now on."""
        if view.obj is not self._memory:
            return None
        number = self._offered
        self._memory[_MARK_SIZE + number] = _LENT
        start = mmap.PAGESIZE + number * self._bytes
        return Reference(os.getpid(), self._file, self._mark, number, start, view.nbytes)


class Borrower:
    """The writer's end: opens references of one ring after the other."""

    def __init__(self) -> None:
        self._mark = b""
        self._memory: mmap.mmap | None = None
        self._open: weakref.WeakSet[_Loan] = weakref.WeakSet()

    def open(self, encoded: bytes | memoryview) -> memoryview:
        """Return a view of a chunk, once for each reference; it is given back when its last slice is gone."""
        reference = Reference._make(_REFERENCE.unpack(encoded))
        if reference.mark != self._mark:
            self._memory, self._mark = _map(reference), reference.mark
        assert self._memory is not None
        loan = _Loan(self._memory, _MARK_SIZE + reference.number)
        self._open.add(loan)
        place = pa.py_buffer(self._memory).address + reference.start
        return memoryview(pa.foreign_buffer(place, reference.size, loan)).cast("B")

    def collect(self) -> None:
        """Find chunks that only a circle of objects still keeps: nobody else would, and the reader waits for them."""
        if self._open:
            gc.collect()

    def more_is_coming(self) -> bool:
        """Whether the reader has lent chunks that were not opened here yet."""
        return self._memory is not None and _flags(self._memory).count(_LENT) > len(self._open)


class _Loan:
    """Keeps a mapped ring, and gives one buffer back when nobody needs it any more."""

    __slots__ = ("__weakref__", "_flag", "_memory")

    def __init__(self, memory: mmap.mmap, flag: int) -> None:
        self._memory = memory
        self._flag = flag

    def __del__(self) -> None:
        self._memory[self._flag] = _FREE


def open_ring(buffer_bytes: int) -> Ring | None:
    """Return a ring, or None where processes cannot share memory so."""
    if not hasattr(os, "memfd_create"):
        return None
    try:
        ring = Ring(buffer_bytes)
    except OSError:
        return None
    try:
        _map(ring.whole())
    except RingLost:
        ring.close()
        return None
    return ring


def _flags(memory: mmap.mmap) -> bytes:
    return memory[_MARK_SIZE : _MARK_SIZE + BUFFERS]


def _map(reference: Reference) -> mmap.mmap:
    """Map another process's ring, after a look whether it is the one meant."""
    try:
        file = os.open(f"/proc/{reference.process}/fd/{reference.descriptor}", os.O_RDWR)
    except OSError as exc:
        raise RingLost from exc
    try:
        memory = mmap.mmap(file, 0)
    finally:
        os.close(file)
    if memory[:_MARK_SIZE] != reference.mark or len(memory) < reference.start + reference.size:
        raise RingLost
    return memory
