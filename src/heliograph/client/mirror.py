"""MirrorMaker's MirrorClient and RemoteClusterUtils, and exact offsets.

It queries the cluster that topics are mirrored to; neither the source nor the mirror has to be running.
Where a function takes a cluster, pass its bootstrap servers, an Endpoint or client properties. No result
is partial: what cannot be read to its end in time raises DeadlinePassed.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType
from typing import Self, TypeAlias

from heliograph.config.clients import endpoint, strip_prefix
from heliograph.config.flow import read_policy
from heliograph.config.settings import CLIENT_KEYS
from heliograph.config.settings_connector import ConnectorSettings
from heliograph.errors import CorruptRecord, NotMirrored
from heliograph.kafka.cluster import Cluster, patiently
from heliograph.model import Endpoint, TopicPartition
from heliograph.policy import topology
from heliograph.policy.naming import DefaultNaming, NamingPolicy, naming_for, runs_topic
from heliograph.policy.runs import RunMap, read_run_maps
from heliograph.tables.append import Row
from heliograph.tables.rows import read_partitions
from heliograph.wire.mirror_records import Checkpoint, decode_checkpoint

PATIENCE = timedelta(seconds=30)
_OWN_KEYS = CLIENT_KEYS | {"client.id"}
_CLIENT_ID = "heliograph-client"


@dataclass(frozen=True, slots=True)
class OffsetAndMetadata:
    """What a group would commit: the next offset to read, and the metadata stored with it."""

    offset: int
    metadata: str = ""


Offsets: TypeAlias = dict[TopicPartition, OffsetAndMetadata]
Where: TypeAlias = str | Endpoint | Mapping[str, str]


class MirrorClient:
    """A cluster that others are mirrored to, as its applications see it; use from one thread at a time."""

    def __init__(
        self,
        bootstrap_servers: str | Endpoint,
        *,
        naming: NamingPolicy | str | None = None,
        reading: Endpoint | None = None,
        patience: timedelta = PATIENCE,
    ) -> None:
        """Connect to nothing yet.

        Args:
            bootstrap_servers: host:port,host:port, or an Endpoint with all that is needed to reach the cluster.
            naming: how remote topics are named: an object, or what `replication.policy.class` takes.
            reading: how to reach the cluster to read topics, if it differs from how to list them.
            patience: how long a call retries while no broker answers.
        """
        if isinstance(bootstrap_servers, str):
            bootstrap_servers = client_endpoint({"bootstrap.servers": bootstrap_servers}, "admin.")
        if isinstance(naming, str):
            naming = client_naming({ConnectorSettings.replication_policy_class.name: naming})
        self.naming: NamingPolicy = DefaultNaming() if naming is None else naming
        self._patience = patience
        self._admin = Cluster(bootstrap_servers)
        reading = reading or bootstrap_servers
        self._reading = self._admin if reading == bootstrap_servers else Cluster(reading)

    @classmethod
    def from_properties(
        cls,
        properties: Mapping[str, str],
        *,
        naming: NamingPolicy | str | None = None,
        patience: timedelta = PATIENCE,
    ) -> Self:
        """Make a client from the properties of a Java MirrorClient; `naming` overrides theirs."""
        return cls(
            client_endpoint(properties, "admin."),
            naming=client_naming(properties) if naming is None else naming,
            reading=client_endpoint(properties, "consumer."),
            patience=patience,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._admin.close()
        self._reading.close()

    def replication_hops(self, upstream_alias: str) -> int:
        """Return the smallest number of flows between that cluster and this one; -1 if there is no path."""
        return topology.count_replication_hops(self._topics(), upstream_alias, self.naming)

    def heartbeat_topics(self) -> set[str]:
        """Return the heartbeats topics: this cluster's own, and all that were copied to it."""
        return topology.select_heartbeats(self._topics(), self.naming)

    def checkpoint_topics(self) -> set[str]:
        """Return the checkpoints topics, one for each cluster that is mirrored here."""
        return topology.select_checkpoints(self._topics(), self.naming)

    def upstream_clusters(self) -> set[str]:
        """Return the clusters whose heartbeats arrive here, through any number of other clusters."""
        return topology.find_upstream_clusters(self._topics(), self.naming)

    def remote_topics(self, source: str | None = None) -> set[str]:
        """Return the topics that are copies, of cluster `source` or of any."""
        return topology.select_remote(self._topics(), self.naming, source)

    def remote_consumer_offsets(
        self, group: str, remote_cluster: str, within: timedelta = PATIENCE
    ) -> Offsets:
        """Return where a group of `remote_cluster` may continue here; nothing if it has no checkpoint."""
        return self.remote_groups(remote_cluster, within).get(group, {})

    def remote_groups(
        self, remote_cluster: str, within: timedelta = PATIENCE
    ) -> dict[str, Offsets]:
        """Return where every group of `remote_cluster` may continue here."""
        topic = self.naming.checkpoints_topic(remote_cluster)
        rows = self._read(topic, within)
        if rows is None:
            raise NotMirrored(remote_cluster, topic, tuple(sorted(self.checkpoint_topics())))
        return latest_offsets(rows)

    def exact_offset(
        self,
        topic: str,
        partition: int,
        offset: int,
        *,
        remote_cluster: str,
        upstream: bool = False,
        within: timedelta = PATIENCE,
    ) -> int | None:
        """Return where a reader at `offset` on `remote_cluster` continues here, or None if that is unknown.

        That is the offset of the first record at or after it. For what is not copied yet, it is the offset
        where the next record goes. `topic` is the name on `remote_cluster`. With `upstream` the question is
        reversed. For many offsets, call `run_maps` once.
        """
        wanted = TopicPartition(topic, partition)
        maps, broken = self._run_maps(remote_cluster, within)
        if wanted in broken:
            raise self._not_runs(remote_cluster, wanted)
        runs = maps.get(wanted)
        if runs is None:
            return None
        return runs.upstream_of(offset) if upstream else runs.downstream_of(offset)

    def run_maps(
        self, remote_cluster: str, within: timedelta = PATIENCE
    ) -> dict[TopicPartition, RunMap]:
        """Return where the records of `remote_cluster` went, by partitions of that cluster.

        It is empty if the mirror that copied the records keeps no such maps, as is the case for MirrorMaker 2.
        """
        maps, broken = self._run_maps(remote_cluster, within)
        for partition in broken:
            raise self._not_runs(remote_cluster, partition)
        return maps

    def _run_maps(
        self, remote_cluster: str, within: timedelta
    ) -> tuple[dict[TopicPartition, RunMap], dict[TopicPartition, list[int]]]:
        topic = runs_topic(self.naming, remote_cluster)
        return read_run_maps(self._read(topic, within) or ())

    def _not_runs(self, remote_cluster: str, partition: TopicPartition) -> CorruptRecord:
        return CorruptRecord(
            f"{runs_topic(self.naming, remote_cluster)} holds something else than runs of {partition}. "
            "Check what else writes to this topic; a mirror that is started again mends it."
        )

    def _topics(self) -> list[str]:
        found = patiently(self._admin.describe, self._patience)
        return [topic.name for topic in found.values() if not topic.internal]

    def _read(self, topic: str, within: timedelta) -> Iterable[Row] | None:
        """Return the rows of partition 0, the only one that is written to; None if the topic does not exist."""
        found = patiently(lambda: self._reading.describe([topic]), min(within, self._patience))
        if topic not in found:
            return None
        return read_partitions(self._reading, [TopicPartition(topic, 0)], within)


