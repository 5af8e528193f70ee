"""The job of a flow, as its settings want it: alone at its remote topics, or in transactions beside others."""

from collections.abc import Callable, Iterable
from contextlib import closing

from heliograph.config.flow import FlowConfig
from heliograph.config.settings_worker import EXACTLY_ONCE_SOURCE_SUPPORT
from heliograph.driving.hands import Rights
from heliograph.driving.job import FlowJob, JobOptions, OnRuns
from heliograph.driving.lease_server import LeaseServer
from heliograph.driving.ownership import Ownership
from heliograph.driving.rights import Exclusive, Shared
from heliograph.driving.tally import Tally
from heliograph.errors import ConfigError
from heliograph.flows.holds import HoldStore
from heliograph.flows.progress import ProgressStore
from heliograph.flows.runs import RunStore
from heliograph.flows.source import naming_of
from heliograph.kafka.cluster import Cluster, patiently
from heliograph.kafka.transactions import settle_slices
from heliograph.model import Position, TopicPartition
from heliograph.policy.naming import runs_topic
from heliograph.wire.lease_messages import Ledger, Limits


def settle_transactions(
    config: FlowConfig, target: Cluster, ownership: Ownership, runs: RunStore, slices: int
) -> Rights:
    """Abort what a predecessor left open, before its positions are read; return the rights of its successor."""
    if config.target_partitions != "source":
        raise ConfigError(
            f"{config.flow}: {EXACTLY_ONCE_SOURCE_SUPPORT.name}=enabled needs remote topics with the "
            f"partitions of the source, and target.partitions={config.target_partitions}. Choose one of them."
        )
    storage = config.offset_storage
    if storage.file is not None or storage.endpoint.bootstrap != config.target.bootstrap:
        raise ConfigError(
            f"{config.flow}: {EXACTLY_ONCE_SOURCE_SUPPORT.name}=enabled needs its positions on "
            f"{config.flow.target}, where its records are; they are kept elsewhere. Switch it off: without "
            "it a record is not written twice, either, where nobody else writes to remote topics."
        )
    settle_slices(target, config.transactional_id, slices)
    return Shared(ownership, _ledger(config), _Saved(config, runs))


def make_job(
    config: FlowConfig,
    leases: LeaseServer,
    slices: int,
    ownership: Ownership,
    shared: Rights | None,
    *,
    on_fatal: Callable[[str, str], None],
    on_runs: OnRuns,
    tally: Tally,
) -> FlowJob:
    """Return a job that is not started; a flow with transactions brings the rights that were settled before."""
    options = JobOptions(
        flow=config.flow,
        key=f"{config.flow} {config.connector_name}",
        source=config.source,
        target=config.target,
        limits=Limits(
            chunk_bytes=config.chunk_max_bytes,
            partition_bytes=config.partition_fetch_max_bytes,
            in_flight_requests=config.max_in_flight_requests,
            merge_bytes=config.merge_max_bytes,
            read_committed=config.isolation_level == "read_committed",
        ),
        slices=slices,
    )
    return FlowJob(
        options,
        leases,
        shared or Exclusive(ownership),
        on_fatal=on_fatal,
        on_runs=on_runs,
        may_copy=lambda target: HoldStore(target, config).check(),
        tally=tally,
    )


def _ledger(config: FlowConfig) -> Ledger:
    topic = config.offset_storage.name
    with closing(Cluster(config.offset_storage.endpoint)) as storage:
        store = ProgressStore(storage, config)
        store.load()  # makes the topic, if it is not there
        found = patiently(lambda: storage.describe([topic]))
    return Ledger(
        transactional_id=config.transactional_id,
        topic=topic,
        partitions=len(found[topic].leaders),
        connector=config.connector_name,
        cluster=config.flow.source,
        commit_seconds=config.commit_interval.total_seconds(),
        runs_topic=runs_topic(naming_of(config), config.flow.source),
    )


class _Saved:
    """What the slices of a flow have committed."""

    def __init__(self, config: FlowConfig, runs: RunStore) -> None:
        self._config = config
        self._runs = runs

    def read(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Position]:
        """Return the positions that were committed last; the runs of these partitions are read again, too."""
        with closing(Cluster(self._config.offset_storage.endpoint)) as storage:
            found = ProgressStore(storage, self._config).read()
            self._runs.reload(storage, partitions)  # on the same cluster: see settle_transactions
        return {
            partition: Position(offset.upstream, offset.downstream)
            for partition, offset in found.items()
            if offset.downstream is not None
        }

    def segment_of(self, partition: TopicPartition) -> tuple[int, str] | None:
        """Return the last segment of a partition's runs."""
        return self._runs.segment_of(partition)
