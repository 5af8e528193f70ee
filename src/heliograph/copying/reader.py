"""The reading half of a slice: fetch responses in, sections out. Nothing here waits.

One request is in flight per leader. The next one is sent before the batches of the last response are examined,
so the broker works meanwhile. A response is received into reused memory; the amount of unstored data bounds how
much is fetched.
"""

import logging
import time
from collections.abc import Callable, Container, Iterator
from datetime import timedelta
from uuid import UUID

from heliograph.copying.buffers import Buffers
from heliograph.copying.sections import ChunkSection
from heliograph.errors import CorruptRecord, MirrorError
from heliograph.kafka.brokers import Brokers
from heliograph.kafka.fetch import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    Fetcher,
    FetchLimits,
    Response,
    Subject,
)
from heliograph.model import StopKind
from heliograph.net.faults import LOST_TOPIC, OFFSET_OUT_OF_RANGE, error_name, is_retriable
from heliograph.policy.latency import taken
from heliograph.wire.fetch_response import Section
from heliograph.wire.lease_messages import Limits, Share, SlotRead, Stopped
from heliograph.wire.record_batch import MAGIC_AT, last_batch, next_offset_of, read_header

log = logging.getLogger(__name__)

_LONG_POLL = timedelta(seconds=5)
_PLACE_EVERY = 0.5
_FOLLOW_EVERY = 60.0
_BUFFERS = 4
_RESPONSE_HEADS = 256 << 10  # besides its records, what a response says of thousands of partitions
_REST_PER_OFFSET, _OFFSETS, _LONGEST_REST = 0.002, 2, 0.01
_REST = 2.0
_DOUBT = 5.0  # seconds that a topic may be unknown to brokers and still exist

Deliver = Callable[[memoryview, ChunkSection], None]


