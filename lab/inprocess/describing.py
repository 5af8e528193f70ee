"""Metadata and ListOffsets: who leads partitions, and where these begin and end."""

from collections.abc import Mapping
from typing import Any

from kafka.protocol.consumer import ListOffsetsResponse
from kafka.protocol.metadata import MetadataResponse

from lab.inprocess.code import Code, RefusedRequest
from lab.inprocess.log import PartitionLog
from lab.inprocess.messages import Asked
from lab.inprocess.topics import NO_LEADER, Partition, Topics

_TOPIC = MetadataResponse.MetadataResponseTopic
_OFFSETS = ListOffsetsResponse.ListOffsetsTopicResponse
_LATEST, _EARLIEST = -1, -2
_COMMITTED = 1


def describe_topics(
    topics: Topics, addresses: Mapping[int, tuple[str, int]], cluster_id: str, asked: Asked
) -> Any:
    """Return the named topics, or all; a name that does not exist is an error of its own."""
    wanted = asked.request.topics
    names = list(topics.by_name) if wanted is None else [topic.name for topic in wanted]
    brokers = [
        MetadataResponse.MetadataResponseBroker(node_id=node, host=host, port=port, rack=None)
        for node, (host, port) in addresses.items()
    ]
    return MetadataResponse(
        brokers=brokers,
        cluster_id=cluster_id,
        controller_id=min(addresses, default=-1),
        topics=[_describe(topics, name) for name in names],
    )


def _describe(topics: Topics, name: str) -> Any:
    topic = topics.by_name.get(name)
    if topic is None:
        code = int(Code.UNKNOWN_TOPIC_OR_PARTITION)
        return _TOPIC(error_code=code, name=name, topic_id=None, partitions=[])
    return _TOPIC(
        error_code=0,
        name=name,
        topic_id=topic.topic_id,
        is_internal=False,
        partitions=[_describe_partition(i, p) for i, p in enumerate(topic.partitions)],
    )


def _describe_partition(index: int, partition: Partition) -> Any:
    is_led = partition.leader != NO_LEADER
    return _TOPIC.MetadataResponsePartition(
        error_code=int(Code.NONE if is_led else Code.LEADER_NOT_AVAILABLE),
        partition_index=index,
        leader_id=partition.leader,
        leader_epoch=partition.epoch,
        replica_nodes=[partition.leader] if is_led else [],
        isr_nodes=[partition.leader] if is_led else [],
        offline_replicas=[],
    )


def list_offsets(topics: Topics, asked: Asked) -> Any:
    request = asked.request
    told = []
    for topic in request.topics:
        partitions = []
        for entry in topic.partitions:
            answer = _OFFSETS.ListOffsetsPartitionResponse(partition_index=entry.partition_index)
            try:
                found = topics.served(topic.name, entry.partition_index, asked.node)
                answer.error_code = 0
                answer.offset = _find(found.log, entry.timestamp, request.isolation_level or 0)
                answer.leader_epoch = found.epoch
            except RefusedRequest as exc:
                answer.error_code = int(exc.code)
            partitions.append(answer)
        told.append(_OFFSETS(name=topic.name, partitions=partitions))
    return ListOffsetsResponse(topics=told)


def _find(log: PartitionLog, timestamp: int, isolation: int) -> int:
    if timestamp == _EARLIEST:
        return log.start
    if timestamp == _LATEST:
        return log.last_stable if isolation == _COMMITTED else log.end
    return log.offset_at(timestamp)
