"""The members of a consumer group and the partitions of each: by the classic protocol and the newer one."""

from contextlib import suppress
from dataclasses import dataclass

from kafka.protocol.admin import DescribeGroupsRequest

from heliograph.errors import CorruptRecord, KafkaFault
from heliograph.groups.admin import GroupListing, find_coordinators
from heliograph.kafka.cluster import Cluster, patiently
from heliograph.model import TopicPartition
from heliograph.net.faults import GROUP_ID_NOT_FOUND, fault_for, network_faults
from heliograph.wire.assignments import decode_assignment
from heliograph.wire.group_description import API_KEY, VERSION, decode_response, encode_request

_CONSUMERS = "consumer"
_NEWER = "consumer"
_RESPONSE_HEADER = 5  # the correlation, and no tagged fields


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member; one that is not a consumer, such as a Connect worker, has no partitions here."""

    member_id: str
    client_id: str
    host: str
    partitions: tuple[TopicPartition, ...]


def describe_members(cluster: Cluster, listed: GroupListing) -> list[GroupMember]:
    """Return the members of a group; one that is neither a consumer group nor classic shows none."""
    ask = _ask_newer if listed.kind.lower() == _NEWER else _ask_classic

    def attempt() -> list[GroupMember]:
        found, unknown = find_coordinators(cluster, [listed.group])
        for fault in unknown.values():
            raise fault
        return ask(cluster, found[listed.group], listed.group)

    return patiently(attempt)


def _ask_classic(cluster: Cluster, node: int, group: str) -> list[GroupMember]:
    request = DescribeGroupsRequest(groups=[group], include_authorized_operations=False)
    (answer,) = cluster.call(request, node, newest=5).groups
    _check(group, answer.error_code)
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


def _ask_newer(cluster: Cluster, node: int, group: str) -> list[GroupMember]:
    doing = f"describe group {group}"
    channel = cluster.channel(node)
    if not channel.supports(API_KEY, VERSION):
        raise KafkaFault(doing, "UNSUPPORTED_VERSION", retriable=False)
    header = channel.next_header(API_KEY, VERSION, flexible=True)
    try:
        with network_faults(doing):
            channel.send([header, encode_request(group)])
            (answer,) = decode_response(channel.receive()[_RESPONSE_HEADER:])
    except BaseException:
        cluster.drop(node)
        raise
    _check(group, answer.error)
    return [
        GroupMember(m.member_id, m.client_id, m.host.removeprefix("/"), tuple(sorted(m.partitions)))
        for m in answer.members
    ]


def _check(group: str, code: int) -> None:
    if code not in (0, GROUP_ID_NOT_FOUND):  # deleted since it was listed: it has no members
        raise fault_for(f"describe group {group}", code)


def _partitions(assignment: bytes) -> tuple[TopicPartition, ...]:
    with suppress(CorruptRecord):
        return tuple(sorted(decode_assignment(assignment)))
    return ()
