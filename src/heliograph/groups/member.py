"""Membership of a group by Kafka's classic protocol: one coordinator, one leader, generations.

    FindCoordinator -> JoinGroup (waits for all) -> SyncGroup (waits for the leader) -> Heartbeat ...

The metadata of members and the assignments that the leader gives them are opaque here.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from kafka.protocol.consumer import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)

from heliograph.errors import ConfigError, KafkaFault, MirrorError
from heliograph.groups.admin import find_coordinators
from heliograph.kafka.cluster import Cluster, patiently
from heliograph.model import Endpoint
from heliograph.net.faults import (
    COORDINATOR_AWAY,
    ILLEGAL_GENERATION,
    INCONSISTENT_GROUP_PROTOCOL,
    MEMBER_ID_REQUIRED,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
    fault_for,
)

PROTOCOL_TYPE: Final = "connect"
PROTOCOL: Final = "heliograph"
_NOBODY = ""
_NO_GENERATION = -1
_MARGIN = timedelta(seconds=5)
_LEAVE_PATIENCE = timedelta(seconds=5)
_REJOIN = frozenset({REBALANCE_IN_PROGRESS, ILLEGAL_GENERATION})

# From members by id with their metadata to members by id with their assignments.
Assign = Callable[[dict[str, bytes]], dict[str, bytes]]


class MemberLost(MirrorError):
    """The group continued without this member, and its work may belong to another member by now."""

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.group_id = group_id

    def __str__(self) -> str:
        return (
            f"{self.group_id}: the group went on without this member. It joins again as a new one."
        )


class ForeignGroup(ConfigError):
    """The members of a group do not speak our protocol."""

    def __init__(self, group_id: str, cluster: str) -> None:
        super().__init__(group_id, cluster)
        self.group_id = group_id
        self.cluster = cluster

    def __str__(self) -> str:
        return (
            f"{self.group_id}: other programs, such as workers of Kafka Connect, are in this group on "
            f"{self.cluster} (INCONSISTENT_GROUP_PROTOCOL). Stop them, or choose another group.id."
        )


@dataclass(frozen=True, slots=True)
class Joined:
    """A place in one generation of a group."""

    generation: int
    member_id: str
    leader_id: str
    assignment: bytes

    @property
    def is_leader(self) -> bool:
        return self.member_id == self.leader_id


class Member:
    """One member of a group. `join` is for one thread; other threads may call the rest at the same time."""

    def __init__(
        self,
        endpoint: Endpoint,
        group_id: str,
        *,
        session_timeout: timedelta,
        rebalance_timeout: timedelta,
        heartbeat_interval: timedelta,
    ) -> None:
        self.group_id = group_id
        self._session_timeout = session_timeout
        self._rebalance_timeout = rebalance_timeout
        # The broker holds back a JoinGroup, and with it all later requests on its connection.
        self._joins = _Coordinator(endpoint, group_id, rebalance_timeout + _MARGIN)
        self._beats = _Coordinator(endpoint, group_id, max(heartbeat_interval, session_timeout / 2))
        self._identity = (_NOBODY, _NO_GENERATION)
        self._beating = threading.Lock()
        self._closed = threading.Event()

    @property
    def member_id(self) -> str:
        return self._identity[0]

    def join(self, metadata: bytes, assign: Assign) -> Joined:
        """Join the next generation, and return when all its members have joined and have their assignments.

        `assign` is called if this member is the leader. MemberLost is raised if the group has removed
        this member meanwhile: `metadata` may then no longer be true. ForeignGroup is raised if the
        others speak another protocol.
        """
        return patiently(
            lambda: self._join_once(metadata, assign), self._rebalance_timeout, sleep=self._pause
        )

    def heartbeat(self) -> bool:
        """Send a heartbeat; return False if this member must join again, raise MemberLost if it was removed.

        Any answer means that the coordinator knows us; a KafkaFault means that there was none.
        """
        with self._beating:
            member_id, generation = identity = self._identity
            if generation == _NO_GENERATION:
                return True
            request = HeartbeatRequest(
                group_id=self.group_id,
                generation_id=generation,
                member_id=member_id,
                group_instance_id=None,
            )
            code = self._beats.call(request, newest=4).error_code
            if identity != self._identity:  # joined meanwhile: the answer is to an old request
                return True
            if code == UNKNOWN_MEMBER_ID:
                self.forget()
                raise MemberLost(self.group_id)
            if code and code not in _REJOIN:
                raise fault_for(f"send a heartbeat to group {self.group_id}", code)
            return not code

    def forget(self) -> None:
        """Drop the member id: the next join is that of a new member."""
        self._identity = (_NOBODY, _NO_GENERATION)

    def leave(self) -> None:
        """Leave the group permanently, so that the others need not wait for the session to time out.

        A join in progress in another thread ends with MemberLost. If it succeeded at the last moment,
        leave once more.
        """
        self._closed.set()
        member_id = self.member_id
        if member_id == _NOBODY:
            return
        identity = LeaveGroupRequest.MemberIdentity(member_id=member_id, reason="it stops")
        request = LeaveGroupRequest(group_id=self.group_id, member_id=member_id, members=[identity])
        with self._beating:
            self.forget()
            answer = patiently(lambda: self._beats.call(request, newest=5), _LEAVE_PATIENCE)
        if answer.error_code not in (0, UNKNOWN_MEMBER_ID):
            raise fault_for(f"leave group {self.group_id}", answer.error_code)

    def close(self) -> None:
        """Close the connections; the group notices when the session times out."""
        self._closed.set()
        self._joins.close()
        with self._beating:
            self._beats.close()

    def _pause(self, seconds: float) -> None:
        if self._closed.wait(seconds):
            raise MemberLost(self.group_id)

    def _join_once(self, metadata: bytes, assign: Assign) -> Joined:
        answer = self._ask_to_join(metadata)
        if answer.error_code == MEMBER_ID_REQUIRED:
            self._identity = (answer.member_id, _NO_GENERATION)
            answer = self._ask_to_join(metadata)
        self._check(f"join group {self.group_id}", answer.error_code)
        self._identity = (answer.member_id, answer.generation_id)
        parts: dict[str, bytes] = {}
        if answer.leader == answer.member_id:
            parts = assign({m.member_id: bytes(m.metadata) for m in answer.members})
        spec = SyncGroupRequest.SyncGroupRequestAssignment
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=answer.generation_id,
            member_id=answer.member_id,
            group_instance_id=None,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=PROTOCOL,
            assignments=[spec(member_id=m, assignment=part) for m, part in parts.items()],
        )
        synced = self._joins.call(request, newest=5)
        self._check(f"sync with group {self.group_id}", synced.error_code)
        return Joined(
            answer.generation_id, answer.member_id, answer.leader, bytes(synced.assignment)
        )

    def _ask_to_join(self, metadata: bytes) -> Any:
        """Send one JoinGroup; Any, as kafka-python has no types."""
        protocol = JoinGroupRequest.JoinGroupRequestProtocol(name=PROTOCOL, metadata=metadata)
        request = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=_milliseconds(self._session_timeout),
            rebalance_timeout_ms=_milliseconds(self._rebalance_timeout),
            member_id=self.member_id,
            group_instance_id=None,
            protocol_type=PROTOCOL_TYPE,
            protocols=[protocol],
            reason="",
        )
        return self._joins.call(request, newest=9)

    def _check(self, doing: str, code: int) -> None:
        if code == UNKNOWN_MEMBER_ID:
            self.forget()
            raise MemberLost(self.group_id)
        if code == INCONSISTENT_GROUP_PROTOCOL:
            raise ForeignGroup(self.group_id, self._joins.cluster)
        if code in _REJOIN:
            raise KafkaFault(doing, "REBALANCE_IN_PROGRESS", retriable=True)
        if code:
            raise fault_for(doing, code)


class _Coordinator:
    """A connection to the coordinator of a group, whichever broker that is now."""

    def __init__(self, endpoint: Endpoint, group_id: str, within: timedelta) -> None:
        self._cluster = Cluster(endpoint)
        self._group_id = group_id
        self._within = within
        self._node: int | None = None

    @property
    def cluster(self) -> str:
        return self._cluster.endpoint.cluster

    def call(self, request: Any, newest: int) -> Any:
        """Ask once; a coordinator that is away or has changed is looked up again the next time."""
        if self._node is None:
            self._node = self._find()
        node, self._node = self._node, None
        self._cluster.channel(node).wait_up_to(self._within)
        answer = self._cluster.call(request, node, newest)
        if answer.error_code in COORDINATOR_AWAY:
            raise fault_for(f"ask the coordinator of group {self._group_id}", answer.error_code)
        self._node = node
        return answer

    def close(self) -> None:
        self._cluster.close()

    def _find(self) -> int:
        found, unknown = find_coordinators(self._cluster, [self._group_id])
        for fault in unknown.values():
            raise fault
        return found[self._group_id]


def _milliseconds(span: timedelta) -> int:
    return span // timedelta(milliseconds=1)