def translate_offsets(
    where: Where,
    remote_cluster: str,
    group: str,
    within: timedelta = PATIENCE,
    *,
    naming: NamingPolicy | str | None = None,
) -> Offsets:
    """Return where a group of `remote_cluster` may continue on this cluster."""
    with _open(where, naming) as client:
        return client.remote_consumer_offsets(group, remote_cluster, within)


def upstream_clusters(where: Where, *, naming: NamingPolicy | str | None = None) -> set[str]:
    with _open(where, naming) as client:
        return client.upstream_clusters()


def replication_hops(
    where: Where, upstream_alias: str, *, naming: NamingPolicy | str | None = None
) -> int:
    with _open(where, naming) as client:
        return client.replication_hops(upstream_alias)


def heartbeat_topics(where: Where, *, naming: NamingPolicy | str | None = None) -> set[str]:
    with _open(where, naming) as client:
        return client.heartbeat_topics()


def checkpoint_topics(where: Where, *, naming: NamingPolicy | str | None = None) -> set[str]:
    with _open(where, naming) as client:
        return client.checkpoint_topics()


def remote_topics(
    where: Where, source: str | None = None, *, naming: NamingPolicy | str | None = None
) -> set[str]:
    with _open(where, naming) as client:
        return client.remote_topics(source)


def client_endpoint(properties: Mapping[str, str], prefix: str) -> Endpoint:
    """Return how to reach the cluster; keys with `prefix` override bare ones."""
    client = {key: properties[key] for key in properties if key in _OWN_KEYS}
    own = strip_prefix(properties, prefix)
    client |= {key: own[key] for key in own if key in _OWN_KEYS}
    alias = ConnectorSettings.target_cluster_alias.read(properties)
    return endpoint(client, alias, _CLIENT_ID, file="", prefix="")


def client_naming(properties: Mapping[str, str]) -> NamingPolicy:
    return naming_for(
        read_policy(properties),
        ConnectorSettings.replication_policy_separator.read(properties),
        ConnectorSettings.replication_policy_internal_topic_separator_enabled.read(properties),
        properties.get(ConnectorSettings.source_cluster_alias.name),
    )


def latest_offsets(rows: Iterable[Row]) -> dict[str, Offsets]:
    """Return the last readable checkpoint of each group and partition."""
    latest: dict[bytes, Checkpoint] = {}
    for key, value in rows:
        if value is None:
            latest.pop(key, None)
            continue
        with suppress(CorruptRecord):
            checkpoint = decode_checkpoint(key, value)
            latest.pop(key, None)
            latest[key] = checkpoint
    groups: dict[str, Offsets] = {}
    for found in latest.values():
        place = OffsetAndMetadata(found.downstream, found.metadata)
        groups.setdefault(found.group, {})[found.partition] = place
    return groups


def _open(where: Where, naming: NamingPolicy | str | None) -> MirrorClient:
    if isinstance(where, str | Endpoint):
        return MirrorClient(where, naming=naming)
    return MirrorClient.from_properties(where, naming=naming)
