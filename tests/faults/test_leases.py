"""A driver and its tasks that hear each other late, or not at all, or while a broker dies."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from datetime import timedelta

import pytest

from heliograph.driving.ownership import PERMISSION
from heliograph.embedded.ports import pick_port
from heliograph.errors import MirrorError
from heliograph.model import TopicPartition
from heliograph.wire.lease_messages import Claim
from lab.clusters import LiveCluster, eventually
from lab.moves import is_moving, rebalance
from lab.proxy import DEAF, GOOD, Line, Proxy
from tests.broker.test_copying import PARTITIONS, Pair
from tests.unit.driving.engines import FakeEngine

pytestmark = [pytest.mark.fault, pytest.mark.timeout(600)]


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


class FarEngine(FakeEngine):
    """A Spark whose first task has its lease over a line that can be made bad, and which a cancelled task outlives.

    So does an executor that its driver has lost: it works on, and Spark calls it gone.
    """

    def __init__(self, port: int) -> None:
        super().__init__()
        self._port = port
        self._cancelled = threading.Event()
        self.threads: list[threading.Thread] = []

    def run_slice(self, claim: Claim, group: str) -> None:
        if claim.attempt > 1:
            super().run_slice(claim, group)
            return
        self.claims.append(claim)
        thread = threading.Thread(target=self._work, args=(replace(claim, port=self._port),))
        self.threads.append(thread)
        thread.start()
        while thread.is_alive():
            if self._cancelled.wait(0.1):
                raise MirrorError("the executor is lost")

    def _work(self, claim: Claim) -> None:
        with suppress(MirrorError):
            self.run(claim)

    def cancel(self, group: str) -> None:
        super().cancel(group)
        self._cancelled.set()


class Far:
    """A pair whose first task is far from its driver, and which is written to all the time."""

    def __init__(self, source: LiveCluster, target: LiveCluster, stack: ExitStack) -> None:
        port = pick_port()
        self.engine = FarEngine(port)
        self.pair = Pair(source, target, stack, engine=self.engine)
        self.line = stack.enter_context(Proxy({port: self.pair.leases.address[1]}))
        self.job = self.pair.start()
        self._over = threading.Event()
        self.produced = 0
        self._thread = threading.Thread(target=self._load)
        self._thread.start()
        stack.callback(self.stop)

    def stop(self) -> int:
        self._over.set()
        self._thread.join()
        return self.produced

    def copied(self) -> int:
        return sum(self.pair.target.end_offsets(self.pair.remote))

    def await_progress(self, within: float = 60) -> None:
        before = self.copied()
        eventually(lambda: self.copied() > before + 300, within, lambda: self.pair.failures)

    def _load(self) -> None:
        while not self._over.wait(0.2):
            self.pair.produce(self.produced, 60)
            self.produced += 60


@pytest.fixture
def far(source: LiveCluster, target: LiveCluster, stack: ExitStack) -> Far:
    return Far(source, target, stack)


def wait(seconds: float) -> None:
    until = time.monotonic() + seconds
    eventually(lambda: time.monotonic() > until, seconds + 10)


def test_a_lease_that_is_answered_slowly_keeps_nothing_from_being_copied(far: Far) -> None:
    far.await_progress()
    far.line.set_line(Line(delay=timedelta(seconds=4)))
    wait(PERMISSION + 10)
    for _ in range(3):
        far.await_progress(10)

    assert far.job.tally.restarts == 0
    far.line.set_line(GOOD)
    far.pair.check(far.stop())
    far.pair.check_runs()


def test_a_lease_that_is_answered_too_late_keeps_its_task_from_writing_until_it_is_good_again(
    far: Far,
) -> None:
    """A permission counts from when it was asked for: one that comes after its end permits nothing."""
    far.await_progress()
    far.line.set_line(Line(delay=timedelta(seconds=PERMISSION / 2 + 2)))
    wait(PERMISSION + 2)
    before = far.copied()
    wait(5)
    assert far.copied() == before
    assert far.job.tally.restarts == 0
    far.line.set_line(GOOD)
    far.await_progress()
    far.pair.check(far.stop())
    far.pair.check_runs()


def test_a_task_that_is_cut_off_from_its_driver_and_not_from_brokers_is_replaced_and_writes_nothing_more(
    far: Far,
) -> None:
    far.await_progress()
    far.line.set_line(DEAF)
    cut_at = time.monotonic()
    eventually(lambda: len(far.engine.claims) == 2, 90, lambda: far.pair.failures)
    assert time.monotonic() - cut_at > PERMISSION, "its permission had run out"
    (lost,) = far.engine.threads
    assert lost.is_alive(), "it works on, as far as Spark knows"
    far.await_progress()
    far.line.set_line(GOOD)
    far.await_progress()
    eventually(lambda: not lost.is_alive(), 90)
    far.pair.check(far.stop())
    far.pair.check_runs()


def test_partitions_that_move_while_their_broker_dies_lose_and_repeat_nothing(
    three: LiveCluster, stack: ExitStack
) -> None:
    pair = Pair(three, three, stack, copies=3)
    job = pair.start(slices=2)
    sources = [TopicPartition(pair.topic, index) for index in range(PARTITIONS)]
    plans = [
        [(sources[0],), (sources[1], sources[2])],
        [(sources[1], sources[2]), (sources[0],)],
        [(sources[2],), (sources[0], sources[1])],
    ]
    eventually(lambda: job.tasks() == 2)
    for turn in range(6):
        pair.produce(1000 * turn, 500)
        side = (pair.topic, pair.remote)[turn % 2]
        leaders = three.metadata().topics[side].partitions
        rebalance(job, plans[turn % 3])
        three.cluster.kill(leaders[turn % PARTITIONS].leader, signal.SIGKILL)
        pair.produce(1000 * turn + 500, 500)
        eventually(lambda: not is_moving(job), 60)
        pair.check(1000 * (turn + 1), 60)
        three.cluster.start()
        eventually(lambda: three.partition_count(pair.topic) == PARTITIONS, 60)
        eventually(lambda: three.partition_count(pair.remote) == PARTITIONS, 60)
    pair.check_runs()
