from collections.abc import Sequence
from typing import Any, cast

import pytest

from heliograph.driving.loads import Loads
from heliograph.driving.partitions import Attempt, Partition
from heliograph.model import Position, TopicPartition

P = [TopicPartition("t", i) for i in range(4)]
SLICES = [(P[0], P[1]), (P[2], P[3])]


class Clock:
    """A clock that a test moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class Scene:
    """A job of two tasks, as those see it who look at it once a second."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.loads = Loads(self.clock)
        self.partitions = {p: Partition(p, "id", p, "id", 1 << 20, Position(0, 0)) for p in P}
        self.attempts = {i: Attempt(i, 1, cast("Any", None)) for i in range(2)}

    def carry(self, of: list[TopicPartition], records: int, lag: int) -> None:
        for source in of:
            partition = self.partitions[source]
            partition.records += records
            partition.bytes += 100 * records
            partition.position = Position(partition.records, partition.records)
            partition.end_offset = partition.records + lag

    def look(
        self, slices: Sequence[tuple[TopicPartition, ...]], most: int = 2, after: float = 10.0
    ) -> list[tuple[TopicPartition, ...]] | None:
        self.clock.now += after
        return self.loads.propose(slices, self.partitions, self.attempts, most)


@pytest.fixture
def scene() -> Scene:
    made = Scene()
    assert made.look(SLICES) is None
    return made


def test_a_task_that_lags_gives_partitions_away(scene: Scene) -> None:
    scene.carry(P[:2], 1000, lag=20_000)

    assert scene.look(SLICES) == [(P[1],), (P[0], P[2], P[3])]
    assert scene.look(SLICES) is None, "nothing was carried since"


def test_a_task_that_keeps_up_is_left_alone(scene: Scene) -> None:
    scene.carry(P[:2], 1000, lag=20)

    assert scene.look(SLICES) is None


def test_what_moved_must_show_first_whether_it_helped(scene: Scene) -> None:
    scene.carry(P[:2], 1000, lag=20_000)
    assert scene.look(SLICES) is not None

    scene.carry(P[:2], 1000, lag=20_000)
    assert scene.look(SLICES, after=2.0) is None
    scene.carry(P[:2], 1000, lag=20_000)
    assert scene.look(SLICES, after=9.0) is not None


def test_a_task_that_computes_all_the_time_gets_help_at_once(scene: Scene) -> None:
    alone = [tuple(P)]
    scene.look(alone)
    scene.carry(P, 1_000_000, lag=0)
    scene.attempts[0].cpu_seconds += 0.9

    assert scene.look(alone, after=1.0) == [(P[2], P[3]), (P[0], P[1])]


def test_after_a_quiet_minute_one_task_has_all(scene: Scene) -> None:
    assert scene.look(SLICES, after=30.0) is None
    assert scene.look(SLICES, after=31.0) == [tuple(P)]
