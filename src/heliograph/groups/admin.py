"""Consumer groups of a cluster: listing them, reading and committing their offsets, and deleting them.

Each request holds many groups. A broker too old for that (before Kafka 3.0) answers only for the first of
them, and the others follow one by one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from typing import Any, Final, NamedTuple

from kafka.protocol.admin import DeleteGroupsRequest, ListGroupsRequest
from kafka.protocol.consumer import OffsetCommitRequest, OffsetFetchRequest
from kafka.protocol.metadata import FindCoordinatorRequest

from heliograph.errors import KafkaFault
from heliograph.kafka.cluster import Cluster, patiently
from heliograph.model import TopicPartition
from heliograph.net.faults import (
    COORDINATOR_AWAY,
    GROUP_ID_NOT_FOUND,
    error_name,
    fault_for,
)

_PATIENCE = timedelta(seconds=30)
_GROUP = 0
_KEYS_PER_REQUEST = 1000
_GROUPS_PER_REQUEST = 200
_PARTITIONS_PER_COMMIT = 1000
_NAMES_TOPICS = 9  # a later version of OffsetFetch and OffsetCommit knows topics only by id
_NO_GENERATION = -1
_HAS_MEMBERS = "the group has active members"
_WORDS: Final = {
    "UNKNOWN_MEMBER_ID": _HAS_MEMBERS,
    "ILLEGAL_GENERATION": _HAS_MEMBERS,
    "STALE_MEMBER_EPOCH": _HAS_MEMBERS,
    "GROUP_AUTHORIZATION_FAILED": "this client may not use the group",
    "GROUP_ID_NOT_FOUND": "it is no consumer group",
    "NON_EMPTY_GROUP": _HAS_MEMBERS,
    "TOPIC_AUTHORIZATION_FAILED": "this client may not use the topic",
    "UNKNOWN_TOPIC_OR_PARTITION": "there is no such partition",
}


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group as its broker lists it; `state` and `kind` are empty where the broker is too old.

    `protocol` is "consumer" for consumers, "" for a group that only ever committed, "connect" and so
    on for others.
    """

    group: str
    state: str
    kind: str
    protocol: str


class Committed(NamedTuple):
    """What a group committed for a partition: the next offset it reads, -1 where there is none."""

    offset: int
    metadata: str


def list_groups(cluster: Cluster) -> dict[str, GroupListing]:
    """Return every group of the cluster that this client may see, of all kinds, or raise."""

    def attempt() -> dict[str, GroupListing]:
        found = {}
        for node in cluster.nodes():
            request = ListGroupsRequest(states_filter=[], types_filter=[])
            answer = cluster.call(request, node, newest=5)
            if answer.error_code:
                doing = f"list the groups of broker {node} of {cluster.endpoint.cluster}"
                raise fault_for(doing, answer.error_code)
            for group in answer.groups:
                found[group.group_id] = GroupListing(
                    group.group_id,
                    group.group_state or "",
                    group.group_type or "",
                    group.protocol_type,
                )
        return found

    return patiently(attempt, _PATIENCE)


def find_coordinators(
    cluster: Cluster, groups: Iterable[str]
) -> tuple[dict[str, int], dict[str, KafkaFault]]:
    """Return the coordinator of each group, and why it is not known for the others."""
    found: dict[str, int] = {}
    unknown: dict[str, KafkaFault] = {}
    left = list(dict.fromkeys(groups))
    while left:
        keys = left[:_KEYS_PER_REQUEST]
        request = FindCoordinatorRequest(key=keys[0], key_type=_GROUP, coordinator_keys=keys)
        answer = cluster.call(request, newest=4)
        answers = [(a.key, a.error_code, a.node_id) for a in answer.coordinators or ()]
        for group, code, node in answers or [(keys[0], answer.error_code, answer.node_id)]:
            if code:
                unknown[group] = fault_for(f"find the coordinator of group {group}", code)
            else:
                found[group] = node
        left = left[max(len(answers), 1) :]
    return found, unknown


def fetch_committed(
    cluster: Cluster, groups: Iterable[str], within: timedelta = _PATIENCE
) -> tuple[dict[str, dict[TopicPartition, Committed]], dict[str, str]]:
    """Return what each group has committed, and why the others could not be read.

    A group that does not exist has committed nothing. One whose coordinator is away is requested
    again until `within` is over.
    """
    read: dict[str, dict[TopicPartition, Committed]] = {}
    faults: dict[str, KafkaFault] = {}
    left = dict.fromkeys(groups)

    def attempt() -> None:
        for group, told in _fetch(cluster, left).items():
            if isinstance(told, KafkaFault):
                faults[group] = told
            else:
                read[group] = told
                faults.pop(group, None)
            if group in read or not faults[group].retriable:
                left.pop(group, None)
        for group in left:
            raise faults[group]

    try:
        patiently(attempt, within)
    except KafkaFault:
        if any(group not in faults for group in left):
            raise
    return read, {group: _reason(fault.error) for group, fault in faults.items()}


