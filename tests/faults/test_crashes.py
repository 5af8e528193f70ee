"""kill -9 under a steady load: nothing lost, nothing repeated, nothing out of order."""

import os
import random
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab.clusters import LiveCluster, Outgoing, eventually
from lab.load import SteadyLoad, account
from lab.mirrors import Mirror, flow_properties, unique_alias
from lab.processes import freeze, is_alive, send_to_all, tree, workers

pytestmark = [pytest.mark.fault, pytest.mark.timeout(600)]

PARTITIONS = 4
CLEAN = {"lost": 0, "repeated": 0, "out of order": 0}


class Scene:
    """A topic under load, and the mirror that copies it."""

    def __init__(self, source: LiveCluster, target: LiveCluster, folder: Path, name: str) -> None:
        self.source, self.target = source, target
        self.topic = source.create_topic(PARTITIONS)
        self.alias = alias = unique_alias()
        self.remote = f"{alias}.{self.topic}"
        self.properties = flow_properties(
            (alias, source.bootstrap), ("B", target.bootstrap), self.topic, tasks_max="2"
        )
        self.mirror = Mirror(folder / name, self.properties)

    def copied(self) -> int:
        """Return how many records the target has, roughly: end offsets, markers included."""
        return sum(self.target.end_offsets(self.remote))

    def wait_for_progress(self, records: int = 500, by: Mirror | None = None) -> None:
        before = self.copied()
        tail = (by or self.mirror).tail
        eventually(lambda: self.copied() > before + records, within=90, describe=tail)

    def wait_for_all(self, produced: int) -> None:
        eventually(
            lambda: self.copied() >= produced and self.count() >= produced,
            within=90,
            describe=self.mirror.tail,
        )

    def count(self) -> int:
        return len(self.target.consume(self.remote))


@pytest.fixture
def scene(source: LiveCluster, target: LiveCluster, tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(source, target, tmp_path, "mirror")
    yield scene
    if scene.mirror.is_alive:
        send_to_all(tree(scene.mirror.pid), signal.SIGKILL)


def _kill_driver(mirror: Mirror) -> None:
    below = [pid for pid in tree(mirror.pid) if pid != mirror.pid]
    os.kill(mirror.pid, signal.SIGKILL)
    mirror.wait()
    eventually(lambda: not any(map(is_alive, below)), within=30)


def _kill_tree(mirror: Mirror) -> None:
    send_to_all(tree(mirror.pid), signal.SIGKILL)
    mirror.wait()


@pytest.mark.parametrize("kill", [_kill_driver, _kill_tree], ids=["driver", "whole-tree"])
def test_restart_after_kill_loses_and_repeats_nothing(
    scene: Scene, kill: Callable[[Mirror], None]
) -> None:
    with SteadyLoad(scene.source, scene.topic, PARTITIONS) as load:
        for turn in range(3):
            scene.mirror.start()
            scene.wait_for_progress()
            # Anywhere between two saves: up to four seconds later.
            scene.wait_for_progress(random.Random(turn).randrange(100, 8000))
            kill(scene.mirror)
        with scene.mirror:
            scene.wait_for_progress()
            produced = load.stop()
            scene.wait_for_all(produced)
    assert account(scene.target, scene.remote, produced, PARTITIONS) == CLEAN


def test_killed_workers_are_replaced_without_loss_or_repeat(scene: Scene) -> None:
    with scene.mirror, SteadyLoad(scene.source, scene.topic, PARTITIONS) as load:
        scene.wait_for_progress()
        for turn in range(3):
            busy = workers(scene.mirror.pid)
            os.kill(busy[turn % len(busy)], signal.SIGKILL)
            scene.wait_for_progress()
        produced = load.stop()
        scene.wait_for_all(produced)
    assert account(scene.target, scene.remote, produced, PARTITIONS) == CLEAN


def test_a_writer_that_slept_through_its_succession_changes_nothing(
    scene: Scene, tmp_path: Path
) -> None:
    successor = Mirror(tmp_path / "successor", scene.properties)
    with SteadyLoad(scene.source, scene.topic, PARTITIONS) as load:
        scene.mirror.start()
        scene.wait_for_progress()
        asleep = tree(scene.mirror.pid)
        freeze(asleep)
        with successor:
            scene.wait_for_progress(by=successor)
            send_to_all(asleep, signal.SIGCONT)
            eventually(lambda: bool(scene.mirror.lines("fenced")), describe=scene.mirror.tail)
            scene.wait_for_progress(by=successor)
            produced = load.stop()
            scene.wait_for_all(produced)
            send_to_all(tree(scene.mirror.pid), signal.SIGKILL)
            scene.mirror.wait()
    assert account(scene.target, scene.remote, produced, PARTITIONS) == CLEAN


def test_topics_that_come_while_a_tail_is_met_repeat_nothing(scene: Scene) -> None:
    produced = 200_000
    scene.mirror.write(
        {
            **scene.properties,
            "B.offset.flush.interval.ms": "3600000",  # so that all of it is tail
            f"{scene.alias}->B.topics": f"{scene.topic}.*",
        }
    )
    records = [Outgoing(b"%012d" % n, partition=n % PARTITIONS) for n in range(produced)]
    scene.source.produce(scene.topic, records, linger_ms=0, batch_num_messages=20)
    scene.mirror.start()
    scene.wait_for_all(produced)
    _kill_tree(scene.mirror)

    with scene.mirror:
        for number in range(20):  # each may move partitions whose tails are not met yet
            scene.source.create_topic(name=f"{scene.topic}.{number}")
            remote = f"{scene.alias}.{scene.topic}.{number}"
            eventually(
                lambda: scene.target.partition_count(remote),  # noqa: B023 - called at once
                within=60,
                describe=scene.mirror.tail,
            )
    assert account(scene.target, scene.remote, produced, PARTITIONS) == CLEAN


def await_one(scene: Scene, remote: str) -> None:
    eventually(
        lambda: scene.target.partition_count(remote) and len(scene.target.consume(remote)) == 1,
        within=60,
        describe=scene.mirror.tail,
    )


def test_topics_that_are_made_as_workers_die_are_copied(scene: Scene) -> None:
    """A task that was being started once missed that the others made way, and a new topic waited for ten minutes."""
    scene.mirror.write({**scene.properties, f"{scene.alias}->B.topics": f"{scene.topic}.*"})
    with scene.mirror, SteadyLoad(scene.source, scene.topic, PARTITIONS) as load:
        scene.wait_for_progress()
        for number in range(20):
            send_to_all(workers(scene.mirror.pid)[:1], signal.SIGKILL)
            name = scene.source.create_topic(name=f"{scene.topic}.{number}")
            scene.source.produce(name, [b"first"])
            await_one(scene, f"{scene.alias}.{name}")
        produced = load.stop()
        scene.wait_for_all(produced)
    assert account(scene.target, scene.remote, produced, PARTITIONS) == CLEAN
