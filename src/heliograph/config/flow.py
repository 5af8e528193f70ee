"""One flow, typed: what the connectors of A->B are told, whichever way it was written."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from heliograph.config import settings_checkpoint as checkpoint
from heliograph.config import settings_connector as common
from heliograph.config import settings_own as own
from heliograph.config import settings_source as source
from heliograph.config import settings_worker as worker
from heliograph.config.clients import Role, Side, client_props, endpoint
from heliograph.config.fields import Field, Part, invalid
from heliograph.config.settings import fields_of
from heliograph.model import Endpoint, Flow

_IDENTITY = re.compile(
    r"org\.apache\.kafka\.connect\.mirror\.IdentityReplicationPolicy"
    r"|io\.strimzi\.[\w.]*IdentityReplicationPolicy"
    r"|com\.amazonaws\.kafka\.samples\.CustomMM2ReplicationPolicy"
)
_PYTHON_CLASS = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_ROLES_IN_CLIENT_ID: dict[tuple[Side, Role], str] = {
    ("source", "consumer"): "replication-consumer",
    ("target", "producer"): "replication-producer",
    ("source", "admin"): "replication-source-admin",
    ("target", "admin"): "replication-target-admin",
}


_COMMIT_INTERVAL = timedelta(milliseconds=500)


@dataclass(frozen=True, slots=True)
class StorageTopic:
    """A compacted topic of Connect's and how to reach the cluster that holds it, or a file instead."""

    endpoint: Endpoint
    name: str
    partitions: int
    replication_factor: int
    file: str | None = None


@dataclass(frozen=True, slots=True)
class CheckpointConfig:
    """What the checkpoint connector does; an interval only counts while its switch is on."""

    groups: tuple[str, ...]
    groups_exclude: tuple[str, ...]
    refresh_groups_enabled: bool
    refresh_groups_interval: timedelta
    emit_enabled: bool
    emit_interval: timedelta
    sync_group_offsets_enabled: bool
    sync_group_offsets_interval: timedelta
    replication_factor: int


@dataclass(frozen=True, slots=True)
class HeartbeatConfig:
    """What the heartbeat connector does."""

    emit_enabled: bool
    emit_interval: timedelta
    replication_factor: int


@dataclass(frozen=True, slots=True, repr=False)
class FlowConfig:
    """All settings of one flow. An interval only counts while its switch is on.

    `policy_class` is MM2's default or identity class by its Java name (other classes that do the same
    are already translated to it), or `package.module:Class`. `connectors` and `worker` hold everything,
    resolved, for those who need a key that has no attribute here: show them through `redact` only.
    Positions are kept in `offset_storage`, or else as the source's offsets of `positions_group`.
    """

    flow: Flow
    connector_name: str
    enabled: bool
    source: Endpoint
    target: Endpoint
    source_admin: Endpoint
    target_admin: Endpoint
    offset_syncs: Endpoint
    topics: tuple[str, ...]
    topics_exclude: tuple[str, ...]
    policy_class: str
    separator: str
    internal_separator_enabled: bool
    tasks_max: int
    replication_factor: int
    admin_timeout: timedelta
    refresh_topics_enabled: bool
    refresh_topics_interval: timedelta
    sync_topic_configs_enabled: bool
    sync_topic_configs_interval: timedelta
    config_properties_exclude: tuple[str, ...]
    use_defaults_from: str
    sync_topic_acls_enabled: bool
    sync_topic_acls_interval: timedelta
    heartbeats_replication_enabled: bool
    emit_offset_syncs_enabled: bool
    offset_syncs_location: str
    offset_syncs_replication_factor: int
    offset_lag_max: int
    isolation_level: str
    auto_offset_reset: str
    offset_storage: StorageTopic
    offset_flush_interval: timedelta
    chunk_max_bytes: int
    partition_fetch_max_bytes: int
    max_in_flight_requests: int
    on_loss: str
    merge_max_bytes: int
    checkpoints: CheckpointConfig
    heartbeats: HeartbeatConfig
    open_transaction_after: timedelta = timedelta(seconds=30)
    transactions: bool = False
    commit_interval: timedelta = timedelta(milliseconds=500)
    target_partitions: str | int = "source"
    positions_group: str | None = None
    spark: Mapping[str, str] = field(default_factory=dict)
    connectors: Mapping[Part, Mapping[str, str]] = field(default_factory=dict)
    worker: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"FlowConfig({self.flow})"

    __str__ = __repr__

    @property
    def transactional_id(self) -> str:
        """What the writers of this flow are known by on its target."""
        return f"heliograph-{self.connector_name}-{self.flow}"

    @property
    def internal_separator(self) -> str:
        """What separates the names of internal topics."""
        return self.separator if self.internal_separator_enabled else "."


