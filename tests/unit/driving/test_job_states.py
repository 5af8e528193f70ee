"""A job, its tasks in threads, and clusters that fail at exact points. In process only; on real ones: tests/broker/test_copying.py."""

from contextlib import closing

import pytest

from heliograph.driving.job import FlowJob
from heliograph.driving.ownership import group_of
from heliograph.kafka.cluster import Cluster
from heliograph.model import Position, StopKind
from lab.clusters import eventually
from lab.inprocess.messages import Api
from lab.inprocess.script import Event, Fate
from lab.inprocess.topics import NO_LEADER
from lab.moves import is_moving, rebalance
from tests.unit.copying.weather import Weather
from tests.unit.driving.jobs import WITHIN, Driven
from tests.unit.kafka.brokers import stored_values


def test_a_job_fences_earlier_writers_and_copies_and_knows_its_positions_when_it_stops(
    driven: Driven,
) -> None:
    driven.pair.produce(4)
    job = driven.start()
    driven.finish(job)
    assert job.tally.restarts == 0
    assert sorted(p.position.upstream for p in job.partitions()) == [12] * 3

    fenced = {
        (topic.name, index)
        for asked in driven.pair.target.asked(Api.ADD_PARTITIONS_TO_TXN)
        for topic in asked.request.v3_and_below_topics
        for index in topic.partitions
    }
    assert fenced == {(remote.topic, remote.index) for remote in driven.pair.remotes}


def test_a_remote_topic_that_the_driver_made_needs_no_fence(driven: Driven) -> None:
    driven.pair.produce(1)
    partitions = driven.partitions()
    for partition in partitions:
        partition.made = True
    job = driven.start(partitions)
    driven.finish(job)
    assert driven.pair.target.asked(Api.ADD_PARTITIONS_TO_TXN) == []


def test_a_task_that_loses_its_lease_under_load_loses_and_repeats_nothing(
    driven: Driven,
) -> None:
    job = driven.start()
    for _ in range(3):
        driven.pair.produce(5)
        driven.hang_up(job)
    driven.finish(job)
    assert job.tally.restarts >= 1


def test_a_lease_that_is_lost_while_batches_are_in_flight_loses_and_repeats_nothing(
    driven: Driven,
) -> None:
    """They are stored or not: the next task reads the tail."""
    job = driven.start()
    driven.pair.produce(2)
    driven.check(job)
    held = driven.pair.target.hold(Api.PRODUCE)
    driven.pair.produce(5)
    eventually(lambda: len(driven.pair.target.asked(Api.PRODUCE)) > 2)
    driven.hang_up(job)
    eventually(lambda: job.tally.restarts == 1)
    driven.pair.target.release(held)
    driven.finish(job)


def test_partitions_that_move_between_tasks_under_load_lose_and_repeat_nothing(
    driven: Driven,
) -> None:
    job = driven.start(slices=2)
    first, second, third = driven.pair.places
    plans = [[(first,), (second, third)], [(first, second), (third,)], [(third,), (first, second)]]
    eventually(lambda: job.tasks() == 2)
    for number in range(6):
        driven.pair.produce(3)
        rebalance(job, plans[number % 3])
        eventually(lambda: not is_moving(job))
    driven.finish(job)
    assert job.tally.handovers >= 6
    assert job.tally.restarts == 0
    # What is handed over is not fenced again.
    assert sum(map(len, driven.runs.values())) == 3 * 6 * 9


def test_a_job_goes_on_where_one_that_died_was(driven: Driven) -> None:
    """Its positions were saved before most of its records were written: these are found on the target."""
    before = driven.start()
    driven.pair.produce(5)
    driven.check(before)
    before.stop(WITHIN)
    driven.pair.produce(2)

    driven.ownership = driven.own()
    driven.runs.clear()
    job = driven.start()
    driven.finish(job)
    assert job.tally.verdicts["foreign"] == 0


def test_a_job_whose_flow_another_driver_has_taken_gives_up(driven: Driven) -> None:
    """It looks because one of its writers was fenced."""
    driven.pair.produce(1)
    job = driven.start()
    driven.check(job)
    assert job.is_sure()
    after = driven.own()
    with closing(Cluster(driven.pair.target.endpoint)) as target:
        for remote in driven.pair.remotes:
            after.take_group(target, group_of(remote), [remote])
    driven.pair.produce(1)

    eventually(lambda: driven.fatal)
    assert driven.fatal[0].startswith("fenced: ")
    assert not job.is_sure()
    assert not any(driven.is_copied(index) for index in range(driven.pair.count))


