"""Consumers that fail over by themselves: each record once, whichever cluster is there."""

import gc
import logging
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from heliograph.client import FailoverConsumer, How, NotTranslated, RunMap, TopicPartition
from heliograph.errors import ClusterUnreachable
from heliograph.policy.naming import DefaultNaming, runs_topic
from heliograph.wire.mirror_records import Checkpoint, encode_checkpoint
from heliograph.wire.run_records import encode_segment_key
from lab.clusters import (
    LiveCluster,
    Outgoing,
    eventually,
    start_live_cluster,
    unique_name,
)
from lab.mirrors import Mirror, mesh_properties, unique_alias
from tests.contract.brokers import commit, committed

STARTING = 180
MOVING = 90
DETECT = timedelta(seconds=5)
SESSION = 6000
IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"

# kafka-python leaves sockets that never connected to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")


class Member(threading.Thread):
    """An application: reads, notes, commits, and moves when it is told to."""

    def __init__(self, make: Callable[[], FailoverConsumer], pace: int = 20) -> None:
        super().__init__(daemon=True)
        self.consumer = make()
        self.read: list[tuple[str, bytes]] = []
        self.failed: BaseException | None = None
        self.orders: queue.Queue[str] = queue.Queue()
        self.going = threading.Event()
        self.going.set()
        self._ended = threading.Event()
        self._pace = pace

    def run(self) -> None:
        try:
            with self.consumer as consumer:
                while not self._ended.is_set():
                    self.going.wait()
                    if not self.orders.empty():
                        consumer.move_to(self.orders.get())
                    records = consumer.poll(timedelta(seconds=0.2), self._pace)
                    self.read += [(consumer.cluster, record.value) for record in records]
                    consumer.commit()
        except Exception as exc:  # noqa: BLE001 - whatever it is, the test tells it
            self.failed = exc

    def end(self) -> None:
        self._ended.set()
        self.going.set()
        self.join(30)
        assert self.failed is None, repr(self.failed)


@dataclass
class Group:
    """Several members, and what they read together."""

    members: list[Member] = field(default_factory=list)

    def values(self) -> Counter[bytes]:
        return Counter(value for member in list(self.members) for _, value in member.read)

    def clusters(self) -> list[str]:
        return [member.consumer.cluster for member in self.members]

    def await_all(self, wanted: set[bytes]) -> None:
        """Wait until everything was read, and see that nothing was read twice."""
        eventually(lambda: set(self.values()) >= wanted or self.broken(), MOVING, self.tell)
        assert not self.broken()
        twice = sorted(value for value, times in self.values().items() if times > 1)
        assert not twice, f"{twice} were read more than once; {self.tell()}"

    def broken(self) -> list[BaseException]:
        return [member.failed for member in self.members if member.failed is not None]

    def tell(self) -> str:
        moves = [member.consumer.moves for member in self.members]
        return (
            f"{len(self.values())} were read on {self.clusters()}; {self.broken()}; moves {moves}"
        )

    def end(self) -> None:
        """End all members, and let go of them."""
        while self.members:
            self.members.pop().end()


@dataclass
class Rig:
    """A home and another cluster, a mirror between them, a topic and a group of members."""

    home: LiveCluster
    other: LiveCluster
    mirror: Mirror
    topic: str
    remote: str
    naming: str | None
    group: Group = field(default_factory=Group)
    name: str = field(default_factory=unique_name)
    written: int = 0

    def write(self, count: int, partitions: int = 4) -> set[bytes]:
        """Write numbered records at home, and return all that were ever written."""
        numbers = range(self.written, self.written + count)
        records = [Outgoing(b"%06d" % n, partition=n % partitions) for n in numbers]
        self.home.produce(self.topic, records)
        self.written += count
        return {b"%06d" % n for n in range(self.written)}

    def await_copied(self) -> None:
        eventually(
            lambda: sum(self.other.end_offsets(self.remote)) >= self.written,
            STARTING,
            self.mirror.tail,
        )

    def join(self, **options: Any) -> Member:
        settings = {"auto_offset_reset": "earliest", "session_timeout_ms": SESSION, **options}
        member = Member(
            lambda: FailoverConsumer(
                [self.topic],
                group_id=self.name,
                home=("A", self.home.bootstrap),
                other=("B", self.other.bootstrap),
                naming=self.naming,
                detect_after=DETECT,
                **settings,
            )
        )
        self.group.members.append(member)
        member.start()
        return member


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LiveCluster, LiveCluster]]:
    """Two clusters of this module's own, to be killed."""
    folder = tmp_path_factory.mktemp("clusters")
    config = {"group.initial.rebalance.delay.ms": "500"}
    made: list[LiveCluster] = []
    try:
        made.append(start_live_cluster("home", folder, config=config))
        made.append(start_live_cluster("other", folder, config=config))
        yield made[0], made[1]
    finally:
        for live in made:
            live.cluster.wipe()


