"""One catch-up: a system is started on a full source topic and watched until the remote topic is full."""

import time
from dataclasses import dataclass
from pathlib import Path

from bench.data import PARTITIONS, Case
from bench.systems import Running, flow_properties, start
from bench.trees import Tree
from bench.watch import Content, Ends, count, read_content
from tests.clusters import LiveCluster

_POLL = 0.05
_NOTE_EVERY = 0.5
_CPU_TICK = 0.01
# heliograph's fencing leaves up to two markers in a partition before its first record.
_MARKERS = 2 * PARTITIONS


@dataclass(frozen=True, slots=True)
class Catchup:
    """What one system did in one round, from the first record seen until all were there.

    The late rates are those of the second half of the records: a JVM is slow until its code is compiled,
    and the shorter the run, the more of it that is.
    """

    system: str
    case: str
    round: int
    records: int
    records_on_target: int
    same_content: bool
    first_record_seconds: float
    seconds: float
    records_per_second: float
    cpu_seconds: float
    records_per_cpu_second: float
    late_records_per_second: float
    late_records_per_cpu_second: float
    cpu_seconds_from_start: float
    wall_seconds_from_start: float
    peak_pss_bytes: int
    timeline: tuple[tuple[float, int], ...]
    """Seconds since the start, and end offsets by then: shows whether a run flowed or stood still."""


@dataclass(frozen=True, slots=True)
class Sight:
    """How far the remote topic was, when, and what the tree had used by then."""

    at: float
    records: int
    cpu_seconds: float


def measure_catchup(
    system: str,
    case: Case,
    round_: int,
    *,
    source: LiveCluster,
    target: LiveCluster,
    folder: Path,
    wanted: Content,
    limit: float = 300,
) -> Catchup:
    """Run one system once and delete what it wrote."""
    tag = f"{case.name}{system[0]}{round_}"
    remote = f"s{tag}.{case.topic}"
    properties = flow_properties(source, target, tag, case.topic, compression=case.compression)
    began = time.monotonic()
    running = start(system, folder / tag, properties)
    tree = Tree(running.process.pid)
    try:
        ends = Ends(target, remote, PARTITIONS)
        timeline: list[tuple[float, int]] = []
        ends.on_total = lambda there: _note(timeline, time.monotonic() - began, there)
        deadline = began + limit
        first = _wait_for(ends, _MARKERS + 1, tree, running, deadline)
        middle = _wait_for(ends, count(wanted) // 2, tree, running, deadline)
        last = _wait_for(ends, count(wanted), tree, running, deadline)
        ends.settle()
    finally:
        running.stop()
        tree.close()
    found = read_content(target, remote)
    target.admin.delete_topics([remote])[remote].result(30)
    return Catchup(
        system=system,
        case=case.name,
        round=round_,
        records=count(wanted),
        records_on_target=count(found),
        same_content=found == wanted,
        first_record_seconds=first.at - began,
        seconds=last.at - first.at,
        records_per_second=_rate(first, last),
        cpu_seconds=last.cpu_seconds - first.cpu_seconds,
        records_per_cpu_second=_rate_of_cpu(first, last),
        late_records_per_second=_rate(middle, last),
        late_records_per_cpu_second=_rate_of_cpu(middle, last),
        cpu_seconds_from_start=last.cpu_seconds,
        wall_seconds_from_start=last.at - began,
        peak_pss_bytes=tree.peak_bytes,
        timeline=tuple(timeline),
    )


def _rate(since: Sight, until: Sight) -> float:
    return (until.records - since.records) / max(until.at - since.at, _POLL)


def _rate_of_cpu(since: Sight, until: Sight) -> float:
    used = max(until.cpu_seconds - since.cpu_seconds, _CPU_TICK)
    return (until.records - since.records) / used


def _note(timeline: list[tuple[float, int]], at: float, there: int) -> None:
    if there and (not timeline or at - timeline[-1][0] >= _NOTE_EVERY):
        timeline.append((round(at, 2), there))


def _wait_for(ends: Ends, records: int, tree: Tree, running: Running, deadline: float) -> Sight:
    while True:
        there, at = ends.total(), time.monotonic()
        if there >= records:
            return Sight(at, there, tree.cpu_seconds())
        if not running.process.is_alive():
            raise RuntimeError(
                f"{running.system} ended at {there} records:\n{running.last_lines()}"
            )
        if at > deadline:
            raise RuntimeError(
                f"{running.system} has mirrored {there} of {records} records in time:\n{running.last_lines()}"
            )
        time.sleep(_POLL)
