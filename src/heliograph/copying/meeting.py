"""Meeting the tail: what a predecessor stored beyond the saved position, compared with the source, so that it is skipped.

It happens before a partition is copied, in a thread of its own: the partitions of one leader of the target
together, so that a broker that is away keeps no others waiting. A tail is skipped by the batch where a source
batch and its copy are the same bytes, and by the record otherwise (merged, encoded again, or written by a
MirrorMaker 2): then the bodies of the rest of the tail are read, some thousand at a time, and compared.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeAlias
from uuid import UUID

from heliograph.errors import CorruptRecord, MirrorError
from heliograph.kafka.cluster import NO_LEADER, Cluster, Topic
from heliograph.kafka.faults import LOST_TOPIC, OFFSET_OUT_OF_RANGE, error_name, is_retriable
from heliograph.kafka.fetch import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    Fetcher,
    FetchLimits,
    Section,
    Subject,
)
from heliograph.kafka.scan import deliverable
from heliograph.kafka.tail import (
    Tail,
    TailBatch,
    body_digest,
    fingerprint,
    read_bodies,
    read_tails,
)
from heliograph.model import Endpoint, Position, StopKind
from heliograph.wire.lease_messages import Foreign, Share, Stopped
from heliograph.wire.record_batch import HEADER_SIZE, MAGIC_AT, Extent, check_crc, read_header
from heliograph.wire.records import RawRecord
from heliograph.wire.unpack import unpack

_BODIES = 50_000  # of a tail held at a time: 7 MB
_WAIT = timedelta(milliseconds=500)
_PAUSE = 1.0


@dataclass(frozen=True, slots=True)
class Met:
    """A partition goes on at `position`; `runs` say where the records are that it skips."""

    slot: int
    position: Position
    runs: tuple[tuple[int, int, int], ...] = ()
    foreign: Foreign | None = None


@dataclass(frozen=True, slots=True)
class Waits:
    """Why partitions have not met their tails yet."""

    slots: tuple[int, ...]
    reason: str


Outcome: TypeAlias = Met | Stopped | Waits
Tell: TypeAlias = Callable[[Outcome], None]


class ForeignRecords(MirrorError):
    """The remote tail is not what this flow wrote."""

    def __init__(self, remote: str, upstream: int, what: str) -> None:
        super().__init__(remote, upstream, what)
        self.remote = remote
        self.upstream = upstream
        self.what = what

    def __str__(self) -> str:
        return (
            f"{self.remote}: the records after the last saved position are not those of the source "
            f"from upstream offset {self.upstream} ({self.what}), so somebody else writes to this topic. "
            "Records from that offset on are copied again; give the remote topic one writer."
        )


@dataclass(slots=True)
class Comparison:
    """One tail and how much of it was met; from `unread` to its end nobody has read bodies yet."""

    share: Share
    end: int
    tail: deque[tuple[int, TailBatch]] = field(default_factory=deque)
    bodies: deque[tuple[int, int]] = field(default_factory=deque)
    unread: int | None = None
    runs: list[tuple[int, int, int]] = field(default_factory=list)
    read_to: int = 0

    @property
    def is_over(self) -> bool:
        return not (self.tail or self.bodies or self.unread is not None)

    def meet(
        self, view: memoryview, read_bodies_of: Callable[[int, int], Sequence[tuple[int, int]]]
    ) -> None:
        """Skip what is on the target of a source batch; raise ForeignRecords if the tail holds something else."""
        header = read_header(view, 0) if view[MAGIC_AT] >= 2 else None
        if header is not None:
            check_crc(view, Extent(0, len(view)), header)
            if self._skip_twin(fingerprint(header, view[HEADER_SIZE:]), header.base_offset):
                self.read_to = header.next_offset
                return
        self._leave_batches()
        for record in unpack(view):
            if record.offset < self.read_to:
                continue
            while not self.bodies and self.unread is not None:
                self.bodies.extend(read_bodies_of(*self._take_window()))
            if not self.bodies:
                return
            self._skip_body(record)

    def _skip_twin(self, twin: TailBatch, upstream: int) -> bool:
        """Skip a source batch whose exact copy is next in the tail; return whether it was."""
        if not self.tail or self.tail[0][1] != twin or upstream < self.read_to:
            return False
        downstream, _ = self.tail.popleft()
        self._ran(upstream, downstream, twin.records)
        return True

    def _leave_batches(self) -> None:
        """Compare the rest of the tail by the record."""
        if self.tail:
            self.unread = self.tail[0][0]
            self.tail.clear()

    def _take_window(self) -> tuple[int, int]:
        """Return from where to where bodies are to be read next: there are some unread."""
        assert self.unread is not None, "only what is unread is read"
        start, end = self.unread, min(self.unread + _BODIES, self.end)
        self.unread = end if end < self.end else None
        return start, end

    def _skip_body(self, record: RawRecord) -> None:
        downstream, digest = self.bodies.popleft()
        if digest != body_digest(record):
            raise self.foreign(f"they differ at upstream offset {record.offset}")
        self._ran(record.offset, downstream, 1)
        self.read_to = record.offset + 1

    def _ran(self, upstream: int, downstream: int, count: int) -> None:
        if self.runs:
            up, down, length = self.runs[-1]
            if up + length == upstream and down + length == downstream:
                self.runs[-1] = up, down, length + count
                return
        self.runs.append((upstream, downstream, count))

    def foreign(self, what: str) -> ForeignRecords:
        return ForeignRecords(str(self.share.remote), self.share.position.upstream, what)


class Meeting:
    """The meetings of one slice; `tell` is called from their threads."""

    def __init__(
        self, source: Endpoint, target: Endpoint, tell: Tell, *, committed_only: bool
    ) -> None:
        self._source = source
        self._target = target
        self._tell = tell
        self._committed_only = committed_only
        self._unwanted: set[int] = set()
        self._closed = threading.Event()

    def start(self, shares: Sequence[Share]) -> None:
        """Meet the tails of these partitions; returns at once."""
        threading.Thread(
            target=self._divide, args=(list(shares),), name="tails", daemon=True
        ).start()

    def forget(self, slot: int) -> None:
        """Tell nothing more of a partition."""
        self._unwanted.add(slot)

    def close(self) -> None:
        self._closed.set()

    def _divide(self, shares: list[Share]) -> None:
        """Have each leader's partitions met by a thread of their own."""
        with closing(Cluster(self._target)) as target:
            while shares := self._wanted(shares):
                try:
                    topics = target.describe({share.remote.topic for share in shares})
                except MirrorError as exc:
                    self._wait(shares, str(exc))
                    continue
                waiting = []
                for leader, members in _by_leader(shares, topics).items():
                    if leader == NO_LEADER:
                        waiting += members
                    else:
                        threading.Thread(
                            target=self._meet_patiently, args=(members,), name="tails", daemon=True
                        ).start()
                shares = waiting
                for share in shares:
                    self._tell(Waits((share.slot,), f"{share.remote} has no leader"))
                self._closed.wait(_PAUSE if shares else 0)

    def _wanted(self, shares: Iterable[Share]) -> list[Share]:
        if self._closed.is_set():
            return []
        return [share for share in shares if share.slot not in self._unwanted]

    def _wait(self, shares: Sequence[Share], reason: str) -> None:
        self._tell(Waits(tuple(share.slot for share in shares), reason))
        self._closed.wait(_PAUSE)

    def _meet_patiently(self, shares: list[Share]) -> None:
        """Meet the tails of partitions with one leader, until all are met, stopped, or not wanted any more."""
        left = {share.slot: share for share in shares}
        while left := {share.slot: share for share in self._wanted(left.values())}:
            try:
                with (
                    closing(Cluster(self._source)) as source,
                    closing(Cluster(self._target)) as target,
                ):
                    self._meet(left, source, target)
            except MirrorError as exc:
                self._wait(list(left.values()), str(exc))
            except OSError as exc:
                self._wait(list(left.values()), str(exc) or type(exc).__name__)

    def _meet(self, left: dict[int, Share], source: Cluster, target: Cluster) -> None:
        """Meet what can be met; what is over is taken out of `left`."""
        tails = read_tails(target, {s.remote: s.position.downstream for s in left.values()})
        comparisons = {}
        for share in list(left.values()):
            found = _open(share, tails[share.remote])
            if isinstance(found, Comparison):
                comparisons[share.slot] = found
            else:
                del left[share.slot]
                self._tell(found)
        if comparisons:
            with closing(self._fetch(source, comparisons.values())) as fetcher:
                while comparisons and self._wanted(left.values()):
                    self._step(fetcher, comparisons, left, target)

    def _fetch(self, source: Cluster, comparisons: Iterable[Comparison]) -> Fetcher:
        isolation = READ_COMMITTED if self._committed_only else READ_UNCOMMITTED
        fetcher = Fetcher(source, FetchLimits(wait=_WAIT, isolation=isolation))
        for found in comparisons:
            share = found.share
            fetcher.add(
                [
                    Subject(
                        share.slot,
                        share.source,
                        UUID(share.topic_id),
                        share.position.upstream,
                        epoch=share.leader_epoch,
                    )
                ]
            )
        return fetcher

    def _step(
        self,
        fetcher: Fetcher,
        comparisons: dict[int, Comparison],
        left: dict[int, Share],
        target: Cluster,
    ) -> None:
        if fetcher.homeless:
            for slot, reason in fetcher.place().items():
                self._tell(Waits((slot,), reason))
            if not fetcher.interest() and fetcher.homeless:
                self._closed.wait(_PAUSE)
        fetcher.ask()
        for session in fetcher.ready(_WAIT.total_seconds() + _PAUSE):
            response = fetcher.take(session)
            for section in response.sections if response is not None else ():
                found = comparisons.get(section.slot)
                if found is None or response is None:
                    continue
                over = self._compare(fetcher, found, section, response.buffer, target)
                if over is not None:
                    del comparisons[section.slot], left[section.slot]
                    fetcher.remove(section.slot)
                    self._tell(over)

    def _compare(
        self,
        fetcher: Fetcher,
        found: Comparison,
        section: Section,
        buffer: memoryview,
        target: Cluster,
    ) -> Outcome | None:
        """Compare what came of a source partition; return what came of its tail, if that is over."""
        share, upstream = found.share, found.share.position.upstream
        if section.error or section.parted >= 0:
            return self._trouble(fetcher, share, section)
        try:
            batches, position = deliverable(buffer, section, self._committed_only)
            for view in batches:
                found.meet(view, lambda start, end: read_bodies(target, share.remote, start, end))
                if found.is_over:
                    runs = tuple(found.runs)
                    return Met(share.slot, Position(found.read_to, found.end), runs)
        except CorruptRecord as exc:
            return Stopped(share.slot, upstream, StopKind.CORRUPT, str(exc))
        except ForeignRecords as exc:
            foreign = Foreign(share.slot, str(exc))
            return Met(share.slot, Position(upstream, found.end), foreign=foreign)
        if position is not None:
            fetcher.moved(share.slot, position)
        return None

    def _trouble(self, fetcher: Fetcher, share: Share, section: Section) -> Outcome | None:
        """Return the stop that an error of the source means; None if it may pass."""
        slot, upstream, error = share.slot, share.position.upstream, section.error
        if section.parted >= 0:
            reason = "the source is no longer the log that was read"
            return Stopped(slot, upstream, StopKind.OUT_OF_RANGE, reason, section.parted)
        if error == OFFSET_OUT_OF_RANGE:
            reason = "the source no longer has this offset"
            return Stopped(slot, upstream, StopKind.OUT_OF_RANGE, reason)
        if error in LOST_TOPIC:
            reason = f"{share.source.topic} is not on the source, or was deleted and recreated"
            return Stopped(slot, upstream, StopKind.LOST_TOPIC, reason)
        if is_retriable(error):
            self._tell(Waits((slot,), f"{share.source}: the source answers {error_name(error)}"))
            fetcher.lost_leader([slot])
            return None
        return Stopped(slot, upstream, StopKind.REFUSED, f"the source answered {error_name(error)}")


