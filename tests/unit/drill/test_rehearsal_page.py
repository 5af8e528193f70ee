from dataclasses import replace
from datetime import UTC, datetime

import pytest

from heliograph.drill.compare import Difference
from heliograph.drill.rehearsal import Behind, DrillResult, GroupDrill, PartitionDrill
from heliograph.drill.rehearsal_page import drill_report
from heliograph.drill.report import Step
from heliograph.drill.steps import Silence, StepLog
from heliograph.model import TopicPartition

HERE, THERE = TopicPartition("orders", 0), TopicPartition("A.orders", 0)
PLACE = PartitionDrill(HERE, 10, THERE, 11, missing=2, read=5, difference=Difference(same=5))
GROUP = GroupDrill("billing", "billing.drill-1", (PLACE,), first_record=0.02)
UP_TO_DATE = Behind(offsets=0, partitions=0, oldest_ms=None, now_ms=9000)
RESULT = DrillResult(
    flow="A->B",
    began=datetime(2026, 11, 16, tzinfo=UTC),
    seconds=3.0,
    rto=1.25,
    groups=(GROUP,),
    behind=UP_TO_DATE,
    gone=None,
)


def with_difference(**counts: int) -> DrillResult:
    place = replace(PLACE, difference=Difference(**counts))
    return replace(RESULT, groups=(replace(GROUP, partitions=(place,)),))


def test_a_drill_is_good_if_every_group_goes_on_exactly() -> None:
    report = drill_report(RESULT, {})
    assert report.ok
    assert (report.measured["rpo_seconds"], report.measured["rto_seconds"]) == (0, 1.25)
    assert [figure.value for figure in report.figures] == ["0.0 s", "1.2 s", "1 of 1", "0", "0"]
    assert report.tables[0].rows == (("billing", 1, 5, 0, 0, 2, "20 ms", "ready"),)


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (with_difference(lost=3), "3 records would be left out"),
        (with_difference(repeated=4), "4 records would be repeated"),
        (
            replace(
                RESULT, groups=(GROUP, GroupDrill("audit", "audit.drill-1", reason="it reads"))
            ),
            "1 of 2 groups are not ready",
        ),
        (replace(RESULT, left={"billing.drill-1": "no"}), "1 forked groups could not be deleted"),
        (
            replace(
                RESULT,
                behind=None,
                groups=(replace(GROUP, partitions=(replace(PLACE, difference=None),)),),
            ),
            "the source does not answer",
        ),
    ],
)
def test_whatever_is_not_exact_makes_a_drill_no_good(result: DrillResult, words: str) -> None:
    report = drill_report(result, {})
    assert not report.ok
    assert words in report.verdict


def test_a_partition_that_would_not_go_on_exactly_is_named() -> None:
    table = drill_report(with_difference(lost=3, repeated=1), {}).tables[1]
    assert table.rows == (("billing", "orders-0", 10, "A.orders-0", 11, 3, 1),)


def test_the_rpo_is_the_age_of_the_oldest_record_that_is_not_there() -> None:
    late = Behind(offsets=7, partitions=2, oldest_ms=6500, now_ms=9000)
    report = drill_report(replace(RESULT, behind=late), {})
    assert report.ok
    assert report.figures[0].value == "2.5 s"
    assert report.measured["records_behind"] == 7
    assert "7 records are on A alone" in report.verdict


def test_a_group_with_nothing_left_to_read_is_ready() -> None:
    resting = replace(GROUP, first_record=None, at_end=True)
    assert drill_report(replace(RESULT, groups=(resting,)), {}).ok


class Noting(Silence):
    def __init__(self) -> None:
        self.seen: list[str | Step] = []

    def began(self, name: str) -> None:
        self.seen.append(name)

    def ended(self, step: Step) -> None:
        self.seen.append(step)


def test_steps_are_told_as_they_happen_and_timed_from_the_beginning() -> None:
    times = iter([100.0, 101.0, 103.5])
    watcher = Noting()
    log = StepLog(watcher, lambda: next(times))
    with log.step("copy") as notes:
        notes += ["5 records", "2 topics"]
    assert watcher.seen == ["copy", Step("copy", 1.0, 2.5, "5 records, 2 topics")]


def test_a_step_that_fails_is_noted_too() -> None:
    log = StepLog(Silence())
    with pytest.raises(KeyError), log.step("copy"):
        raise KeyError
    assert [step.name for step in log.steps] == ["copy"]
