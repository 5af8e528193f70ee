import threading
import time
from collections.abc import Iterable
from datetime import timedelta

from heliograph.errors import KafkaFault
from heliograph.flows.schedule import Chore, ChoreStatus, Schedule, broken_chores
from lab.clusters import eventually

SOON = timedelta(milliseconds=20)


class Work:
    """Does what it is told to, and lets itself be waited for."""

    def __init__(self, *outcomes: Iterable[str] | Exception) -> None:
        self._outcomes = list(outcomes)
        self._done = threading.Semaphore(0)

    def __call__(self) -> Iterable[str]:
        outcome = self._outcomes.pop(0) if self._outcomes else ()
        self._done.release()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def wait(self, times: int) -> None:
        for _ in range(times):
            assert self._done.acquire(timeout=10)


def run(*chores: Chore) -> Schedule:
    schedule = Schedule("test", chores)
    schedule.start()
    return schedule


def stop(schedule: Schedule) -> None:
    schedule.stop()
    schedule.join(10)
    assert not schedule.is_alive()


def test_a_chore_that_fails_is_told_tried_again_and_spoils_no_other() -> None:
    fails = Work(KafkaFault("do it", "NO", False), ["half of it"], ValueError("odd"))
    goes_on = Work()
    schedule = run(Chore("a", SOON, fails), Chore("b", SOON, goes_on))
    fails.wait(1)
    goes_on.wait(3)
    fails.wait(3)
    stop(schedule)
    assert {status.name: status.troubles for status in schedule.status()} == {"a": (), "b": ()}
    assert all(status.runs >= 3 for status in schedule.status())


def test_the_troubles_of_the_last_time_are_kept() -> None:
    work = Work(["one", "two"])
    schedule = run(Chore("a", timedelta(hours=1), work))
    work.wait(1)
    stop(schedule)
    assert schedule.status()[0].troubles == ("one", "two")


def test_a_whole_failure_is_kept_as_its_sentence() -> None:
    fault = KafkaFault("do it", "NO", False)
    work = Work(fault)
    schedule = run(Chore("a", timedelta(hours=1), work))
    work.wait(1)
    stop(schedule)
    assert schedule.status()[0].troubles == (str(fault),)


def test_one_failure_of_a_chore_that_went_well_before_does_not_count() -> None:
    fault = KafkaFault("do it", "NO", False)
    work = Work((), fault)
    schedule = run(Chore("a", timedelta(milliseconds=300), work))
    work.wait(2)
    stop(schedule)
    (status,) = schedule.status()
    assert (status.runs, status.failures, status.is_broken) == (2, 1, False)


def test_failures_are_counted_until_it_goes_well() -> None:
    fault = KafkaFault("do it", "NO", False)
    work = Work((), fault, fault)
    schedule = run(Chore("a", timedelta(milliseconds=300), work))
    work.wait(3)
    stop(schedule)
    assert broken_chores(schedule.status()) == [f"a: {fault}"]
    again = run(Chore("a", SOON, Work(fault, fault)))
    eventually(lambda: again.status()[0].runs > 2)
    stop(again)
    assert broken_chores(again.status()) == []


def test_a_chore_counts_as_failed_where_it_never_went_well_or_twice_in_a_row() -> None:
    assert ChoreStatus("a", runs=1, failures=1).is_broken
    assert ChoreStatus("a", runs=9, failures=2).is_broken
    assert not ChoreStatus("a", runs=9, failures=1).is_broken
    assert not ChoreStatus("a", runs=1, troubles=("half of it",)).is_broken
    assert not ChoreStatus("a").is_broken


def test_a_delayed_chore_waits_one_interval() -> None:
    at_once, later = Work(), Work()
    hour = timedelta(hours=1)
    schedule = run(Chore("later", hour, later, delayed=True), Chore("now", hour, at_once))
    at_once.wait(1)
    stop(schedule)
    assert [status.runs for status in schedule.status()] == [0, 1]


def test_missed_times_are_not_made_up_for() -> None:
    times: list[float] = []

    def slow() -> Iterable[str]:
        times.append(time.monotonic())
        time.sleep(0.15)
        return ()

    schedule = run(Chore("slow", timedelta(milliseconds=10), slow))
    time.sleep(0.5)
    stop(schedule)
    assert 2 <= len(times) <= 4


def test_nothing_to_do_ends_at_once() -> None:
    schedule = run()
    schedule.join(10)
    assert not schedule.is_alive()
