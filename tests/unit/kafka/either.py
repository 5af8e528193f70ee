"""What a test does to a cluster, whether its brokers are real or in this process."""

from collections.abc import Callable
from contextlib import closing
from typing import Protocol

from confluent_kafka import TopicPartition as RdPartition
from confluent_kafka.admin import NewTopic
from kafka.protocol.admin import AlterPartitionReassignmentsRequest

from heliograph.kafka.cluster import Cluster, Topic
from heliograph.kafka.offsets import LATEST, find_offsets
from heliograph.model import Endpoint, TopicPartition
from lab.clusters import LiveCluster, eventually, unique_name
from lab.counting import endpoint
from lab.inprocess.cluster import InProcessCluster


class Either(Protocol):
    """A cluster of two brokers."""

    @property
    def endpoint(self) -> Endpoint: ...

    def create_topic(self, partitions: int = 1, *, max_message_bytes: int = 1 << 20) -> str:
        """Create a topic that no other test has; partitions with even numbers have one leader, the others the other."""

    def recreate(self, topic: str) -> None:
        """Delete a topic, and create another one of its name."""

    def move(self, partition: TopicPartition, leader: int) -> None:
        """Move a partition to another leader, with all that it has."""

    def delete_before(self, partition: TopicPartition, offset: int) -> None:
        """Delete the first records of a partition."""


class InProcess:
    """Brokers in this process."""

    def __init__(self, cluster: InProcessCluster) -> None:
        self._cluster = cluster

    @property
    def endpoint(self) -> Endpoint:
        return self._cluster.endpoint

    def create_topic(self, partitions: int = 1, *, max_message_bytes: int = 1 << 20) -> str:
        name = unique_name()
        self._cluster.create_topic(name, partitions, max_message_bytes)
        return name

    def recreate(self, topic: str) -> None:
        self._cluster.delete_topic(topic)
        self._cluster.create_topic(topic)

    def move(self, partition: TopicPartition, leader: int) -> None:
        self._cluster.elect(partition, leader)

    def delete_before(self, partition: TopicPartition, offset: int) -> None:
        self._cluster.change_log(partition, lambda log: log.delete_before(offset))


class Real:
    """Brokers of a real cluster."""

    def __init__(self, live: LiveCluster) -> None:
        self._live = live

    @property
    def endpoint(self) -> Endpoint:
        return endpoint(self._live)

    def create_topic(self, partitions: int = 1, *, max_message_bytes: int = 1 << 20) -> str:
        config = {"max.message.bytes": str(max_message_bytes)}
        with closing(Cluster(self.endpoint)) as cluster:
            nodes = cluster.nodes()
        leaders = [[nodes[index % len(nodes)]] for index in range(partitions)]
        topic = unique_name()
        new = NewTopic(topic, partitions, replica_assignment=leaders, config=config)
        self._live.admin.create_topics([new])[topic].result(timeout=30)
        self._await_all(topic, partitions)
        return topic

    def recreate(self, topic: str) -> None:
        self._live.admin.delete_topics([topic])[topic].result(timeout=30)
        eventually(lambda: topic not in self._live.topics())
        self._live.create_topic(name=topic)
        self._await_all(topic, 1)

    def move(self, partition: TopicPartition, leader: int) -> None:
        kind = AlterPartitionReassignmentsRequest.ReassignableTopic
        moved = kind.ReassignablePartition(partition_index=partition.index, replicas=[leader])
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=30_000, topics=[kind(name=partition.topic, partitions=[moved])]
        )
        with closing(Cluster(self.endpoint)) as cluster:
            answer = cluster.call(request, newest=0)
            assert answer.error_code == 0
        self._await(partition.topic, lambda topic: topic.leaders[partition.index] == leader)

    def delete_before(self, partition: TopicPartition, offset: int) -> None:
        place = RdPartition(partition.topic, partition.index, offset)
        self._live.admin.delete_records([place])[place].result(timeout=30)

    def _await_all(self, topic: str, partitions: int) -> None:
        """Wait until every broker knows all leaders of a topic, and these know that they are."""
        everything = [TopicPartition(topic, index) for index in range(partitions)]
        self._await(topic, lambda found: all(found.leads(p.index) for p in everything))
        with closing(Cluster(self.endpoint)) as cluster:
            eventually(lambda: not find_offsets(cluster, everything, LATEST).missing)

    def _await(self, topic: str, wanted: Callable[[Topic], bool]) -> None:
        """Wait until every broker says that a topic is as wanted."""

        def known() -> bool:
            with closing(Cluster(self.endpoint)) as cluster:
                views = [cluster.describe_each([topic], node).found for node in cluster.nodes()]
            return all(topic in view and wanted(view[topic]) for view in views)

        eventually(known)
