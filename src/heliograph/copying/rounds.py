"""One try at the tails of some partitions with one leader: read and compare both sides until each tail is over."""

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeAlias
from uuid import UUID

from heliograph.copying.comparison import Comparison, ReadBodies
from heliograph.errors import CorruptRecord, KafkaFault, MirrorError
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.fetch import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    Fetcher,
    FetchLimits,
    Subject,
)
from heliograph.kafka.offsets import EARLIEST, LATEST, find_offsets, list_offsets
from heliograph.kafka.scan import deliverable
from heliograph.kafka.tail import Tail, read_bodies, read_tails
from heliograph.model import Position, StopKind, TopicPartition
from heliograph.net.faults import LOST_TOPIC, OFFSET_OUT_OF_RANGE, error_name, is_retriable
from heliograph.wire.fetch_response import Section
from heliograph.wire.lease_messages import Foreign, Runs, Share, Stopped

_WAIT = timedelta(milliseconds=500)
_PAUSE = 1.0
_UNKNOWN = 5.0  # seconds that a topic may be unknown to brokers and still exist
# Seconds at a source's end after which it has no more: a new leader's high watermark may lie before what was copied for
# as long as a follower that hangs counts as in sync (`replica.lag.time.max.ms`, 30 s).
_AT_END = 35.0


@dataclass(frozen=True, slots=True)
class Met:
    """A partition continues at `position`; `runs` say where the skipped records are."""

    slot: int
    position: Position
    runs: Runs = ()
    foreign: Foreign | None = None


@dataclass(frozen=True, slots=True)
class Waits:
    """Why partitions have not met their tails yet."""

    slots: tuple[int, ...]
    reason: str


Outcome: TypeAlias = Met | Stopped | Waits
Tell: TypeAlias = Callable[[Outcome], None]
Wanted: TypeAlias = Callable[[Iterable[Share]], list[Share]]


