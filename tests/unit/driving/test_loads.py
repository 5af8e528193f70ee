from types import SimpleNamespace

import pytest

from heliograph.driving.loads import Loads
from heliograph.driving.partitions import Partition
from heliograph.model import Position, TopicPartition

P = [TopicPartition("t", i) for i in range(4)]
SLICES = [(P[0], P[1]), (P[2], P[3])]


@pytest.fixture
def partitions(monkeypatch: pytest.MonkeyPatch) -> dict[TopicPartition, Partition]:
    clock = iter(range(0, 4000, 40))
    told = SimpleNamespace(monotonic=lambda: float(next(clock)))
    monkeypatch.setattr("heliograph.driving.loads.time", told)
    return {p: Partition(p, "id", p, "id", 1 << 20, Position(0, 0)) for p in P}


def carry(partition: Partition, records: int, lag: int) -> None:
    partition.records += records
    partition.bytes += 100 * records
    partition.position = Position(partition.records, partition.records)
    partition.end_offset = partition.records + lag


def test_a_task_that_lags_gives_partitions_away(
    partitions: dict[TopicPartition, Partition],
) -> None:
    watch = Loads()
    assert watch.propose(SLICES, partitions) is None
    for p in P[:2]:
        carry(partitions[p], 1000, lag=20_000)

    assert watch.propose(SLICES, partitions) == [(P[1],), (P[0], P[2], P[3])]
    assert watch.propose(SLICES, partitions) is None, "nothing was carried since"


def test_a_task_that_keeps_up_is_left_alone(partitions: dict[TopicPartition, Partition]) -> None:
    watch = Loads()
    watch.propose(SLICES, partitions)
    for p in P[:2]:
        carry(partitions[p], 1000, lag=20)

    assert watch.propose(SLICES, partitions) is None
