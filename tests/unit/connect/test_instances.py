from collections.abc import Mapping
from dataclasses import replace
from typing import cast

from heliograph.config.flow import FlowConfig
from heliograph.connect.herder import Report, RunState, TargetState
from heliograph.connect.instances import (
    Instance,
    Instances,
    ScheduleInstance,
    SourceInstance,
    SparkHost,
    Wanted,
    report_flow,
)
from heliograph.errors import ConfigError
from heliograph.flows.schedule import ChoreStatus
from heliograph.flows.upkeep import GroupUpkeep, HeartbeatUpkeep
from heliograph.observe.flow_status import FlowStatus, State

CONFIG = (("topics", "t"),)


class Fake:
    """A connector that notes when it is started and stopped."""

    def __init__(self, number: int, events: list[str]) -> None:
        self._number = number
        self._events = events

    def start(self) -> None:
        self._events.append(f"start {self._number}")

    def stop(self) -> None:
        self._events.append(f"stop {self._number}")

    def report(self) -> Report:
        return Report(RunState.RUNNING)

    def topics(self) -> set[str]:
        return set()


class Makes:
    """Makes connectors, or fails while `broken`."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.broken = False
        self._made = 0

    def __call__(self, _name: str, _wanted: Wanted) -> Instance:
        if self.broken:
            raise ConfigError("no such file")
        self._made += 1
        return Fake(self._made, self.events)


def reconciled(makes: Makes, *steps: Mapping[str, Wanted]) -> Instances:
    instances = Instances(makes)
    for wanted in steps:
        instances.reconcile(wanted)
    return instances


def test_what_is_wanted_as_before_goes_on() -> None:
    makes = Makes()
    reconciled(makes, *[{"c": Wanted(CONFIG, TargetState.STARTED, 1)}] * 2)
    assert makes.events == ["start 1"]


def test_the_same_configuration_counted_anew_stops_and_starts_it() -> None:
    makes = Makes()
    reconciled(makes, *[{"c": Wanted(CONFIG, TargetState.STARTED, n)} for n in (1, 2)])
    assert makes.events == ["start 1", "stop 1", "start 2"]


def test_one_that_cannot_be_made_has_failed_until_it_is_counted_anew() -> None:
    makes = Makes()
    makes.broken = True
    instances = reconciled(makes, {"c": Wanted(CONFIG, TargetState.STARTED, 1)})
    makes.broken = False
    instances.reconcile({"c": Wanted(CONFIG, TargetState.STARTED, 1)})
    assert instances.report("c") == Report(RunState.FAILED, "no such file")
    instances.reconcile({"c": Wanted(CONFIG, TargetState.STARTED, 2)})
    assert instances.report("c").state is RunState.RUNNING


class Idle(SourceInstance):
    """A source connector that counts, and copies nothing."""

    def start(self) -> None:
        self.tally.add("t", 5, 50)

    def stop(self) -> None:
        pass


class NoSpark:
    engine = leases = None

    def start(self) -> None:
        pass


def test_a_flow_that_is_paused_or_restarted_counts_on(config: FlowConfig) -> None:
    instances = Instances(lambda _name, _wanted: Idle(config, cast(SparkHost, NoSpark())))

    def counted(wanted: Wanted) -> tuple[State, int, int]:
        instances.reconcile({"c": wanted})
        (status,) = instances.flows({"c": config})
        return status.state, status.records, status.bytes

    assert counted(Wanted(CONFIG, TargetState.STARTED)) == (State.STARTING, 5, 50)
    assert counted(Wanted(CONFIG, TargetState.PAUSED)) == (State.PAUSED, 5, 50)
    assert counted(Wanted(CONFIG, TargetState.STARTED)) == (State.STARTING, 10, 100)
    assert counted(Wanted(CONFIG, TargetState.STARTED, 1)) == (State.STARTING, 15, 150)


class Resting(ScheduleInstance):
    """A connector whose chores are never due."""

    def start(self) -> None:
        pass

    def stop(self) -> None:
        pass


def test_groups_are_kept_where_the_checkpoint_connector_is(config: FlowConfig) -> None:
    made = {"groups": GroupUpkeep(config), "heart": HeartbeatUpkeep(config)}
    instances = Instances(lambda name, _wanted: Resting(made[name], set()))
    assert instances.kept_groups() == []

    instances.reconcile({name: Wanted(CONFIG, TargetState.STARTED) for name in made})

    (kept,) = instances.kept_groups()
    assert (kept.connector, kept.flow, kept.groups, kept.skipped) == ("groups", "A->B", (), {})
    assert "checkpoints" in {chore.name for chore in kept.chores}
    assert instances.flows({}) == [], "the flow's data is copied elsewhere"
    instances.reconcile({"groups": Wanted(CONFIG, TargetState.PAUSED)})
    assert instances.kept_groups() == []


RUNNING = FlowStatus(
    flow="A->B",
    state=State.RUNNING,
    reason=None,
    topics=1,
    partitions=2,
    records=0,
    bytes=0,
    lag=0,
    tasks=2,
    latency_ms=(None, None),
    verdicts={},
    stopped={},
    refused=(),
    waiting=(),
    slices=(("t-0",), ("t-1",)),
    remotes=frozenset(),
    chores=(ChoreStatus("offset-syncs", runs=3),),
)
BROKEN = (ChoreStatus("offset-syncs", 3, 0.0, ("no topic.",), 3),)


def states(status: FlowStatus) -> list[RunState]:
    report = report_flow(status)
    return [report.state, *(task.state for task in report.tasks)]


def test_a_flow_at_work_is_a_connector_with_a_task_for_each_slice() -> None:
    assert states(RUNNING) == [RunState.RUNNING] * 3


def test_a_chore_that_has_failed_fails_the_first_task_and_tells_why() -> None:
    failing = replace(RUNNING, chores=BROKEN)
    assert states(failing) == [RunState.RUNNING, RunState.FAILED, RunState.RUNNING]
    trace = report_flow(failing).tasks[0].trace
    assert trace == "offset-syncs: no topic.\nRecords are copied all the same."


def test_without_tasks_the_connector_tells_of_a_chore_that_has_failed() -> None:
    report = report_flow(replace(RUNNING, slices=(), chores=BROKEN))
    assert report == Report(RunState.FAILED, "offset-syncs: no topic.")


def test_a_chore_that_failed_once_fails_no_task() -> None:
    once = ChoreStatus("offset-syncs", 3, 0.0, ("no topic.",), 1)
    assert states(replace(RUNNING, chores=(once,))) == [RunState.RUNNING] * 3


def test_a_stopped_partition_fails_its_task() -> None:
    report = report_flow(replace(RUNNING, stopped={"t-1": "too large"}))
    assert [task.state for task in report.tasks] == [RunState.RUNNING, RunState.FAILED]
    assert report.tasks[1].trace == "t-1 is stopped: too large\nAll other partitions go on."


def test_a_failed_flow_fails_the_connector_and_every_task() -> None:
    failed = replace(RUNNING, state=State.FAILED, reason="no broker answers", chores=BROKEN)
    assert states(failed) == [RunState.FAILED] * 3
    assert {task.trace for task in report_flow(failed).tasks} == {"no broker answers"}