@pytest.fixture(autouse=True)
def sockets(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Have sockets collected while it does not matter; what kafka-python logs would keep them."""
    caplog.set_level(logging.CRITICAL, logger="kafka")
    yield
    gc.collect()


@pytest.fixture
def rig(
    request: pytest.FixtureRequest, clusters: tuple[LiveCluster, LiveCluster], tmp_path: Path
) -> Iterator[Rig]:
    """The parameters are the naming policy, and how many partitions the other cluster has."""
    naming, partitions = getattr(request, "param", (None, 4))
    home, other = clusters
    for live in clusters:
        live.cluster.start()
    topic = home.create_topic(4)
    remote = topic if naming else f"A.{topic}"
    if partitions != 4:
        other.create_topic(partitions, name=remote)
    properties = {
        **mesh_properties({"A": home.bootstrap, "B": other.bootstrap}, {"A->B": topic}),
        "emit.checkpoints.interval.seconds": "1",
        "refresh.groups.interval.seconds": "1",
        **({"replication.policy.class": naming} if naming else {}),
    }
    with Mirror(tmp_path / "mirror", properties) as mirror:
        made = Rig(home, other, mirror, topic, remote, naming)
        try:
            yield made
        finally:
            made.group.end()


def kill(live: LiveCluster) -> None:
    live.cluster.kill(1)
    eventually(lambda: not live.cluster.pids)


@pytest.fixture
def aliases() -> tuple[str, str]:
    """Names of clusters that no other test has."""
    return unique_alias("A"), unique_alias("B")


def write_rows(live: LiveCluster, topic: str, rows: Iterable[tuple[bytes, bytes | None]]) -> None:
    live.create_topic(config={"cleanup.policy": "compact"}, name=topic)
    live.produce(topic, [Outgoing(value, key, partition=0) for key, value in rows])


def copy_by_hand(
    source: LiveCluster, target: LiveCluster, alias: str, count: int, known: int | None = None
) -> str:
    """Write a topic, and on the target what a mirror would: a copy two offsets further on, and its runs.

    Those may tell only of so many of the records as are `known`.
    """
    topic = source.create_topic()
    records = [b"%d" % number for number in range(count)]
    source.produce(topic, records)
    remote = target.create_topic(name=f"{alias}.{topic}")
    target.produce(remote, [b"foreign", b"foreign", *records])
    runs = RunMap()
    runs.begin(2)
    runs.add(0, 2, count if known is None else known)
    changes = runs.take_changes().items()
    rows = [(encode_segment_key(TopicPartition(topic, 0), up), row) for up, row in changes]
    write_rows(target, runs_topic(DefaultNaming(), alias), rows)
    return topic


def read(consumer: FailoverConsumer, count: int) -> list[int]:
    """Return the numbers of the next records, and commit them."""
    found: list[int] = []

    def enough() -> bool:
        records = consumer.poll(timedelta(seconds=1), count - len(found))
        found.extend(int(record.value) for record in records)
        return len(found) == count

    eventually(enough, MOVING, lambda: found)
    consumer.commit()
    return found


@pytest.mark.broker
def test_a_consumer_goes_and_returns_to_the_very_next_record(
    source: LiveCluster, target: LiveCluster, aliases: tuple[str, str]
) -> None:
    a, b = aliases
    topic = copy_by_hand(source, target, a, 10)
    with FailoverConsumer(
        [topic],
        group_id=unique_name(),
        home=(a, source.bootstrap),
        other=(b, {"bootstrap.servers": target.bootstrap}),
        detect_after=DETECT,
        auto_offset_reset="earliest",
    ) as consumer:
        assert read(consumer, 4) == [0, 1, 2, 3]
        consumer.move_to(b)
        assert consumer.cluster == b
        assert read(consumer, 3) == [4, 5, 6]
        assert consumer.home_topic(f"{a}.{topic}") == topic
        consumer.move_to(a)
        assert read(consumer, 3) == [7, 8, 9]
        there, back = consumer.moves
        assert there.offsets == {TopicPartition(f"{a}.{topic}", 0): 6}
        assert back.offsets == {TopicPartition(topic, 0): 7}
        assert {place.how for move in (there, back) for place in move.plan.places.values()} == {
            How.EXACT
        }
        assert (there.repeats, back.repeats) == (0, 0)


@pytest.mark.broker
def test_a_join_is_finished_however_short_the_polls_are(
    source: LiveCluster, target: LiveCluster, aliases: tuple[str, str]
) -> None:
    """Without our help kafka-python 3.0.12 is stuck in every second of these."""
    a, b = aliases
    for _ in range(6):
        topic = source.create_topic()
        source.produce(topic, [b"0"])
        with FailoverConsumer(
            [topic],
            group_id=unique_name(),
            home=(a, source.bootstrap),
            other=(b, target.bootstrap),
            auto_offset_reset="earliest",
        ) as consumer:
            until = time.monotonic() + MOVING
            while not consumer.poll(timedelta(milliseconds=2)):
                assert time.monotonic() < until


@pytest.mark.broker
def test_a_home_that_never_answered_is_left_for_the_checkpoint(
    source: LiveCluster, target: LiveCluster, aliases: tuple[str, str]
) -> None:
    a, b = aliases
    topic, group = copy_by_hand(source, target, a, 10), unique_name()
    checkpoint = Checkpoint(group, TopicPartition(f"{a}.{topic}", 0), 3, 5)
    write_rows(target, f"{a}.checkpoints.internal", [encode_checkpoint(checkpoint)])
    with FailoverConsumer(
        [topic],
        group_id=group,
        home=(a, "127.0.0.1:1"),
        other=(b, target.bootstrap),
        detect_after=timedelta(seconds=1),
    ) as consumer:
        assert read(consumer, 7) == [3, 4, 5, 6, 7, 8, 9]
        (move,) = consumer.moves
        assert (move.why, move.repeats) == ("gone", 7)
        with pytest.raises(ClusterUnreachable):
            consumer.move_to(a)
        assert consumer.cluster == b


@pytest.mark.broker
def test_what_nobody_can_translate_is_told_and_not_taken_from_the_start(
    source: LiveCluster, target: LiveCluster, aliases: tuple[str, str]
) -> None:
    a, b = aliases
    topic, group = source.create_topic(), unique_name()
    source.produce(topic, [b"0", b"1", b"2"])
    target.produce(target.create_topic(name=f"{a}.{topic}"), [b"0", b"1", b"2"])
    commit(source, group, topic, {0: 1})
    with FailoverConsumer(
        [topic], group_id=group, home=(a, source.bootstrap), other=(b, target.bootstrap)
    ) as consumer:
        assert read(consumer, 1) == [1]
        with pytest.raises(NotTranslated, match=rf"on {b} \({a}\..*no run map and no checkpoint"):
            consumer.move_to(b)
        assert read(consumer, 1) == [2]
        assert (consumer.cluster, consumer.moves) == (a, [])
    with (
        FailoverConsumer(
            [topic], group_id=unique_name(), home=(a, source.bootstrap), other=(b, target.bootstrap)
        ) as consumer,
        pytest.raises(NotTranslated, match="has committed nothing"),
    ):
        read(consumer, 1)


@pytest.mark.broker
def test_what_was_read_is_only_begun_anew_after_a_move_if_that_is_asked_for(
    source: LiveCluster, target: LiveCluster, aliases: tuple[str, str]
) -> None:
    a, b = aliases
    topic, group = source.create_topic(2), unique_name()
    source.produce(topic, [Outgoing(b"%d" % n, partition=0) for n in range(3)])

    def make(**options: Any) -> FailoverConsumer:
        return FailoverConsumer(
            [topic],
            group_id=group,
            home=(a, source.bootstrap),
            other=(b, target.bootstrap),
            auto_offset_reset="earliest",
            **options,
        )

    with make() as consumer:
        consumer.move_to(b)  # nothing of it was read
        consumer.move_to(a)
        assert read(consumer, 2) == [0, 1]
        with pytest.raises(NotTranslated, match=f"there is no topic {a}.{topic}"):
            consumer.move_to(b)
        assert read(consumer, 1) == [2]
    target.produce(target.create_topic(name=f"{a}.{topic}"), [b"0", b"1", b"2"])
    with make(untranslated="reset") as consumer:
        consumer.move_to(b)
        assert read(consumer, 3) == [0, 1, 2]


@pytest.mark.parametrize("return_home", [False, True], ids=["stays", "returns"])
@pytest.mark.broker
def test_a_group_that_is_started_anew_goes_on_where_it_was_last(
    source: LiveCluster, target: LiveCluster, aliases: tuple[str, str], return_home: bool
) -> None:
    a, b = aliases
    topic, group = copy_by_hand(source, target, a, 10), unique_name()

    def make(**options: Any) -> FailoverConsumer:
        return FailoverConsumer(
            [topic],
            group_id=group,
            home=(a, source.bootstrap),
            other=(b, target.bootstrap),
            auto_offset_reset="earliest",
            **options,
        )

    with make() as consumer:
        assert read(consumer, 4) == [0, 1, 2, 3]
        consumer.move_to(b)
        assert read(consumer, 3) == [4, 5, 6]
    with make(return_home=return_home) as consumer:
        assert read(consumer, 1) == [7]
        assert consumer.cluster == (a if return_home else b)
        assert [move.why for move in consumer.moves] == ["home is back"] * return_home
        if not return_home:
            consumer.move_to(a)
            assert read(consumer, 1) == [8]
    with make() as consumer:  # it was at home last
        assert read(consumer, 1) == [8 if return_home else 9]
        assert (consumer.cluster, consumer.moves) == (a, [])


@pytest.mark.broker
def test_a_home_that_cannot_be_returned_to_is_thought_of_without_stopping_to_read(
    source: LiveCluster,
    target: LiveCluster,
    aliases: tuple[str, str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    a, b = aliases
    topic, group = copy_by_hand(source, target, a, 10, known=7), unique_name()
    caplog.set_level(logging.WARNING, logger="heliograph.client")
    commit(target, group, f"{a}.{topic}", {0: 2})  # after what is foreign
    with FailoverConsumer(
        [topic],
        group_id=group,
        home=(a, source.bootstrap),
        other=(b, target.bootstrap),
        start=b,
        detect_after=timedelta(seconds=1),
        exact_within=timedelta(seconds=2),
        return_home=True,
    ) as consumer:
        assert read(consumer, 10) == list(range(10))
        member = consumer._member

        def refused() -> bool:
            consumer.poll(timedelta(seconds=0.1))
            assert consumer._member is member
            return caplog.text.count(f"stays on {b}: copy to {a}, and tell of, all that") >= 2

        eventually(refused, MOVING)
        target.produce(f"{a}.{topic}", [b"10"])
        assert read(consumer, 1) == [10]
        assert (consumer.cluster, consumer._member) == (b, member)


@pytest.mark.broker
def test_a_cluster_that_answers_after_all_is_not_left(
    source: LiveCluster, target: LiveCluster, aliases: tuple[str, str]
) -> None:
    """As if the thread that watches it had been kept from running."""
    a, b = aliases
    topic = copy_by_hand(source, target, a, 3)
    with FailoverConsumer(
        [topic],
        group_id=unique_name(),
        home=(a, source.bootstrap),
        other=(b, target.bootstrap),
        auto_offset_reset="earliest",
    ) as consumer:
        assert read(consumer, 2) == [0, 1]
        watch = consumer._watch
        assert watch is not None
        watch.stop()
        watch.join()
        watch._unanswered_since = 0.0
        assert read(consumer, 1) == [2]
        assert watch.silence() < DETECT
        assert (consumer.cluster, consumer.moves) == (a, [])


@pytest.mark.parametrize(
    "rig", [(None, 4), (IDENTITY, 4)], ids=["default", "identity"], indirect=True
)
@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(700)
def test_two_members_go_on_where_they_were_and_come_back(rig: Rig) -> None:
    everything = rig.write(2000)
    rig.await_copied()
    one, two = rig.join(), rig.join()
    eventually(lambda: len(rig.group.values()) > 500, MOVING, rig.group.tell)
    kill(rig.home)
    rig.group.await_all(everything)
    assert rig.group.clusters() == ["B", "B"]
    for member in (one, two):
        (move,) = member.consumer.moves
        assert (move.source, move.target, move.why) == ("A", "B", "gone")
        assert move.repeats == 0
    eventually(lambda: one.consumer.assignment() and two.consumer.assignment(), MOVING)

    rig.home.cluster.start()
    everything = rig.write(1000)
    rig.group.await_all(everything)
    assert rig.group.clusters() == ["B", "B"]
    assert [{at for at, _ in member.read} for member in (one, two)] == [{"A", "B"}] * 2

    everything = rig.write(500)
    for member in (one, two):
        member.orders.put("A")
    rig.group.await_all(everything)
    eventually(lambda: rig.group.clusters() == ["A", "A"], MOVING, rig.group.tell)
    everything = rig.write(500)
    rig.group.await_all(everything)
    assert [move.repeats for member in (one, two) for move in member.consumer.moves] == [0] * 4


@pytest.mark.parametrize("rig", [(None, 6)], ids=["more partitions"], indirect=True)
@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(700)
def test_partitions_that_only_the_other_cluster_has_are_read_and_home_is_returned_to(
    rig: Rig,
) -> None:
    everything = rig.write(400)
    rig.await_copied()
    rig.other.produce(rig.remote, [Outgoing(b"only here", partition=5)])
    members = [rig.join(return_home=True) for _ in range(2)]
    rig.group.await_all(everything)
    kill(rig.home)
    rig.group.await_all({*everything, b"only here"})
    # The other member may have moved before it, and read everything.
    (move, *_) = eventually(lambda: members[0].consumer.moves, MOVING, rig.group.tell)
    place = move.plan.places[TopicPartition(rig.remote, 5)]
    assert place.how in (How.BEGINNING, How.THERE)

    rig.home.cluster.start()
    everything = {*rig.write(200), b"only here"}
    eventually(lambda: rig.group.clusters() == ["A", "A"], MOVING, rig.group.tell)
    rig.group.await_all(everything)
    everything |= rig.write(200)
    rig.group.await_all(everything)
    assert [move.why for move in members[0].consumer.moves] == ["gone", "home is back"]
    assert committed(rig.home, rig.name, rig.topic) == dict.fromkeys(range(4), 200)


def copied(consumer: FailoverConsumer, topic: str) -> int:
    """Return up to where the run maps of a topic tell that a consumer has seen, all partitions together."""
    watch = consumer._watch
    maps = watch.seen().runs if watch else {}
    ends = [its.end for partition, its in maps.items() if partition.topic == topic]
    return sum(end.upstream_end for end in ends if end is not None)


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(700)
def test_a_group_goes_home_when_the_other_cluster_dies(rig: Rig) -> None:
    everything = rig.write(800)
    rig.await_copied()
    member = rig.join(start="B")
    eventually(lambda: len(rig.group.values()) > 100, MOVING, rig.group.tell)
    member.going.clear()
    # What it has last seen is what it goes by.
    eventually(lambda: copied(member.consumer, rig.topic) >= 800, STARTING, rig.mirror.tail)
    read = len(rig.group.values())
    kill(rig.other)
    member.going.set()
    rig.group.await_all(everything)
    assert 100 < read < 800
    (move,) = member.consumer.moves
    assert (move.source, move.target, move.why, move.repeats) == ("B", "A", "gone", 0)
    rig.other.cluster.start()
