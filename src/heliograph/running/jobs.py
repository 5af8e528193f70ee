"""The job of a flow, as its settings say: the only writer of its remote topics, or transactional next to others."""

import os
from collections.abc import Callable, Iterable
from contextlib import closing

from heliograph.config.flow import FlowConfig
from heliograph.config.naming import naming_of
from heliograph.config.settings_worker import WorkerSettings
from heliograph.driving.hands import Rights
from heliograph.driving.job import FlowJob, JobOptions, OnRuns
from heliograph.driving.lease_server import LeaseServer
from heliograph.driving.ownership import Ownership
from heliograph.driving.rights import Exclusive, Shared
from heliograph.driving.tally import Tally
from heliograph.errors import ConfigError
from heliograph.kafka.cluster import Cluster, patiently
from heliograph.kafka.transactions import settle_slices
from heliograph.model import Position, TopicPartition
from heliograph.policy.naming import runs_topic
from heliograph.saved.holds import HoldStore
from heliograph.saved.progress import ProgressStore
from heliograph.saved.runs import RunStore
from heliograph.spark.masters import is_local
from heliograph.wire.lease_messages import Ledger, Limits

_EXACTLY_ONCE = WorkerSettings.exactly_once_source_support.name


def slices_for(config: FlowConfig) -> int:
    """Return how many tasks a flow gets: more tasks than cores only help on a real cluster.

    One task if records may be placed by key: then all partitions of a topic share remote ones.
    """
    if not config.copying.keeps_partitions:
        return 1
    if is_local(config.spark):
        return min(config.common.tasks_max, os.cpu_count() or 1)
    return config.common.tasks_max


def settle_transactions(
    config: FlowConfig, target: Cluster, ownership: Ownership, runs: RunStore, slices: int
) -> Rights:
    """Abort the transactions a predecessor left open, before its positions are read; return the successor's rights."""
    if not config.copying.keeps_partitions:
        raise ConfigError(
            f"{config.flow}: {_EXACTLY_ONCE}=enabled needs remote topics with the "
            f"partitions of the source, and target.partitions={config.copying.target_partitions}. Choose one of them."
        )
    storage = config.offset_storage
    if storage.file is not None or storage.endpoint.bootstrap != config.target.bootstrap:
        raise ConfigError(
            f"{config.flow}: {_EXACTLY_ONCE}=enabled needs its positions on "
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
    """Return a job that is not started; a flow with transactions passes the rights that were settled before."""
    options = JobOptions(
        flow=config.flow,
        key=f"{config.flow} {config.connector_name}",
        source=config.source,
        target=config.target,
        limits=Limits(
            chunk_bytes=config.copying.chunk_max_bytes,
            partition_bytes=config.copying.partition_fetch_max_bytes,
            in_flight_requests=config.copying.max_in_flight_requests,
            merge_bytes=config.copying.merge_max_bytes,
            read_committed=config.reading.committed_only,
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
        store.load()  # creates the topic if it does not exist
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
