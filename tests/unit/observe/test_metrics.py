from dataclasses import replace
from typing import Any

import pytest

from heliograph.flows.schedule import ChoreStatus
from heliograph.flows.upkeep import GroupStatus
from heliograph.model import TopicPartition
from heliograph.observe import metrics_catalog as metrics
from heliograph.observe.audits import DrillStatus, VerifyStatus
from heliograph.observe.flow_status import (
    FlowStatus,
    KeptGroups,
    PartitionStatus,
    Spread,
    State,
)
from heliograph.observe.metrics import Limits, Observer, Page, Snapshot
from heliograph.observe.metrics_catalog import METRICS
from heliograph.observe.usage import Usage
from heliograph.policy.latency import BOUNDS_MS
from heliograph.wire.mirror_records import Checkpoint

FLOW = FlowStatus(
    flow="A->B",
    state=State.RUNNING,
    reason=None,
    topics=1,
    partitions=2,
    records=300,
    bytes=3000,
    lag=15,
    tasks=2,
    latency_ms=(20, 150),
    verdicts={"pass": 7, "merge": 5, "foreign": 2},
    stopped={"t-1": "gone"},
    refused=("x has fewer partitions",),
    waiting=(),
    slices=(),
    remotes=frozenset(),
    chores=(ChoreStatus("checkpoints", 3, 0.25), ChoreStatus("topic ACLs", 2, 1.0, ("no",), 2)),
    skipped_groups={"billing": "it is in use on the target (state Stable)"},
)
FULL = replace(
    FLOW,
    restarts=2,
    losses={"loss": 1},
    latency_counts=tuple(range(len(BOUNDS_MS) + 1)),
    handovers=3,
    copied={"t": (200, 2000)},
)
AGES = Spread(4, 1, 9, 5)


def partition(index: int = 0, **changed: Any) -> PartitionStatus:
    plain = PartitionStatus("t", index, "A.t", 100, 90, 100, 0, 100, 1000, None)
    return replace(plain, **changed)


def group(name: str, skipped: str | None = None) -> GroupStatus:
    places = [TopicPartition("A.t", 0), TopicPartition("A.t", 1)]
    return GroupStatus(name, tuple(Checkpoint(name, place, 5, 4) for place in places), skipped)


def kept(*groups: GroupStatus, chore: ChoreStatus = FLOW.chores[0], **changed: Any) -> KeptGroups:
    skipped = {g.group: g.skipped for g in groups if g.skipped is not None}
    return replace(KeptGroups("checkpoints of A", "A->B", groups, (chore,), skipped), **changed)


def snapshot(now: float = 0.0, flow: FlowStatus = FLOW, **given: Any) -> Snapshot:
    given.setdefault("partitions", {"A->B": [partition(0), partition(1)]})
    return Snapshot(now, now * 1000, [flow], **given)


def test_a_flow_is_in_one_state() -> None:
    cells = Observer().page(snapshot())[metrics.FLOW_STATE]
    assert cells == {("A", "B", state.value): float(state is State.RUNNING) for state in State}


def test_mm2_tells_of_remote_partitions() -> None:
    page = Observer().page(snapshot())
    assert page[metrics.RECORD_COUNT] == {("A", "B", "A.t", "0"): 100, ("A", "B", "A.t", "1"): 100}
    assert page[metrics.RECORD_RATE] == {}
    assert page[metrics.RECORD_AGE.last] == {}


def test_a_rate_is_taken_over_half_a_minute_and_begins_anew_with_the_count() -> None:
    observer = Observer()

    def look(now: float, records: int) -> Page:
        copied = partition(records=records, bytes=10 * records)
        return observer.page(snapshot(now, partitions={"A->B": [copied]}))

    for now, records in ((0, 0), (15, 150), (30, 300), (45, 900)):
        look(now, records)
    page = look(60, 1500)
    assert page[metrics.RECORD_RATE] == {("A", "B", "A.t", "0"): 25.0}
    assert page[metrics.BYTE_RATE] == {("A", "B", "A.t", "0"): 250.0}
    assert look(75, 1)[metrics.RECORD_RATE] == {}


