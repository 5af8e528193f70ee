"""The connectors that run in this process: a flow's data, its groups, its heartbeats."""

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from heliograph.config.fields import Part
from heliograph.config.flow import FlowConfig
from heliograph.config.naming import naming_of
from heliograph.connect.herder import Config, Report, RunState, TargetState, TaskReport
from heliograph.driving.lease_server import LeaseServer
from heliograph.driving.tally import Tally
from heliograph.errors import MirrorError
from heliograph.flows.schedule import Schedule, broken_chores
from heliograph.flows.upkeep import GroupStatus, GroupUpkeep, HeartbeatUpkeep
from heliograph.observe.flow_status import (
    FlowStatus,
    KeptGroups,
    PartitionStatus,
    State,
    status_at_rest,
)
from heliograph.running.job_status import with_tally
from heliograph.running.patience import STOP
from heliograph.running.runner import FlowRunner
from heliograph.spark.engine import Engine

log = logging.getLogger(__name__)

_TASKS = "org.apache.kafka.connect.mirror."


class Instance(Protocol):
    """One running connector."""

    def start(self) -> None:
        """Start; returns at once."""

    def stop(self) -> None:
        """Stop, and save everything; returns when it has ended, or after some seconds."""

    def report(self) -> Report:
        """Return what it does now."""

    def topics(self) -> set[str]:
        """Return the topics it writes to."""


class SparkHost:
    """The Spark session and the leases that all source connectors of this process share."""

    def __init__(self, slots: int, spark: Mapping[str, str]) -> None:
        self.engine = Engine(slots, spark)
        self.leases = LeaseServer(spark)
        self.started = False

    def start(self) -> None:
        """Start Spark in the background, unless it was started before."""
        if not self.started:
            self.started = True
            self.engine.start()

    def close(self) -> None:
        self.leases.close()
        self.engine.close()


class SourceInstance:
    """A source connector: one runner, whose slices are the tasks."""

    def __init__(
        self, config: FlowConfig, host: SparkHost, on_owned: Callable[[bool], None] = lambda _: None
    ) -> None:
        host.start()
        self._runner = FlowRunner(config, host.engine, host.leases, on_owned)

    def start(self) -> None:
        self._runner.start()

    def stop(self) -> None:
        self._runner.stop()
        self._runner.join(STOP.total_seconds())
        if self._runner.is_alive():
            log.warning("%s does not end, probably because a cluster does not answer", self._runner)

    @property
    def flow(self) -> str:
        return self._runner.name  # the thread has the name of its flow

    @property
    def tally(self) -> Tally:
        return self._runner.tally

    def count_on(self, tally: Tally) -> None:
        """Add to these counts. Called before `start`."""
        self._runner.count_on(tally)

    def status(self) -> FlowStatus:
        return self._runner.status()

    def partitions(self) -> list[PartitionStatus]:
        return self._runner.partitions()

    def report(self) -> Report:
        return report_flow(self._runner.status())

    def topics(self) -> set[str]:
        return set(self._runner.status().remotes)


class ScheduleInstance:
    """A connector that is a schedule of chores: it has one task, or none if it has nothing to do."""

    def __init__(self, schedule: Schedule, topics: set[str]) -> None:
        self.schedule = schedule
        self._topics = topics

    def start(self) -> None:
        self.schedule.start()

    def stop(self) -> None:
        self.schedule.stop(STOP)

    def report(self) -> Report:
        chores = self.schedule.status()
        if not chores:
            return Report(RunState.RUNNING)
        failed = broken_chores(chores)
        state = RunState.FAILED if failed else RunState.RUNNING
        return Report(
            RunState.RUNNING, None, (TaskReport(self._task(), state, "\n".join(failed) or None),)
        )

    def _task(self) -> Config:
        """Return the configuration of its one task, as Connect would show it."""
        if not isinstance(self.schedule, GroupUpkeep):
            return {}
        groups = ",".join(status.group for status in self.schedule.groups())
        return {
            "task.class": f"{_TASKS}MirrorCheckpointTask",
            "task.index": "0",
            "task.assigned.groups": groups,
        }

    def topics(self) -> set[str]:
        return self._topics


