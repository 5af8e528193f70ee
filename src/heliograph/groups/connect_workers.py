"""The groups that workers of Kafka Connect form: which worker runs which tasks right now."""

from datetime import timedelta
from typing import Any, Final

from kafka.protocol.admin import DescribeGroupsRequest

from heliograph.errors import CorruptRecord, KafkaFault
from heliograph.groups.admin import find_coordinators
from heliograph.groups.member import PROTOCOL, PROTOCOL_TYPE
from heliograph.kafka.cluster import Cluster, patiently
from heliograph.net.faults import fault_for
from heliograph.wire.connect_protocol import decode_tasks

_PATIENCE = timedelta(seconds=10)
_UNKNOWN: Final = frozenset({"GROUP_ID_NOT_FOUND", "GROUP_AUTHORIZATION_FAILED"})


def find_workers(cluster: Cluster, group: str, connector: str) -> list[str]:
    """Return the hosts of real Connect workers in a group that run tasks of a connector.

    A worker that was killed is included until its session ends. The list is empty if this client may not
    describe the group, and while the group rebalances.
    """

    def attempt() -> list[Any]:
        coordinators, unknown = find_coordinators(cluster, [group])
        for fault in unknown.values():
            raise fault
        request = DescribeGroupsRequest(groups=[group], include_authorized_operations=False)
        (found,) = cluster.call(request, coordinators[group], newest=5).groups
        if found.error_code:
            raise fault_for(f"describe the group {group}", found.error_code)
        ours = found.protocol_data == PROTOCOL
        return [] if ours or found.protocol_type != PROTOCOL_TYPE else list(found.members)

    try:
        members = patiently(attempt, _PATIENCE)
        return [m.client_host for m in members if decode_tasks(m.member_assignment).get(connector)]
    except KafkaFault as exc:
        if exc.error not in _UNKNOWN:
            raise
    except CorruptRecord:
        pass  # another version of Connect: it is not known what it runs
    return []