def test_lag_in_seconds_is_the_worst_of_topic_and_flow() -> None:
    observer = Observer()
    observer.page(snapshot(0))
    behind = [
        partition(0, end_offset=200, lag=100),
        partition(1, end_offset=120, lag=0, upstream=120),
    ]
    observer.page(snapshot(10, partitions={"A->B": behind}))
    page = observer.page(snapshot(30, partitions={"A->B": behind}))

    assert page[metrics.PARTITION_LAG] == {("A", "B", "t", "0"): 100, ("A", "B", "t", "1"): 0}
    assert page[metrics.PARTITION_LAG_SECONDS]["A", "B", "t", "0"] == pytest.approx(29.9)
    assert page[metrics.PARTITION_LAG_SECONDS]["A", "B", "t", "1"] == 0
    for metric in (metrics.TOPIC_LAG_SECONDS, metrics.TOPIC_RPO):
        assert page[metric]["A", "B", "t"] == pytest.approx(29.9)
    for metric in (metrics.FLOW_LAG_SECONDS, metrics.FLOW_RPO):
        assert page[metric]["A", "B"] == pytest.approx(29.9)


def test_a_backlog_from_before_the_first_look_is_as_old_as_the_newest_copied_record() -> None:
    behind = partition(lag=100, end_offset=200, copied_ms=40_000)
    page = Observer().page(snapshot(100, partitions={"A->B": [behind]}))
    assert page[metrics.PARTITION_LAG_SECONDS]["A", "B", "t", "0"] == 60


@pytest.mark.parametrize("state", [State.FAILED, State.PAUSED, State.STOPPED])
def test_the_rpo_of_a_flow_that_does_not_run_grows_although_its_lag_stands_still(
    state: State,
) -> None:
    observer = Observer()
    observer.page(snapshot(0))
    page = observer.page(snapshot(90, replace(FLOW, state=state)))

    assert page[metrics.FLOW_LAG_SECONDS]["A", "B"] == 0
    assert page[metrics.FLOW_RPO]["A", "B"] == page[metrics.TOPIC_RPO]["A", "B", "t"] == 90


def test_checkpoints_age_until_the_next_good_round() -> None:
    observer = Observer()
    groups = group("billing", "in use"), group("audit")

    def look(now: float, runs: int, failures: int = 0, seconds: float = 0.25) -> Page:
        chore = ChoreStatus("checkpoints", runs, seconds, (), failures)
        return observer.page(snapshot(now, groups=[kept(*groups, chore=chore)]))

    look(0, 1)
    look(20, 1)
    page = look(30, 2, failures=1)
    assert page[metrics.CHECKPOINT_AGE] == {("A", "B", "billing"): 30, ("A", "B", "audit"): 30}
    assert page[metrics.FLOW_CHECKPOINT_AGE] == {("A", "B"): 30}
    page = look(40, 3, seconds=0.75)
    assert page[metrics.CHECKPOINT_AGE]["A", "B", "audit"] == 0
    latency = [page[metric]["A", "B", "audit", "A.t", "1"] for metric in metrics.CHECKPOINT_LATENCY]
    assert latency == [750, 250, 750, 500]
    assert page[metrics.GROUP_SKIPPED] == {("A", "B", "billing", "in use"): 1}
    assert page[metrics.GROUPS] == {("A", "B"): 2}


def test_checkpoints_that_never_went_well_age_from_the_first_look_on() -> None:
    observer = Observer()
    failed = kept(chore=ChoreStatus("checkpoints", 2, 0.1, ("no",), 2))
    ages = [
        observer.page(snapshot(now, groups=[failed]))[metrics.FLOW_CHECKPOINT_AGE]
        for now in (0, 400)
    ]
    assert ages == [{("A", "B"): 0}, {("A", "B"): 400}]