def commit_offsets(
    cluster: Cluster,
    group: str,
    offsets: Mapping[TopicPartition, Committed],
    within: timedelta = _PATIENCE,
) -> dict[TopicPartition, str]:
    """Commit for a group that has no members, even if it does not exist; return why partitions were refused."""
    refused: dict[TopicPartition, str] = {}
    left = dict(offsets)

    def attempt() -> None:
        found, unknown = find_coordinators(cluster, [group])
        for fault in unknown.values():
            raise fault
        while left:
            some = dict(islice(left.items(), _PARTITIONS_PER_COMMIT))
            refused.update(_commit(cluster, found[group], group, some))
            for partition in some:
                del left[partition]

    try:
        if left:
            patiently(attempt, within)
    except KafkaFault as exc:
        refused.update(dict.fromkeys(left, _reason(exc.error)))
    return refused


def delete_groups(
    cluster: Cluster, groups: Iterable[str], within: timedelta = _PATIENCE
) -> dict[str, str]:
    """Delete groups with all that they have committed; return why some were not.

    One that does not exist counts as deleted.
    """
    refused: dict[str, str] = {}
    left = dict.fromkeys(groups)

    def attempt() -> None:
        found, unknown = find_coordinators(cluster, left)
        for node in sorted(set(found.values())):
            names = [group for group, its in found.items() if its == node]
            for group, code in _delete(cluster, node, names).items():
                if code in COORDINATOR_AWAY:
                    unknown[group] = fault_for(f"delete group {group}", code)
                    continue
                left.pop(group, None)
                if code not in (0, GROUP_ID_NOT_FOUND):
                    refused[group] = _reason(error_name(code))
        for fault in unknown.values():
            raise fault

    try:
        patiently(attempt, within)
    except KafkaFault as exc:
        refused.update(dict.fromkeys(left, _reason(exc.error)))
    return refused


def _fetch(
    cluster: Cluster, groups: Iterable[str]
) -> dict[str, dict[TopicPartition, Committed] | KafkaFault]:
    """Ask once, and return the answer for every group."""
    coordinators, unknown = find_coordinators(cluster, groups)
    told: dict[str, dict[TopicPartition, Committed] | KafkaFault] = {**unknown}
    by_node: dict[int, list[str]] = {}
    for group, node in coordinators.items():
        by_node.setdefault(node, []).append(group)
    for node, members in by_node.items():
        left = members
        while left:
            try:
                answers = _fetch_at(cluster, node, left[:_GROUPS_PER_REQUEST])
            except KafkaFault as exc:
                answers = dict.fromkeys(left, exc)
            told.update(answers)
            left = left[len(answers) :]
    return told


def _fetch_at(
    cluster: Cluster, node: int, groups: list[str]
) -> dict[str, dict[TopicPartition, Committed] | KafkaFault]:
    """Return the offsets of these groups, or of only the first."""
    spec = OffsetFetchRequest.OffsetFetchRequestGroup
    request = OffsetFetchRequest(
        group_id=groups[0],
        topics=None,
        groups=[spec(group_id=group, topics=None) for group in groups],
        require_stable=False,
    )
    answer = cluster.call(request, node, newest=_NAMES_TOPICS)
    if not answer.groups:
        return {groups[0]: _offsets(groups[0], answer)}
    return {its.group_id: _offsets(its.group_id, its) for its in answer.groups}


def _offsets(group: str, answer: Any) -> dict[TopicPartition, Committed] | KafkaFault:
    """Return one group's part of an answer; Any, as kafka-python has no types."""
    if answer.error_code:
        return fault_for(f"fetch the offsets of group {group}", answer.error_code)
    offsets = {}
    for topic in answer.topics:
        for its in topic.partitions:
            partition = TopicPartition(topic.name, its.partition_index)
            if its.error_code:
                return fault_for(f"fetch the offset of {partition} of {group}", its.error_code)
            offsets[partition] = Committed(its.committed_offset, its.metadata or "")
    return offsets


def _commit(
    cluster: Cluster, node: int, group: str, offsets: Mapping[TopicPartition, Committed]
) -> dict[TopicPartition, str]:
    """Ask once, and return why partitions were refused."""
    spec = OffsetCommitRequest.OffsetCommitRequestTopic
    by_topic: dict[str, list[Any]] = {}
    for partition, committed in offsets.items():
        by_topic.setdefault(partition.topic, []).append(
            spec.OffsetCommitRequestPartition(
                partition_index=partition.index,
                committed_offset=committed.offset,
                committed_leader_epoch=-1,
                committed_metadata=committed.metadata,
            )
        )
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=_NO_GENERATION,
        member_id="",
        group_instance_id=None,
        retention_time_ms=-1,
        topics=[spec(name=name, partitions=members) for name, members in by_topic.items()],
    )
    answer = cluster.call(request, node, newest=_NAMES_TOPICS)
    refused = {}
    for topic in answer.topics:
        for its in topic.partitions:
            if its.error_code in COORDINATOR_AWAY:
                raise fault_for(f"commit offsets of group {group}", its.error_code)
            if its.error_code:
                partition = TopicPartition(topic.name, its.partition_index)
                refused[partition] = _reason(error_name(its.error_code))
    return refused


def _delete(cluster: Cluster, node: int, groups: list[str]) -> dict[str, int]:
    """Ask once, and return the error code of every group; 0 is none."""
    answer = cluster.call(DeleteGroupsRequest(groups_names=groups), node, newest=2)
    return {its.group_id: its.error_code for its in answer.results}


def _reason(error: str) -> str:
    return f"{_WORDS[error]} ({error})" if error in _WORDS else f"the broker answered {error}"