def flow_config(
    connectors: Mapping[Part, Mapping[str, str]],
    worker_props: Mapping[str, str],
    file: str,
    prefixes: Mapping[str, str],
    storage: Endpoint | None = None,
) -> FlowConfig:
    """Read and check one flow. `prefixes` says how `file` writes the keys of either cluster.

    Positions are kept where `storage` says: a worker's own cluster, or else the target.
    """
    for part, part_props in connectors.items():
        _check(part_props, part, file)
    props, marks, beats = (
        connectors.get(part) or next(iter(connectors.values()))
        for part in (Part.SOURCE, Part.CHECKPOINT, Part.HEARTBEAT)
    )
    flow = Flow(
        common.SOURCE_CLUSTER_ALIAS.read(props, file), common.TARGET_CLUSTER_ALIAS.read(props, file)
    )
    name = common.NAME.read(props, file)
    ends = _endpoints(props, flow, name, file, prefixes)
    consumer = client_props(props, "source", "consumer")
    syncs_on = source.EMIT_OFFSET_SYNCS_ENABLED.read(props)
    refresh_on, refresh = _every(
        source.REFRESH_TOPICS_ENABLED, source.REFRESH_TOPICS_INTERVAL, props
    )
    configs_on, configs = _every(
        source.SYNC_TOPIC_CONFIGS_ENABLED, source.SYNC_TOPIC_CONFIGS_INTERVAL, props
    )
    acls_on, acls = _every(source.SYNC_TOPIC_ACLS_ENABLED, source.SYNC_TOPIC_ACLS_INTERVAL, props)
    isolation = own.ISOLATION_LEVEL.read(consumer)
    if source.EXACTLY_ONCE_SUPPORT.read(props) == "required" and isolation != "read_committed":
        raise invalid(
            "isolation.level",
            consumer["isolation.level"],
            "read_committed, because exactly.once.support=required",
        )
    return FlowConfig(
        flow=flow,
        connector_name=name,
        enabled=common.ENABLED.read(props),
        source=ends["source", "consumer"],
        target=ends["target", "producer"],
        source_admin=ends["source", "admin"],
        target_admin=ends["target", "admin"],
        offset_syncs=_offset_syncs_end(props, flow, name, file, prefixes),
        topics=source.TOPICS.read(props),
        topics_exclude=source.TOPICS_EXCLUDE.read(props),
        policy_class=read_policy(props),
        separator=common.REPLICATION_POLICY_SEPARATOR.read(props),
        internal_separator_enabled=common.INTERNAL_SEPARATOR_ENABLED.read(props),
        tasks_max=common.TASKS_MAX.read(props),
        replication_factor=source.REPLICATION_FACTOR_OF_REMOTES.read(props),
        admin_timeout=common.ADMIN_TIMEOUT.read(props),
        refresh_topics_enabled=refresh_on,
        refresh_topics_interval=refresh,
        sync_topic_configs_enabled=configs_on,
        sync_topic_configs_interval=configs,
        config_properties_exclude=source.CONFIG_PROPERTIES_EXCLUDE.read(props),
        use_defaults_from=source.USE_DEFAULTS_FROM.read(props),
        sync_topic_acls_enabled=acls_on,
        sync_topic_acls_interval=acls,
        heartbeats_replication_enabled=source.HEARTBEATS_REPLICATION_ENABLED.read(props),
        emit_offset_syncs_enabled=syncs_on,
        offset_syncs_location=source.OFFSET_SYNCS_LOCATION.read(props),
        offset_syncs_replication_factor=source.OFFSET_SYNCS_REPLICATION_FACTOR.read(props),
        offset_lag_max=source.OFFSET_LAG_MAX.read(props),
        isolation_level=isolation,
        auto_offset_reset=own.AUTO_OFFSET_RESET.read(consumer),
        offset_storage=offset_storage(worker_props, flow, storage or ends["target", "admin"]),
        offset_flush_interval=worker.OFFSET_FLUSH_INTERVAL.read(worker_props),
        chunk_max_bytes=own.CHUNK_MAX_BYTES.read(props),
        partition_fetch_max_bytes=own.PARTITION_FETCH_MAX_BYTES.read(props),
        max_in_flight_requests=own.MAX_IN_FLIGHT_REQUESTS.read(props),
        on_loss=own.ON_LOSS.read(props),
        merge_max_bytes=own.MERGE_MAX_BYTES.read(props),
        open_transaction_after=own.OPEN_TRANSACTION_SECONDS.read(props),
        transactions=worker.EXACTLY_ONCE_SOURCE_SUPPORT.read(worker_props) == "enabled",
        commit_interval=_commit_interval(props),
        target_partitions=own.TARGET_PARTITIONS.read(props),
        checkpoints=_checkpoints(marks, syncs_on),
        heartbeats=_heartbeats(beats),
        spark={key: str(value) for key, value in props.items() if key.startswith("spark.")},
        connectors=connectors,
        worker=worker_props,
    )


def _commit_interval(props: Mapping[str, str]) -> timedelta:
    """Return how often a transaction ends: by default, and where Connect would per poll, twice a second."""
    if source.TRANSACTION_BOUNDARY.read(props) != "interval":
        return _COMMIT_INTERVAL
    return source.TRANSACTION_BOUNDARY_INTERVAL.read(props) or _COMMIT_INTERVAL


