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
