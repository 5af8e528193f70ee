from datetime import timedelta

import pytest

from heliograph.client.homeward import Homeward, next_try
from heliograph.client.places import Left
from heliograph.model import TopicPartition

NOW = 1_000_003.0
PARTITION = TopicPartition("A.orders", 0)


def make() -> Homeward:
    return Homeward(timedelta(seconds=10), timedelta(seconds=15), timedelta(seconds=60))


def tries(homeward: Homeward, count: int, *, stopped: bool) -> list[int]:
    """Fail again and again, each time as soon as it may be tried; return when that was."""
    now, found = NOW, []
    for _ in range(count):
        homeward.fail(now, stopped=stopped)
        now = next(at for second in range(1000) if homeward.is_due(at := int(now) + second))
        found.append(now)
    return found


def test_home_is_thought_of_at_once() -> None:
    assert make().is_due(NOW)


def test_what_stops_reading_is_tried_ever_more_rarely() -> None:
    times = tries(make(), 8, stopped=True)
    assert times == [1000010, 1000020, 1000040, 1000080, 1000160, 1000320, 1000480, 1000640]


def test_what_costs_nothing_is_tried_often_enough_to_meet_the_others() -> None:
    times = tries(make(), 5, stopped=False)
    assert times == [1000010, 1000020, 1000040, 1000060, 1000080]


def test_a_cheap_try_after_dear_ones_is_repeated_soon() -> None:
    homeward = make()
    tries(homeward, 8, stopped=True)
    homeward.fail(NOW, stopped=False)
    assert tries(homeward, 1, stopped=False) == [1000010]


def test_one_that_arrived_begins_anew() -> None:
    homeward = make()
    tries(homeward, 8, stopped=True)
    homeward.arrive()
    assert homeward.is_due(NOW)
    assert tries(homeward, 1, stopped=True) == [1000010]


@pytest.mark.parametrize("late", [0.0, 2.5, 7.9])
def test_members_that_failed_more_or_less_often_meet(late: float) -> None:
    often = {next_try(NOW + late + 20 * n, timedelta(seconds=20)) for n in range(20)}
    assert next_try(NOW, timedelta(seconds=160)) in often


def test_a_map_is_awaited_up_to_where_the_group_was_and_no_further() -> None:
    homeward = make()
    assert homeward.mark(NOW, Left("B", {PARTITION: 5})).committed == {PARTITION: 5}
    assert homeward.may_wait(NOW)
    assert not homeward.is_due(NOW + 2)
    assert homeward.is_due(NOW + 3)
    later = homeward.mark(NOW + 3, Left("B", {PARTITION: 9}, {"A.orders": 1}))
    assert (later.committed, later.counts) == ({PARTITION: 5}, {"A.orders": 1})
    assert homeward.may_wait(NOW + 11)
    assert not homeward.may_wait(NOW + 13)
    homeward.fail(NOW + 13, stopped=False)
    assert homeward.mark(NOW + 30, Left("B", {PARTITION: 9})).committed == {PARTITION: 9}
