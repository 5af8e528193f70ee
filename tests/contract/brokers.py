"""What a client does to a cluster and sees of it: groups, configurations, transactions, heartbeats."""

from collections.abc import Mapping
from contextlib import closing

from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as RdPartition
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ResourceType,
)

from heliograph.wire.mirror_records import Heartbeat, decode_heartbeat
from lab.clusters import LiveCluster, unique_name


def commit(
    cluster: LiveCluster, group: str, topic: str, offsets: Mapping[int, int], metadata: str = ""
) -> None:
    """Commit as a group without members."""
    positions = [RdPartition(topic, p, offset, metadata) for p, offset in offsets.items()]
    with closing(Consumer(cluster.client(group_id=group, enable_auto_commit=False))) as consumer:
        consumer.commit(offsets=positions, asynchronous=False)


def committed(cluster: LiveCluster, group: str, topic: str) -> dict[int, int]:
    """Return the offsets that a group committed in a topic; partitions without one are absent."""
    wanted = [RdPartition(topic, p) for p in range(cluster.partition_count(topic))]
    with closing(Consumer(cluster.client(group_id=group, enable_auto_commit=False))) as consumer:
        found = consumer.committed(wanted, timeout=30)
    return {partition.partition: partition.offset for partition in found if partition.offset >= 0}


def topic_configs(cluster: LiveCluster, topic: str) -> dict[str, str]:
    """Return what a topic overrides."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    entries = cluster.admin.describe_configs([resource])[resource].result(timeout=30).values()
    own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value  # brokers have defaults that can be changed too
    return {entry.name: entry.value for entry in entries if entry.source == own}


def alter_topic(cluster: LiveCluster, topic: str, changes: Mapping[str, str | None]) -> None:
    """Set configurations of a topic; None removes one."""
    entries = [
        ConfigEntry(
            name,
            value,
            incremental_operation=AlterConfigOpType.DELETE
            if value is None
            else AlterConfigOpType.SET,
        )
        for name, value in changes.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    cluster.admin.incremental_alter_configs([resource])[resource].result(timeout=30)


def assert_internal(cluster: LiveCluster, topic: str) -> None:
    """A topic of the system's own has one partition and is compacted."""
    assert cluster.partition_count(topic) == 1
    assert topic_configs(cluster, topic)["cleanup.policy"] == "compact"


def heartbeats(cluster: LiveCluster, topic: str, source: str, target: str) -> list[Heartbeat]:
    if not cluster.partition_count(topic):
        return []
    beats = [decode_heartbeat(record.key, record.value) for record in cluster.consume(topic)]
    return [beat for beat in beats if (beat.source, beat.target) == (source, target)]


def in_transactions(cluster: LiveCluster, topic: str, fates: list[str]) -> None:
    """Write ten records to partition 0 in one transaction each; those whose fate is "drop" are aborted."""
    producer = Producer(cluster.client(transactional_id=unique_name()))
    producer.init_transactions(30)
    for transaction, fate in enumerate(fates):
        producer.begin_transaction()
        for number in range(10):
            producer.produce(topic, f"{fate} {transaction * 10 + number}".encode(), partition=0)
        producer.flush(30)
        if fate == "keep":
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)