def test_groups_are_told_of_where_their_checkpoint_connector_is() -> None:
    with_groups = Snapshot(5, 5000, [], groups=[kept(group("billing", "in use"))])
    page = Observer().page(with_groups)
    assert page[metrics.FLOW_STATE] == {}
    assert page[metrics.GROUPS] == {("A", "B"): 1}
    assert page[metrics.GROUPS_SKIPPED] == {("A", "B", "in use"): 1}
    assert page[metrics.GROUP_SKIPPED] == {("A", "B", "billing", "in use"): 1}
    assert page[metrics.CHECKPOINT_AGE] == {("A", "B", "billing"): 0}
    assert len(page[metrics.CHECKPOINT_LATENCY.last]) == 2
    assert page[metrics.CHORE_RUNS] == {("A", "B", "checkpoints"): 3}


def test_a_flow_whose_checkpoint_connector_is_elsewhere_has_no_groups_not_none() -> None:
    page = Observer().page(snapshot(0, replace(FLOW, chores=FLOW.chores[1:])))
    assert page[metrics.GROUPS] == page[metrics.GROUPS_SKIPPED] == {}
    assert page[metrics.FLOW_CHECKPOINT_AGE] == {}
    assert page[metrics.CHORE_RUNS] == {("A", "B", "topic ACLs"): 2}


def test_a_chore_counts_once_though_the_flow_tells_of_it_too() -> None:
    page = Observer().page(snapshot(0, groups=[kept()]))
    assert page[metrics.CHORE_RUNS] == {
        ("A", "B", "checkpoints"): 3,
        ("A", "B", "topic ACLs"): 2,
    }


def test_two_checkpoint_connectors_of_one_flow_add_up() -> None:
    observer = Observer()

    def look(now: float, runs: tuple[int, int]) -> Page:
        chores = [ChoreStatus("checkpoints", n, 0.1) for n in runs]
        one = kept(group("a"), chore=chores[0])
        other = kept(group("b"), group("c"), chore=chores[1], connector="another")
        return observer.page(snapshot(now, groups=[one, other]))

    look(0, (5, 9))
    page = look(20, (6, 9))
    assert page[metrics.GROUPS] == {("A", "B"): 3}
    assert page[metrics.FLOW_CHECKPOINT_AGE] == {("A", "B"): 20}
    assert page[metrics.CHECKPOINT_AGE] == {
        ("A", "B", name): age for name, age in (("a", 0), ("b", 20), ("c", 20))
    }


def test_reasons_are_no_more_than_ten_and_another() -> None:
    skipped = {f"g{n}": f"reason {n % 15} {'x' * 300}" for n in range(60)}
    page = Observer().page(snapshot(0, groups=[kept(skipped=skipped)]))
    cells = page[metrics.GROUPS_SKIPPED]
    assert len(cells) == 11
    assert cells["A", "B", "other"] == 20
    assert all(len(reason) <= 120 for _, _, reason in cells)


def test_alarms_are_counted_by_reason_and_are_no_batches() -> None:
    page = Observer().page(snapshot(0, FULL))
    counted = {labels[2]: count for labels, count in page[metrics.LOSS_ALARMS].items() if count}
    assert counted == {"loss": 1, "foreign": 2}
    assert page[metrics.FLOW_BATCHES] == {
        ("A", "B", "pass"): 7,
        ("A", "B", "merge"): 5,
        ("A", "B", "reencode"): 0,
        ("A", "B", "skipped"): 0,
        ("A", "B", "dropped"): 0,
    }


def test_an_alarm_that_was_never_given_is_told_as_none() -> None:
    page = Observer().page(snapshot(0, replace(FLOW, verdicts={})))
    assert page[metrics.LOSS_ALARMS] == {
        ("A", "B", reason): 0
        for reason in ("loss", "made-anew", "untracked", "target-truncated", "foreign")
    }


