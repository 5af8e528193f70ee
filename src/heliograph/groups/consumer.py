"""A consumer of a group: what a consumer that moves between clusters needs of kafka-python's KafkaConsumer.

`close` ends all that is private to a cluster.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, Final

from kafka import ConsumerRebalanceListener, KafkaConsumer
from kafka import OffsetAndMetadata as ForeignOffset
from kafka import TopicPartition as ForeignPartition
from kafka import errors as foreign
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.protocol.consumer import LeaveGroupRequest

from heliograph.errors import ClusterUnreachable, DeadlinePassed, KafkaFault, NotTranslated
from heliograph.groups.admin import find_coordinators
from heliograph.kafka.cluster import Cluster
from heliograph.model import Endpoint, Sasl, TopicPartition
from heliograph.net.tls import tls_context
from heliograph.net.tokens import token_for

log = logging.getLogger(__name__)

SESSION_TIMEOUT: Final = "session_timeout_ms"
_NO_RESET = "none"
_CLOSING = timedelta(seconds=2)
_METADATA_MAX_AGE = timedelta(seconds=30)  # a topic that is created later is found within this time

# Any: kafka-python has no types, and its records go to the application as they are.
Record = Any


class Member:
    """One KafkaConsumer of a group on one cluster; for one thread, like KafkaConsumer itself."""

    def __init__(
        self,
        endpoint: Endpoint,
        group: str,
        topics: Iterable[str],
        options: Mapping[str, Any],
        *,
        within: timedelta,
    ) -> None:
        """Connect, but join only when asked for records; ClusterUnreachable if no broker answers in time."""
        self.endpoint = endpoint
        self.group = group
        settings = {
            "auto_offset_reset": _NO_RESET,
            "enable_auto_commit": False,
            "metadata_max_age_ms": _ms(_METADATA_MAX_AGE),
            **options,
            **client_settings(endpoint),
            "group_id": group,
            "allow_auto_create_topics": False,
            "bootstrap_timeout_ms": _ms(within),
        }
        try:
            self._consumer = KafkaConsumer(**settings)
        except foreign.KafkaTimeoutError as exc:
            raise ClusterUnreachable(endpoint.cluster, str(endpoint), str(exc)) from exc
        self._consumed: dict[TopicPartition, int] = {}
        self._consumer.subscribe(list(topics), listener=_Anew(self._consumed.clear))

    @property
    def member_id(self) -> str:
        """Its member id in the group, empty before it has joined."""
        return str(self._consumer.group_metadata().member_id or "")

    def assignment(self) -> set[TopicPartition]:
        return {_own(partition) for partition in self._consumer.assignment()}

    def consumed(self) -> dict[TopicPartition, int]:
        """Return the next offset of every partition that has returned records and is still assigned to us."""
        ours = self.assignment()
        return {p: offset for p, offset in list(self._consumed.items()) if p in ours}

    def poll(self, within: timedelta, most: int | None) -> list[Record]:
        """Return records, none if there are none in time; they count as consumed."""
        with _positions(self.group, self.endpoint.cluster):
            found = self._consumer.poll(timeout_ms=_ms(within), max_records=most)
        if not found:
            self._remember_join()
        for partition, records in found.items():
            self._consumed[_own(partition)] = records[-1].offset + 1
        return [record for records in found.values() for record in records]

    def next(self, within: timedelta) -> Record | None:
        """Return one record, which counts as consumed; those after it do not yet."""
        self._consumer.config["consumer_timeout_ms"] = _ms(within)
        with _positions(self.group, self.endpoint.cluster):
            record = next(self._consumer, None)
        if record is None:
            self._remember_join()
        else:
            self._consumed[TopicPartition(record.topic, record.partition)] = record.offset + 1
        return record

    def commit(self, offsets: Mapping[TopicPartition, int], within: timedelta) -> None:
        """Commit; DeadlinePassed if the cluster does not answer, KafkaFault if the group has rebalanced without us."""
        wanted = {
            ForeignPartition(p.topic, p.index): ForeignOffset(offset, "", -1)
            for p, offset in offsets.items()
        }
        doing = f"commit offsets of group {self.group} on {self.endpoint.cluster}"
        try:
            self._consumer.commit(wanted, timeout_ms=_ms(within))
        except foreign.CommitFailedError as exc:
            raise KafkaFault(doing, "that the group was rebalanced", retriable=False) from exc
        except foreign.RetriableError as exc:
            raise DeadlinePassed(doing, within.total_seconds()) from exc

    def close(self) -> None:
        """Leave the group, if the cluster can be reached, without committing anything."""
        self._consumer.close(autocommit=False, timeout_ms=_ms(_CLOSING))

    def _remember_join(self) -> None:
        """Make kafka-python finish a join that it began.

        Version 3.0.12 forgets the join permanently, and sends no heartbeats, if a poll ends while a leader that
        rejoins because of new metadata has made its assignment and awaits the answer.
        """
        coordinator = self._consumer._coordinator  # noqa: SLF001 - nothing public shows or fixes it
        if coordinator.rejoining and not coordinator.need_rejoin():
            coordinator.request_rejoin()


def leave_group(cluster: Cluster, group: str, member_id: str) -> None:
    """Remove a member from a group that it could not leave itself; no effect if it is not in the group."""
    found, _ = find_coordinators(cluster, [group])
    if group not in found:
        return
    identity = LeaveGroupRequest.MemberIdentity(member_id=member_id, reason="it moved away")
    request = LeaveGroupRequest(group_id=group, member_id=member_id, members=[identity])
    with suppress(KafkaFault):  # the session's timeout does the same, later
        cluster.call(request, found[group], newest=5)


def client_settings(endpoint: Endpoint) -> dict[str, Any]:
    """Return the settings with which kafka-python reaches a cluster."""
    settings: dict[str, Any] = {
        "bootstrap_servers": [f"{host}:{port}" for host, port in endpoint.bootstrap],
        "client_id": endpoint.client_id,
    }
    protocol = "SSL" if endpoint.tls else "PLAINTEXT"
    if endpoint.tls is not None:
        settings["ssl_context"] = tls_context(endpoint.tls)
        settings["ssl_check_hostname"] = endpoint.tls.check_hostname
    if endpoint.sasl is not None:
        protocol = f"SASL_{protocol}"
        options = dict(endpoint.sasl.options)
        settings["sasl_mechanism"] = endpoint.sasl.mechanism
        settings["sasl_plain_username"] = options.get("username")
        settings["sasl_plain_password"] = options.get("password")
        if service := options.get("serviceName") or options.get("sasl.kerberos.service.name"):
            settings["sasl_kerberos_service_name"] = service
        if endpoint.sasl.mechanism == "OAUTHBEARER":
            settings["sasl_oauth_token_provider"] = _Tokens(endpoint.sasl)
    return {**settings, "security_protocol": protocol}


class _Tokens(AbstractTokenProvider):  # type: ignore[misc]  # kafka-python has no types
    def __init__(self, sasl: Sasl) -> None:
        self._sasl = sasl

    def token(self) -> str:
        return token_for(self._sasl).text

    def extensions(self) -> dict[str, str]:
        return dict(token_for(self._sasl).extensions)


class _Anew(ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no types
    """Calls back when partitions were assigned again: each is read again from its committed offset."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call

    def on_partitions_revoked(self, revoked: object) -> None:
        pass

    def on_partitions_assigned(self, assigned: object) -> None:  # noqa: ARG002
        self._call()


@contextmanager
def _positions(group: str, cluster: str) -> Iterator[None]:
    """Turn kafka-python's error for a partition without a position into ours."""
    try:
        yield
    except foreign.NoOffsetForPartitionError as exc:
        partitions = sorted(_own(partition) for partition in exc.args[0])
        reasons = tuple(f"{p}: the group has committed nothing" for p in partitions)
        raise NotTranslated(group, cluster, reasons) from exc


def _own(partition: Any) -> TopicPartition:
    return TopicPartition(partition.topic, partition.partition)


def _ms(time: timedelta) -> int:
    return max(int(time.total_seconds() * 1000), 0)
