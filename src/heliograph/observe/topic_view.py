"""The topics of a flow as both ends show them: offsets, runs, and settings that have drifted apart."""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import islice
from typing import Final

from heliograph.admin.configs import describe_configs
from heliograph.config.flow import FlowConfig
from heliograph.config.naming import naming_of
from heliograph.errors import CorruptRecord, DeadlinePassed, MirrorError, NotThere
from heliograph.flows.topic_configs import Difference, compare_configs, compare_topic_configs
from heliograph.kafka.cluster import Cluster, patiently
from heliograph.kafka.offsets import EARLIEST, LATEST, list_offsets
from heliograph.model import Endpoint, Position, TopicPartition
from heliograph.observe.flow_status import OpenTransactionStatus, PartitionStatus
from heliograph.observe.looking import PATIENCE, look_at
from heliograph.policy.runs import RunMap
from heliograph.policy.topic_configs import ConfigEntry
from heliograph.saved.run_maps import (
    TopicRuns,
    count_runs,
    newest_runs,
    prolong,
    read_topic_runs,
)

_RUNS_SHOWN: Final = 200
_DRIFTED_SHOWN: Final = 500
_READING: Final = timedelta(seconds=3)
_COMPARING: Final = timedelta(seconds=8)


@dataclass(slots=True)
class TopicLine:
    """A topic of a flow; sums over its partitions, of which so many are stopped or wait for a transaction's end."""

    topic: str
    remote_topic: str
    partitions: int = 0
    records: int = 0
    bytes: int = 0
    lag: int = 0
    stopped: int = 0
    open_transactions: int = 0


@dataclass(frozen=True, slots=True)
class TopicLines:
    total: int
    topics: list[TopicLine]


@dataclass(frozen=True, slots=True)
class PartitionShown:
    """A partition at both ends; what nobody could tell is null."""

    partition: int
    source_start: int | None
    source_end: int | None
    upstream: int | None
    downstream: int | None
    target_start: int | None
    target_end: int | None
    lag: int | None
    stopped: str | None
    runs: int | None
    open_transaction: OpenTransactionStatus | None


@dataclass(frozen=True, slots=True)
class DifferenceShown:
    name: str
    source: str | None
    target: str | None


@dataclass(frozen=True, slots=True)
class TopicShown:
    topic: str
    remote_topic: str
    partitions: list[PartitionShown]
    configs: list[DifferenceShown]
    troubles: list[str]


@dataclass(frozen=True, slots=True)
class RunShown:
    upstream: int
    downstream: int
    length: int


@dataclass(frozen=True, slots=True)
class RunsShown:
    total: int
    runs: list[RunShown]


@dataclass(frozen=True, slots=True)
class Drift:
    """Settings that differ by topic; `synced` says whether the flow will put them right by itself."""

    as_of_ms: int
    synced: bool
    topics: dict[str, list[DifferenceShown]]
    troubles: list[str]


@dataclass(slots=True)
class _End:
    """What one cluster reports about a topic; `answered` is false if it failed to answer."""

    answered: bool = False
    exists: bool = False
    starts: dict[int, int] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    entries: Sequence[ConfigEntry] = ()
    runs: TopicRuns | None = None
    troubles: list[str] = field(default_factory=list)


def sum_up(partitions: Sequence[PartitionStatus]) -> list[TopicLine]:
    """Return the topics of some partitions."""
    lines: dict[str, TopicLine] = {}
    for partition in partitions:
        line = lines.setdefault(partition.topic, TopicLine(partition.topic, partition.remote_topic))
        line.partitions += 1
        line.records += partition.records
        line.bytes += partition.bytes
        line.lag += partition.lag
        line.stopped += partition.stopped is not None
        line.open_transactions += partition.open_transaction is not None
    return list(lines.values())


def view_topic(
    config: FlowConfig, partitions: Sequence[PartitionStatus], topic: str, *, with_runs: bool
) -> TopicShown:
    """Return a topic at both ends, of which `partitions` are copied; `troubles` say what could not be found out."""
    copied = {p.partition: p for p in partitions if p.topic == topic}
    remote = naming_of(config).format_remote_topic(config.flow.source, topic)
    with ThreadPoolExecutor(2) as both:
        asked = both.submit(_ask_source, config, topic)
        target = _ask_target(config, topic, remote, with_runs=with_runs)
        source = asked.result()
    if not copied and source.answered and not source.exists and not target.exists:
        flow = config.flow
        raise NotThere(f"{flow} copies no topic {topic}, and {flow.source} has none.")
    indexes = sorted({*copied, *source.ends, *target.ends})
    return TopicShown(
        topic,
        remote,
        [_show_partition(index, copied.get(index), source, target) for index in indexes],
        _show_all(compare_configs(config, source.entries, target.entries))
        if source.exists and target.exists
        else [],
        [*source.troubles, *target.troubles],
    )


