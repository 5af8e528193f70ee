"""Statuses as numbers under the names of observe/metrics_catalog.py: sampled on request, never pushed.

Rates and ages need two samples: what they need is remembered here from one sample to the next.
"""

import operator
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from heliograph.flows.schedule import ChoreStatus
from heliograph.flows.upkeep import GroupStatus
from heliograph.model import StopKind
from heliograph.observe import metrics_catalog as metrics
from heliograph.observe.audits import DrillStatus, VerifyStatus
from heliograph.observe.flow_status import FlowStatus, KeptGroups, PartitionStatus, Spread, State
from heliograph.observe.lag import EndHistory
from heliograph.observe.metrics_catalog import Fold, Metric
from heliograph.observe.usage import Usage
from heliograph.policy.batches import Verdict
from heliograph.policy.latency import BOUNDS_MS

_WINDOW = 30.0
_REASONS = 10
_REASON_LENGTH = 120
_CHECKPOINTS = "checkpoints"
_FOREIGN = "foreign"
# These counts exist from the beginning: Prometheus sees no increase in the first value of a new series.
_NO_BATCHES = {**{verdict.value: 0 for verdict in Verdict}, "skipped": 0, "dropped": 0}
_NO_LOSSES = dict.fromkeys((kind.value for kind in StopKind if kind.is_loss), 0)
_FOLDS: dict[Fold, Callable[[float, float], float]] = {
    Fold.SUM: operator.add,
    Fold.MAX: max,
    Fold.MIN: min,
}

Labels = tuple[str, ...]
Page = dict[Metric, dict[Labels, float]]


@dataclass(frozen=True, slots=True)
class Limits:
    """How many partitions, topics and groups of this process have series of their own, at most."""

    partitions: int = 2000
    topics: int = 2000
    groups: int = 500


LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All of a process at one moment: `now` is of a monotonic clock, `time_ms` since 1970.

    `flows` are those whose source connectors are here, `groups` those of its checkpoint connectors.
    """

    now: float
    time_ms: float
    flows: Sequence[FlowStatus]
    partitions: Mapping[str, Sequence[PartitionStatus]] = field(default_factory=dict)
    groups: Sequence[KeptGroups] = ()
    audits: Sequence[DrillStatus | VerifyStatus] = ()
    usage: Mapping[str, Usage] = field(default_factory=dict)


class _Progress:
    """What is remembered of a partition: where it ended when, and two counts to take a rate from."""

    __slots__ = ("_newer", "_older", "ends", "rates")

    def __init__(self) -> None:
        self.ends = EndHistory()
        self.rates: tuple[float, float] | None = None
        self._older: tuple[float, int, int] | None = None
        self._newer: tuple[float, int, int] | None = None

    def note(self, now: float, partition: PartitionStatus) -> None:
        if partition.end_offset >= 0:
            self.ends.note(now, partition.end_offset, partition.upstream)
        if self._newer is None or partition.records < self._newer[1]:
            self._older = self._newer = now, partition.records, partition.bytes
            self.rates = None
            return
        assert self._older is not None, "both are set together"
        began, records, size = self._older
        if now > began:
            passed = now - began
            self.rates = (partition.records - records) / passed, (partition.bytes - size) / passed
        if now - self._newer[0] >= _WINDOW:
            self._older = self._newer
            self._newer = now, partition.records, partition.bytes


@dataclass(slots=True)
class _Rounds:
    """The rounds of a connector's checkpoints, as far as they were seen: when, and how long they took.

    Before the first good one, `since` is the time of the first sample.
    """

    since: float
    runs: int = -1
    done_at: float | None = None
    seen: list[tuple[float, float]] = field(default_factory=list)

    def note(self, now: float, chore: ChoreStatus) -> None:
        if chore.runs and chore.runs != self.runs and not chore.failures:
            self.done_at = now
            self.seen = [each for each in self.seen if now - each[0] <= 2 * _WINDOW]
            self.seen.append((now, chore.seconds * 1000))
        self.runs = chore.runs

    def age(self, now: float) -> float:
        return now - (self.since if self.done_at is None else self.done_at)

    def spread(self) -> Spread | None:
        took = [ms for _, ms in self.seen]
        return Spread(took[-1], min(took), max(took), sum(took) / len(took)) if took else None


class Observer:
    """Turns snapshots into pages; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._progress: dict[tuple[str, str, int], _Progress] = {}
        self._rounds: dict[str, _Rounds] = {}
        self._running_at: dict[str, float] = {}
        self._last: Snapshot | None = None

    def page(self, snapshot: Snapshot, limits: Limits = LIMITS) -> Page:
        """Return all numbers, by metric and labels, in the order in which they are declared."""
        page: Page = {metric: {} for metric in metrics.METRICS}
        with self._lock:
            # Two concurrent requests may arrive in the wrong order, and ends that fall would look like new topics.
            if self._last is None or snapshot.now >= self._last.now:
                self._last = snapshot
            snapshot = self._last
            self._forget(snapshot)
            for status in snapshot.flows:
                _put_flow(page, status)
            _put_chores(page, snapshot)
            self._put_partitions(page, snapshot, limits)
            self._put_groups(page, snapshot, limits)
        _put_audits(page, snapshot.audits)
        _put_usage(page, snapshot.usage)
        return page

    def _forget(self, snapshot: Snapshot) -> None:
        """Forget what no longer exists."""
        flows = {status.flow for status in snapshot.flows}
        kept: dict[tuple[str, str, int], _Progress] = {}
        for flow in flows:
            for partition in snapshot.partitions.get(flow, ()):
                key = flow, partition.topic, partition.partition
                kept[key] = self._progress.get(key) or _Progress()
        self._progress = kept
        self._rounds = {
            kept.connector: self._rounds.get(kept.connector) or _Rounds(snapshot.now)
            for kept in snapshot.groups
        }
        self._running_at = {
            flow: self._running_at.get(flow, snapshot.now) for flow in flows
        }  # one that never ran counts from the first sample

    def _put_partitions(self, page: Page, snapshot: Snapshot, limits: Limits) -> None:
        topics = {(f, p.topic) for f, its in snapshot.partitions.items() for p in its}
        by_partition = len(self._progress) <= limits.partitions
        by_topic = len(topics) <= limits.topics
        _put(page, metrics.FOLDED, 0 if by_partition else len(self._progress), ("partition",))
        _put(page, metrics.FOLDED, 0 if by_topic else len(topics), ("topic",))
        for status in snapshot.flows if by_topic else ():
            _put_copied(page, status)
        for flow in self._running_at:
            self._put_lags(page, snapshot, flow, by_topic, by_partition)

    def _put_lags(
        self, page: Page, snapshot: Snapshot, flow: str, by_topic: bool, by_partition: bool
    ) -> None:
        ends = split(flow)
        partitions = snapshot.partitions.get(flow, ())
        ages = []
        for partition in partitions:
            progress = self._progress[flow, partition.topic, partition.partition]
            progress.note(snapshot.now, partition)
            ages.append(_age(progress, partition, snapshot))
        if any(s.flow == flow and s.state is State.RUNNING for s in snapshot.flows):
            if None not in ages:
                self._running_at[flow] = snapshot.now
            _put(page, metrics.FLOW_LAG_SECONDS, 0.0, ends)
        away = snapshot.now - self._running_at[flow]
        _put(page, metrics.FLOW_RPO, away, ends)
        for partition, known in zip(partitions, ages, strict=True):
            progress = self._progress[flow, partition.topic, partition.partition]
            # What existed before the first sample is no younger than our last good sample of the flow.
            age = max(progress.ends.known_for(snapshot.now), away) if known is None else known
            if partition.stop_kind is not None:
                _put(page, metrics.FLOW_STOPPED, 1, (*ends, partition.stop_kind))
            _put(page, metrics.FLOW_LAG_SECONDS, age, ends)
            _put(page, metrics.FLOW_RPO, age, ends)
            if by_topic:
                _put_topic(page, ends, partition, age, away)
                _put_bean(page, ends, partition, progress.rates, by_partition)
            if by_partition:
                _put_lag(page, ends, partition, age)

    def _put_groups(self, page: Page, snapshot: Snapshot, limits: Limits) -> None:
        total = sum(len(kept.groups) for kept in snapshot.groups)
        by_group = total <= limits.groups
        _put(page, metrics.FOLDED, 0 if by_group else total, ("group",))
        places = sum(len(g.checkpoints) for kept in snapshot.groups for g in kept.groups)
        by_place = by_group and places <= limits.partitions
        for kept in snapshot.groups:
            ends = split(kept.flow)
            _put(page, metrics.GROUPS, len(kept.groups), ends)
            for reason, count in _shorten(Counter(kept.skipped.values())).items():
                _put(page, metrics.GROUPS_SKIPPED, count, (*ends, reason))
            rounds = self._rounds[kept.connector]
            for chore in kept.chores:
                if chore.name == _CHECKPOINTS:
                    rounds.note(snapshot.now, chore)
                    age = rounds.age(snapshot.now)
                    _put(page, metrics.FLOW_CHECKPOINT_AGE, age, ends)
            for group in kept.groups if by_group else ():
                if rounds.done_at is not None:
                    age = rounds.age(snapshot.now)
                    _put(page, metrics.CHECKPOINT_AGE, age, (*ends, group.group))
                if group.skipped is not None:
                    reason = group.skipped[:_REASON_LENGTH]
                    _put(page, metrics.GROUP_SKIPPED, 1, (*ends, group.group, reason))
                _put_latency(page, ends, group, rounds.spread(), by_place)


