"""How many bytes partitions take on the disks of their leaders."""

from collections.abc import Iterable

from kafka.protocol.admin import DescribeLogDirsRequest

from heliograph.errors import KafkaFault
from heliograph.kafka.cluster import NO_LEADER, Cluster
from heliograph.model import TopicPartition
from heliograph.net.faults import fault_for


def partition_sizes(
    cluster: Cluster, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    """Return the size of each partition's log in bytes; one that its leader does not report is left out."""
    wanted = list(partitions)
    topics = cluster.describe_each({p.topic for p in wanted}).found
    by_leader: dict[int, dict[str, list[int]]] = {}
    for partition in wanted:
        topic = topics.get(partition.topic)
        if topic is None or partition.index >= len(topic.leaders):
            continue
        leader = topic.leaders[partition.index]
        if leader != NO_LEADER:
            by_leader.setdefault(leader, {}).setdefault(partition.topic, []).append(partition.index)
    sizes = {}
    for leader, members in by_leader.items():
        sizes.update(_sizes_at(cluster, leader, members))
    return sizes


def _sizes_at(
    cluster: Cluster, leader: int, members: dict[str, list[int]]
) -> dict[TopicPartition, int]:
    spec = DescribeLogDirsRequest.DescribableLogDirTopic
    request = DescribeLogDirsRequest(
        topics=[spec(topic=name, partitions=indexes) for name, indexes in members.items()]
    )
    answer = cluster.call(request, leader, newest=4)
    doing = f"describe the log directories of broker {leader} of {cluster.endpoint.cluster}"
    if answer.error_code:
        raise fault_for(doing, answer.error_code)
    if not answer.results:  # before version 3, a client without permission gets none
        raise KafkaFault(doing, "CLUSTER_AUTHORIZATION_FAILED", retriable=False)
    sizes = {}
    for place in answer.results:
        if place.error_code:
            continue  # a disk that is offline leads nothing
        for topic in place.topics:
            for its in topic.partitions:
                if not its.is_future_key:
                    sizes[TopicPartition(topic.name, its.partition_index)] = its.partition_size
    return sizes
