"""A topic that must not be described keeps no others waiting, whatever is asked for beside it."""

from collections.abc import Iterator
from contextlib import closing
from typing import NamedTuple
from uuid import uuid4

import pytest
from confluent_kafka.admin import ResourceType

from heliograph.driving.rights import look_at
from heliograph.errors import KafkaFault
from heliograph.kafka.background import Background, Bell
from heliograph.kafka.brokers import await_any
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.fetch import Fetcher, FetchLimits, Subject
from heliograph.kafka.lane import Lane, Refused, Stored
from heliograph.kafka.offsets import LATEST, find_offsets
from heliograph.kafka.plain import plain_batch
from heliograph.kafka.produce import Producer
from heliograph.model import TopicPartition
from lab.clusters import eventually
from lab.counting import endpoint
from tests.guarded import GuardedCluster

pytestmark = pytest.mark.broker


class Two(NamedTuple):
    """A topic that may be used, and one whose rights have gone."""

    open: TopicPartition
    shut: TopicPartition


@pytest.fixture
def two(guarded: GuardedCluster) -> Two:
    names = guarded.create_topic(), guarded.create_topic()
    guarded.deny(ResourceType.TOPIC, names[1])
    return Two(*(TopicPartition(name, 0) for name in names))


@pytest.fixture
def cluster(guarded: GuardedCluster) -> Iterator[Cluster]:
    with closing(Cluster(endpoint(guarded))) as cluster:
        yield cluster


def test_what_may_be_described_is_and_the_rest_is_told(cluster: Cluster, two: Two) -> None:
    names = [partition.topic for partition in two]

    found, refused = cluster.describe_each([*names, "no-such-topic"])

    assert list(found) == [two.open.topic]
    assert {name: fault.error for name, fault in refused.items()} == {
        two.shut.topic: "TOPIC_AUTHORIZATION_FAILED"
    }
    with pytest.raises(KafkaFault, match="TOPIC_AUTHORIZATION_FAILED"):
        cluster.describe(names)


def test_ends_of_the_others_are_found(cluster: Cluster, two: Two) -> None:
    found, missing = find_offsets(cluster, two, LATEST)

    assert found == {two.open: 0}
    assert [(p, getattr(why, "error", None)) for p, why in missing.items()] == [
        (two.shut, "TOPIC_AUTHORIZATION_FAILED")
    ]


def test_the_others_are_looked_at_before_they_are_fenced(cluster: Cluster, two: Two) -> None:
    ends, trouble = look_at(cluster, two, {})

    assert ends == {two.open: 0}
    assert "TOPIC_AUTHORIZATION_FAILED" in trouble[two.shut]


def test_the_others_are_read(guarded: GuardedCluster, cluster: Cluster, two: Two) -> None:
    guarded.produce(two.open.topic, [b"value"])
    ids = cluster.describe([two.open.topic])[two.open.topic].topic_id, uuid4()
    bell = Bell()
    with closing(Background(endpoint(guarded), bell)) as brokers:
        fetcher = Fetcher(brokers, FetchLimits())
        fetcher.add(Subject(slot, two[slot], ids[slot], 0) for slot in range(2))

        def first() -> bool:
            fetcher.place()
            fetcher.ask()
            ready = await_any({bell.fileno(): 1, **fetcher.interest()}, 0.2)
            bell.silence()
            answers = [fetcher.take(session) for session in fetcher.collect(ready)]
            return any(s.slot == 0 and s.end > s.start for a in answers if a for s in a.sections)

        eventually(first)
        fetcher.close()
    bell.close()


def test_the_others_are_written(cluster: Cluster, two: Two) -> None:
    stored: list[Stored] = []
    refused: list[Refused] = []
    producer = Producer(
        cluster,
        "flow",
        [Lane(slot, partition) for slot, partition in enumerate(two)],
        on_stored=stored.append,
        on_refused=refused.append,
    )
    for slot in range(2):
        producer.offer(slot, plain_batch([(b"key", b"value")]))

    def is_stored() -> bool:
        producer.pump(0.1)
        return bool(stored)

    eventually(is_stored)
    assert [(each.slot, each.base_offset) for each in stored] == [(0, 0)]
    assert not refused, "it is waited for, not given up at once"
    assert "TOPIC_AUTHORIZATION_FAILED" in (producer.troubled[1].trouble or "")
    producer.close()