def _by_leader(shares: Iterable[Share], topics: Mapping[str, Topic]) -> dict[int, list[Share]]:
    by_leader: dict[int, list[Share]] = {}
    for share in shares:
        topic, index = topics.get(share.remote.topic), share.remote.index
        leads = topic is not None and index < len(topic.leaders)
        leader = topic.leaders[index] if topic is not None and leads else NO_LEADER
        by_leader.setdefault(leader, []).append(share)
    return by_leader


def _open(share: Share, tail: Tail) -> Comparison | Met | Stopped:
    """Return the comparison that a tail asks for, or what is clear without one."""
    remote, position = share.remote, share.position
    if tail.end < position.downstream:
        reason = (
            f"{remote} ended at {position.downstream} and now ends at {tail.end}: "
            "it was truncated or made anew"
        )
        return Stopped(share.slot, position.upstream, StopKind.TRUNCATED, reason)
    found = Comparison(share, tail.end, read_to=position.upstream)
    if tail.missing:
        reason = str(found.foreign(f"{tail.missing} offsets after it were deleted"))
        return Met(
            share.slot,
            Position(position.upstream, tail.end),
            foreign=Foreign(share.slot, reason),
        )
    found.tail.extend(tail.batches)
    return Met(share.slot, Position(position.upstream, tail.end)) if found.is_over else found