def view_runs(
    config: FlowConfig, partitions: Sequence[PartitionStatus], source: TopicPartition
) -> RunsShown:
    """Return where the records of a partition went, the newest runs first."""
    found = find_runs(config, partitions, source)
    if found is None:
        return RunsShown(0, [])
    return RunsShown(count_runs(found), [RunShown(*run) for run in newest_runs(found, _RUNS_SHOWN)])


def find_runs(
    config: FlowConfig, partitions: Sequence[PartitionStatus], source: TopicPartition
) -> RunMap | None:
    """Return where the records of a partition went, up to now if it is one of `partitions`."""
    with look_at(config.target_admin) as target:
        runs = read_topic_runs(config, target, source.topic, _READING)
    if runs is None:
        return None
    if source.index in runs.broken:
        raise CorruptRecord(f"the runs of {source} cannot be read. See the log.")
    found = runs.maps.get(source.index)
    for status in partitions if found else ():
        if TopicPartition(status.topic, status.partition) == source and found:
            prolong(found, Position(status.upstream, status.downstream))
    return found


def find_drift(config: FlowConfig) -> Drift:
    """Return the settings of topics that differ from those of their copies."""
    now_ms = time.time_ns() // 1_000_000
    found: dict[str, list[DifferenceShown]] = {}
    troubles: list[str] = []
    try:
        with (
            look_at(config.source_admin, _COMPARING) as source,
            look_at(config.target_admin, _COMPARING) as target,
        ):
            for differing, unread in compare_topic_configs(config, source, target):
                found.update({topic: _show_all(plan) for topic, plan in differing.items()})
                troubles += unread
    except MirrorError as exc:
        troubles.append(str(exc))
    if len(found) > _DRIFTED_SHOWN:
        troubles.append(f"only {_DRIFTED_SHOWN} of {len(found)} topics that differ are shown.")
    shown = dict(islice(sorted(found.items()), _DRIFTED_SHOWN))
    return Drift(now_ms, config.mirroring.syncs_topic_configs, shown, troubles[:_DRIFTED_SHOWN])


def _show_partition(
    index: int, copied: PartitionStatus | None, source: _End, target: _End
) -> PartitionShown:
    runs = target.runs.maps.get(index) if target.runs is not None else None
    last = runs.end if runs is not None else None
    upstream = last.upstream_end if last is not None else None
    downstream = last.downstream_end if last is not None else None
    end = source.ends.get(index)
    lag = max(end - upstream, 0) if end is not None and upstream is not None else None
    if copied is not None:
        upstream, downstream, lag = copied.upstream, copied.downstream, copied.lag
    return PartitionShown(
        index,
        source.starts.get(index),
        end,
        upstream,
        downstream,
        target.starts.get(index),
        target.ends.get(index),
        lag,
        copied.stopped if copied is not None else None,
        count_runs(runs) if runs is not None else None,
        copied.open_transaction if copied is not None else None,
    )


def _show_all(differences: Sequence[Difference]) -> list[DifferenceShown]:
    return [DifferenceShown(*difference) for difference in differences]


def _ask_source(config: FlowConfig, topic: str) -> _End:
    committed_only = config.reading.committed_only
    return _ask(
        config.source_admin,
        lambda cluster, end: _fill(cluster, end, topic, committed_only=committed_only),
    )


def _ask_target(config: FlowConfig, topic: str, remote: str, *, with_runs: bool) -> _End:
    def fill(cluster: Cluster, end: _End) -> None:
        _fill(cluster, end, remote, committed_only=False)
        if not with_runs:
            return
        try:
            end.runs = read_topic_runs(config, cluster, topic, _READING)
        except DeadlinePassed as exc:
            end.troubles.append(str(exc))
        broken = sorted(end.runs.broken) if end.runs is not None else []
        end.troubles += [f"the runs of {topic}-{index} cannot be read." for index in broken]

    return _ask(config.target_admin, fill)


def _ask(endpoint: Endpoint, fill: Callable[[Cluster, _End], None]) -> _End:
    """Return what a cluster reports, or as much as it reported before it stopped answering."""
    end = _End()
    try:
        with look_at(endpoint) as cluster:
            fill(cluster, end)
            end.answered = True
    except MirrorError as exc:
        end.troubles.append(str(exc))
    return end


def _fill(cluster: Cluster, end: _End, topic: str, *, committed_only: bool) -> None:
    found = cluster.describe([topic]).get(topic)
    if found is None:
        return
    end.exists = True
    led = [p for p in found.partitions if found.leads(p.index)]
    end.starts = _by_index(patiently(lambda: list_offsets(cluster, led, EARLIEST), PATIENCE))
    end.ends = _by_index(
        patiently(
            lambda: list_offsets(cluster, led, LATEST, committed_only=committed_only), PATIENCE
        )
    )
    configs = describe_configs(cluster, [topic])
    end.entries = configs.found.get(topic, ())
    end.troubles += [
        f"the settings of {topic} on {cluster.endpoint.cluster} cannot be read ({why})."
        for why in configs.refused.values()
    ]


def _by_index(offsets: Mapping[TopicPartition, int]) -> dict[int, int]:
    return {partition.index: offset for partition, offset in offsets.items()}
