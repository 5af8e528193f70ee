"""The job of a flow, as its settings want it: the usual one, one that places by key, or one in transactions."""

from collections.abc import Callable
from contextlib import closing

from heliograph.config.flow import FlowConfig
from heliograph.config.settings_worker import EXACTLY_ONCE_SOURCE_SUPPORT
from heliograph.dataplane.assignment import JobOptions, Ledger, Limits
from heliograph.dataplane.job import FlowJob, OnRuns
from heliograph.dataplane.lease_server import LeaseServer
from heliograph.dataplane.placing_job import PlacingJob
from heliograph.dataplane.tally import Tally
from heliograph.dataplane.transactional_job import TransactionalJob
from heliograph.errors import ConfigError
from heliograph.flows.holds import HoldStore
from heliograph.flows.progress import ProgressStore
from heliograph.kafka.cluster import Cluster, patiently
from heliograph.kafka.transactions import take_over_all
from heliograph.model import Position, ProducerIdentity, TopicPartition


def settle_transactions(
    config: FlowConfig, target: Cluster, slices: int
) -> ProducerIdentity | None:
    """Abort what a predecessor left open, before its positions are read; None where there are none."""
    if not config.transactions:
        return None
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
    return take_over_all(target, config.transactional_id, slices)


def make_job(
    config: FlowConfig,
    leases: LeaseServer,
    slices: int,
    own: ProducerIdentity | None,
    *,
    on_fatal: Callable[[str, str], None],
    on_runs: OnRuns,
    tally: Tally,
) -> FlowJob:
    """Return a job that is not started; `own` is the flow's identity if it writes in transactions."""
    options = JobOptions(
        flow=config.flow,
        key=f"{config.flow} {config.connector_name}",
        source=config.source,
        target=config.target,
        transactional_id=config.transactional_id,
        limits=Limits(
            epoch_seconds=config.epoch.total_seconds(),
            chunk_bytes=config.chunk_max_bytes,
            partition_bytes=config.partition_fetch_max_bytes,
            in_flight_requests=config.max_in_flight_requests,
            merge_bytes=config.merge_max_bytes,
            read_committed=config.isolation_level == "read_committed",
        ),
        slices=slices,
    )

    def may_copy(target: Cluster) -> None:
        HoldStore(target, config).check()

    if own is None:
        kind = FlowJob if config.target_partitions == "source" else PlacingJob
        return kind(
            options, leases, on_fatal=on_fatal, on_runs=on_runs, may_copy=may_copy, tally=tally
        )
    return TransactionalJob(
        options,
        leases,
        on_fatal=on_fatal,
        on_runs=on_runs,
        may_copy=may_copy,
        tally=tally,
        ledger=_ledger(config),
        saved=lambda: _saved(config),
        own=own,
    )


def _ledger(config: FlowConfig) -> Ledger:
    topic = config.offset_storage.name
    with closing(Cluster(config.offset_storage.endpoint)) as storage:
        found = patiently(lambda: storage.describe([topic]))
    return Ledger(
        transactional_id=config.transactional_id,
        topic=topic,
        partitions=len(found[topic].leaders),
        connector=config.connector_name,
        cluster=config.flow.source,
        commit_seconds=config.commit_interval.total_seconds(),
    )


def _saved(config: FlowConfig) -> dict[TopicPartition, Position]:
    """Return the positions that were committed last."""
    with closing(Cluster(config.offset_storage.endpoint)) as storage:
        found = ProgressStore(storage, config).read()
    return {
        partition: Position(offset.upstream, offset.downstream)
        for partition, offset in found.items()
        if offset.downstream is not None
    }
