"""`verify`: accounts for every record of a flow, on both sides.

What is judged is fixed at the start: saved positions first, then the target's ends, then the
source's. So whatever lies before the target's end has its origin before the source's end, and what was
saved as copied lies before the target's end, however busy the flow is.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass

from heliograph.admin.configs import topic_configs
from heliograph.config.flow import FlowConfig
from heliograph.config.naming import naming_of
from heliograph.config.settings_own import OffsetReset
from heliograph.flows.source import select_topics
from heliograph.kafka.cluster import Cluster, Topic, patiently
from heliograph.kafka.offsets import EARLIEST, LATEST, list_offsets
from heliograph.kafka.scan import scan
from heliograph.model import TopicPartition
from heliograph.policy.filters import NameFilter
from heliograph.saved.progress import ProgressStore
from heliograph.spark.engine import Engine
from heliograph.spark.task_pool import TaskPool
from heliograph.verify.job import run_job
from heliograph.verify.pairs import Ends, PartitionPair, Range
from heliograph.verify.report import PartitionResult, Report
from heliograph.verify.streams import Findings, Terms
from heliograph.wire.connect_records import SourceOffset

_SLOTS = 4
_CLEANUP = "cleanup.policy"
_TIMESTAMPS = "message.timestamp.type"


@dataclass(frozen=True, slots=True)
class Progress:
    """Approximate progress of a verify, in records."""

    compared: int
    expected: int


@dataclass(frozen=True, slots=True)
class VerifyPlan:
    """The pairs to compare, and the partitions that have records but no copy."""

    pairs: tuple[PartitionPair, ...]
    unmirrored: tuple[TopicPartition, ...]


def verify_flow(
    config: FlowConfig,
    topics: str | None = None,
    pool: TaskPool | None = None,
    on_progress: Callable[[Progress], None] = lambda _: None,
    *,
    complete: bool = False,
) -> Report:
    """Compare both sides of a flow; with `complete`, records not copied yet are a difference.

    `topics` narrows it to names that this pattern matches. Without a pool, Spark is started and
    stopped. Nothing on either cluster is changed.
    """
    started = time.monotonic()
    committed_only = config.reading.committed_only
    plan = plan_verify(config, topics)
    full = [pair for pair in plan.pairs if pair.span]
    expected = sum(max(0, pair.source.end - pair.source.start) for pair in full)
    compared = 0

    def advance(records: int) -> None:
        nonlocal compared
        compared += records
        on_progress(Progress(min(compared, expected), expected))

    on_progress(Progress(0, expected))
    found: dict[TopicPartition, Findings] = {
        pair.source.partition: Findings(True, 0, pair.source.end, pair.target.end)
        for pair in plan.pairs
    }
    if full:
        ends = Ends(config.source, config.target, committed_only)
        for pair, findings in _run(config, pool, ends, full, advance):
            found[pair.source.partition] = findings
    on_progress(Progress(expected, expected))
    return Report(
        flow=config.flow,
        partitions=tuple(
            PartitionResult(
                pair.source.partition,
                pair.target.partition,
                pair.terms.timestamps,
                found[pair.source.partition],
            )
            for pair in plan.pairs
        ),
        unmirrored=plan.unmirrored,
        complete=complete,
        seconds=time.monotonic() - started,
    )


def plan_verify(config: FlowConfig, topics: str | None = None) -> VerifyPlan:
    """Look at both clusters and fix what is judged."""
    with (
        closing(Cluster(config.source_admin)) as source,
        closing(Cluster(config.target_admin)) as target,
    ):
        existing = target.describe()
        selected = _narrowed(config, select_topics(config, source.describe().values()), topics)
        routes = {
            partition: TopicPartition(remote, partition.index)
            for remote, topic in sorted(selected.items(), key=lambda item: item[1].name)
            for partition in topic.partitions
        }
        mirrored = {p: r for p, r in routes.items() if _exists(r, existing)}
        ids = {topic.name: str(topic.topic_id) for topic in selected.values()}
        saved = {
            partition: position
            for partition, position in _saved_positions(config, target, existing).items()
            # A position of a topic that was deleted and recreated says nothing about this one.
            if position.topic_id in (None, ids.get(partition.topic))
        }
        pairs = _pairs(config, source, target, mirrored, saved)
        lonely = [partition for partition in routes if partition not in mirrored]
        committed_only = config.reading.committed_only
        return VerifyPlan(pairs, tuple(_with_records(source, lonely, committed_only)))


def _pairs(
    config: FlowConfig,
    source: Cluster,
    target: Cluster,
    routes: Mapping[TopicPartition, TopicPartition],
    saved: Mapping[TopicPartition, SourceOffset],
) -> tuple[PartitionPair, ...]:
    if not routes:
        return ()
    committed_only = config.reading.committed_only
    remotes = list(routes.values())
    target_ends = _offsets(target, remotes, LATEST, committed_only=True)
    source_ends = _offsets(source, routes, LATEST, committed_only=committed_only)
    target_starts = _offsets(target, remotes, EARLIEST)
    source_starts = _offsets(source, routes, EARLIEST)
    there = topic_configs(target, {r.topic for r in remotes}, [_CLEANUP, _TIMESTAMPS])
    here = topic_configs(source, {p.topic for p in routes}, [_CLEANUP])
    pairs = []
    for partition, remote in routes.items():
        position = saved.get(partition)
        policies = (here.get(partition.topic, {}), there.get(remote.topic, {}))
        terms = Terms(
            source_start=source_starts[partition],
            source_end=source_ends[partition],
            target_start=target_starts[remote],
            upstream=position.upstream if position else None,
            downstream=position.downstream if position else None,
            compacted=any("compact" in policy.get(_CLEANUP, "") for policy in policies),
            timestamps=policies[1].get(_TIMESTAMPS) != "LogAppendTime",
            begins_late=config.reading.auto_offset_reset is OffsetReset.LATEST,
        )
        pairs.append(
            PartitionPair(
                Range(partition, terms.source_start, source_ends[partition]),
                Range(remote, terms.target_start, target_ends[remote]),
                terms,
            )
        )
    return tuple(pairs)


def _saved_positions(
    config: FlowConfig, target: Cluster, existing: Mapping[str, Topic]
) -> dict[TopicPartition, SourceOffset]:
    # Asking for a topic that does not exist would create it, and verify changes nothing.
    if config.offset_storage.name not in existing:
        return {}
    return ProgressStore(target, config).load()


def _narrowed(
    config: FlowConfig, selected: dict[str, Topic], topics: str | None
) -> dict[str, Topic]:
    """Return the requested topics: all except heartbeats, unless they are named."""
    if topics is None:
        is_heartbeats = naming_of(config).is_heartbeats_topic
        return {r: t for r, t in selected.items() if not is_heartbeats(t.name)}
    accepts = NameFilter([topics], []).accepts
    return {r: t for r, t in selected.items() if accepts(t.name) or accepts(r)}


def _exists(partition: TopicPartition, topics: Mapping[str, Topic]) -> bool:
    topic = topics.get(partition.topic)
    return topic is not None and partition.index < len(topic.leaders)


def _offsets(
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    which: int,
    *,
    committed_only: bool = False,
) -> dict[TopicPartition, int]:
    wanted = list(partitions)
    return patiently(lambda: list_offsets(cluster, wanted, which, committed_only=committed_only))


def _with_records(
    source: Cluster, partitions: list[TopicPartition], committed_only: bool
) -> list[TopicPartition]:
    """Return those with at least one record that would be copied."""
    if not partitions:
        return []
    ends = _offsets(source, partitions, LATEST, committed_only=committed_only)
    starts = _offsets(source, partitions, EARLIEST)
    found = []
    for partition in partitions:
        ranges = {partition: (starts[partition], ends[partition])}
        for _ in scan(source, ranges, committed_only=committed_only, on_gap=lambda *_: None):
            found.append(partition)
            break
    return found


def _run(
    config: FlowConfig,
    pool: TaskPool | None,
    ends: Ends,
    pairs: list[PartitionPair],
    on_progress: Callable[[int], None],
) -> list[tuple[PartitionPair, Findings]]:
    if pool is not None:
        return run_job(pool, ends, pairs, on_progress)
    with closing(Engine(min(_SLOTS, len(pairs)), config.spark)) as engine:
        engine.start()
        return run_job(TaskPool(engine.context()), ends, pairs, on_progress)
