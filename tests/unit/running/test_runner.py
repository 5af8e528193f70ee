"""What a runner counts, without a broker: a job is assigned to, and none is started."""

import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any, cast

import pytest

from heliograph.config.flow import FlowConfig
from heliograph.driving.job import FlowJob
from heliograph.driving.lease_server import LeaseServer
from heliograph.driving.partitions import Partition, Stop
from heliograph.flows.upkeep import TopicUpkeep
from heliograph.model import Position, StopKind, TopicPartition
from heliograph.running.losses import raise_alarms
from heliograph.running.runner import FlowRunner

UNUSED = cast(Any, None)


@pytest.fixture
def runner(config: FlowConfig) -> Iterator[FlowRunner]:
    with closing(LeaseServer()) as leases:
        yield FlowRunner(config, UNUSED, leases)


def open_job(runner: FlowRunner) -> FlowJob:
    return runner._work.open_job(UNUSED, TopicUpkeep(runner._config), None)


def partition(kind: StopKind, index: int = 0, remote_id: str = "r1") -> Partition:
    place = TopicPartition("t", index)
    stop = Stop(kind, 50, "so it is", time.monotonic())
    return Partition(place, "s1", place, remote_id, 1 << 20, Position(50, 50), stop=stop)


@pytest.mark.parametrize("kind", [kind for kind in StopKind if kind.is_loss])
def test_a_partition_that_stops_for_a_loss_is_an_alarm_by_its_kind_once(
    runner: FlowRunner, kind: StopKind
) -> None:
    job = open_job(runner)
    for _ in range(3):  # a refresh finds it as it was
        job.assign([partition(kind), partition(kind, 1)])
        raise_alarms(job, runner.tally)
    assert runner.status().losses == {kind.value: 2}

    again = open_job(runner)
    again.assign([partition(kind), partition(kind, 1)])
    raise_alarms(again, runner.tally)
    assert runner.status().losses == {kind.value: 2}


def test_a_topic_that_is_made_anew_once_more_is_another_alarm(runner: FlowRunner) -> None:
    job = open_job(runner)
    for remote_id in ("r1", "r2"):
        job.assign([partition(StopKind.MADE_ANEW, remote_id=remote_id)])
        raise_alarms(job, runner.tally)
    assert runner.status().losses == {"made-anew": 2}


@pytest.mark.parametrize("kind", [kind for kind in StopKind if not kind.is_loss])
def test_what_is_tried_again_or_not_looked_into_yet_is_no_loss(
    runner: FlowRunner, kind: StopKind
) -> None:
    job = open_job(runner)
    job.assign([partition(kind)])
    raise_alarms(job, runner.tally)
    assert runner.status().losses == {}


def test_an_alarm_is_given_for_four_kinds_of_loss() -> None:
    names = {kind.value for kind in StopKind if kind.is_loss}
    assert names == {"loss", "made-anew", "untracked", "target-truncated"}


def test_a_job_made_anew_counts_on(runner: FlowRunner) -> None:
    before = open_job(runner)
    before.tally.add("t", 7, 70)
    before.tally.verdicts["pass"] += 3
    before.tally.latency.add(20, 7)
    before.tally.handovers = 4
    runner._work.job = open_job(runner)
    runner._work.job.tally.add("t", 1, 10)

    status = runner.status()

    assert (status.records, status.bytes, status.handovers) == (8, 80, 4)
    assert status.verdicts == {"pass": 3}
    assert sum(status.latency_counts) == 7
