import itertools
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from heliograph.config.flow import FlowConfig
from heliograph.observe import watch as room
from heliograph.observe.flow_status import State, status_at_rest
from heliograph.observe.health import Health
from heliograph.observe.metrics import Observer, Snapshot
from heliograph.observe.watch import Look, Watch
from heliograph.policy.latency import BOUNDS_MS

RUNS = replace(
    status_at_rest(cast(FlowConfig, SimpleNamespace(flow="A->B"))), state=State.RUNNING, lag=0
)
NOON = 1_700_000_000.0


class Clock:
    """Looks that are taken when a test says, of a flow that it changes."""

    def __init__(self) -> None:
        self.now = 100.0
        self.wall = NOON
        self.flow = RUNS
        self.watch = Watch(self.take, Observer())

    def take(self) -> Snapshot:
        return Snapshot(now=self.now, time_ms=self.wall * 1000, flows=[self.flow])

    def tick(self, seconds: float, **changes: object) -> Look:
        self.now += seconds
        self.wall += seconds
        self.flow = replace(self.flow, **changes)  # type: ignore[arg-type]
        return self.watch.look()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    made = Clock()
    monkeypatch.setattr("heliograph.observe.watch.time.monotonic", lambda: made.now)
    monkeypatch.setattr("heliograph.observe.watch.time.time", lambda: made.wall)
    yield made
    made.watch.stop()


def counts(**by_bound: int) -> tuple[int, ...]:
    found = dict.fromkeys((*BOUNDS_MS, 0), 0)
    found |= {int(bound[2:]): count for bound, count in by_bound.items()}
    return tuple(found.values())


def test_a_rate_is_of_the_last_five_seconds(clock: Clock) -> None:
    clock.tick(0)
    (flow,) = clock.tick(1, records=100, bytes=1000).flows
    assert (flow.sample.rate, flow.sample.byte_rate) == (100.0, 1000.0)
    for second in range(20):
        (flow,) = clock.tick(1, records=100 + 10 * (second + 1)).flows
    assert flow.sample.rate == 10.0


def test_a_flow_that_begins_anew_has_no_rate_below_nothing(clock: Clock) -> None:
    clock.tick(0, records=500)
    clock.tick(1, records=600)
    (flow,) = clock.tick(1, records=3).flows
    assert flow.sample.rate is None


def test_percentiles_are_of_the_last_minute(clock: Clock) -> None:
    clock.tick(0, latency_counts=counts(ms5=0))
    (flow,) = clock.tick(1, latency_counts=counts(ms5=1000)).flows
    assert (flow.sample.p50_ms, flow.sample.p99_ms) == (5, 5)
    for second in range(90):
        (flow,) = clock.tick(1, latency_counts=counts(ms5=1000, ms250=second)).flows
    assert (flow.sample.p50_ms, flow.sample.p99_ms) == (250, 250)


def test_history_is_kept_every_five_seconds_whatever_the_clock_on_the_wall_does(
    clock: Clock,
) -> None:
    for _ in range(60):
        clock.tick(1)
    assert len(clock.watch.history("A->B", 3600)) == pytest.approx(12, abs=1)
    clock.wall -= 7200
    for _ in range(60):
        clock.tick(1)
    kept = clock.watch.history("A->B", 10_000_000)
    assert len(kept) == pytest.approx(24, abs=2)


def test_history_is_bounded(clock: Clock) -> None:
    for _ in range(2000):
        clock.tick(5)
    assert len(clock.watch.history("A->B", 10_000_000)) == 720


def test_the_worst_rpo_is_remembered_for_a_day(clock: Clock) -> None:
    clock.tick(0)
    (flow,) = clock.tick(50, state=State.FAILED).flows
    assert flow.rpo_worst_seconds == 50
    (flow,) = clock.tick(1, state=State.RUNNING).flows
    assert (flow.sample.rpo_seconds, flow.rpo_worst_seconds) == (0, 50)
    for _ in range(25):
        (flow,) = clock.tick(3600).flows
    assert flow.rpo_worst_seconds == 0


def test_a_cluster_that_nobody_asks_is_not_said_to_be_well(clock: Clock) -> None:
    assert {c.health for c in clock.tick(0).clusters} == {Health.GOOD}
    look = clock.tick(1, state=State.STOPPED)
    assert {c.alias: c.health for c in look.clusters} == {"A": Health.OFF, "B": Health.OFF}


def test_looks_of_one_second_are_one_look(clock: Clock) -> None:
    assert clock.tick(1) is clock.tick(0.5)


def test_one_look_that_fails_does_not_end_the_watching(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_EVERY", 0.01)
    monkeypatch.setattr(room, "_FRESH", 0.0)
    looked = itertools.count()
    fourth = threading.Event()

    def take() -> Snapshot:
        number = next(looked)
        if number == 1:
            raise ValueError("of a file of the kernel's")
        if number == 3:
            fourth.set()
        return Snapshot(now=time.monotonic(), time_ms=0, flows=[])

    watch = Watch(take, Observer())
    watch.start()
    try:
        assert fourth.wait(10)
    finally:
        watch.stop()