class Round:
    """Reads and compares both sides; owned by one thread, as its clusters are."""

    def __init__(
        self, source: Cluster, target: Cluster, tell: Tell, *, committed_only: bool
    ) -> None:
        """Take both sides; `tell` is called with the reasons why partitions wait."""
        self._source = source
        self._target = target
        self._tell = tell
        self._committed_only = committed_only
        isolation = READ_COMMITTED if committed_only else READ_UNCOMMITTED
        self._fetcher = Fetcher(source, FetchLimits(wait=_WAIT, isolation=isolation))
        self._going: dict[int, Comparison] = {}
        self._read_to: dict[int, int] = {}
        self._at_end_since: dict[int, float] = {}
        self._unknown_since: dict[int, float] = {}

    def run(self, shares: Sequence[Share], wanted: Wanted) -> Iterator[tuple[int, Outcome]]:
        """Yield the outcome of each tail, by slot; nothing for those that must be tried again."""
        with closing(self._fetcher):
            unread = yield from self._open(shares)
            retry_at = time.monotonic() + _PAUSE
            while wanted(found.share for found in self._going.values()):
                for slot, outcome in self._step():
                    del self._going[slot]
                    self._fetcher.remove(slot)
                    yield slot, outcome
                if unread and time.monotonic() >= retry_at:
                    unread = yield from self._open_again(wanted(unread))
                    retry_at = time.monotonic() + _PAUSE

    def _open_again(
        self, shares: Sequence[Share]
    ) -> Generator[tuple[int, Outcome], None, list[Share]]:
        """Retry tails that could not be read, while others are compared; return those that still cannot be read."""
        try:
            return (yield from self._open(shares))
        except MirrorError as exc:
            self._tell(Waits(tuple(share.slot for share in shares), str(exc)))
            return list(shares)

    def _open(self, shares: Sequence[Share]) -> Generator[tuple[int, Outcome], None, list[Share]]:
        """Read the tails; yield the outcomes that need no comparison, and return those that could not be read."""
        ends = find_offsets(self._target, [share.remote for share in shares], LATEST)
        for share in shares:
            if share.remote in ends.missing:
                self._tell(Waits((share.slot,), str(ends.missing[share.remote])))
        unread = [share for share in shares if share.remote in ends.missing]
        there = [share for share in shares if share.remote in ends.found]
        starts = {share.remote: share.position.downstream for share in there}
        tails = self._read_tails(starts, ends.found)
        for share in there:
            tail = tails[share.remote]
            if isinstance(tail, MirrorError):
                self._tell(Waits((share.slot,), str(tail)))
                unread.append(share)
                continue
            found = open_tail(share, tail)
            if isinstance(found, Comparison):
                self._compare_from(share, found)
            else:
                yield share.slot, found
        return unread

    def _read_tails(
        self, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, Tail | MirrorError]:
        """Read the tails together, or one by one if that fails: an unreadable tail keeps no others waiting."""
        try:
            return read_tails(self._target, starts, ends)
        except (KafkaFault, CorruptRecord):
            if len(starts) == 1:
                raise
        tails: dict[TopicPartition, Tail | MirrorError] = {}
        for partition, start in starts.items():
            try:
                tails |= read_tails(self._target, {partition: start}, ends)
            except (KafkaFault, CorruptRecord) as exc:
                tails[partition] = exc
        return tails

    def _compare_from(self, share: Share, found: Comparison) -> None:
        self._going[share.slot] = found
        self._read_to[share.slot] = share.position.upstream
        self._fetcher.add(
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

    def _step(self) -> list[tuple[int, Outcome]]:
        """Read more; return the outcomes of the tails that are over."""
        fetcher = self._fetcher
        if fetcher.homeless:
            for slot, reason in (fetcher.place() or {}).items():
                self._tell(Waits((slot,), reason))
            if not fetcher.interest() and fetcher.homeless:
                time.sleep(_PAUSE)
        fetcher.ask()
        over: dict[int, Outcome] = {}
        for session in fetcher.ready(_WAIT.total_seconds() + _PAUSE):
            response = fetcher.take(session)
            for section in response.sections if response is not None else ():
                if response is not None and section.slot in self._going.keys() - over.keys():
                    outcome = self._compare(self._going[section.slot], section, response.buffer)
                    if outcome is not None:
                        over[section.slot] = outcome
        return [*over.items(), *self._find_ended(over)]

    def _find_ended(self, over: Mapping[int, Outcome]) -> Iterator[tuple[int, Outcome]]:
        """Yield the tails that are still not over after the source has been at its end for a while."""
        now = time.monotonic()
        for slot, since in self._at_end_since.items():
            found = self._going.get(slot)
            if found is not None and slot not in over and now - since > _AT_END:
                found.end_source(self._bodies_of(found))
                yield slot, conclude(found)

    def _compare(self, found: Comparison, section: Section, buffer: memoryview) -> Outcome | None:
        """Compare a section of a source partition; return the outcome of its tail, if that is over."""
        share = found.share
        if section.error == OFFSET_OUT_OF_RANGE:
            return self._find_start(found)
        if section.error or section.parted >= 0:
            return self._trouble(share, section)
        try:
            batches, position = deliverable(buffer, section, self._committed_only)
            for view in batches:
                found.meet(view, self._bodies_of(found))
                if found.is_over:
                    return conclude(found)
        except CorruptRecord as exc:
            return Stopped(share.slot, share.position.upstream, StopKind.CORRUPT, str(exc))
        if position is not None:
            self._move(share.slot, position)
        end = section.last_stable if self._committed_only else section.high_watermark
        if self._read_to[share.slot] >= end >= 0:
            self._at_end_since.setdefault(share.slot, time.monotonic())
        return None

    def _find_start(self, found: Comparison) -> Outcome | None:
        """Continue at the first record of a source that has deleted those before; stop where it ends too early."""
        share = found.share
        first = list_offsets(self._source, [share.source], EARLIEST)[share.source]
        if first <= self._read_to[share.slot]:
            reason = "the source no longer has this offset"
            return Stopped(share.slot, share.position.upstream, StopKind.OUT_OF_RANGE, reason)
        found.skip_to(first)
        self._move(share.slot, first)
        return None

    def _move(self, slot: int, position: int) -> None:
        self._read_to[slot] = position
        self._at_end_since.pop(slot, None)
        self._fetcher.moved(slot, position)

    def _trouble(self, share: Share, section: Section) -> Outcome | None:
        """Return the stop that a source error requires; None if it may pass."""
        slot, upstream, error = share.slot, share.position.upstream, section.error
        if section.parted >= 0:
            reason = "the source is no longer the log that was read"
            return Stopped(slot, upstream, StopKind.OUT_OF_RANGE, reason, section.parted)
        if error in LOST_TOPIC and self._is_lost(slot):
            reason = f"{share.source.topic} is not on the source, or was deleted and recreated"
            return Stopped(slot, upstream, StopKind.LOST_TOPIC, reason)
        if is_retriable(error) or error in LOST_TOPIC:
            self._tell(Waits((slot,), f"{share.source}: the source answers {error_name(error)}"))
            self._fetcher.lost_leader([slot])
            return None
        return Stopped(slot, upstream, StopKind.REFUSED, f"the source answered {error_name(error)}")

    def _is_lost(self, slot: int) -> bool:
        """Whether a topic has been unknown for so long that it is gone."""
        now = time.monotonic()
        return now - self._unknown_since.setdefault(slot, now) > _UNKNOWN

    def _bodies_of(self, found: Comparison) -> ReadBodies:
        return lambda start, end: read_bodies(self._target, found.share.remote, start, end)


def open_tail(share: Share, tail: Tail) -> Comparison | Met | Stopped:
    """Return the comparison that a tail needs, or the outcome if it needs none."""
    remote, position = share.remote, share.position
    if tail.end < position.downstream:
        reason = (
            f"{remote} ended at {position.downstream} and now ends at {tail.end}: "
            "it was truncated, or deleted and recreated"
        )
        return Stopped(share.slot, position.upstream, StopKind.TRUNCATED, reason)
    found = Comparison(share, tail.end)
    found.tail.extend(tail.batches)
    if not found.is_over:
        return found
    if tail.missing:
        # Nothing is left to compare, so it is unknown what these were.
        reason = f"{remote}: {tail.missing} records after the last saved position were deleted there. They are copied again."
        return Met(share.slot, found.position(), found.result(), Foreign(share.slot, reason))
    return Met(share.slot, found.position(), found.result())


def conclude(found: Comparison) -> Met:
    """Return the result of a comparison that is over."""
    share, foreign = found.share, None
    if found.strangers:
        reason = (
            f"{share.remote}: {found.strangers} records after the last saved position are not those of the source, so "
            f"another writer writes to this topic. Copying goes on at upstream offset {found.position().upstream}; "
            "give the remote topic one writer."
        )
        foreign = Foreign(share.slot, reason)
    return Met(share.slot, found.position(), found.result(), foreign)
