"""How much of a source partition is in the tail of its remote partition. Only decides; reads nothing but bodies.

Both sides are what is left of the same records, in the same order. A source batch and its copy are often the same
bytes; otherwise records are compared one by one. Either log may have lost some records since, to compaction or to
retention. Invariants:

A  Source records without a counterpart are skipped only where the remote log lacks offsets, so records that another
   writer put into the tail never make us skip a source record.
B  Remote records without a counterpart are passed over. Those that the source cannot have lost are from another writer.
C  Copying continues after the last source record that was found: what is not known is copied again, never skipped.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from heliograph.kafka.tail import TailBatch, body_digest, fingerprint
from heliograph.model import UNKNOWN, Position
from heliograph.wire.lease_messages import Runs, Share
from heliograph.wire.record_batch import HEADER_SIZE, MAGIC_AT, Extent, check_crc, read_header
from heliograph.wire.unpack import unpack

BODIES = 50_000  # of one tail, held at a time: some MB

ReadBodies = Callable[[int, int], Sequence[tuple[int, int]]]


class _Record(NamedTuple):
    """A source record whose counterpart was not found yet."""

    upstream: int
    digest: int


@dataclass(slots=True)
class Comparison:
    """One tail and how much of it was found; bodies from `unread` to its end were not read yet."""

    share: Share
    end: int
    tail: deque[tuple[int, TailBatch]] = field(default_factory=deque)
    bodies: deque[tuple[int, int]] = field(default_factory=deque)
    unread: int | None = None
    runs: list[tuple[int, int, int]] = field(default_factory=list)
    strangers: int = 0
    _read_to: int = field(init=False)
    _found_to: int = field(init=False)
    _down: int = field(init=False)
    _passed: int = 0
    _first: int | None = None
    _records: deque[_Record] = field(default_factory=deque)
    _is_source_over: bool = False
    _is_head_lost: bool = False  # whether the source lost the counterparts of the first records

    def __post_init__(self) -> None:
        position = self.share.position
        self._read_to = self._found_to = position.upstream
        self._down = position.downstream - 1

    @property
    def is_over(self) -> bool:
        return not (self.tail or self.bodies or self.unread is not None)

    def meet(self, view: memoryview, read_bodies_of: ReadBodies) -> None:
        """Take the next source batch."""
        header = read_header(view, 0) if view[MAGIC_AT] >= 2 else None
        if header is not None:
            check_crc(view, Extent(0, len(view)), header)
            if self._skip_twin(fingerprint(header, view[HEADER_SIZE:]), header.base_offset):
                self._note_read(header.base_offset, header.next_offset)
                self._found_to = header.next_offset
                return
        self._leave_batches()
        for record in unpack(view):
            if record.offset >= self._read_to:
                self._note_read(record.offset, record.offset + 1)
                self._records.append(_Record(record.offset, body_digest(record)))
        self._align(read_bodies_of)

    def end_source(self, read_bodies_of: ReadBodies) -> None:
        """Note that the source has no more records for now."""
        self._is_source_over = True
        self._leave_batches()
        self._align(read_bodies_of)

    def skip_to(self, first: int) -> None:
        """Note that the source no longer has records before an offset."""
        self._note_read(first, first)

    def position(self) -> Position:
        """Return the position to copy the partition from, once the comparison is over."""
        if not self.runs and self._first is not None and self._first > self._found_to:
            # The source lost all that was copied: as many records as are in the tail, at least.
            return Position(min(self._found_to + self._passed, self._first), self.end)
        return Position(self._found_to, self.end)

    def result(self) -> Runs:
        """Return where the skipped records are, and that nothing lies between them and the position, if known."""
        position = self.position()
        is_known = bool(self.runs) or position.upstream == self.share.position.upstream
        # The records before the first one found are on the target, and their offsets are not known.
        head = ((*self.runs[0][:2], UNKNOWN),) if self._is_head_lost else ()
        return (*head, *self.runs, (position.upstream, self.end, 0 if is_known else UNKNOWN))

    def _note_read(self, upstream: int, after: int) -> None:
        """Note how far the source was read, and where reading began."""
        self._read_to = max(self._read_to, after)
        if self._first is None:
            self._first = upstream

    def _skip_twin(self, twin: TailBatch, upstream: int) -> bool:
        """Skip a source batch whose exact copy is next in the tail; return whether it was."""
        if not self.tail or self.tail[0][1] != twin or upstream < self._read_to:
            return False
        downstream, _ = self.tail.popleft()
        self._find(upstream, downstream, twin.records)
        return True

    def _leave_batches(self) -> None:
        """Compare the rest of the tail record by record."""
        if self.tail:
            self.unread = self.tail[0][0]
            self.tail.clear()

    def _align(self, read_bodies_of: ReadBodies) -> None:
        """Find the counterparts of remote records, as far as what was read of the source allows."""
        while not self.is_over:
            if not self.bodies:
                self.bodies.extend(read_bodies_of(*self._take_window()))
                continue
            downstream, digest = self.bodies[0]
            lacking = downstream - self._down - 1 - self._passed
            at = self._search(digest, lacking)
            if at is None and len(self._records) <= lacking and not self._is_source_over:
                return  # the next source records may match
            self.bodies.popleft()
            if at is None:
                self._pass(lacking)
                continue
            for _ in range(at):
                self._records.popleft()
            self._find(self._records.popleft().upstream, downstream, 1)

    def _pass(self, lacking: int) -> None:
        """Pass over a remote record (invariant B): the source lost it, if the source lacks offsets there."""
        self._passed += 1
        records = min(lacking, len(self._records))
        beyond = len(self._records) > records
        here = self._records[records].upstream if beyond else self._read_to
        self.strangers += self._passed > here - self._found_to - records

    def _search(self, digest: int, lacking: int) -> int | None:
        """Return which of the first `lacking` + 1 source records matches, if one does (invariant A)."""
        for at, record in enumerate(self._records):
            if at > lacking:
                break
            if record.digest == digest:
                return at
        return None

    def _take_window(self) -> tuple[int, int]:
        """Return the range of bodies to read next; some must be unread."""
        assert self.unread is not None, "only what is unread is read"
        start, end = self.unread, min(self.unread + BODIES, self.end)
        self.unread = end if end < self.end else None
        return start, end

    def _find(self, upstream: int, downstream: int, count: int) -> None:
        if not self.runs and self._passed and self._first is not None:
            self._is_head_lost = self._first > self._found_to
        self._found_to = upstream + count
        self._down, self._passed = downstream + count - 1, 0
        if self.runs:
            up, down, length = self.runs[-1]
            if up + length == upstream and down + length == downstream:
                self.runs[-1] = up, down, length + count
                return
        self.runs.append((upstream, downstream, count))
