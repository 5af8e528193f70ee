"""The topics of a flow, seen from both ends: offsets, runs, and settings that have drifted apart."""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import islice
from typing import Annotated, Final, Literal, cast

from fastapi import APIRouter, Depends, Request
from starlette.concurrency import run_in_threadpool

from heliograph.config.flow import FlowConfig
from heliograph.control.connect import RestError
from heliograph.control.flow_status import OpenTransactionStatus, PartitionStatus
from heliograph.errors import DeadlinePassed
from heliograph.flows.run_maps import (
    TopicRuns,
    count_runs,
    newest_runs,
    prolong,
    read_topic_runs,
)
from heliograph.flows.source import naming_of
from heliograph.flows.topic_configs import Difference, compare_configs, compare_topic_configs
from heliograph.kafka.cluster import Cluster, patiently
from heliograph.kafka.configs import describe_configs
from heliograph.kafka.offsets import EARLIEST, LATEST, list_offsets
from heliograph.model import Endpoint, Position, TopicPartition
from heliograph.policy.runs import RunMap
from heliograph.policy.topic_configs import ConfigEntry
from heliograph.web.inquiries import Inquiries
from heliograph.web.looking import (
    FAULTS,
    LOOKS,
    PATIENCE,
    Limit,
    Offset,
    Partition,
    Search,
    TopicInPath,
    fits,
    look_at,
)
from heliograph.web.mirror import Flows, TheFlows, config_of, find_flow

router = APIRouter(prefix="/api/flows/{flow}", tags=["topics"])

_RUNS_SHOWN: Final = 200
_DRIFTED_SHOWN: Final = 500
_READING: Final = timedelta(seconds=3)
_COMPARING: Final = timedelta(seconds=8)
_DRIFT_KEPT: Final = timedelta(seconds=60)
_TROUBLE_KEPT: Final = timedelta(seconds=15)
_DRIFT_WAIT: Final = timedelta(seconds=20)
_DRIFTS_AT_ONCE: Final = 8


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


async def _drifts(request: Request) -> Inquiries[Drift]:
    state = request.app.state
    if not hasattr(state, "drifts"):
        state.drifts = Inquiries[Drift]()
    return cast("Inquiries[Drift]", state.drifts)


_TheDrifts = Annotated[Inquiries[Drift], Depends(_drifts)]


@dataclass(slots=True)
class _End:
    """What one cluster tells of a topic; `answered` is false where it tells nothing."""

    answered: bool = False
    exists: bool = False
    starts: dict[int, int] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    entries: Sequence[ConfigEntry] = ()
    runs: TopicRuns | None = None
    troubles: list[str] = field(default_factory=list)


@router.get("/topics")
def list_topics(
    known: TheFlows,
    flow: str,
    *,
    search: Search = "",
    sort: Literal["topic", "lag", "records", "bytes"] = "topic",
    offset: Offset = 0,
    limit: Limit = 100,
) -> TopicLines:
    """Return the topics of a flow whose name holds `search`: by name, or the largest first."""
    find_flow(known, flow)
    found = [line for line in _sum_up(known.partitions(flow)) if fits(search, line.topic)]
    found.sort(key=lambda line: line.topic)
    if sort != "topic":
        found.sort(key=lambda line: int(getattr(line, sort)), reverse=True)
    return TopicLines(len(found), found[offset : offset + limit])


@router.get("/topics/{topic}", dependencies=LOOKS)
def get_topic(known: TheFlows, flow: str, topic: TopicInPath, *, runs: bool = True) -> TopicShown:
    """Return a topic at both ends; `troubles` tell what could not be found out. Run maps take long: ask seldom."""
    config = config_of(known, flow)
    copied = {p.partition: p for p in known.partitions(flow) if p.topic == topic}
    remote = naming_of(config).format_remote_topic(config.flow.source, topic)
    with ThreadPoolExecutor(2) as both:
        asked = both.submit(_ask_source, config, topic)
        target = _ask_target(config, topic, remote, with_runs=runs)
        source = asked.result()
    if not copied and source.answered and not source.exists and not target.exists:
        raise RestError(404, f"{flow} copies no topic {topic}, and {config.flow.source} has none.")
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


@router.get("/topics/{topic}/runs", responses=FAULTS, dependencies=LOOKS)
def list_runs(
    known: TheFlows, flow: str, topic: TopicInPath, partition: Partition = 0
) -> RunsShown:
    """Return where the records of a partition went, the newest runs first."""
    found = runs_of(known, flow, TopicPartition(topic, partition))
    if found is None:
        return RunsShown(0, [])
    return RunsShown(count_runs(found), [RunShown(*run) for run in newest_runs(found, _RUNS_SHOWN)])


def runs_of(known: Flows, flow: str, source: TopicPartition) -> RunMap | None:
    """Return where the records of a partition went, up to now if they are copied here."""
    config = config_of(known, flow)
    with look_at(config.target_admin) as target:
        runs = read_topic_runs(config, target, source.topic, _READING)
    if runs is None:
        return None
    if source.index in runs.broken:
        raise RestError(502, f"the runs of {source} cannot be read. See the log.")
    found = runs.maps.get(source.index)
    now = known.partitions(flow) if found else []
    for its in now:
        if TopicPartition(its.topic, its.partition) == source and found:
            prolong(found, Position(its.upstream, its.downstream))
    return found


@router.get("/drift", responses=FAULTS)
async def get_drift(asked: _TheDrifts, known: TheFlows, flow: str) -> Drift:
    """Return the settings of topics that differ from those of their copies; found out once a minute."""
    config = await run_in_threadpool(config_of, known, flow)
    return await asked.ask(
        (flow, id(config)),
        lambda: _find_drift(config),
        _DRIFT_WAIT,
        most=_DRIFTS_AT_ONCE,
        keep=lambda drift: _TROUBLE_KEPT if drift.troubles else _DRIFT_KEPT,
    )


def _find_drift(config: FlowConfig) -> Drift:
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
    except RestError as exc:
        troubles.append(exc.message)
    if len(found) > _DRIFTED_SHOWN:
        troubles.append(f"only {_DRIFTED_SHOWN} of {len(found)} topics that differ are shown.")
    shown = dict(islice(sorted(found.items()), _DRIFTED_SHOWN))
    return Drift(now_ms, config.sync_topic_configs_enabled, shown, troubles[:_DRIFTED_SHOWN])


def _sum_up(partitions: Sequence[PartitionStatus]) -> list[TopicLine]:
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
    committed_only = config.isolation_level == "read_committed"
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
    """Return what a cluster tells, or as much of it as it told before it stopped answering."""
    end = _End()
    try:
        with look_at(endpoint) as cluster:
            fill(cluster, end)
            end.answered = True
    except RestError as exc:
        end.troubles.append(exc.message)
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
