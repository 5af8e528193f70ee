"""A reader on a real broker, and a writer that keeps what it was given."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace

import pytest

from heliograph.copying.reader import _BUFFERS, Reader
from heliograph.copying.sections import ChunkSection
from heliograph.kafka.background import Background, Bell
from heliograph.kafka.brokers import await_any
from heliograph.kafka.cluster import Cluster
from heliograph.model import Position, ProducerIdentity, StopKind, TopicPartition
from heliograph.wire.lease_messages import Limits, Share, Stopped
from heliograph.wire.record_batch import find_batches, read_header
from lab.clusters import LiveCluster, Outgoing, eventually, unique_name
from lab.counting import endpoint

pytestmark = pytest.mark.broker

RECORDS, BATCHES = 2000, 20
LIMITS = Limits(64 << 10, 64 << 10, 5, 256 << 10, read_committed=True)


class Loop:
    """What turns a reader: it waits for brokers, and keeps all sections until they are stored."""

    def __init__(self, source: LiveCluster, stack: ExitStack) -> None:
        self.bell = stack.enter_context(closing(Bell()))
        brokers = stack.enter_context(closing(Background(endpoint(source), self.bell)))
        self.stops: list[Stopped] = []
        self.reader = stack.enter_context(closing(Reader(brokers, LIMITS, self.stops.append)))
        self.held: list[tuple[memoryview, ChunkSection]] = []

    def turn(self, *, room: bool = True, wait: float = 0.5) -> None:
        self.reader.ask(room=room)
        interest = {self.bell.fileno(): 1, **self.reader.interest()}
        until = min(wait, max(self.reader.next_at(room=room) - time.monotonic(), 0))
        ready = await_any(interest, 0 if self.reader.is_ready() else until)
        if self.bell.fileno() in ready:
            self.bell.silence()
            self.reader.retry_now()
        self.reader.collect(ready, self._deliver, room=room)

    def until(self, condition: Callable[[], object]) -> None:
        """Turn until something is so."""

        def turned() -> object:
            self.turn()
            return condition()

        eventually(turned)

    def _deliver(self, chunk: memoryview, section: ChunkSection) -> None:
        self.held.append((chunk, section))

    def records(self) -> int:
        """Return how many records are held."""
        return sum(
            read_header(chunk, start).records
            for chunk, section in self.held
            for start, _ in find_batches(chunk, section.start, section.end)
        )


@pytest.fixture
def loop(source: LiveCluster) -> Iterator[Loop]:
    with ExitStack() as stack:
        yield Loop(source, stack)


def share_of(source: LiveCluster, topic: str, slot: int = 0, index: int = 0) -> Share:
    with closing(Cluster(endpoint(source))) as cluster:
        topic_id = str(cluster.describe([topic])[topic].topic_id)
    return Share(
        slot=slot,
        source=TopicPartition(topic, index),
        topic_id=topic_id,
        remote=TopicPartition(topic, index),
        remote_id="id",
        position=Position(0, 0),
        identity=ProducerIdentity(1, 0),
        sequence=0,
        resume=False,
        max_message_bytes=1 << 20,
    )


@pytest.fixture
def full(source: LiveCluster) -> Share:
    """A partition with more than many responses hold."""
    topic = source.create_topic()
    for _ in range(BATCHES):
        source.produce(topic, [b"x" * 1000] * (RECORDS // BATCHES))
    return share_of(source, topic)


def test_without_room_no_more_is_asked_for_and_with_room_it_goes_on(
    loop: Loop, full: Share
) -> None:
    loop.reader.take(full, 0, -1)
    loop.until(lambda: loop.held)
    while loop.reader.interest():  # what was asked for already still comes
        loop.turn(room=False, wait=5)
    held = len(loop.held)
    for _ in range(20):
        loop.turn(room=False, wait=0.01)
    assert len(loop.held) == held
    assert not loop.reader.interest(), "no broker owes anything"

    loop.until(lambda: loop.records() == RECORDS)
    assert [section.upstream for _, section in loop.held][-1] == RECORDS


def test_buffers_are_used_again_and_what_is_held_stays_as_it_was(loop: Loop, full: Share) -> None:
    loop.reader.take(full, 0, -1)
    loop.until(lambda: len(loop.held) > _BUFFERS + 2)
    pool = loop.reader._buffers._pool
    assert len(pool) == _BUFFERS, "more than these had to be given memory of their own"
    offsets = [
        read_header(chunk, start).base_offset
        for chunk, section in loop.held
        for start, _ in find_batches(chunk, section.start, section.end)
    ]
    assert offsets == sorted(set(offsets)), "nothing was received over what is held"

    seen = loop.held[-1][1].upstream
    memory = {id(buffer) for buffer in pool}
    used = set()
    while seen < RECORDS:
        loop.held.clear()  # stored
        loop.until(lambda: loop.held)
        used |= {id(chunk.obj) for chunk, _ in loop.held}
        seen = loop.held[-1][1].upstream
    assert used <= memory, "all of it was received into memory that there was"
    assert len(pool) == _BUFFERS


def test_partitions_come_and_go_while_others_are_read(
    loop: Loop, source: LiveCluster, full: Share
) -> None:
    topic = source.create_topic(2)
    first, second = (share_of(source, topic, 1 + index, index) for index in range(2))
    loop.reader.take(full, 0, -1)
    loop.reader.take(first, 0, -1)
    loop.until(lambda: loop.records() == RECORDS)
    loop.held.clear()

    loop.reader.leave(first.slot)
    loop.reader.take(second, 0, -1)
    for index in range(2):
        source.produce(topic, _to(index, 5))
    loop.until(lambda: any(s.slot == second.slot for _, s in loop.held))

    assert {section.slot for _, section in loop.held} == {second.slot}
    told = {row.slot: row for row in loop.reader.news()}
    assert told[second.slot].upstream == loop.held[-1][1].upstream
    assert loop.stops == []


def _to(index: int, count: int) -> list[Outgoing]:
    return [Outgoing(b"%d" % n, partition=index) for n in range(count)]


def test_a_paused_partition_is_read_from_where_it_was(loop: Loop, source: LiveCluster) -> None:
    topic = source.create_topic(2)
    shares = [share_of(source, topic, index, index) for index in range(2)]
    for share in shares:
        source.produce(topic, _to(share.slot, 3))
        loop.reader.take(share, 0, -1)
    loop.until(lambda: loop.records() == 6)
    loop.held.clear()

    loop.reader.pause(0)
    for slot in range(2):
        source.produce(topic, _to(slot, 4))
    # What was asked for before the pause may still come; what comes after it is of the other one alone.
    loop.until(lambda: any(s.slot == 1 for _, s in loop.held))
    loop.reader.resume(0)

    loop.until(lambda: loop.records() == 8)
    spans = sorted((s.slot, s.upstream) for _, s in loop.held)
    assert spans[-1] == (1, 7)
    assert (0, 7) in spans


def test_a_topic_that_is_gone_stops_alone(loop: Loop, source: LiveCluster, full: Share) -> None:
    gone = source.create_topic()
    share = share_of(source, gone, 1)
    source.admin.delete_topics([gone])[gone].result(timeout=30)
    eventually(lambda: not source.partition_count(gone))
    loop.reader.take(full, 0, -1)
    loop.reader.take(share, 0, -1)

    loop.until(lambda: loop.stops)

    (stop,) = loop.stops
    assert (stop.slot, stop.kind, stop.spent) == (1, StopKind.LOST_TOPIC, False)
    loop.until(lambda: loop.records() == RECORDS)


def test_an_offset_that_the_source_does_not_have_stops_its_partition(
    loop: Loop, full: Share
) -> None:
    loop.reader.take(full, RECORDS + 5, -1)
    loop.until(lambda: loop.stops)
    (stop,) = loop.stops
    assert (stop.upstream, stop.kind) == (RECORDS + 5, StopKind.OUT_OF_RANGE)


def test_a_partition_without_a_leader_waits_and_says_so(loop: Loop, source: LiveCluster) -> None:
    nobody = share_of(source, source.create_topic())
    missing = TopicPartition(unique_name(), 0)
    loop.reader.take(replace(nobody, source=missing), 0, -1)
    loop.until(lambda: dict(loop.reader.waits()))
    assert dict(loop.reader.waits()) == {0: f"{missing} has no leader"}
