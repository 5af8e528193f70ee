"""Which topics a flow takes, what they are called, and that stopping or going on loses and repeats nothing."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from threading import Thread

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer
from confluent_kafka import TopicPartition as RdPartition
from confluent_kafka.admin import NewPartitions

from heliograph.model import TopicPartition
from heliograph.wire.connect_records import SourceKey, decode_source_key, decode_source_offset
from lab.clusters import LiveCluster, Outgoing, eventually, unique_name
from lab.mirrors import Mirror, assert_copied, flow_properties, unique_alias

pytestmark = pytest.mark.spark

IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
STARTING = 90  # Spark takes its time to start on a busy machine


@dataclass
class Pair:
    """Two clusters that mirror each other in one process; `a` is the source fixture, `b` the target."""

    source: LiveCluster
    target: LiveCluster
    a: str
    b: str
    mirror: Mirror

    def create(self, partitions: int = 1) -> str:
        return self.source.create_topic(partitions, name=f"flows.{unique_name()}")

    def remote(self, topic: str) -> str:
        return f"{self.a}.{topic}"

    def check(self, topic: str, within: float = 30) -> None:
        assert_copied(
            self.source, topic, self.target, self.remote(topic), self.mirror, within=within
        )

    def pass_a_refresh(self) -> None:
        """Return when topics that existed at the call have been seen by both flows."""
        here, there = self.create(), self.target.create_topic(name=f"flows.{unique_name()}")
        self.check(here)
        back = f"{self.b}.{there}"
        eventually(lambda: back in self.source.topics(), 30, self.mirror.tail)


@pytest.fixture(scope="module")
def pair(
    source: LiveCluster, target: LiveCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pair]:
    a, b, c = unique_alias("A"), unique_alias("B"), unique_alias("C")
    topics = r".*flows\\..*"
    properties = {
        **flow_properties((a, source.bootstrap), (b, target.bootstrap), topics),
        f"{b}->{a}.enabled": "true",
        f"{b}->{a}.topics": topics,
        f"{a}->{b}.tasks.max": "2",
        # The first cluster under another alias: a flow that keeps names.
        "clusters": f"{a}, {b}, {c}",
        f"{c}.bootstrap.servers": source.bootstrap,
        f"{c}->{b}.enabled": "true",
        f"{c}->{b}.topics": r"identity\\..*",
        f"{c}->{b}.replication.policy.class": IDENTITY,
        f"{b}.offset.flush.interval.ms": "1000",
    }
    with Mirror(tmp_path_factory.mktemp("mirror"), properties) as mirror:
        made = Pair(source, target, a, b, mirror)
        made.check(source.create_topic(name="flows.first"), within=STARTING)
        yield made


def test_the_remote_topic_has_as_many_partitions(pair: Pair) -> None:
    topic = pair.create(7)

    eventually(lambda: pair.target.partition_count(pair.remote(topic)) == 7)


def test_topics_excluded_by_default_are_not_copied(pair: Pair) -> None:
    excluded = [f"flows.{unique_name()}.replica", "mm2-flows.x.internal", "__flows.x"]
    for name in excluded:
        pair.source.create_topic(name=name)

    pair.pass_a_refresh()

    assert not {pair.remote(name) for name in excluded} & pair.target.topics()


def test_a_topic_that_came_from_the_target_does_not_go_back(pair: Pair) -> None:
    topic = pair.source.create_topic(name=f"{pair.b}.flows.{unique_name()}")

    pair.pass_a_refresh()

    assert pair.remote(topic) not in pair.target.topics()


def test_clusters_that_mirror_each_other_get_each_record_once(pair: Pair) -> None:
    topic = pair.create(2)
    pair.target.create_topic(2, name=topic)
    pair.source.produce(topic, [Outgoing(b"a%d" % i, partition=i % 2) for i in range(100)])
    pair.target.produce(topic, [Outgoing(b"b%d" % i, partition=i % 2) for i in range(100)])

    pair.check(topic)
    back = f"{pair.b}.{topic}"
    assert_copied(pair.target, topic, pair.source, back, pair.mirror)
    pair.pass_a_refresh()

    assert len(pair.source.consume(topic)) == len(pair.target.consume(topic)) == 100
    pair.check(topic)
    twice = {f"{pair.a}.{back}", f"{pair.b}.{pair.remote(topic)}"}
    assert not twice & (pair.source.topics() | pair.target.topics())


def test_a_new_topic_is_copied_soon(pair: Pair) -> None:
    topic = pair.create()
    pair.source.produce(topic, [b"one", b"two"])

    pair.check(topic, within=10)


def test_new_partitions_are_copied_soon(pair: Pair) -> None:
    topic = pair.create()
    pair.source.produce(topic, [b"before"])
    pair.check(topic)

    pair.source.admin.create_partitions([NewPartitions(topic, 4)])[topic].result(timeout=30)
    eventually(lambda: pair.source.partition_count(topic) == 4)
    pair.source.produce(topic, [Outgoing(b"p%d" % p, partition=p) for p in range(4)])

    pair.check(topic, within=10)


def test_progress_is_kept_where_and_how_mirrormaker_keeps_it(pair: Pair) -> None:
    topic = pair.create(2)
    pair.source.produce(topic, [Outgoing(b"x", partition=i % 3 % 2) for i in range(30)])
    pair.check(topic)
    offsets = f"mm2-offsets.{pair.a}.internal"

    def kept() -> dict[SourceKey, int]:
        found = {}
        for record in pair.target.consume(offsets):
            key, value = decode_source_key(record.key), decode_source_offset(record.value)
            if key and value and key.partition.topic == topic:
                found[key] = value.upstream
        return found

    expected = {
        SourceKey("MirrorSourceConnector", pair.a, TopicPartition(topic, p)): next_offset
        for p, next_offset in enumerate((20, 10))
    }
    eventually(lambda: kept() == expected, 15, kept)
    (key,) = {
        r.key
        for r in pair.target.consume(offsets)
        if r.key and topic.encode() in r.key and b'"partition":1' in r.key
    }
    cluster, name = pair.a, topic
    assert (
        key.decode()
        == f'["MirrorSourceConnector",{{"cluster":"{cluster}","partition":1,"topic":"{name}"}}]'
    )


def test_records_arrive_while_other_topics_come_and_are_shared_out(pair: Pair) -> None:
    """One every 50 ms, and none waits for a task to end, to begin or to meet a tail: that takes seconds."""
    topic = pair.create()
    pair.source.produce(topic, [b"warm"])
    pair.check(topic)

    def come() -> None:
        for _ in range(4):
            other = pair.create(2)
            pair.source.produce(other, [Outgoing(b"%d" % i, partition=i % 2) for i in range(20)])
            pair.check(other)

    coming = Thread(target=come)
    coming.start()
    arrivals = arrivals_while(
        pair.target,
        pair.remote(topic),
        lambda: trickle(pair.source, topic, count=260, every=0.05),
        count=261,
    )
    coming.join()

    gaps = [later - earlier for earlier, later in pairwise(arrivals)]

    assert max(gaps[1:]) < 2, sorted(gaps)[-5:]  # the first is from the warm record
    pair.check(topic)


def trickle(cluster: LiveCluster, topic: str, count: int, every: float) -> None:
    def paced() -> Iterator[bytes]:
        start = time.monotonic()
        for number in range(count):
            # Records must keep their pace: this is the load, not waiting for something to be true.
            time.sleep(max(0.0, start + number * every - time.monotonic()))
            yield b"%d" % number

    cluster.produce(topic, paced(), linger_ms=0)


def arrivals_while(
    cluster: LiveCluster, topic: str, load: Callable[[], None], count: int
) -> list[float]:
    """Return when each of `count` records of a topic arrived at a consumer, under `load`."""
    arrivals: list[float] = []
    producing = Thread(target=load)
    with closing(Consumer(cluster.client(group_id="unused", fetch_wait_max_ms=50))) as consumer:
        consumer.assign([RdPartition(topic, 0, OFFSET_BEGINNING)])
        producing.start()
        try:
            deadline = time.monotonic() + 40
            while len(arrivals) < count and time.monotonic() < deadline:
                message = consumer.poll(0.1)
                if message is not None and message.error() is None:
                    arrivals.append(time.monotonic())
        finally:
            producing.join()
    assert len(arrivals) == count
    return arrivals


def test_identity_naming_keeps_the_name(pair: Pair) -> None:
    topic = pair.source.create_topic(3, name=f"identity.{unique_name()}")
    pair.source.produce(topic, [Outgoing(b"%d" % i, partition=i % 3) for i in range(300)])

    assert_copied(pair.source, topic, pair.target, topic, pair.mirror)


def test_stop_and_start_lose_and_repeat_nothing(pair: Pair) -> None:
    topic = pair.create(3)
    still = pair.create()
    pair.source.produce(still, [b"before"])
    pair.source.produce(topic, [Outgoing(b"first %d" % i, partition=i % 3) for i in range(2000)])
    pair.check(topic)
    pair.source.produce(topic, [Outgoing(b"cut off %d" % i, partition=i % 3) for i in range(5000)])
    pair.mirror.stop()
    pair.source.produce(topic, [Outgoing(b"down %d" % i, partition=i % 3) for i in range(2000)])
    late = pair.create(2)
    pair.source.produce(late, [b"%d" % i for i in range(10)])

    pair.mirror.start()
    pair.source.produce(topic, [Outgoing(b"starting %d" % i, partition=i % 3) for i in range(100)])

    pair.check(topic, within=STARTING)
    pair.check(late)
    pair.pass_a_refresh()
    pair.check(topic)
    pair.check(still)