def test_a_topic_counts_what_its_flow_counted_whatever_became_of_its_partitions() -> None:
    page = Observer().page(snapshot(0, FULL, partitions={"A->B": [partition(records=3, bytes=4)]}))
    assert page[metrics.TOPIC_RECORDS] == {("A", "B", "t"): 200}
    assert page[metrics.TOPIC_BYTES] == {("A", "B", "t"): 2000}


def test_tasks_at_work_and_partitions_handed_over_are_told() -> None:
    page = Observer().page(snapshot(0, FULL))
    assert page[metrics.FLOW_TASKS] == {("A", "B"): 2}
    assert page[metrics.FLOW_HANDOVERS] == {("A", "B"): 3}
    assert page[metrics.FLOW_RESTARTS] == {("A", "B"): 2}


def test_partitions_that_are_stopped_are_counted_by_kind() -> None:
    stopped = [partition(0, stop_kind="loss"), partition(1, stop_kind="loss"), partition(2)]
    page = Observer().page(snapshot(0, partitions={"A->B": stopped}))
    assert page[metrics.FLOW_STOPPED] == {("A", "B", "loss"): 2}


def test_latencies_are_a_histogram_of_seconds() -> None:
    cells = Observer().page(snapshot(0, FULL))[metrics.LATENCY]
    assert next(iter(cells)) == ("A", "B", "0.001")
    assert cells["A", "B", "+Inf"] == sum(FULL.latency_counts)


def test_a_flow_tells_of_its_oldest_open_transaction_and_of_none() -> None:
    cells = Observer().page(snapshot())[metrics.FLOW_OPEN_TRANSACTION]
    assert cells == {("A", "B"): 0.0}
    held = replace(FLOW, open_transaction_seconds=95.5)
    cells = Observer().page(snapshot(0, held))[metrics.FLOW_OPEN_TRANSACTION]
    assert cells == {("A", "B"): 95.5}


def test_too_many_partitions_are_told_of_by_topic_and_too_many_topics_by_flow() -> None:
    partitions = {"A->B": [partition(n, record_age_ms=Spread(n, n, n, n), lag=n) for n in range(3)]}
    page = Observer().page(snapshot(0, partitions=partitions), Limits(partitions=2))
    assert page[metrics.PARTITION_LAG] == page[metrics.PARTITION_LAG_SECONDS] == {}
    assert page[metrics.RECORD_COUNT] == {("A", "B", "A.t", ""): 300}
    assert page[metrics.RECORD_AGE.max] == {("A", "B", "A.t", ""): 2}
    assert page[metrics.RECORD_AGE.min] == {("A", "B", "A.t", ""): 0}
    assert page[metrics.TOPIC_LAG] == {("A", "B", "t"): 3}
    assert page[metrics.FOLDED]["partition",] == 3

    page = Observer().page(snapshot(0, partitions=partitions), Limits(partitions=2, topics=0))
    assert page[metrics.RECORD_COUNT] == page[metrics.TOPIC_LAG] == {}
    assert page[metrics.FLOW_LAG] == {("A", "B"): 15}
    assert page[metrics.FOLDED]["topic",] == 1


def test_too_many_groups_are_only_counted() -> None:
    groups = [kept(group("a", "in use"), group("b"), group("c"))]
    page = Observer().page(snapshot(0, groups=groups), Limits(groups=2))
    assert page[metrics.CHECKPOINT_AGE] == page[metrics.CHECKPOINT_LATENCY.last] == {}
    assert page[metrics.GROUPS] == {("A", "B"): 3}
    assert page[metrics.FLOW_CHECKPOINT_AGE] == {("A", "B"): 0}
    assert page[metrics.FOLDED]["group",] == 3
    page = Observer().page(snapshot(0, groups=groups), Limits(partitions=5))
    assert list(page[metrics.CHECKPOINT_LATENCY.last]) == [
        ("A", "B", name, "", "") for name in "abc"
    ]


