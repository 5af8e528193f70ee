"""How much of a source partition a predecessor had copied, found by comparing its copies with the source.

A predecessor that was killed had written more than it had saved. Starting at one pair of offsets that is
known to be true, both sides are read in step: the copies are the source's records in their order, and
the source continues where the copies end. Records are compared by digests, a window at a time.

A  `front` only moves past a source record that the remote partition holds.
B  Copies may begin again at an earlier record (a producer's retry, a restart); `front` never goes back.
   Without the source's timestamps such copies look like any other records, and count as trouble.
"""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from heliograph.model import Position

_REMEMBERED = 50_000  # how far copies may begin again, in records
_REPEATS = 100  # and how often
_RUNS = 100_000


class Digest(NamedTuple):
    """A record as it is compared."""

    offset: int
    timestamp: int
    body: int


class TailMatch:
    """One comparison; add records on either side until it has all that exist.

    `runs` are the places of the records met, (upstream, downstream, count) each; empty in the end if
    records have several places, or if there are too many runs to keep.
    """

    __slots__ = (
        "_ahead",
        "_copies",
        "_ended",
        "_met",
        "_repeats",
        "_stamped",
        "front",
        "runs",
        "trouble",
    )

    def __init__(self, anchor: Position) -> None:
        """Take a pair of which the record at `upstream` is at `downstream`."""
        self.front = anchor.upstream
        self.runs: list[tuple[int, int, int]] = []
        self.trouble: str | None = None
        self._ahead: deque[Digest] = deque()
        self._copies: deque[Digest] = deque()
        self._met: deque[Digest] = deque(maxlen=_REMEMBERED)
        self._ended = False
        self._repeats = 0
        self._stamped = True

    @property
    def lacks_source(self) -> bool:
        return not self._ahead and self.trouble is None

    @property
    def lacks_copies(self) -> bool:
        return not self._copies and self.trouble is None

    def add_source(self, records: Iterable[Digest]) -> None:
        self._ahead.extend(records)
        self._match()

    def add_copies(self, records: Iterable[Digest]) -> None:
        self._copies.extend(records)
        self._match()

    def end_source(self) -> None:
        """Note that the source has no more records."""
        self._ended = True
        self._match()

    def end(self) -> None:
        """Note that all copies were given."""
        if self._repeats or len(self.runs) >= _RUNS:
            self.runs.clear()

    def _match(self) -> None:
        while self._copies and self.trouble is None and (self._ahead or self._ended):
            copy = self._copies[0]
            record = self._ahead[0] if self._ahead else None
            if record is not None and not self._met and copy.body == record.body:
                self._stamped = copy.timestamp == record.timestamp
            if record is not None and self._same(copy, record):
                self._take()
            elif not self._begin_again(copy):
                self.trouble = f"remote offset {copy.offset} is no copy of " + (
                    "anything the source has"
                    if record is None
                    else f"upstream offset {record.offset}"
                )

    def _same(self, copy: Digest, record: Digest) -> bool:
        stamp = not self._stamped or copy.timestamp == record.timestamp
        return copy.body == record.body and stamp

    def _take(self) -> None:
        copy, record = self._copies.popleft(), self._ahead.popleft()
        self._met.append(record)
        self.front = max(self.front, record.offset + 1)
        if self.runs:
            up, down, length = self.runs[-1]
            if (up + length, down + length) == (record.offset, copy.offset):
                self.runs[-1] = up, down, length + 1
                return
        if len(self.runs) < _RUNS:
            self.runs.append((record.offset, copy.offset, 1))

    def _begin_again(self, copy: Digest) -> bool:
        """Go back to the last record met that equals this one; return whether there is one."""
        if not self._stamped or self._repeats == _REPEATS:
            return False
        met = enumerate(reversed(self._met), 1)
        back = next((n for n, record in met if self._same(copy, record)), 0)
        for _ in range(back):
            self._ahead.appendleft(self._met.pop())
        self._repeats += back > 0
        return back > 0
