"""A cluster as an operator sees it: its brokers, and where the replicas of partitions are."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kafka.protocol.admin import DescribeQuorumRequest
from kafka.protocol.metadata import MetadataRequest

from heliograph.errors import KafkaFault
from heliograph.kafka.cluster import NO_LEADER, Cluster
from heliograph.net.faults import LOST_TOPIC, fault_for

_QUORUM_TOPIC = "__cluster_metadata"


class Broker(NamedTuple):
    node: int
    host: str
    port: int
    rack: str | None


class Placed(NamedTuple):
    """A partition: its leader (or NO_LEADER), its assigned replicas, and its in-sync replicas."""

    partition: int
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]

    @property
    def is_offline(self) -> bool:
        return self.leader == NO_LEADER

    @property
    def is_under_replicated(self) -> bool:
        return len(self.isr) < len(self.replicas)


@dataclass(frozen=True, slots=True)
class TopicLayout:
    name: str
    internal: bool
    partitions: tuple[Placed, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """Brokers and topics at one moment; `controller` is the active one, which need not be a broker."""

    cluster_id: str
    controller: int
    brokers: tuple[Broker, ...]
    topics: Mapping[str, TopicLayout]


def describe_layout(cluster: Cluster, names: Iterable[str] | None = None) -> Layout:
    """Return the brokers, and the named topics or all; a topic that does not exist is left out."""
    spec = MetadataRequest.MetadataRequestTopic
    wanted = None if names is None else [spec(name=name) for name in names]
    request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
    answer = cluster.call(request, newest=12)
    topics = {}
    for found in answer.topics:
        if found.error_code in LOST_TOPIC:
            continue
        if found.error_code and not found.partitions:
            raise fault_for(f"describe topic {found.name}", found.error_code)
        partitions = (
            Placed(p.partition_index, p.leader_id, tuple(p.replica_nodes), tuple(p.isr_nodes))
            for p in found.partitions
        )
        topics[found.name] = TopicLayout(
            found.name, bool(found.is_internal), tuple(sorted(partitions))
        )
    brokers = [Broker(b.node_id, b.host, b.port, b.rack) for b in answer.brokers]
    return Layout(
        answer.cluster_id or "", answer.controller_id, tuple(sorted(brokers, key=_node)), topics
    )


def find_controller(cluster: Cluster, otherwise: int) -> int:
    """Return the active controller, or `otherwise` if brokers may not report it or use ZooKeeper.

    With KRaft, brokers name any one of themselves: only the quorum knows the controller.
    """
    spec = DescribeQuorumRequest.TopicData
    asked = [spec(topic_name=_QUORUM_TOPIC, partitions=[spec.PartitionData(partition_index=0)])]
    try:
        answer = cluster.call(DescribeQuorumRequest(topics=asked), newest=1)
    except KafkaFault as exc:
        if exc.error != "UNSUPPORTED_VERSION":
            raise
        return otherwise
    leaders = [
        int(partition.leader_id)
        for topic in (() if answer.error_code else answer.topics)
        for partition in topic.partitions
        if not partition.error_code
    ]
    return leaders[0] if leaders else otherwise


def _node(broker: Broker) -> int:
    return broker.node