def test_two_connectors_of_one_flow_add_up() -> None:
    looked = snapshot()
    page = Observer().page(replace(looked, flows=[FLOW, replace(FLOW, state=State.FAILED)]))
    assert page[metrics.FLOW_RECORDS] == {("A", "B"): 600}
    assert page[metrics.RECORD_COUNT]["A", "B", "A.t", "0"] == 100
    assert [labels[2] for labels, on in page[metrics.FLOW_STATE].items() if on] == [
        "RUNNING",
        "FAILED",
    ]


def test_what_is_gone_is_forgotten() -> None:
    observer = Observer()
    observer.page(snapshot(groups=[kept()]))
    observer.page(snapshot(partitions={"A->B": [partition(1)]}))
    assert list(observer._progress) == [("A->B", "t", 1)]
    observer.page(Snapshot(1, 1000, []))
    assert not observer._progress
    assert not observer._rounds
    assert not observer._running_at


def test_every_metric_has_a_value_when_all_is_known() -> None:
    observer = Observer()
    known = {
        "partitions": {
            "A->B": [partition(record_age_ms=AGES, replication_latency_ms=AGES, stop_kind="loss")]
        },
        "groups": [kept(group("billing", "in use"))],
        "audits": [DrillStatus("A->B", 1, True, 0.1, 2.5), VerifyStatus("A->B", 2, None, 7)],
        "usage": {"driver": Usage(1, 2.5, 1 << 20)},
    }
    observer.page(snapshot(0, FULL, **known))
    page = observer.page(snapshot(15, FULL, **known))

    empty = {metric for metric in METRICS if not page[metric]}
    assert empty == {metrics.BUILD, metrics.SNAPSHOT_SECONDS}, "these two are the web's own"
    assert all(
        len(labels) == len(metric.labels) for metric, cells in page.items() for labels in cells
    )
    assert page[metrics.VERIFY_OK] == {("A", "B"): -1}


def test_a_flow_at_rest_has_no_lag_and_an_rpo_that_grows() -> None:
    observer = Observer()
    resting = replace(FLOW, state=State.PAUSED, lag=None)
    observer.page(snapshot(now=0.0))
    page = observer.page(replace(snapshot(now=90.0), flows=[resting], partitions={}))
    assert page[metrics.FLOW_LAG] == {}
    assert page[metrics.FLOW_LAG_SECONDS] == {}
    assert page[metrics.FLOW_RPO] == {("A", "B"): 90.0}


def test_after_a_rest_the_rpo_counts_on_until_something_was_copied() -> None:
    observer = Observer()
    observer.page(snapshot(now=0.0))
    observer.page(
        replace(snapshot(now=90.0), flows=[replace(FLOW, state=State.PAUSED)], partitions={})
    )
    behind = partition(upstream=0, end_offset=100, lag=100, copied_ms=None)
    looked = replace(snapshot(now=91.0), partitions={"A->B": [behind]})
    assert observer.page(looked)[metrics.FLOW_RPO] == {("A", "B"): 91.0}
    done = replace(behind, upstream=100, lag=0)
    looked = replace(snapshot(now=92.0), partitions={"A->B": [done]})
    assert observer.page(looked)[metrics.FLOW_RPO] == {("A", "B"): 0.0}


def test_a_look_that_comes_late_changes_nothing() -> None:
    observer = Observer()
    first = behind = partition()
    for second in range(60):
        behind = replace(first, upstream=10, end_offset=11 + second, lag=1 + second)
        observer.page(replace(snapshot(now=float(second)), partitions={"A->B": [behind]}))
    newest = observer.page(replace(snapshot(now=60.0), partitions={"A->B": [behind]}))
    early = replace(first, upstream=10, end_offset=11, lag=1)
    late = observer.page(replace(snapshot(now=59.5), partitions={"A->B": [early]}))
    assert late[metrics.FLOW_LAG_SECONDS] == newest[metrics.FLOW_LAG_SECONDS]