def read_policy(props: Mapping[str, str]) -> str:
    """Return the naming policy, with every class known to be MM2's identity under that name."""
    name = common.REPLICATION_POLICY_CLASS.read(props)
    if name == common.DEFAULT_POLICY or _PYTHON_CLASS.fullmatch(name):
        return name
    if _IDENTITY.fullmatch(name):
        return common.IDENTITY_POLICY
    raise invalid(
        common.REPLICATION_POLICY_CLASS.name,
        props[common.REPLICATION_POLICY_CLASS.name],
        f"{common.DEFAULT_POLICY}, {common.IDENTITY_POLICY}, or a policy of your own written in "
        "Python as package.module:Class (a Java class cannot be loaded)",
    )


def offset_storage(worker_props: Mapping[str, str], flow: Flow, where: Endpoint) -> StorageTopic:
    name = worker.OFFSET_STORAGE_TOPIC.read(worker_props) or f"mm2-offsets.{flow.source}.internal"
    partitions = worker.OFFSET_STORAGE_PARTITIONS.read(worker_props)
    replication_factor = worker.OFFSET_STORAGE_REPLICATION_FACTOR.read(worker_props)
    file = worker.OFFSET_STORAGE_FILE.read(worker_props)
    return StorageTopic(where, str(name), partitions, replication_factor, file)


def _check(props: Mapping[str, str], part: Part, file: str) -> None:
    """Read every key that this connector declares, and the combinations that MM2 refuses."""
    for declared in fields_of(part):
        declared.read(props, file)
    off = source.EMIT_OFFSET_SYNCS_ENABLED
    if part is Part.SOURCE and not off.read(props):
        for key in props:
            if key.startswith(("offset-syncs.topic.", "offset-syncs-")):
                raise invalid(off.name, props[off.name], f"true, or remove {key}")


def _offset_syncs_end(
    props: Mapping[str, str], flow: Flow, name: str, file: str, prefixes: Mapping[str, str]
) -> Endpoint:
    """Return how offset syncs are written, on the cluster that `offset-syncs.topic.location` names."""
    side: Side = "source" if source.OFFSET_SYNCS_LOCATION.read(props) == "source" else "target"
    cluster = flow.source if side == "source" else flow.target
    client = client_props(props, side, "producer")
    client_id = f"{flow}|{name}|offset-syncs-{side}-producer"
    return endpoint(client, cluster, client_id, file, prefixes[side])


def _endpoints(
    props: Mapping[str, str], flow: Flow, name: str, file: str, prefixes: Mapping[str, str]
) -> dict[tuple[Side, Role], Endpoint]:
    found: dict[tuple[Side, Role], Endpoint] = {}
    for (side, role), label in _ROLES_IN_CLIENT_ID.items():
        cluster = flow.source if side == "source" else flow.target
        client = client_props(props, side, role)
        client_id = f"{flow}|{name}|{label}"
        found[side, role] = endpoint(client, cluster, client_id, file, prefixes[side])
    return found


def _every(
    switch: Field[bool], interval: Field[timedelta], props: Mapping[str, str]
) -> tuple[bool, timedelta]:
    """Return whether and how often; MM2 takes a negative interval as off."""
    period = interval.read(props)
    return switch.read(props) and period > timedelta(0), period


def _checkpoints(props: Mapping[str, str], syncs_on: bool) -> CheckpointConfig:
    refresh_on, refresh = _every(
        checkpoint.REFRESH_GROUPS_ENABLED, checkpoint.REFRESH_GROUPS_INTERVAL, props
    )
    emit_on, emit = _every(
        checkpoint.EMIT_CHECKPOINTS_ENABLED, checkpoint.EMIT_CHECKPOINTS_INTERVAL, props
    )
    sync_on, sync = _every(
        checkpoint.SYNC_GROUP_OFFSETS_ENABLED, checkpoint.SYNC_GROUP_OFFSETS_INTERVAL, props
    )
    return CheckpointConfig(
        groups=checkpoint.GROUPS.read(props),
        groups_exclude=checkpoint.GROUPS_EXCLUDE.read(props),
        refresh_groups_enabled=refresh_on,
        refresh_groups_interval=refresh,
        emit_enabled=emit_on and syncs_on,
        emit_interval=emit,
        sync_group_offsets_enabled=sync_on and emit_on and syncs_on,
        sync_group_offsets_interval=sync,
        replication_factor=checkpoint.CHECKPOINTS_REPLICATION_FACTOR.read(props),
    )


def _heartbeats(props: Mapping[str, str]) -> HeartbeatConfig:
    on, interval = _every(
        checkpoint.EMIT_HEARTBEATS_ENABLED, checkpoint.EMIT_HEARTBEATS_INTERVAL, props
    )
    return HeartbeatConfig(on, interval, checkpoint.HEARTBEATS_REPLICATION_FACTOR.read(props))
