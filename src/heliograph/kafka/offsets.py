"""Where partitions begin and end."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple

from kafka.protocol.consumer import ListOffsetsRequest

from heliograph.errors import CorruptRecord, KafkaFault, MirrorError
from heliograph.kafka.cluster import NO_LEADER, Cluster, patiently
from heliograph.kafka.fetch import READ_COMMITTED, READ_UNCOMMITTED
from heliograph.model import TopicPartition
from heliograph.net.codecs import misread
from heliograph.net.faults import fault_for

_PAUSE = 0.2
LATEST: Final = -1
EARLIEST: Final = -2


class Offsets(NamedTuple):
    """Where partitions begin or end, and why that is unknown for others."""

    found: Mapping[TopicPartition, int]
    missing: Mapping[TopicPartition, MirrorError]


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
    found, missing = find_offsets(cluster, partitions, which, committed_only=committed_only)
    for fault in missing.values():
        raise fault
    return dict(found)


def find_offsets(
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    which: int,
    *,
    committed_only: bool = False,
) -> Offsets:
    """Do as `list_offsets` for all partitions that answer; raise only if the cluster does not answer."""
    wanted = list(partitions)
    found: dict[TopicPartition, int] = {}
    by_leader, missing = _by_leader(cluster, wanted)
    for leader, members in by_leader.items():
        try:
            answered = cluster.call(_request(members, which, committed_only), leader, newest=7)
            with misread(f"where broker {leader} says that partitions end"):
                for partition, answer in _answers(answered):
                    if answer.error_code:
                        doing = f"list offsets of {partition}"
                        missing[partition] = fault_for(doing, answer.error_code)
                    else:
                        found[partition] = answer.offset
        except (KafkaFault, CorruptRecord) as exc:
            missing |= dict.fromkeys(_flat(members), exc)
    for partition in wanted:
        if partition not in found and partition not in missing:
            raise CorruptRecord(f"the leader of {partition} did not say where it ends")
    return Offsets({p: found[p] for p in wanted if p in found}, missing)


def find_offsets_patiently(
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    which: int,
    *,
    committed_only: bool = False,
    within: timedelta = timedelta(seconds=5),
) -> Offsets:
    """Do as `find_offsets`, but give partitions some time to have a leader again."""
    wanted = list(partitions)
    deadline = time.monotonic() + within.total_seconds()
    while True:
        found = patiently(
            lambda: find_offsets(cluster, wanted, which, committed_only=committed_only)
        )
        if not found.missing or time.monotonic() > deadline:
            return found
        time.sleep(_PAUSE)


def _request(
    members: Mapping[str, Sequence[int]], which: int, committed_only: bool
) -> ListOffsetsRequest:
    spec = ListOffsetsRequest.ListOffsetsTopic
    return ListOffsetsRequest(
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


def _by_leader(
    cluster: Cluster, wanted: Sequence[TopicPartition]
) -> tuple[dict[int, dict[str, list[int]]], dict[TopicPartition, MirrorError]]:
    described = cluster.describe_each({p.topic for p in wanted})
    by_leader: dict[int, dict[str, list[int]]] = {}
    missing: dict[TopicPartition, MirrorError] = {}
    for partition in wanted:
        topic = described.found.get(partition.topic)
        doing = f"list offsets of {partition}"
        if partition.topic in described.refused:
            missing[partition] = described.refused[partition.topic]
        elif topic is None or partition.index >= len(topic.leaders):
            missing[partition] = KafkaFault(doing, "UNKNOWN_TOPIC_OR_PARTITION", True)
        elif topic.leaders[partition.index] == NO_LEADER:
            missing[partition] = KafkaFault(doing, "LEADER_NOT_AVAILABLE", True)
        else:
            leader = topic.leaders[partition.index]
            by_leader.setdefault(leader, {}).setdefault(partition.topic, []).append(partition.index)
    return by_leader, missing


def _answers(answered: Any) -> Iterator[tuple[TopicPartition, Any]]:
    for topic in answered.topics:
        for answer in topic.partitions:
            yield TopicPartition(topic.name, answer.partition_index), answer


def _flat(members: Mapping[str, Sequence[int]]) -> Iterator[TopicPartition]:
    for name, indexes in members.items():
        for index in indexes:
            yield TopicPartition(name, index)
