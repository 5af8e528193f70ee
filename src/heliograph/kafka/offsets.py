"""Where partitions begin and end."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from kafka.protocol.consumer import ListOffsetsRequest

from heliograph.errors import CorruptRecord, KafkaFault
from heliograph.kafka.cluster import NO_LEADER, Cluster
from heliograph.kafka.codecs import misread
from heliograph.kafka.faults import fault_for
from heliograph.kafka.fetch import READ_COMMITTED, READ_UNCOMMITTED
from heliograph.model import TopicPartition

LATEST: Final = -1
EARLIEST: Final = -2


def list_offsets(
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    which: int,
    *,
    committed_only: bool = False,
) -> dict[TopicPartition, int]:
    """Return the first (EARLIEST) or next (LATEST) offset of every partition, or raise.

    With `committed_only` the latest is the last stable offset: what a read_committed consumer reaches.
    """
    wanted = list(partitions)
    found: dict[TopicPartition, int] = {}
    spec = ListOffsetsRequest.ListOffsetsTopic
    for leader, members in _by_leader(cluster, wanted).items():
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=READ_COMMITTED if committed_only else READ_UNCOMMITTED,
            topics=[
                spec(
                    name=name,
                    partitions=[
                        spec.ListOffsetsPartition(
                            partition_index=i, current_leader_epoch=-1, timestamp=which
                        )
                        for i in indexes
                    ],
                )
                for name, indexes in members.items()
            ],
        )
        answered = cluster.call(request, leader, newest=7)
        with misread(f"where broker {leader} says that partitions end"):
            found |= _offsets(answered)
    for partition in wanted:
        if partition not in found:
            raise CorruptRecord(f"the leader of {partition} did not say where it ends")
    return {partition: found[partition] for partition in wanted}


def _by_leader(
    cluster: Cluster, wanted: Sequence[TopicPartition]
) -> dict[int, dict[str, list[int]]]:
    topics = cluster.describe({p.topic for p in wanted})
    by_leader: dict[int, dict[str, list[int]]] = {}
    for partition in wanted:
        topic = topics.get(partition.topic)
        if topic is None or partition.index >= len(topic.leaders):
            raise KafkaFault(f"list offsets of {partition}", "UNKNOWN_TOPIC_OR_PARTITION", True)
        leader = topic.leaders[partition.index]
        if leader == NO_LEADER:
            raise KafkaFault(f"list offsets of {partition}", "LEADER_NOT_AVAILABLE", True)
        by_leader.setdefault(leader, {}).setdefault(partition.topic, []).append(partition.index)
    return by_leader


def _offsets(answered: Any) -> dict[TopicPartition, int]:
    found = {}
    for topic in answered.topics:
        for answer in topic.partitions:
            partition = TopicPartition(topic.name, answer.partition_index)
            if answer.error_code:
                raise fault_for(f"list offsets of {partition}", answer.error_code)
            found[partition] = answer.offset
    return found
