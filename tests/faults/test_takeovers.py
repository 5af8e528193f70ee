"""Two drivers of one file, on a target that forgets identities after seconds: one of them writes at a time."""

import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from heliograph.client import MirrorClient
from heliograph.client import TopicPartition as Partition
from lab.clusters import LiveCluster, eventually, start_live_cluster
from lab.load import SteadyLoad, account
from lab.mirrors import Mirror, flow_properties, unique_alias
from lab.places import read_places
from lab.processes import freeze, send_to_all, tree, workers
from tests.contract.brokers import in_transactions

pytestmark = [pytest.mark.fault, pytest.mark.timeout(1800)]

PARTITIONS = 4
TURNS = 20
CLEAN = {"lost": 0, "repeated": 0, "out of order": 0}
_FORGETFUL = {
    "transactional.id.expiration.ms": "8000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "1000",
    "producer.id.expiration.ms": "8000",
    "producer.id.expiration.check.interval.ms": "1000",
}


@pytest.fixture(scope="module")
def forgetful(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    live = start_live_cluster("forgetful", tmp_path_factory.mktemp("forgetful"), config=_FORGETFUL)
    yield live
    live.cluster.wipe()


class Pair:
    """Two mirrors of the same flow, of which one copies at a time."""

    def __init__(self, source: LiveCluster, target: LiveCluster, folder: Path) -> None:
        self.source, self.target = source, target
        self.topic = source.create_topic(PARTITIONS)
        alias = unique_alias()
        self.remote = f"{alias}.{self.topic}"
        properties = flow_properties(
            (alias, source.bootstrap), ("B", target.bootstrap), self.topic, tasks_max="2"
        )
        self.mirrors = [Mirror(folder / name, properties) for name in ("one", "other")]

    def copied(self) -> int:
        return sum(self.target.end_offsets(self.remote))

    def wait_for_first(self, records: int, by: Mirror) -> None:
        """Wait until the remote topic is there and has so many records."""
        eventually(lambda: self.target.partition_count(self.remote) == PARTITIONS, 90, by.tail)
        eventually(lambda: len(self.target.consume(self.remote)) >= records, 90, by.tail)

    def wait_for_progress(self, by: Mirror, records: int = 1000) -> None:
        before = self.copied()
        eventually(lambda: self.copied() > before + records, 120, by.tail)

    def wait_for_all(self, produced: int, by: Mirror) -> None:
        eventually(
            lambda: self.copied() >= produced and len(self.target.consume(self.remote)) >= produced,
            120,
            by.tail,
        )

    def kill(self, mirror: Mirror) -> None:
        if mirror.is_alive:
            send_to_all(tree(mirror.pid), signal.SIGKILL)
            mirror.wait()


@pytest.fixture
def pair(source: LiveCluster, forgetful: LiveCluster, tmp_path: Path) -> Iterator[Pair]:
    made = Pair(source, forgetful, tmp_path)
    yield made
    for mirror in made.mirrors:
        made.kill(mirror)


def await_fenced(mirror: Mirror, before: int) -> None:
    eventually(lambda: len(mirror.lines("fenced")) > before, 120, mirror.tail)


def crash(pair: Pair, old: Mirror, new: Mirror) -> None:
    pair.kill(old)
    new.start()
    pair.wait_for_progress(new)


def start_beside(pair: Pair, old: Mirror, new: Mirror) -> None:
    fenced = len(old.lines("fenced"))
    new.start()
    await_fenced(old, fenced)
    pair.wait_for_progress(new)
    pair.kill(old)


def wake_late(pair: Pair, old: Mirror, new: Mirror, sleep: Callable[[], None]) -> None:
    """Put the old one to sleep, let its identities be forgotten or not, and wake it while the new one writes."""
    fenced = len(old.lines("fenced"))
    asleep = tree(old.pid)
    freeze(asleep)
    sleep()
    new.start()
    pair.wait_for_progress(new)
    send_to_all(asleep, signal.SIGCONT)
    await_fenced(old, fenced)
    pair.wait_for_progress(new)
    pair.kill(old)


def test_two_drivers_take_over_from_each_other_and_nothing_is_lost_or_repeated(pair: Pair) -> None:
    old, new = pair.mirrors
    chance = random.Random(1)

    def forgotten() -> None:
        """Wait until a sleeping driver's identities have expired."""
        until = time.monotonic() + 12
        eventually(lambda: time.monotonic() > until)

    with SteadyLoad(pair.source, pair.topic, PARTITIONS, rate=2000) as load:
        old.start()
        pair.wait_for_progress(old)
        ways: list[Callable[[Pair, Mirror, Mirror], None]] = [
            crash,
            start_beside,
            lambda p, o, n: wake_late(p, o, n, lambda: None),
            lambda p, o, n: wake_late(p, o, n, forgotten),
        ]
        for turn in range(TURNS):
            pair.wait_for_progress(old, chance.randrange(500, 8000))
            ways[turn % len(ways)](pair, old, new)
            old, new = new, old
        produced = load.stop()
        pair.wait_for_all(produced, old)
        old.stop()
    assert account(pair.target, pair.remote, produced, PARTITIONS) == CLEAN


def test_a_driver_that_outlives_its_identities_keeps_its_flow(pair: Pair) -> None:
    """The review's experiment: after 40 quiet seconds the coordinator had forgotten the first driver."""
    first, second = pair.mirrors
    with SteadyLoad(pair.source, pair.topic, PARTITIONS, rate=500) as load:
        first.start()
        pair.wait_for_progress(first)
        quiet_until = time.monotonic() + 40
        eventually(lambda: time.monotonic() > quiet_until, 60)
        second.start()
        await_fenced(first, 0)
        pair.wait_for_progress(second)
        second.stop()
        # The only one left goes on by itself.
        pair.wait_for_progress(first)
        produced = load.stop()
        pair.wait_for_all(produced, first)
        first.stop()
    assert account(pair.target, pair.remote, produced, PARTITIONS) == CLEAN


def test_a_driver_that_slept_leaves_no_old_row_behind(pair: Pair) -> None:
    """It once wrote what it knew before it slept, and a segment that was closed was wrong for good."""
    first, second = pair.mirrors
    in_transactions(pair.source, pair.topic, ["keep", "drop"] * 30)
    first.start()
    pair.wait_for_first(1, first)
    in_transactions(pair.source, pair.topic, ["keep", "drop", "keep"] * 10)
    asleep = tree(first.pid)
    freeze(asleep)
    second.start()
    in_transactions(pair.source, pair.topic, ["keep", "drop"] * 300)
    places = eventually(
        lambda: read_places(pair.source, pair.topic, pair.target, pair.remote), 180, second.tail
    )
    send_to_all(asleep, signal.SIGCONT)
    await_fenced(first, 0)
    alias = pair.remote.partition(".")[0]
    with MirrorClient(pair.target.bootstrap) as client:

        def wrong() -> list[str]:
            maps = client.run_maps(alias)
            found = []
            for index, each in enumerate(places):
                runs = maps.get(Partition(pair.topic, index))
                found += ["no runs"] if runs is None else each.wrong(runs)
            return found

        eventually(lambda: not wrong(), 60, wrong)
        second.stop()
        pair.kill(first)
        assert wrong() == []


def test_of_two_drivers_that_were_confused_one_copies(pair: Pair) -> None:
    """A superseded driver used to take the flow back when one of its workers died; then both were down."""
    first, second = pair.mirrors
    pair.source.produce(pair.topic, [b"%012d" % n for n in range(100)])
    first.start()
    pair.wait_for_first(100, first)
    asleep = tree(first.pid)
    freeze(asleep)
    second.start()
    eventually(lambda: bool(second.lines("Spark is up")), 90, second.tail)
    send_to_all(asleep, signal.SIGCONT)
    send_to_all(workers(first.pid), signal.SIGKILL)
    await_fenced(first, 0)
    with SteadyLoad(pair.source, pair.topic, PARTITIONS, rate=500) as load:
        pair.wait_for_progress(second)
        produced = load.stop()
    eventually(lambda: len(pair.target.consume(pair.remote)) == 100 + produced, 90, second.tail)
    assert not second.lines("fenced")
    second.stop()
