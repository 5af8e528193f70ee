"""Who is in a consumer group, and which partitions each has."""

from contextlib import suppress
from dataclasses import dataclass

from kafka.protocol.admin import DescribeGroupsRequest

from heliograph.errors import CorruptRecord
from heliograph.kafka.cluster import Cluster, patiently
from heliograph.kafka.faults import GROUP_ID_NOT_FOUND, fault_for
from heliograph.kafka.groups import find_coordinators
from heliograph.model import TopicPartition
from heliograph.wire.assignments import decode_assignment

_CONSUMERS = "consumer"


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member; one that is no consumer, such as a Connect worker, has no partitions here."""

    member_id: str
    client_id: str
    host: str
    partitions: tuple[TopicPartition, ...]


def describe_members(cluster: Cluster, group: str) -> list[GroupMember]:
    """Return the members of a group of the classic protocol; a group of another kind shows none."""

    def attempt() -> list[GroupMember]:
        found, unknown = find_coordinators(cluster, [group])
        for fault in unknown.values():
            raise fault
        request = DescribeGroupsRequest(groups=[group], include_authorized_operations=False)
        (answer,) = cluster.call(request, found[group], newest=5).groups
        if answer.error_code == GROUP_ID_NOT_FOUND:
            return []
        if answer.error_code:
            raise fault_for(f"describe group {group}", answer.error_code)
        is_consumer = answer.protocol_type == _CONSUMERS
        return [
            GroupMember(
                member.member_id,
                member.client_id,
                member.client_host.removeprefix("/"),
                _partitions(bytes(member.member_assignment or b"")) if is_consumer else (),
            )
            for member in answer.members
        ]

    return patiently(attempt)


def _partitions(assignment: bytes) -> tuple[TopicPartition, ...]:
    with suppress(CorruptRecord):
        return tuple(sorted(decode_assignment(assignment)))
    return ()