@dataclass(frozen=True, slots=True)
class Wanted:
    """The wanted state of a connector: a change of any field stops the connector and starts it again."""

    config: tuple[tuple[str, str], ...]
    target: TargetState
    restarts: int = 0


@dataclass(slots=True)
class _Held:
    wanted: Wanted
    instance: Instance | None
    error: str | None = None


class Instances:
    """Brings the connectors of this process into the wanted state.

    `make` returns a connector to start; if it raises a MirrorError, the connector has failed with that
    reason. Mutate from one thread at a time; reads are thread-safe.
    """

    def __init__(self, make: Callable[[str, Wanted], Instance]) -> None:
        self._make = make
        self._held: dict[str, _Held] = {}
        self._tallies: dict[tuple[str, str], Tally] = {}

    def reconcile(self, wanted: Mapping[str, Wanted]) -> None:
        """Stop what is no longer wanted, or wanted in another state, then start what is wanted."""
        changed = [n for n, held in self._held.items() if wanted.get(n) != held.wanted]
        self._stop(changed)
        for name, its in wanted.items():
            if name not in self._held:
                self._held[name] = self._start(name, its)

    def reports(self) -> dict[str, Report]:
        """Return what every connector here does. Thread-safe."""
        return {name: _report(held) for name, held in list(self._held.items())}

    def topics(self, name: str) -> set[str]:
        """Return the topics that a connector here has written to. Thread-safe."""
        instance = self.get(name)
        return set() if instance is None else instance.topics()

    def report(self, name: str) -> Report:
        """Return what one connector does. Thread-safe."""
        held = self._held.get(name)
        return Report(RunState.UNASSIGNED) if held is None else _report(held)

    def flows(self, sources: Mapping[str, FlowConfig]) -> list[FlowStatus]:
        """Return the flows of these source connectors, with what is done for their groups. Thread-safe."""
        groups = {upkeep.flow: upkeep for upkeep in self._upkeeps().values()}
        statuses = [self._flow(name, config) for name, config in sources.items()]
        return [
            _with_groups(status, groups[status.flow]) if status.flow in groups else status
            for status in statuses
        ]

    def partitions(self, flow: str) -> list[PartitionStatus]:
        """Return the partitions of a flow. Thread-safe."""
        return [p for s in self._sources() if s.flow == flow for p in s.partitions()]

    def groups(self, flow: str) -> list[GroupStatus]:
        """Return the groups of a flow. Thread-safe."""
        upkeeps = self._upkeeps().values()
        return [g for upkeep in upkeeps if upkeep.flow == flow for g in upkeep.groups()]

    def kept_groups(self) -> list[KeptGroups]:
        """Return what the checkpoint connectors that run here do. Thread-safe."""
        return [
            KeptGroups(
                name,
                upkeep.flow,
                tuple(upkeep.groups()),
                tuple(upkeep.status()),
                upkeep.skipped_groups,
            )
            for name, upkeep in self._upkeeps().items()
        ]

    def _flow(self, name: str, config: FlowConfig) -> FlowStatus:
        held = self._held.get(name)
        if held is None:
            return self._at_rest(name, status_at_rest(config))
        if isinstance(held.instance, SourceInstance):
            return held.instance.status()
        report = _report(held)
        return self._at_rest(name, status_at_rest(config, State(report.state), report.trace))

    def _at_rest(self, name: str, status: FlowStatus) -> FlowStatus:
        """Return the status with the counts from while the flow ran here."""
        tally = self._tallies.get((name, status.flow))
        return status if tally is None else with_tally(status, tally)

    def _sources(self) -> list[SourceInstance]:
        held = [held.instance for held in list(self._held.values())]
        return [instance for instance in held if isinstance(instance, SourceInstance)]

    def _upkeeps(self) -> dict[str, GroupUpkeep]:
        found = {}
        for name, held in list(self._held.items()):
            if isinstance(held.instance, ScheduleInstance):
                schedule = held.instance.schedule
                if isinstance(schedule, GroupUpkeep):
                    found[name] = schedule
        return found

    def get(self, name: str) -> Instance | None:
        """Return a connector that runs here. Thread-safe."""
        held = self._held.get(name)
        return None if held is None else held.instance

    def _stop(self, names: list[str]) -> None:
        """Stop connectors in parallel, so that a slow one does not delay the others."""
        stopping = []
        for name in names:
            instance = self._held[name].instance
            if instance is not None:
                thread = threading.Thread(target=instance.stop, name=f"stop {name}", daemon=True)
                thread.start()
                stopping.append(thread)
        for thread in stopping:
            thread.join()
        for name in names:
            del self._held[name]

    def _start(self, name: str, wanted: Wanted) -> _Held:
        if wanted.target is not TargetState.STARTED:
            return _Held(wanted, None)
        try:
            instance = self._make(name, wanted)
        except MirrorError as exc:
            log.error("connector %s FAILED: %s", name, exc)  # noqa: TRY400 - a sentence, no trace
            return _Held(wanted, None, str(exc))
        if isinstance(instance, SourceInstance):
            instance.count_on(self._tallies.setdefault((name, instance.flow), instance.tally))
        instance.start()
        return _Held(wanted, instance)