class Reader:
    """Tails the partitions of one slice."""

    def __init__(
        self, brokers: Brokers, limits: Limits, on_stop: Callable[[Stopped], None]
    ) -> None:
        self._committed = limits.read_committed
        self._on_stop = on_stop
        self._shares: dict[int, Share] = {}
        self._read: dict[int, SlotRead] = {}
        self._changed: set[int] = set()
        self._fetcher = Fetcher(
            brokers,
            FetchLimits(
                max_bytes=limits.chunk_bytes,
                partition_max_bytes=limits.partition_bytes,
                wait=_LONG_POLL,
                isolation=READ_COMMITTED if self._committed else READ_UNCOMMITTED,
            ),
        )
        self._buffers = Buffers(limits.chunk_bytes + _RESPONSE_HEADS, _BUFFERS)
        self._small = min(limits.chunk_bytes, limits.partition_bytes) // 8
        self._place_at = 0.0
        self._follow_at = time.monotonic() + _FOLLOW_EVERY
        self._ask_at: float | None = None  # the end of a rest, if nothing was fetched since
        self._away: dict[int, str] = {}  # why partitions have no leader, by slot
        self._doubts: dict[int, float] = {}  # since when the topics of slots are unknown
        self._refused: dict[int, str] = {}  # what their leader answered last

    def take(self, share: Share, position: int, epoch: int) -> None:
        """Read a partition from a position on; `epoch` is the leader epoch of the record before, -1 if unknown."""
        slot = share.slot
        self._shares[slot] = share
        self._read[slot] = SlotRead(slot, position, -1, -1, epoch, None)
        topic_id = UUID(share.topic_id)
        self._fetcher.add([Subject(slot, share.source, topic_id, position, epoch=epoch)])
        self._place_at = 0.0

    def leave(self, slot: int) -> None:
        """Stop reading a partition."""
        self._fetcher.remove(slot)
        self._shares.pop(slot, None)
        self._away.pop(slot, None)
        self._refused.pop(slot, None)
        self._doubts.pop(slot, None)

    def pause(self, slot: int) -> None:
        """Stop reading a partition until `resume`."""
        self._fetcher.pause(slot)

    def resume(self, slot: int) -> None:
        self._fetcher.resume(slot)
        self._place_at = 0.0

    def retry_now(self) -> None:
        """Look for leaders and connections at the next `ask`: something has changed."""
        self._place_at = 0.0

    def ask(self, *, room: bool) -> None:
        """Find missing leaders; fetch more, if there is `room` for it."""
        now = time.monotonic()
        if self._fetcher.homeless and now >= self._place_at:
            self._place_at = now + _PLACE_EVERY
            self._place()
        if now >= self._follow_at and self._shares:
            self._follow()
        if room and (self._ask_at is None or now >= self._ask_at):
            self._ask_at = None
            self._fetcher.ask()

    def next_at(self, *, room: bool) -> float:
        """Return the time at which `ask` has something to do without an event; it may have passed already."""
        at = self._follow_at if self._shares else float("inf")
        if self._fetcher.homeless:
            at = min(at, self._place_at)
        if room and self._ask_at is not None:
            at = min(at, self._ask_at)
        return at

    def interest(self) -> dict[int, int]:
        """Return the descriptors to poll, and for which events."""
        return self._fetcher.interest()

    def is_ready(self) -> bool:
        return self._fetcher.is_ready()

    def collect(self, readable: Container[int], deliver: Deliver, *, room: bool) -> None:
        """Deliver what the brokers sent, section by section; fetch more before that, if there is `room`."""
        began = time.monotonic()
        for session in self._fetcher.collect(readable, self._buffers.room):
            response = self._fetcher.take(session)
            if response is None:
                continue
            sections, advanced = self._index(response)
            if not sections:
                continue
            if response.buffer.nbytes >= self._small:
                if room:
                    self._ask_at = None
                    self._fetcher.ask()
                for section in sections:
                    deliver(response.buffer, section)
            else:
                for section in sections:
                    deliver(response.buffer, section)
                self._ask_at = time.monotonic() + self._rest(time.monotonic() - began, advanced)

    def waits(self) -> Iterator[tuple[int, str]]:
        """Yield why partitions make no progress for the moment, by slot."""
        yield from self._away.items()
        yield from self._refused.items()

    @property
    def has_waits(self) -> bool:
        return bool(self._away or self._refused)

    @property
    def has_news(self) -> bool:
        return bool(self._changed)

    def news(self) -> tuple[SlotRead, ...]:
        """Return how far partitions were read, for those that changed since the last call."""
        news = tuple(self._read[slot] for slot in self._changed if slot in self._read)
        for slot in self._changed:
            if slot in self._read:
                self._read[slot] = self._read[slot]._replace(age=None)
                if slot not in self._shares:
                    del self._read[slot]
        self._changed.clear()
        return news

    def close(self) -> None:
        self._fetcher.close()

    def _follow(self) -> None:
        """Find leader changes that the old leader does not know of."""
        try:
            is_known = self._fetcher.follow_leaders()
        except MirrorError as exc:
            log.debug("leaders are not looked at: %s", exc)
            is_known = True
        # Metadata that is still being fetched rings the bell when it arrives.
        self._follow_at = time.monotonic() + (_FOLLOW_EVERY if is_known else _PLACE_EVERY)

    def _place(self) -> None:
        try:
            away = self._fetcher.place()
            if away is not None:
                self._away = away
        except MirrorError as exc:
            self._away = dict.fromkeys(self._shares, str(exc))

    def _rest(self, took: float, advanced: int) -> float:
        """Return how long to let records accumulate: a response costs as much for one as for a hundred.

        The fewer came, the shorter; it is longer on a slow machine.
        """
        few = min(advanced, _OFFSETS)
        return min(max(_REST * took, _REST_PER_OFFSET * few), _LONGEST_REST)

    def _index(self, response: Response) -> tuple[list[ChunkSection], int]:
        """Return where batches are, and by how many offsets they advance; note their positions."""
        sections, advanced = [], 0
        for section in response.sections:
            if section.slot not in self._shares:
                continue
            if section.error:
                self._failed(section)
                continue
            self._refused.pop(section.slot, None)
            self._doubts.pop(section.slot, None)
            if section.parted >= 0:
                self._parted(section)
                continue
            self._note_end(section)
            if section.end > section.start:
                before = self._read[section.slot].upstream
                try:
                    found = self._find(response.buffer, section)
                except CorruptRecord as exc:
                    self._stop(section.slot, StopKind.CORRUPT, str(exc))
                    continue
                if found is not None:
                    sections.append(found)
                    advanced += self._read[section.slot].upstream - before
        return sections, advanced

    def _find(self, buffer: memoryview, section: Section) -> ChunkSection | None:
        """Return where the whole batches of a section are, and advance past them."""
        slot = section.slot
        last = last_batch(buffer, section.start, section.end)
        if last is None:
            return None
        read = self._read[slot]
        position, epoch, newest = read.upstream, read.leader_epoch, -1
        if buffer[last.start + MAGIC_AT] >= 2:
            header = read_header(buffer, last.start)
            upstream, last_epoch, newest = (
                header.next_offset,
                header.leader_epoch,
                header.max_timestamp,
            )
        else:
            upstream, last_epoch = next_offset_of(buffer, last.start), -1
        if upstream > position:
            position, epoch = upstream, last_epoch
        age = read.age
        if newest >= 0:
            aged = taken(time.time() * 1000 - newest)
            age = aged if age is None else age + aged
        self._read[slot] = SlotRead(slot, position, read.end, read.stable, epoch, age)
        self._fetcher.moved(slot, position, epoch)
        self._changed.add(slot)
        aborted = section.aborted if self._committed else ()
        return ChunkSection(slot, section.start, last.start + last.size, position, aborted)

    def _note_end(self, section: Section) -> None:
        slot, end = section.slot, section.high_watermark
        stable = section.last_stable if section.last_stable >= 0 else end
        read = self._read[slot]
        if (read.end, read.stable) != (end, stable):
            self._read[slot] = read._replace(end=end, stable=stable)
            self._changed.add(slot)

    def _failed(self, section: Section) -> None:
        slot, error = section.slot, section.error
        source = self._shares[slot].source
        if error == OFFSET_OUT_OF_RANGE:
            self._stop(slot, StopKind.OUT_OF_RANGE, "the source no longer has this offset")
        elif error in LOST_TOPIC:
            self._doubt(slot, error)
        elif is_retriable(error):
            self._refused[slot] = f"{source}: the source answers {error_name(error)}"
            self._fetcher.lost_leader([slot])
        else:
            self._stop(slot, StopKind.REFUSED, f"the source answered {error_name(error)}")

    def _doubt(self, slot: int, error: int) -> None:
        """Stop a partition whose topic is unknown for some seconds; a broker that just started may not know it yet."""
        source = self._shares[slot].source
        since = self._doubts.setdefault(slot, time.monotonic())
        if time.monotonic() - since > _DOUBT:
            reason = f"{source.topic} is not on the source, or was deleted and recreated"
            self._stop(slot, StopKind.LOST_TOPIC, reason)
            return
        self._refused[slot] = f"{source}: the source answers {error_name(error)}"
        self._fetcher.lost_leader([slot])

    def _parted(self, section: Section) -> None:
        """Stop a partition whose source now has other records than those that were read."""
        reason = "the source is no longer the log that was read"
        self._stop(section.slot, StopKind.OUT_OF_RANGE, reason, resume=section.parted)

    def _stop(self, slot: int, kind: StopKind, reason: str, resume: int = -1) -> None:
        upstream = self._read[slot].upstream
        self.leave(slot)
        self._on_stop(Stopped(slot, upstream, kind, reason, resume, spent=False))
