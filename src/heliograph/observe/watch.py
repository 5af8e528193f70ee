"""Flows over time: sampled every few seconds, for what one sample cannot show; an hour of it is kept."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple, TypeVar

from heliograph.observe import metrics_catalog as metrics
from heliograph.observe.audits import DrillStatus, VerifyStatus
from heliograph.observe.flow_status import FlowStatus, State
from heliograph.observe.health import Health, judge, unreachable
from heliograph.observe.metrics import Limits, Observer, Snapshot, split
from heliograph.policy.latency import LatencyBuckets

log = logging.getLogger(__name__)

_EVERY = 5.0
_KEPT = int(3600 / _EVERY)
_FRESH = 0.9
_RATE_WINDOW = 5.0
_LATENCY_WINDOW = 60.0
_HOURS = 24
_STOPPING = timedelta(seconds=5)
T = TypeVar("T", DrillStatus, VerifyStatus)
_FLOWS_ALONE = Limits(partitions=0, topics=0, groups=0)


class Sample(NamedTuple):
    """A flow at one time, in seconds since 1970; what is not known is None."""

    time: float
    rate: float | None
    byte_rate: float | None
    lag: int | None
    lag_seconds: float | None
    rpo_seconds: float
    p50_ms: int | None
    p99_ms: int | None


@dataclass(frozen=True, slots=True)
class FlowLook:
    """A flow as one sample showed it, with its values over time."""

    status: FlowStatus
    health: Health
    reason: str | None
    sample: Sample
    rpo_worst_seconds: float
    groups: int
    last_verify: VerifyStatus | None
    last_drill: DrillStatus | None


@dataclass(frozen=True, slots=True)
class ClusterLook:
    alias: str
    health: Health
    reason: str | None


@dataclass(frozen=True, slots=True)
class Look:
    """All flows and their clusters at one time."""

    time_ms: int
    flows: tuple[FlowLook, ...]
    clusters: tuple[ClusterLook, ...]


class _Course:
    """One flow over time: counts to take rates from, samples, and the worst RPO of each hour."""

    def __init__(self) -> None:
        self.samples: deque[Sample] = deque(maxlen=_KEPT)
        self._kept_at = float("-inf")
        self._counts: deque[tuple[float, int, int]] = deque()
        self._latencies: deque[tuple[float, tuple[int, ...]]] = deque()
        self._worst: deque[tuple[int, float]] = deque(maxlen=_HOURS)

    def note(
        self, now: float, at: float, status: FlowStatus, lag: float | None, rpo: float
    ) -> Sample:
        rate, byte_rate = self._rates(now, status)
        p50, p99 = self._quantiles(now, status.latency_counts)
        sample = Sample(at, rate, byte_rate, status.lag, lag, rpo, p50, p99)
        if now - self._kept_at >= _EVERY - _FRESH:  # not by the wall clock, which may jump
            self._kept_at = now
            self.samples.append(sample)
        hour = int(at // 3600)
        if self._worst and self._worst[-1][0] == hour:
            rpo = max(rpo, self._worst.pop()[1])
        self._worst.append((hour, rpo))
        return sample

    def worst(self, at: float) -> float:
        """Return the worst RPO of the last 24 hours."""
        return max(rpo for hour, rpo in self._worst if hour > at // 3600 - _HOURS)

    def _rates(self, now: float, status: FlowStatus) -> tuple[float | None, float | None]:
        counts = self._counts
        if counts and status.records < counts[-1][1]:
            counts.clear()  # it has started again
        counts.append((now, status.records, status.bytes))
        while len(counts) > 2 and now - counts[1][0] >= _RATE_WINDOW:
            counts.popleft()
        began, records, size = counts[0]
        if now <= began:
            return None, None
        passed = now - began
        return (status.records - records) / passed, (status.bytes - size) / passed

    def _quantiles(self, now: float, counts: tuple[int, ...]) -> tuple[int | None, int | None]:
        kept = self._latencies
        if not counts or (kept and sum(counts) < sum(kept[-1][1])):
            kept.clear()
        if not counts:
            return None, None
        if not kept or now - kept[-1][0] >= _EVERY - _FRESH:
            kept.append((now, counts))
        while len(kept) > 2 and now - kept[1][0] >= _LATENCY_WINDOW:
            kept.popleft()
        buckets = LatencyBuckets()
        buckets.merge(now - then for now, then in zip(counts, kept[0][1], strict=True))
        return buckets.quantile(0.5), buckets.quantile(0.99)


class Watch:
    """Samples the flows of a process every 5 s by itself, and on request; thread-safe."""

    def __init__(self, take: Callable[[], Snapshot], observer: Observer) -> None:
        self._take = take
        self._observer = observer
        self._lock = threading.Lock()
        self._courses: dict[str, _Course] = {}
        self._last: tuple[float, Look] | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(_STOPPING.total_seconds())

    def look(self) -> Look:
        """Return all flows as they are, or were within the last second."""
        with self._lock:
            if self._last is None or time.monotonic() - self._last[0] > _FRESH:
                snapshot = self._take()
                self._last = snapshot.now, self._note(snapshot)
            return self._last[1]

    def history(self, flow: str, seconds: float) -> list[Sample]:
        """Return the samples of a flow that are at most that old."""
        with self._lock:
            course = self._courses.get(flow)
            samples = list(course.samples) if course else []
        since = time.time() - seconds
        return [sample for sample in samples if sample.time >= since]

    def _run(self) -> None:
        while not self._stopping.wait(_EVERY):
            try:
                self.look()
            except Exception:  # the edge of a thread that must not end
                log.exception("flows could not be looked at")

    def _note(self, snapshot: Snapshot) -> Look:
        page = self._observer.page(snapshot, _FLOWS_ALONE)
        self._courses = {
            status.flow: self._courses.get(status.flow) or _Course() for status in snapshot.flows
        }
        flows = []
        for status in snapshot.flows:
            course, ends = self._courses[status.flow], split(status.flow)
            lag = page[metrics.FLOW_LAG_SECONDS].get(ends)
            rpo = page[metrics.FLOW_RPO][ends]
            at = snapshot.time_ms / 1000
            sample = course.note(snapshot.now, at, status, lag, rpo)
            flows.append(
                FlowLook(
                    status,
                    *judge(status, lag),
                    sample,
                    course.worst(at),
                    sum(len(kept.groups) for kept in snapshot.groups if kept.flow == status.flow),
                    _last(snapshot.audits, status.flow, VerifyStatus),
                    _last(snapshot.audits, status.flow, DrillStatus),
                )
            )
        return Look(int(snapshot.time_ms), tuple(flows), tuple(_clusters(snapshot.flows)))


def _last(audits: Sequence[DrillStatus | VerifyStatus], flow: str, kind: type[T]) -> T | None:
    return next((a for a in audits if isinstance(a, kind) and a.flow == flow), None)


def _clusters(flows: Sequence[FlowStatus]) -> list[ClusterLook]:
    """Return the clusters; one that no running flow asks is OFF: its health is unknown."""
    asked = {a for flow in flows if flow.state is State.RUNNING for a in split(flow.flow)}
    found = []
    for alias in sorted({a for flow in flows for a in split(flow.flow)}):
        reason = unreachable(alias, flows)
        well = Health.GOOD if alias in asked else Health.OFF
        found.append(ClusterLook(alias, Health.BAD if reason else well, reason))
    return found