def make_instance(
    part: Part,
    config: FlowConfig,
    host: SparkHost,
    on_owned: Callable[[bool], None] = lambda _: None,
) -> Instance:
    """Return one of the three connectors of a flow, not yet started."""
    if part is Part.SOURCE:
        return SourceInstance(config, host, on_owned)
    naming = naming_of(config)
    if part is Part.CHECKPOINT:
        topics = {naming.checkpoints_topic(config.flow.source)}
        return ScheduleInstance(GroupUpkeep(config), topics)
    return ScheduleInstance(HeartbeatUpkeep(config), {naming.heartbeats_topic()})


def _with_groups(status: FlowStatus, upkeep: GroupUpkeep) -> FlowStatus:
    chores = upkeep.status()
    return replace(
        status,
        reason=status.reason or "\n".join(broken_chores(chores)) or None,
        chores=(*status.chores, *chores),
        skipped_groups=upkeep.skipped_groups,
    )


def report_flow(status: FlowStatus) -> Report:
    """Return a flow as a source connector, whose slices are its tasks.

    Chores belong to no slice: the first task reports one that has failed, or the connector if it has no
    tasks. What has failed is retried, and then runs again.
    """
    if status.state is State.PAUSED:
        return Report(RunState.PAUSED, status.reason)
    failed = status.reason if status.state is State.FAILED else None
    chores = broken_chores(status.chores)
    tasks = [
        _task(status, index, failed, chores if index == 0 else [])
        for index in range(len(status.slices))
    ]
    trace = failed or ("\n".join(chores) if chores and not tasks else None)
    return Report(RunState.FAILED if trace else RunState.RUNNING, trace, tuple(tasks))


def _task(status: FlowStatus, index: int, failed: str | None, chores: list[str]) -> TaskReport:
    """Return one slice; it counts as failed while one of its partitions is stopped."""
    partitions = status.slices[index]
    stopped = [f"{p} is stopped: {status.stopped[p]}" for p in partitions if p in status.stopped]
    told = [*stopped, *chores]
    if stopped:
        told.append("All other partitions go on.")
    elif chores:
        told.append("Records are copied all the same.")
    trace = failed or "\n".join(told) or None
    config = {
        "task.class": f"{_TASKS}MirrorSourceTask",
        "task.index": str(index),
        "task.assigned.partitions": ",".join(partitions),
    }
    return TaskReport(config, RunState.FAILED if trace else RunState.RUNNING, trace)


_AT_REST = {TargetState.PAUSED: RunState.PAUSED, TargetState.STOPPED: RunState.STOPPED}


def _report(held: _Held) -> Report:
    if held.error is not None:
        return Report(RunState.FAILED, held.error)
    if held.instance is None:
        return Report(_AT_REST[held.wanted.target])
    return held.instance.report()
