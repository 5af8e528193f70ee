"""What is read of one partition at a time."""

from typing import NamedTuple


class ChunkSection(NamedTuple):
    """The batches of one partition in a fetch response; `upstream` is the next offset after all of them.

    `aborted` are the transactions whose batches no consumer may see: (producer, first offset).
    """

    slot: int
    start: int
    end: int
    upstream: int
    aborted: tuple[tuple[int, int], ...] = ()


def cut(chunk: memoryview, section: ChunkSection) -> tuple[memoryview, ChunkSection]:
    """Return a section in memory of its own."""
    data = bytes(chunk[section.start : section.end])
    return memoryview(data), section._replace(start=0, end=len(data))
