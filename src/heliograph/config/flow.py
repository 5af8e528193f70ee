"""One flow, typed: the settings of the connectors of A->B, in whichever format they were written."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from heliograph.config.clients import Role, Side, client_props, endpoint
from heliograph.config.fields import Part, invalid
from heliograph.config.settings import fields_of
from heliograph.config.settings_checkpoint import CheckpointSettings, HeartbeatSettings
from heliograph.config.settings_connector import (
    DEFAULT_POLICY,
    IDENTITY_POLICY,
    ConnectorSettings,
)
from heliograph.config.settings_own import CopySettings, IsolationLevel, ReadSettings
from heliograph.config.settings_source import (
    End,
    ExactlyOnceSupport,
    FlowOnlySettings,
    SourceSettings,
    TransactionBoundary,
)
from heliograph.config.settings_worker import SourceSupport, WorkerSettings
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
    """A compacted topic of Connect and how to reach the cluster that holds it, or a file instead."""

    endpoint: Endpoint
    name: str
    partitions: int
    replication_factor: int
    file: str | None = None


@dataclass(frozen=True, slots=True, repr=False)
class FlowConfig:
    """All settings of one flow: the clusters, and what each component of it reads.

    `policy_class` is MM2's default or identity class by its Java name (other classes that do the same
    are already translated to it), or `package.module:Class`. `connectors` and `worker` hold everything,
    resolved, for code that needs a key that has no attribute here: show them through `redact` only.
    Positions are kept in `offset_storage`, or else as the source's offsets of `positions_group`.
    """

    flow: Flow
    connector_name: str
    source: Endpoint
    target: Endpoint
    source_admin: Endpoint
    target_admin: Endpoint
    offset_syncs: Endpoint
    offset_storage: StorageTopic
    policy_class: str
    common: ConnectorSettings
    mirroring: SourceSettings
    flow_only: FlowOnlySettings
    checkpoints: CheckpointSettings
    heartbeats: HeartbeatSettings
    copying: CopySettings
    reading: ReadSettings
    working: WorkerSettings
    positions_group: str | None = None
    spark: Mapping[str, str] = field(default_factory=dict)
    connectors: Mapping[Part, Mapping[str, str]] = field(default_factory=dict)
    worker: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"FlowConfig({self.flow})"

    __str__ = __repr__

    @property
    def transactional_id(self) -> str:
        """The name that identifies the writers of this flow on its target."""
        return f"heliograph-{self.connector_name}-{self.flow}"

    @property
    def internal_separator(self) -> str:
        """What separates the names of internal topics."""
        return (
            self.common.replication_policy_separator
            if self.common.replication_policy_internal_topic_separator_enabled
            else "."
        )

    @property
    def transactions(self) -> bool:
        """Whether tasks write in transactions, because others write to remote topics, too."""
        return self.working.exactly_once_source_support is SourceSupport.ENABLED

    @property
    def commit_interval(self) -> timedelta:
        """How often a transaction ends: twice a second by default, and where Connect would end it per poll."""
        settings = self.flow_only
        if settings.transaction_boundary is not TransactionBoundary.INTERVAL:
            return _COMMIT_INTERVAL
        return settings.transaction_boundary_interval or _COMMIT_INTERVAL

    @property
    def emits_checkpoints(self) -> bool:
        """Whether there are checkpoints: MM2 translates nothing without offset syncs."""
        return self.mirroring.emit_offset_syncs_enabled and self.checkpoints.emits

    @property
    def syncs_groups(self) -> bool:
        """Whether groups that are idle on the target are moved there."""
        return self.emits_checkpoints and self.checkpoints.syncs_groups


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
    common = ConnectorSettings(props, file)
    flow = Flow(common.source_cluster_alias, common.target_cluster_alias)
    ends = _endpoints(props, flow, common.name, file, prefixes)
    working = WorkerSettings(worker_props)
    return FlowConfig(
        flow=flow,
        connector_name=common.name,
        source=ends["source", "consumer"],
        target=ends["target", "producer"],
        source_admin=ends["source", "admin"],
        target_admin=ends["target", "admin"],
        offset_syncs=_offset_syncs_end(props, flow, common.name, file, prefixes),
        offset_storage=offset_storage(working, flow, storage or ends["target", "admin"]),
        policy_class=read_policy(props),
        common=common,
        mirroring=SourceSettings(props),
        flow_only=FlowOnlySettings(props),
        checkpoints=CheckpointSettings(marks),
        heartbeats=HeartbeatSettings(beats),
        copying=CopySettings(props),
        reading=_read_reading(props),
        working=working,
        spark={key: str(value) for key, value in props.items() if key.startswith("spark.")},
        connectors=connectors,
        worker=worker_props,
    )


def _read_reading(props: Mapping[str, str]) -> ReadSettings:
    consumer = client_props(props, "source", "consumer")
    reading = ReadSettings(consumer)
    support = FlowOnlySettings.exactly_once_support.read(props)
    is_required = support is ExactlyOnceSupport.REQUIRED
    if is_required and reading.isolation_level is not IsolationLevel.READ_COMMITTED:
        key = ReadSettings.isolation_level.name
        allowed = "read_committed, because exactly.once.support=required"
        raise invalid(key, consumer[key], allowed)
    return reading


def read_policy(props: Mapping[str, str]) -> str:
    """Return the naming policy, with every class known to be MM2's identity under that name."""
    declared = ConnectorSettings.replication_policy_class
    name = declared.read(props)
    if name == DEFAULT_POLICY or _PYTHON_CLASS.fullmatch(name):
        return name
    if _IDENTITY.fullmatch(name):
        return IDENTITY_POLICY
    raise invalid(
        declared.name,
        props[declared.name],
        f"{DEFAULT_POLICY}, {IDENTITY_POLICY}, or a policy of your own written in "
        "Python as package.module:Class (a Java class cannot be loaded)",
    )


def offset_storage(settings: WorkerSettings, flow: Flow, where: Endpoint) -> StorageTopic:
    """Return where positions are kept."""
    return StorageTopic(
        endpoint=where,
        name=settings.offset_storage_topic or f"mm2-offsets.{flow.source}.internal",
        partitions=settings.offset_storage_partitions,
        replication_factor=settings.offset_storage_replication_factor,
        file=settings.offset_storage_file_filename,
    )


def _check(props: Mapping[str, str], part: Part, file: str) -> None:
    """Read every key that this connector declares, and the combinations that MM2 refuses."""
    for declared in fields_of(part):
        declared.read(props, file)
    off = SourceSettings.emit_offset_syncs_enabled
    if part is Part.SOURCE and not off.read(props):
        for key in props:
            if key.startswith(("offset-syncs.topic.", "offset-syncs-")):
                raise invalid(off.name, props[off.name], f"true, or remove {key}")


def _offset_syncs_end(
    props: Mapping[str, str],
    flow: Flow,
    name: str,
    file: str,
    prefixes: Mapping[str, str],
) -> Endpoint:
    """Return how offset syncs are written, on the cluster that `offset-syncs.topic.location` names."""
    location = SourceSettings.offset_syncs_topic_location.read(props)
    side: Side = "source" if location is End.SOURCE else "target"
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