def split(flow: str) -> tuple[str, str]:
    """Return the source and the target of a flow's name."""
    source, _, target = flow.partition("->")
    return source, target


def _put(page: Page, metric: Metric, value: float, labels: Labels) -> None:
    cells = page[metric]
    if labels in cells:
        value = _FOLDS[metric.fold](cells[labels], value)
    cells[labels] = value


def _put_flow(page: Page, status: FlowStatus) -> None:
    ends = split(status.flow)
    for state in State:
        _put(page, metrics.FLOW_STATE, float(state is status.state), (*ends, state.value))
    for metric, value in (
        (metrics.FLOW_TOPICS, status.topics),
        (metrics.FLOW_PARTITIONS, status.partitions),
        (metrics.FLOW_RECORDS, status.records),
        (metrics.FLOW_BYTES, status.bytes),
        (metrics.FLOW_LAG, status.lag),
        (metrics.FLOW_TASKS, status.tasks),
        (metrics.FLOW_HANDOVERS, status.handovers),
        (metrics.FLOW_RESTARTS, status.restarts),
        (metrics.FLOW_WAITING, len(status.waiting)),
        (metrics.FLOW_REFUSED, len(status.refused)),
        (metrics.FLOW_OPEN_TRANSACTION, status.open_transaction_seconds),
    ):
        if value is not None:
            _put(page, metric, value, ends)
    _put_tallies(page, ends, status)
    _put_latencies(page, ends, status)


def _put_tallies(page: Page, ends: tuple[str, str], status: FlowStatus) -> None:
    """Put what is counted by kind."""
    batches = {**_NO_BATCHES, **status.verdicts}
    losses = {**_NO_LOSSES, **status.losses, _FOREIGN: batches.pop(_FOREIGN, 0)}
    for verdict, count in batches.items():
        _put(page, metrics.FLOW_BATCHES, count, (*ends, verdict))
    for reason, count in losses.items():
        _put(page, metrics.LOSS_ALARMS, count, (*ends, reason))


def _put_latencies(page: Page, ends: tuple[str, str], status: FlowStatus) -> None:
    for quantile, ms in zip(("0.5", "0.99"), status.latency_ms, strict=True):
        if ms is not None:
            _put(page, metrics.FLOW_LATENCY, ms / 1000, (*ends, quantile))
    if status.latency_counts:
        bounds = (*(str(ms / 1000) for ms in BOUNDS_MS), "+Inf")
        for bound, count in zip(bounds, accumulate(status.latency_counts), strict=True):
            _put(page, metrics.LATENCY, count, (*ends, bound))


def _put_chores(page: Page, snapshot: Snapshot) -> None:
    """Put the chores of both kinds of connectors; a flow's status has those of its groups, too."""
    of_groups = {(kept.flow, chore.name) for kept in snapshot.groups for chore in kept.chores}
    for kept in snapshot.groups:
        for chore in kept.chores:
            _put_chore(page, split(kept.flow), chore)
    for status in snapshot.flows:
        for chore in status.chores:
            if (status.flow, chore.name) not in of_groups:
                _put_chore(page, split(status.flow), chore)


def _put_chore(page: Page, ends: tuple[str, str], chore: ChoreStatus) -> None:
    _put(page, metrics.CHORE_RUNS, chore.runs, (*ends, chore.name))
    _put(page, metrics.CHORE_FAILURES, chore.failures, (*ends, chore.name))
    _put(page, metrics.CHORE_TROUBLES, len(chore.troubles), (*ends, chore.name))
    _put(page, metrics.CHORE_SECONDS, chore.seconds, (*ends, chore.name))
    _put(page, metrics.CHORE_BUSY, chore.busy, (*ends, chore.name))


def _age(progress: _Progress, partition: PartitionStatus, snapshot: Snapshot) -> float | None:
    """Return for how many seconds the oldest record that is not copied has existed.

    One that existed at the first sample is no older than the newest copied one; None if none was copied.
    """
    age = progress.ends.age(snapshot.now, partition.upstream)
    if age is None:
        if partition.copied_ms is None:
            return None
        age = max(
            progress.ends.known_for(snapshot.now), (snapshot.time_ms - partition.copied_ms) / 1000
        )
    return max(age, 0.0)


