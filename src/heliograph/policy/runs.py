"""The run map of one partition: where every copied record went, exactly, in both directions.

Records that follow one another on both sides are one run, so a plain topic has one run and a
transactional one has about one per transaction. Old runs stay encoded, some hundred to a segment at
four or five bytes each, and are only decoded to look up an offset among them.

A  Runs ascend on both sides and never overlap: a run that comes again, or comes from before, replaces
   all from there on (the source was truncated, the target recreated, or a successor met the tail).
B  Between two runs there is nothing to deliver, except before a detached segment: there it is unknown.
C  What lies before the first run is unknown too. A partition that is copied from its start on
   therefore begins with a run of no records at upstream offset 0.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from typing import TypeAlias

from heliograph.errors import CorruptRecord
from heliograph.model import TopicPartition
from heliograph.wire.run_records import (
    Run,
    Segment,
    decode_segment,
    decode_segment_key,
    encode_segment,
    first_downstream,
)

_SEGMENT_RUNS = 512
_Side: TypeAlias = Callable[[Run], int]
_UPSTREAM: _Side = itemgetter(0)
_DOWNSTREAM: _Side = itemgetter(1)


class RunMap:
    """The runs of one partition; what changed since the last `take_changes` is remembered."""

    __slots__ = ("_changed", "_closed", "_decoded", "_detached", "_downs", "_gone", "_open", "_ups")

    def __init__(self, rows: Iterable[tuple[int, bytes]] = ()) -> None:
        """Take what was saved: the upstream offset and the value of each row, in any order."""
        self._ups: list[int] = []
        self._downs: list[int] = []
        self._closed: list[bytes] = []
        self._open: list[Run] = []
        self._detached = False
        self._decoded: tuple[int, Segment] | None = None
        self._changed: set[int] = set()
        self._gone: set[int] = set()
        ordered = sorted(rows)
        for upstream, value in ordered[:-1]:
            self._ups.append(upstream)
            self._downs.append(first_downstream(value))
            self._closed.append(value)
        for upstream, value in ordered[-1:]:
            last = decode_segment(upstream, value)
            self._open, self._detached = list(last.runs), last.detached

    def __bool__(self) -> bool:
        return bool(self._open)

    def __len__(self) -> int:
        """Return the number of segments."""
        return len(self._ups) + bool(self._open)

    @property
    def end(self) -> Run | None:
        """Return the last run, which the next records most likely make longer."""
        return self._open[-1] if self._open else None

    @property
    def holds_records(self) -> bool:
        """Whether any record was copied, by any writer."""
        return bool(self._ups) or self._detached or any(run.length for run in self._open)

    def begin(self, downstream: int) -> None:
        """Note that nothing was copied before, and that the first record will go to `downstream`."""
        self.clear()
        self._open = [Run(0, downstream, 0)]
        self._touch()

    def add(self, upstream: int, downstream: int, length: int) -> None:
        """Note that records from `upstream` on were stored from `downstream` on."""
        last = self.end
        if last is not None and (upstream < last.upstream_end or downstream < last.downstream_end):
            if self.cut(upstream, downstream):
                self._open_detached(upstream, downstream)
            last = self.end
        if last is not None and (last.upstream_end, last.downstream_end) == (upstream, downstream):
            self._open[-1] = last._replace(length=last.length + length)
        else:
            if len(self._open) == _SEGMENT_RUNS:
                self._close()
            self._open.append(Run(upstream, downstream, length))
        self._touch()

    def extend(self, runs: Iterable[tuple[int, int, int]]) -> None:
        """Note many runs as `add` does: those that lie after the last one, with a gap, in one loop.

        A compacted topic has a run for every other record.
        """
        new, is_new = tuple.__new__, False
        opened, up_end, down_end = self._open, -1, -1
        for run in runs:
            upstream, downstream, length = run
            if upstream > up_end >= 0 and downstream >= down_end and len(opened) < _SEGMENT_RUNS:
                opened.append(new(Run, run))
                is_new = True
            else:
                if is_new:
                    self._touch()
                self.add(upstream, downstream, length)
                opened, is_new = self._open, False
                up_end, down_end = opened[-1].upstream_end, opened[-1].downstream_end
                continue
            up_end, down_end = upstream + length, downstream + length
        if is_new:
            self._touch()

    def detach(self, upstream: int, downstream: int) -> None:
        """Begin again at a pair; another writer copied what lies before it, at unknown offsets."""
        self.cut(upstream, downstream)
        self._open_detached(upstream, downstream)

    def cut(self, upstream: int, downstream: int | None = None) -> bool:
        """Forget all from `upstream` on, and all from `downstream` on.

        Return whether that removed the mark of a detached segment: what comes next needs it.
        """
        unmarked = False
        while self._open:
            last = self._open[-1]
            kept = upstream - last.upstream
            if downstream is not None:
                kept = min(kept, downstream - last.downstream)
            if kept >= last.length and (kept > 0 or last.length == 0):
                break
            self._touch()
            if kept > 0:
                self._open[-1] = last._replace(length=kept)
                break
            self._open.pop()
            if not self._open:
                unmarked = unmarked or self._detached
                self._drop(last.upstream)
        return unmarked

    def clear(self) -> None:
        """Forget everything."""
        self.cut(-1)

    def segments(self) -> Iterator[Segment]:
        """Yield all that is known, in order."""
        for index in range(len(self)):
            yield self._segment(index)

    def bases(self) -> list[int]:
        """Return the upstream offsets that segments begin with, those included that were deleted and not saved."""
        return [*self._gone, *self._ups, *(run.upstream for run in self._open[:1])]

    def turn(self, other: "RunMap") -> None:
        """Forget everything, and take over another map with its sides exchanged."""
        self.clear()
        for segment in other.segments():
            first = segment.runs[0]
            if segment.detached:
                self.detach(first.downstream, first.upstream)
            for upstream, downstream, length in segment.runs:
                self.add(downstream, upstream, length)

    def prune(self, log_start: int) -> None:
        """Forget the segments that only cover offsets before `log_start`; the last one stays."""
        bases = [*self._ups, *(run.upstream for run in self._open[:1])]
        gone = max(bisect_right(bases, log_start) - 1, 0)
        self._decoded = None
        self._gone.update(self._ups[:gone])
        self._changed.difference_update(self._ups[:gone])
        del self._ups[:gone], self._downs[:gone], self._closed[:gone]

    def downstream_of(self, upstream: int) -> int | None:
        """Return where the first copied record at or after `upstream` is; None if that is unknown.

        An offset beyond all that was copied gives the place where the next record goes.
        """
        return self._translate(upstream, self._ups, _UPSTREAM, _DOWNSTREAM)

    def upstream_of(self, downstream: int) -> int | None:
        """Return where the first copied record at or after `downstream` came from."""
        return self._translate(downstream, self._downs, _DOWNSTREAM, _UPSTREAM)

    def floor_of(self, upstream: int) -> int | None:
        """Return where the last record known to be before `upstream` ends on the target; None if none is known.

        From there on a reader of the target misses nothing, and may read something again.
        """
        runs = [run for segment in self._segment_at(upstream) for run in segment.runs]
        at = bisect_right(runs, upstream, key=_UPSTREAM) - 1
        if at < 0:
            return None
        return runs[at].downstream + min(upstream - runs[at].upstream, runs[at].length)

    def _segment_at(self, upstream: int) -> list[Segment]:
        """Return the last segment that begins at or before an upstream offset; none if none does."""
        bases = [*self._ups, *(run.upstream for run in self._open[:1])]
        index = bisect_right(bases, upstream) - 1
        return [] if index < 0 else [self._segment(index)]

    def take_changes(self) -> dict[int, bytes | None]:
        """Return the rows that changed since the last call, by upstream offset; None deletes one."""
        rows: dict[int, bytes | None] = dict.fromkeys(self._gone)
        # In order: a reader of half of them must not mistake a missing segment for an empty place.
        for upstream in sorted(self._changed):
            rows[upstream] = self._row(upstream)
        self._gone.clear()
        self._changed.clear()
        return rows

    def forget_closed(self) -> None:
        """Keep only the last segment: the others are saved, and nothing more is added to them."""
        del self._ups[:], self._downs[:], self._closed[:]
        self._decoded = None

    def keep_saved(self) -> None:
        """Note that all that was added has been saved elsewhere."""
        self._changed.clear()

    def last_row(self) -> tuple[int, bytes] | None:
        """Return the segment that may still grow: the upstream offset it begins with, and its row."""
        if not self._open:
            return None
        return self._open[0].upstream, self._row(self._open[0].upstream)

    def touch_all(self) -> None:
        """Mark every row as changed: what was saved is gone."""
        self._changed.update(self._ups, (run.upstream for run in self._open[:1]))

    def _row(self, upstream: int) -> bytes:
        if self._open and self._open[0].upstream == upstream:
            return encode_segment(Segment(tuple(self._open), self._detached))
        return self._closed[bisect_right(self._ups, upstream) - 1]

    def _translate(self, offset: int, bases: list[int], side: _Side, other: _Side) -> int | None:
        if not self._open:
            return None
        index = bisect_right(bases, offset) - 1
        if index == len(bases) - 1 and side(self._open[0]) <= offset:
            index += 1
        if index < 0:
            return self._first(0, other)
        runs = self._segment(index).runs
        at = bisect_right(runs, offset, key=side) - 1
        run = runs[at]
        if offset < side(run) + run.length:
            return other(run) + offset - side(run)
        if at + 1 < len(runs):
            return other(runs[at + 1])
        if index < len(self._ups):
            return self._first(index + 1, other)
        return other(run) + run.length

    def _first(self, index: int, other: _Side) -> int | None:
        """Return where a segment begins, unless it is unknown what lies right before it."""
        segment = self._segment(index)
        return None if segment.detached or index == 0 else other(segment.runs[0])

    def _segment(self, index: int) -> Segment:
        if index == len(self._ups):
            return Segment(tuple(self._open), self._detached)
        if self._decoded is None or self._decoded[0] != self._ups[index]:
            upstream = self._ups[index]
            self._decoded = upstream, decode_segment(upstream, self._closed[index])
        return self._decoded[1]

    def _open_detached(self, upstream: int, downstream: int) -> None:
        if self._open and self._open[-1].length == 0 and self._open[-1].upstream == upstream:
            self._open.pop()  # a mark at the same place, which this one replaces
        if self._open:
            self._close()
        self._open, self._detached = [Run(upstream, downstream, 0)], True
        self._touch()

    def _close(self) -> None:
        first = self._open[0]
        self._ups.append(first.upstream)
        self._downs.append(first.downstream)
        self._closed.append(encode_segment(Segment(tuple(self._open), self._detached)))
        self._open, self._detached = [], False

    def _drop(self, upstream: int) -> None:
        """Note that the open segment is gone, and open the one before it."""
        self._gone.add(upstream)
        self._changed.discard(upstream)
        self._detached = False
        self._decoded = None
        if self._ups:
            before = self._segment(len(self._ups) - 1)
            self._ups.pop()
            self._downs.pop()
            self._closed.pop()
            self._open, self._detached = list(before.runs), before.detached

    def _touch(self) -> None:
        self._changed.add(self._open[0].upstream)
        self._gone.discard(self._open[0].upstream)


def read_run_maps(
    rows: Iterable[tuple[bytes, bytes | None]],
) -> tuple[dict[TopicPartition, RunMap], dict[TopicPartition, list[int]]]:
    """Return the maps that the rows of a runs topic add up to, and the segments of those it cannot read.

    A segment left out would look like a place where there was nothing to copy, so a partition is known
    as a whole or not at all. Other keys are skipped.
    """
    latest: dict[TopicPartition, dict[int, bytes]] = {}
    apply_rows(latest, rows)
    maps, broken = {}, {}
    for partition, segments in latest.items():
        try:
            for upstream, value in segments.items():
                decode_segment(upstream, value)
            maps[partition] = RunMap(segments.items())
        except CorruptRecord:
            broken[partition] = list(segments)
    return maps, broken


def apply_rows(
    segments: dict[TopicPartition, dict[int, bytes]], rows: Iterable[tuple[bytes, bytes | None]]
) -> set[TopicPartition]:
    """Bring the segments of each partition up to date, and return the partitions that changed."""
    changed = set()
    for key, value in rows:
        try:
            partition, upstream = decode_segment_key(key)
        except CorruptRecord:
            continue
        changed.add(partition)
        its = segments.setdefault(partition, {})
        if value is None:
            its.pop(upstream, None)
        else:
            its[upstream] = value
    return changed