def test_a_coordinator_that_is_away_keeps_partitions_waiting_no_longer_than_that(
    driven: Driven,
) -> None:
    driven.pair.produce(1)
    away = driven.pair.target.plan(Event(Api.ADD_PARTITIONS_TO_TXN, times=3, fate=Fate.UNHEARD))
    job = driven.start()
    eventually(away.happened.is_set)
    driven.finish(job)


def test_a_partition_without_a_leader_on_the_target_waits_alone(driven: Driven) -> None:
    driven.pair.produce(2)
    remote = driven.pair.remotes[0]
    driven.pair.target.elect(remote, NO_LEADER)
    job = driven.start()
    eventually(job.waiting)
    eventually(lambda: driven.is_copied(1) and driven.is_copied(2))
    assert job.waiting() == {driven.pair.places[0]: f"{remote} has no leader"}

    driven.pair.target.elect(remote, 1)
    driven.finish(job)
    assert job.waiting() == {}


def test_a_remote_partition_that_ends_before_its_position_is_a_loss(driven: Driven) -> None:
    """It is found before the fence, whose marker would fill the place."""
    driven.pair.produce(2)
    partitions = [driven.partition(0, Position(6, 6)), driven.partition(1), driven.partition(2)]
    job = driven.start(partitions)
    (stopped,) = eventually(job.stopped)
    assert stopped.stop is not None
    assert (stopped.source, stopped.stop.kind) == (driven.pair.places[0], StopKind.TRUNCATED)
    assert stored_values(driven.pair.target, driven.pair.remotes[0]) == []
    assert driven.pair.target.end_of(driven.pair.remotes[0]) == 0, "no marker either"


def test_a_partition_that_is_dropped_is_handed_over_and_may_come_back(driven: Driven) -> None:
    job = driven.start()
    driven.pair.produce(2)
    driven.check(job)
    job.assign([driven.partition(1), driven.partition(2)])
    eventually(lambda: not any(a.leaving for a in job._roster.attempts.values()))
    driven.pair.produce(2)
    eventually(lambda: driven.is_copied(1) and driven.is_copied(2))
    assert len(stored_values(driven.pair.target, driven.pair.remotes[0])) == 6

    back = driven.partition(0, Position(6, 7))  # one marker is before the records
    job.assign([back, driven.partition(1), driven.partition(2)])
    driven.finish(job)
    assert job.tally.restarts == 0


def test_a_stopped_partition_goes_on_where_it_is_repositioned(driven: Driven) -> None:
    driven.pair.produce(4)
    place = driven.pair.places[0]
    driven.pair.source.change_log(place, lambda log: log.delete_before(6))
    job = driven.start()
    (stopped,) = eventually(job.stopped)
    assert stopped.stop is not None
    assert stopped.stop.kind is StopKind.OUT_OF_RANGE
    job.reposition(place, 6)
    eventually(lambda: driven.is_copied(0))
    assert job.stopped() == []
    assert job.stop(WITHIN)
    assert [p.position.upstream for p in job.partitions()] == [12, 12, 12]


def in_weather(driven: Driven, job: FlowJob, seed: int) -> None:
    """Lose leases and connections, move leaders and partitions, while records are written."""
    first, second, third = driven.pair.places
    plans = [[(first,), (second, third)], [(first, second), (third,)]]
    weather = Weather(driven.pair, seed)
    for number in range(8):
        weather.strike()
        weather.write()
        if number % 4 == 1:
            driven.hang_up(job, seed % 2)
        elif number % 4 == 3 and not is_moving(job):
            rebalance(job, plans[number // 4 % 2])
        weather.await_progress()
    weather.clear()


@pytest.mark.parametrize("seed", range(3))
def test_whatever_happens_to_brokers_and_leases_every_record_is_copied_once_and_in_order(
    driven: Driven, seed: int
) -> None:
    job = driven.start(slices=2)
    in_weather(driven, job, seed)
    driven.finish(job)