def _put_copied(page: Page, status: FlowStatus) -> None:
    ends = split(status.flow)
    for topic, (records, size) in status.copied.items():
        _put(page, metrics.TOPIC_RECORDS, records, (*ends, topic))
        _put(page, metrics.TOPIC_BYTES, size, (*ends, topic))


def _put_topic(
    page: Page, ends: tuple[str, str], partition: PartitionStatus, age: float, away: float
) -> None:
    topic = partition.topic
    _put(page, metrics.TOPIC_LAG, partition.lag, (*ends, topic))
    _put(page, metrics.TOPIC_LAG_SECONDS, age, (*ends, topic))
    _put(page, metrics.TOPIC_RPO, max(age, away), (*ends, topic))


def _put_lag(page: Page, ends: tuple[str, str], partition: PartitionStatus, age: float) -> None:
    labels = *ends, partition.topic, str(partition.partition)
    _put(page, metrics.PARTITION_LAG, partition.lag, labels)
    _put(page, metrics.PARTITION_LAG_SECONDS, age, labels)


def _put_bean(
    page: Page,
    ends: tuple[str, str],
    partition: PartitionStatus,
    rates: tuple[float, float] | None,
    by_partition: bool,
) -> None:
    """Put what MM2 reports for a partition; without a partition's label it is a topic's."""
    index = str(partition.partition) if by_partition else ""
    labels = *ends, partition.remote_topic, index
    _put(page, metrics.RECORD_COUNT, partition.records, labels)
    _put(page, metrics.BYTE_COUNT, partition.bytes, labels)
    if rates is not None:
        _put(page, metrics.RECORD_RATE, rates[0], labels)
        _put(page, metrics.BYTE_RATE, rates[1], labels)
    _put_spread(page, metrics.RECORD_AGE, partition.record_age_ms, labels)
    _put_spread(page, metrics.REPLICATION_LATENCY, partition.replication_latency_ms, labels)


def _put_latency(
    page: Page, ends: tuple[str, str], group: GroupStatus, took: Spread | None, by_place: bool
) -> None:
    if not by_place:
        _put_spread(page, metrics.CHECKPOINT_LATENCY, took, (*ends, group.group, "", ""))
        return
    for checkpoint in group.checkpoints:
        place = checkpoint.partition
        labels = *ends, group.group, place.topic, str(place.index)
        _put_spread(page, metrics.CHECKPOINT_LATENCY, took, labels)


def _put_spread(page: Page, into: metrics.Spread, spread: Spread | None, labels: Labels) -> None:
    if spread is not None:
        _put(page, into.last, spread.last, labels)
        if spread.min is not None and spread.max is not None and spread.avg is not None:
            _put(page, into.min, spread.min, labels)
            _put(page, into.max, spread.max, labels)
            _put(page, into.avg, spread.avg, labels)


def _shorten(reasons: Counter[str]) -> Counter[str]:
    """Return the ten most common reasons, and the others as one."""
    kept: Counter[str] = Counter()
    for place, (reason, count) in enumerate(reasons.most_common()):
        kept[reason[:_REASON_LENGTH] if place < _REASONS else "other"] += count
    return kept


def _put_audits(page: Page, audits: Iterable[DrillStatus | VerifyStatus]) -> None:
    for audit in audits:
        ends = split(audit.flow)
        match audit:
            case DrillStatus():
                _put(page, metrics.DRILL_TIME, audit.at, ends)
                _put(page, metrics.DRILL_OK, float(audit.ok), ends)
                if audit.rpo_seconds is not None:
                    _put(page, metrics.DRILL_RPO, audit.rpo_seconds, ends)
                if audit.rto_seconds is not None:
                    _put(page, metrics.DRILL_RTO, audit.rto_seconds, ends)
            case VerifyStatus():
                _put(page, metrics.VERIFY_TIME, audit.at, ends)
                _put(page, metrics.VERIFY_OK, -1.0 if audit.ok is None else float(audit.ok), ends)
                _put(page, metrics.VERIFY_RECORDS, audit.records, ends)


def _put_usage(page: Page, usage: Mapping[str, Usage]) -> None:
    for part, its in usage.items():
        _put(page, metrics.PROCESSES, its.processes, (part,))
        _put(page, metrics.PROCESS_CPU, its.cpu_seconds, (part,))
        _put(page, metrics.PROCESS_MEMORY, its.resident_bytes, (part,))
