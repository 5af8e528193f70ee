"""Memory that responses are received into, reused once nothing refers to it."""

import sys


def _count_unused() -> int:
    """Return the reference count that `room`'s loop sees for a buffer without views; it depends on the interpreter."""
    pool = [bytearray()]
    for buffer in pool:
        return sys.getrefcount(buffer)
    raise AssertionError("there is one")


_UNUSED = _count_unused()


class Buffers:
    """A pool of large buffers. A buffer is free when no view of it is left: all its batches are stored or given up."""

    def __init__(self, size: int, most: int) -> None:
        """Keep up to `most` buffers of `size` bytes; a response beyond that gets separate memory."""
        self._size = size
        self._most = most
        self._pool: list[bytearray] = []

    def room(self, size: int) -> memoryview | None:
        """Return a view of a free buffer with room for `size` bytes, if there is one."""
        if size > self._size:
            return None
        for buffer in self._pool:
            if sys.getrefcount(buffer) == _UNUSED:
                return memoryview(buffer)
        if len(self._pool) == self._most:
            return None
        buffer = bytearray(self._size)
        self._pool.append(buffer)
        return memoryview(buffer)
