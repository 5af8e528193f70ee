"""Who keeps a partition's last stable offset where it is, asked of a real broker."""

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AclOperation, ResourceType

from heliograph.kafka.cluster import Cluster
from heliograph.kafka.offsets import LATEST, list_offsets
from heliograph.kafka.producers import find_open_transactions
from heliograph.model import TopicPartition
from lab.clusters import LiveCluster, Outgoing, eventually, unique_name
from tests.broker.test_kafka_room import endpoint
from tests.guarded import GuardedCluster

pytestmark = pytest.mark.broker

TIMEOUT_MS = 90_000


@pytest.fixture
def cluster(source: LiveCluster) -> Iterator[Cluster]:
    with closing(Cluster(endpoint(source))) as cluster:
        yield cluster


def leave_open(live: LiveCluster, topic: str, partitions: int = 1) -> tuple[str, Producer]:
    """Begin a transaction that has written to the first partitions of a topic; return its id and producer."""
    name = f"open-{unique_name()}"
    producer = Producer(live.client(transactional_id=name, transaction_timeout_ms=TIMEOUT_MS))
    producer.init_transactions(30)
    producer.begin_transaction()
    for index in range(partitions):
        producer.produce(topic, b"undecided", partition=index)
    assert producer.flush(30) == 0
    return name, producer


def stable_offsets(cluster: Cluster, topic: str) -> dict[TopicPartition, int]:
    partitions = cluster.describe([topic])[topic].partitions
    return list_offsets(cluster, partitions, LATEST, committed_only=True)


def test_the_producer_that_holds_partitions_back_is_found_with_its_transactional_id(
    source: LiveCluster, cluster: Cluster
) -> None:
    topic = source.create_topic(2)
    source.produce(topic, [Outgoing(b"before", partition=1)] * 3)
    name, producer = leave_open(source, topic, partitions=2)
    _, later = leave_open(source, topic, partitions=2)
    source.produce(topic, [Outgoing(b"behind", partition=0)])
    first, second = partitions = [TopicPartition(topic, index) for index in range(2)]
    stable = stable_offsets(cluster, topic)
    assert stable == {first: 0, second: 3}

    transactions = find_open_transactions(cluster, stable)

    here, there = transactions[first], transactions[second]
    assert here is not None
    assert there is not None
    assert (here.start_offset, there.start_offset) == (0, 3)
    assert here.transactional_id == there.transactional_id == name
    assert here.producer_id == there.producer_id != -1
    assert (here.epoch, here.timeout) == (0, timedelta(milliseconds=TIMEOUT_MS))
    assert (here.last_write_ms or 0) > 0

    producer.abort_transaction(30)
    eventually(lambda: all(stable_offsets(cluster, topic)[p] > stable[p] for p in partitions))
    assert find_open_transactions(cluster, stable) == {first: None, second: None}
    later.abort_transaction(30)


def test_a_producer_without_a_right_to_its_name_is_known_by_its_id(guarded: GuardedCluster) -> None:
    topic = guarded.create_topic()
    name, _ = leave_open(guarded, topic)
    guarded.deny(ResourceType.TRANSACTIONAL_ID, name)

    with closing(Cluster(endpoint(guarded))) as cluster:
        partition = TopicPartition(topic, 0)

        def names() -> set[str | None]:
            transaction = find_open_transactions(cluster, {partition: 0})[partition]
            assert transaction is not None
            assert transaction.producer_id is not None
            return {transaction.transactional_id}

        eventually(lambda: names() == {None})

        guarded.allow_only(ResourceType.TOPIC, topic, AclOperation.DESCRIBE)
        eventually(lambda: find_open_transactions(cluster, {partition: 0}) == {})


def test_partitions_that_nobody_leads_are_left_out(source: LiveCluster, cluster: Cluster) -> None:
    topic = source.create_topic()
    missing = TopicPartition(topic, 7), TopicPartition(f"{topic}-not", 0)

    assert find_open_transactions(cluster, dict.fromkeys(missing, 0)) == {}
    assert find_open_transactions(cluster, {}) == {}
