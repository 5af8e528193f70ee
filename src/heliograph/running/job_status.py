"""What a flow's job knows, as values for logs, tables, pages and programs."""

import time
from dataclasses import replace

from heliograph.driving.job import FlowJob
from heliograph.driving.partitions import HeldBack, Partition
from heliograph.driving.tally import Tally
from heliograph.observe.flow_status import (
    FlowStatus,
    OpenTransactionStatus,
    PartitionStatus,
    Spread,
)
from heliograph.policy.latency import Window
from heliograph.running.open_transactions import sentences


def with_tally(status: FlowStatus, tally: Tally) -> FlowStatus:
    """Return a flow's status with the counts of all its jobs."""
    return replace(
        status,
        records=tally.records.total(),
        bytes=tally.bytes.total(),
        latency_ms=(tally.latency.quantile(0.5), tally.latency.quantile(0.99)),
        verdicts=dict(tally.verdicts),
        restarts=tally.restarts,
        losses=dict(tally.losses),
        latency_counts=tuple(tally.latency.counts),
        handovers=tally.handovers,
    )


def with_job(status: FlowStatus, job: FlowJob) -> FlowStatus:
    """Return a flow's status with what its job reports."""
    partitions = job.partitions()
    topics = {p.source.topic for p in partitions}
    tally = job.tally
    now = time.monotonic()
    held = [each for p in partitions if (each := _held_back(p, now)) is not None]
    open_transactions = sentences(held)
    return replace(
        status,
        topics=len(topics),
        partitions=len(partitions),
        lag=sum(p.lag for p in partitions),
        copied={topic: (tally.records[topic], tally.bytes[topic]) for topic in topics},
        stopped={str(p.source): p.stop.reason for p in partitions if p.stop},
        waiting=tuple(sorted({*job.troubles(), *job.waiting().values(), *open_transactions})),
        slices=tuple(tuple(map(str, held)) for held in job.slices()),
        remotes=frozenset(p.remote.topic for p in partitions if p.records),
        tasks=job.tasks(),
        open_transactions=open_transactions,
        open_transaction_seconds=max((each.seconds for each in held), default=0.0),
    )


def partition_statuses(job: FlowJob) -> list[PartitionStatus]:
    """Return every partition of a job."""
    now = time.monotonic()
    return [
        PartitionStatus(
            topic=p.source.topic,
            partition=p.source.index,
            remote_topic=p.remote.topic,
            upstream=p.position.upstream,
            downstream=p.position.downstream,
            end_offset=p.end_offset,
            lag=p.lag,
            records=p.records,
            bytes=p.bytes,
            stopped=p.stop.reason if p.stop else None,
            stop_kind=p.stop.kind.value if p.stop else None,
            copied_ms=p.copied_ms,
            record_age_ms=spread_of(p.ages, now),
            replication_latency_ms=spread_of(p.latencies, now),
            open_transaction=_open_transaction(p, now),
        )
        for p in job.partitions()
    ]


def _held_back(partition: Partition, now: float) -> HeldBack | None:
    """Return what holds a partition back, once that was investigated: an ordinary transaction ends before."""
    return None if partition.open_transaction is None else partition.held_back(now)


def _open_transaction(partition: Partition, now: float) -> OpenTransactionStatus | None:
    held = _held_back(partition, now)
    if held is None or held.transaction is None:
        return None
    known = held.transaction
    return OpenTransactionStatus(
        held.offset, held.seconds, known.producer_id, known.transactional_id
    )


def spread_of(window: Window, now: float) -> Spread | None:
    """Return a window's values; without the three of the last minute if that had none."""
    if window.last is None:
        return None
    taken = window.sum(now)
    if taken is None:
        return Spread(window.last)
    return Spread(window.last, taken.least, taken.most, taken.total / taken.records)
