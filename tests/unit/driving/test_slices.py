"""A slice that fails, is started again and ends, on a Spark that a test plays."""

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import cast

import pytest

from heliograph.driving.lease_server import LeaseServer
from heliograph.driving.slices import SliceRunner
from heliograph.errors import ConfigError
from heliograph.spark.engine import Engine
from heliograph.wire.lease_messages import Claim
from lab.clusters import eventually
from tests.unit.driving.engines import FakeEngine, Run


class Job:
    """What a job tells a slice's thread, and hears of it."""

    def __init__(self) -> None:
        self.wanted: bool | None = True
        self.restarts: list[tuple[str, float]] = []

    def is_wanted(self, _index: int, timeout: float) -> bool | None:
        if self.wanted is False:
            threading.Event().wait(min(timeout, 0.01))
        return self.wanted

    def note_restart(self, index: int, reason: str, pause: float) -> None:
        assert index == 3
        self.restarts.append((reason, pause))


@pytest.fixture
def leases() -> Iterator[LeaseServer]:
    with closing(LeaseServer()) as server:
        yield server


def make_runner(engine: FakeEngine, job: Job, leases: LeaseServer) -> SliceRunner:
    return SliceRunner(
        cast("Engine", engine),
        leases,
        "A->B",
        3,
        is_wanted=job.is_wanted,
        on_restart=job.note_restart,
    )


@contextmanager
def running(engine: FakeEngine, job: Job, leases: LeaseServer) -> Iterator[SliceRunner]:
    runner = make_runner(engine, job, leases)
    runner.start()
    yield runner
    job.wanted = None
    runner.stop(10)
    assert not runner._thread.is_alive()


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heliograph.driving.slices._FIRST_PAUSE", 0.001)
    monkeypatch.setattr("heliograph.driving.slices._LONGEST_PAUSE", 0.004)


def failing(times: int, error: Exception) -> Run:
    """Fail so often, then end as a task that was told to."""

    def run(claim: Claim) -> None:
        if claim.attempt <= times:
            raise error

    return run


def test_a_slice_without_work_is_not_submitted(leases: LeaseServer) -> None:
    engine, job = FakeEngine(), Job()
    job.wanted = False
    with running(engine, job, leases):
        pass
    assert engine.claims == []


def test_a_claim_says_where_the_driver_is_and_which_attempt_it_is(leases: LeaseServer) -> None:
    job = Job()

    def run(claim: Claim) -> None:
        if claim.attempt == 2:
            job.wanted = None

    engine = FakeEngine(run)
    with running(engine, job, leases) as runner:
        eventually(lambda: not runner._thread.is_alive())
    host, port = leases.address
    assert engine.claims == [Claim("A->B", 3, n, host, port, leases.secret) for n in (1, 2)]
    assert job.restarts == [], "a job that ends as it should is no failure"


@pytest.mark.usefixtures("hurried")
def test_a_slice_that_fails_is_started_again_with_pauses_that_grow(leases: LeaseServer) -> None:
    job = Job()
    engine = FakeEngine(failing(4, ConfigError("no such file")))
    with running(engine, job, leases):
        eventually(lambda: len(engine.claims) > 4)
        job.wanted = None
    assert job.restarts == [("no such file", pause) for pause in (0.001, 0.002, 0.004, 0.004)]
    assert [claim.attempt for claim in engine.claims[:5]] == [1, 2, 3, 4, 5]


@pytest.mark.usefixtures("hurried")
def test_only_a_slice_that_keeps_failing_is_in_trouble_and_until_its_task_comes(
    leases: LeaseServer,
) -> None:
    job, failures = Job(), list[str | None]()
    told: list[SliceRunner] = []

    def run(claim: Claim) -> None:
        failures.append(told[0].failure)
        if claim.attempt < 3:
            raise RuntimeError("java.lang.OutOfMemoryError: heap\n at some place")
        told[0].note_progress()
        failures.append(told[0].failure)
        job.wanted = None

    engine = FakeEngine(run)
    runner = make_runner(engine, job, leases)
    told.append(runner)
    runner.start()
    eventually(lambda: not runner._thread.is_alive())
    assert failures == [None, None, "java.lang.OutOfMemoryError: heap", None]


@pytest.mark.usefixtures("hurried")
def test_a_slice_that_ran_long_before_it_failed_has_failed_for_the_first_time(
    leases: LeaseServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heliograph.driving.slices._SETTLED", -1.0)
    job = Job()
    engine = FakeEngine(failing(3, ConfigError("x")))
    with running(engine, job, leases) as runner:
        eventually(lambda: len(engine.claims) > 3)
        assert runner.failure is None
        job.wanted = None
    assert [pause for _, pause in job.restarts] == [0.001] * 3


def test_a_flow_that_ends_does_not_start_a_slice_again(leases: LeaseServer) -> None:
    job = Job()

    def run(_claim: Claim) -> None:
        job.wanted = None
        raise ConfigError("its lease was ended")

    engine = FakeEngine(run)
    with running(engine, job, leases) as runner:
        eventually(lambda: not runner._thread.is_alive())
    assert len(engine.claims) == 1
    assert job.restarts == []


def test_a_spark_that_is_not_up_is_waited_for_until_the_flow_ends(leases: LeaseServer) -> None:
    engine, job = FakeEngine(), Job()
    engine.is_up = False
    with running(engine, job, leases):
        pass
    assert engine.claims == []
    assert job.restarts == []


def test_a_job_that_does_not_end_is_ended_by_force(leases: LeaseServer) -> None:
    released = threading.Event()
    job = Job()
    engine = FakeEngine(lambda _: released.wait(60))
    runner = make_runner(engine, job, leases)
    runner.start()
    eventually(lambda: engine.claims)

    runner.stop(0.01)

    assert engine.cancelled == ["A->B 3"]
    released.set()
    eventually(lambda: not runner._thread.is_alive())
