"""A writer on a target that stores when a test says so, and what it tells its slice."""

import random
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from heliograph.copying import writer
from heliograph.copying.sections import ChunkSection
from heliograph.copying.writer import Writer
from heliograph.kafka.lane import Lane, Outgoing, Refused, Stored
from heliograph.model import Endpoint, TopicPartition
from heliograph.wire.lease_messages import Foreign, LaneShare, Limits, Share, Stopped, Welcome
from heliograph.wire.records import RawRecord
from heliograph.wire.unpack import unpack

LIMITS = Limits(4 << 20, 2 << 20, 5, 256 << 10, read_committed=True)
WELCOME = Welcome(
    "A->B",
    source=Endpoint("A", (("127.0.0.1", 1),)),
    target=Endpoint("B", (("127.0.0.1", 2),)),
    limits=LIMITS,
)


class SlowTarget:
    """A producer that stores when told to, lane by lane in order."""

    def __init__(self, _brokers: object, _flow: str, **hooks: Any) -> None:
        self.queues: dict[int, deque[Outgoing]] = {}
        self.stored: dict[int, list[RawRecord]] = {}
        self.ends: dict[int, int] = {}
        self.troubled: dict[int, Lane] = {}
        self.hooks = hooks
        self.room = 1 << 30  # how many batches of a lane are on their way before it is full
        self.kept: dict[int, int] = {}  # how many bytes are put off
        self.chance = random.Random(7)

    def add(self, lane: Lane) -> None:
        self.queues[lane.slot], self.stored[lane.slot] = deque(), []

    def remove(self, slot: int) -> None:
        assert not self.queues.pop(slot), "only a partition at rest is removed"

    def offer(self, slot: int, batch: Outgoing) -> None:
        self.queues[slot].append(batch)

    def is_busy(self, slot: int) -> bool:
        return bool(self.queues.get(slot)) or slot in self.kept

    @property
    def idle(self) -> bool:
        return not any(self.queues.values()) and not self.kept

    def is_full(self, slot: int) -> bool:
        return len(self.queues[slot]) >= self.room

    def put_off(self, slot: int, size: int) -> None:
        self.kept[slot] = self.kept.get(slot, 0) + size

    def go_on(self, slot: int) -> None:
        del self.kept[slot]

    def begin_at(self, slot: int, end: int) -> None:
        """Say where the next batch of a lane is stored."""
        self.ends[slot] = end

    def store(self, slot: int) -> None:
        batch = self.queues[slot].popleft()
        base = self.ends.get(slot, 0)
        self.ends[slot] = base + batch.count
        self.stored[slot] += unpack(memoryview(batch.header + bytes(batch.payload)))
        self.hooks["on_stored"](Stored(slot, batch, base))

    def store_one(self) -> int | None:
        """Store the next batch of some lane; return which, None where nothing is on the way."""
        waiting = [slot for slot, queue in self.queues.items() if queue]
        if not waiting:
            return None
        slot = self.chance.choice(waiting)
        self.store(slot)
        return slot

    def refuse(self, slot: int, *, for_good: bool = False) -> None:
        batch = self.queues[slot][0]
        self.abandon(slot)
        self.hooks["on_refused"](Refused(slot, batch, "no", for_good=for_good))

    def abandon(self, slot: int) -> None:
        self.queues[slot].clear()
        self.kept.pop(slot, None)
        if slot in self.troubled:
            del self.troubled[slot]

    def trouble(self, slot: int, reason: str) -> None:
        """Have a partition wait for its broker."""
        self.troubled[slot] = lane = Lane(slot, TopicPartition("t", slot), trouble=reason)
        lane.waiting = self.queues[slot]
        lane.size = sum(len(batch.payload) for batch in lane.waiting)

    @property
    def held_bytes(self) -> int:
        return sum(len(batch.payload) for lane in self.troubled.values() for batch in lane.waiting)

    def close(self) -> None:
        pass


@dataclass
class Scene:
    """A writer, its target, and what it has told."""

    stops: list[Stopped] = field(default_factory=list)
    foreign: list[Foreign] = field(default_factory=list)
    forgotten: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.writer = Writer(
            cast("Any", None),
            WELCOME,
            self.stops.append,
            on_foreign=self.foreign.append,
            on_forgotten=self.forgotten.__setitem__,
        )
        self.target = cast("SlowTarget", self.writer.producer)

    def take(self, shares: Iterable[Share], lanes: tuple[LaneShare, ...] = ()) -> None:
        self.writer.take_lanes(lanes)
        for share in shares:
            self.writer.take(share, share.position)
            self.target.begin_at(share.slot, share.position.downstream)

    def write(
        self, slot: int, chunk: bytes, upstream: int, aborted: tuple[tuple[int, int], ...] = ()
    ) -> None:
        """Give the writer batches of a slot, in one section that ends at `upstream`."""
        section = ChunkSection(slot, 0, len(chunk), upstream, aborted)
        self.writer.write(memoryview(chunk), section)

    def position(self, slot: int = 0) -> tuple[int, int]:
        state = self.writer.slots[slot]
        return state.upstream, state.downstream


def slow_target(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have writers write to a `SlowTarget`."""
    monkeypatch.setattr(writer, "Producer", SlowTarget)
