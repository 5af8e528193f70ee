"""Catching up: a system is started on a full source topic and watched until the remote topic is full."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from bench.cases import Case, Scale
from bench.clusters import Bed
from bench.data import Filled, fill
from bench.executors import NO_EXECUTORS, Executors, open_executors
from bench.figures import Run
from bench.limits import LIMITS, start_limit
from bench.systems import Running, flow_properties, start
from bench.trees import Tree, cpu_seconds_of
from bench.watch import Content, Ends, count, read_content

_POLL = 0.05
_POLL_PARTITIONS = 400  # more of them are asked for less often: asking costs, too
_NOTE_EVERY = 0.5
_CPU_TICK = 0.01
_QUIET = 0.6
_LIMIT = 600.0
# heliograph's fencing leaves up to two markers in a partition before its first record.
_MARKERS = 2

Measure = Callable[[str, int], Run]


@dataclass(frozen=True, slots=True)
class Sight:
    """How far the remote topic was, when, and what the tree and the brokers had used by then."""

    at: float
    records: int
    cpu_seconds: float = 0.0
    brokers_cpu_seconds: float = 0.0


@dataclass(slots=True)
class Watch:
    """One run being watched."""

    ends: Ends
    brokers: Sequence[int]
    tree: Tree
    running: Running
    poll: float
    began: float
    timeline: list[tuple[float, int]] = field(default_factory=list)

    def until(self, reached: Callable[[int], bool]) -> Sight:
        while True:
            sight = self.look()
            if reached(sight.records):
                return self._with_cpu(sight)
            if not self.running.process.is_alive():
                raise RuntimeError(f"it ended at {sight.records} records:\n{self.last_lines()}")
            if sight.at > self.began + _LIMIT:
                raise RuntimeError(
                    f"only {sight.records} records within {_LIMIT:.0f} s:\n{self.last_lines()}"
                )
            time.sleep(self.poll)

    def look(self) -> Sight:
        there, at = self.ends.total(), time.monotonic()
        since = at - self.began
        if there and (not self.timeline or since - self.timeline[-1][0] >= _NOTE_EVERY):
            self.timeline.append((round(since, 2), there))
        return Sight(at, there)

    def _with_cpu(self, sight: Sight) -> Sight:
        own, brokers = self.tree.cpu_seconds(), cpu_seconds_of(self.brokers)
        return replace(sight, cpu_seconds=own, brokers_cpu_seconds=brokers)

    def settle(self, last: Sight) -> Sight:
        """Return when the last record came: markers count too, so the wanted number is reached a little early."""
        while time.monotonic() - last.at < _QUIET:
            time.sleep(self.poll)
            if (now := self.look()).records != last.records:
                last = self._with_cpu(now)
        end = round(last.at - self.began, 2)
        self.timeline = [(at, there) for at, there in self.timeline if at < end]
        self.timeline.append((end, last.records))
        return last

    def last_lines(self) -> str:
        return self.running.last_lines()


@dataclass(frozen=True, slots=True)
class Source:
    """The full topic, and what a consumer sees of it."""

    case: str
    topic: str
    filled: Filled
    wanted: Content
    executors: Executors = NO_EXECUTORS


@contextmanager
def open_catchups(bed: Bed, case: Case, scale: Scale) -> Iterator[Measure]:
    """Fill the source topic, yield what measures one system on it, and delete the topic."""
    filled = case.load
    assert isinstance(filled, Filled)
    topic = f"edgar-{case.name}"
    fill(bed.source, topic, filled, filled.count(scale.records))
    wanted = read_content(bed.source, topic)

    def measure(system: str, round_: int) -> Run:
        tag = f"{case.name}{system[0]}{round_}"
        try:
            with open_executors(bed.folder / f"{tag}-spark", filled.executors) as executors:
                source = Source(case.name, topic, filled, wanted, executors)
                figures, problem, timeline = _measure(bed, source, system, tag)
        finally:
            bed.forget_flow(tag)
        return Run(case.name, system, round_, figures, problem, timeline)

    try:
        yield measure
    finally:
        bed.forget([topic])


def _start(bed: Bed, source: Source, system: str, tag: str) -> Running:
    filled = source.filled
    if system in LIMITS:
        remote = f"s{tag}.{source.topic}"
        bed.make_remote(remote, filled.partitions)
        return start_limit(system, bed, source.topic, remote, filled.compression)
    properties = flow_properties(
        bed.source,
        bed.target,
        tag,
        source.topic,
        compression=filled.compression,
        tasks=filled.tasks,
        consumer=filled.consumer,
    )
    executors = source.executors
    running = start(system, bed.folder / tag, {**properties, **executors.settings})
    return replace(running, beside=executors.pids)


def _measure(
    bed: Bed, source: Source, system: str, tag: str
) -> tuple[dict[str, float], str, tuple[tuple[float, int], ...]]:
    """Run one system once; return its figures, what is wrong, and how far it was when."""
    filled, wanted = source.filled, source.wanted
    began = time.monotonic()
    running = _start(bed, source, system, tag)
    if system in LIMITS:
        began = time.monotonic()  # their topic was made for them
    tree = Tree(running.process.pid, running.beside)
    poll = _POLL * max(1.0, filled.partitions / _POLL_PARTITIONS)
    remote = f"s{tag}.{source.topic}"
    ends = Ends(bed.target, remote, filled.partitions)
    watch = Watch(ends, bed.brokers, tree, running, poll, began)
    records = count(wanted)
    try:
        first = watch.until(lambda _: ends.highest > _MARKERS)
        middle = watch.until(lambda there: there >= records // 2)
        last = watch.settle(watch.until(lambda there: there >= records))
    finally:
        running.stop()
        tree.close()
        ends.close()
    found = read_content(bed.target, remote)
    figures = {
        "records": records,
        "records_on_target": count(found),
        "first_record_seconds": first.at - began,
        "cpu_seconds_from_start": last.cpu_seconds,
        "wall_seconds_from_start": last.at - began,
        "peak_pss_bytes": tree.peak_bytes,
    }
    # Where most was there at the first look, there is nothing to tell a rate from.
    if last.records - first.records >= records // 2:
        rate = _rate(first, last, poll)
        figures |= {
            "seconds": last.at - first.at,
            "records_per_second": rate,
            "megabytes_per_second": rate * filled.record_bytes / 1e6,
            "megabytes_per_cpu_second": _rate_of_cpu(first, last) * filled.record_bytes / 1e6,
            "cpu_seconds": last.cpu_seconds - first.cpu_seconds,
            "brokers_cpu_seconds": last.brokers_cpu_seconds - first.brokers_cpu_seconds,
            "records_per_cpu_second": _rate_of_cpu(first, last),
        }
    if last.records - middle.records >= records // 4:
        figures |= {
            "late_records_per_second": _rate(middle, last, poll),
            "late_records_per_cpu_second": _rate_of_cpu(middle, last),
        }
    differs = f"content differs: {count(found)} records, not {records}" if found != wanted else ""
    return figures, differs, tuple(watch.timeline)


def _rate(since: Sight, until: Sight, poll: float) -> float:
    return (until.records - since.records) / max(until.at - since.at, poll)


def _rate_of_cpu(since: Sight, until: Sight) -> float:
    used = max(until.cpu_seconds - since.cpu_seconds, _CPU_TICK)
    return (until.records - since.records) / used
