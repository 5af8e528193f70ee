"""The connectors that run in this process: a flow's data, its groups, its heartbeats."""

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from heliograph.config.connectors import ConnectorConfig, WorkerConfig, connector_config
from heliograph.config.fields import Part
from heliograph.config.flow import FlowConfig
from heliograph.config.properties import properties_of
from heliograph.control.connect import Config, RunState, TargetState
from heliograph.control.runner import FlowRunner, FlowStatus, State
from heliograph.dataplane.lease_server import LeaseServer
from heliograph.dataplane.session import Engine
from heliograph.errors import MirrorError
from heliograph.flows.schedule import Schedule
from heliograph.flows.source import naming_of
from heliograph.flows.upkeep import GroupUpkeep, HeartbeatUpkeep

log = logging.getLogger(__name__)

_PATIENCE = timedelta(seconds=12)
_SLOTS = 256  # threads of Spark's; one that has nothing to do costs nothing


@dataclass(frozen=True, slots=True)
class TaskReport:
    """A task as it is: what it works on, as Connect's task configuration, and why it failed."""

    config: Config
    state: RunState
    trace: str | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """A connector as it is."""

    state: RunState
    trace: str | None = None
    tasks: tuple[TaskReport, ...] = ()


class Instance(Protocol):
    """One connector at work."""

    def start(self) -> None:
        """Begin; returns at once."""

    def stop(self) -> None:
        """End what was begun, saving all; returns when it has ended, or after some seconds."""

    def report(self) -> Report:
        """Return what it does now."""

    def topics(self) -> set[str]:
        """Return the topics it writes to."""


class SourceInstance:
    """A source connector: one runner, whose slices are the tasks."""

    def __init__(self, config: FlowConfig, engine: Engine, leases: LeaseServer) -> None:
        self._runner = FlowRunner(config, engine, leases)

    def start(self) -> None:
        self._runner.start()

    def stop(self) -> None:
        self._runner.stop()
        self._runner.join(_PATIENCE.total_seconds())
        if self._runner.is_alive():
            log.warning("%s does not end, probably because a cluster does not answer", self._runner)

    def status(self) -> FlowStatus:
        return self._runner.status()

    def report(self) -> Report:
        status = self._runner.status()
        if status.state is State.FAILED:
            tasks = [
                self._task(status, index, status.reason) for index in range(len(status.slices))
            ]
            return Report(RunState.FAILED, status.reason, tuple(tasks))
        tasks = [self._task(status, index, None) for index in range(len(status.slices))]
        return Report(RunState.RUNNING, None, tuple(tasks))

    def topics(self) -> set[str]:
        return set(self._runner.status().remotes)

    def _task(self, status: FlowStatus, index: int, reason: str | None) -> TaskReport:
        """Return one slice; it counts as failed while one of its partitions is stopped."""
        partitions = status.slices[index]
        stopped = [
            f"{p} is stopped: {status.stopped[p]}" for p in partitions if p in status.stopped
        ]
        if stopped:
            stopped.append("All other partitions go on.")
        trace = reason or "\n".join(stopped) or None
        config = {"task.index": str(index), "task.assigned.partitions": ",".join(partitions)}
        return TaskReport(config, RunState.FAILED if trace else RunState.RUNNING, trace)


class ScheduleInstance:
    """A connector that is a schedule of chores: it has one task, or none if it has nothing to do."""

    def __init__(self, schedule: Schedule, topics: set[str]) -> None:
        self._schedule = schedule
        self._topics = topics

    def start(self) -> None:
        self._schedule.start()

    def stop(self) -> None:
        self._schedule.stop(_PATIENCE)

    def report(self) -> Report:
        chores = self._schedule.status()
        if not chores:
            return Report(RunState.RUNNING)
        failed = [f"{c.name}: {t}" for c in chores if c.failed for t in c.troubles]
        state = RunState.FAILED if failed else RunState.RUNNING
        task = TaskReport({"task.index": "0"}, state, "\n".join(failed) or None)
        return Report(RunState.RUNNING, None, (task,))

    def topics(self) -> set[str]:
        return self._topics


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is wanted of a connector: a change of any of these stops it and starts it anew."""

    config: tuple[tuple[str, str], ...]
    target: TargetState
    restarts: int = 0


@dataclass(slots=True)
class _Held:
    wanted: Wanted
    instance: Instance | None
    error: str | None = None


class Instances:
    """Brings the connectors of this process into the state that is wanted. For one thread but `reports`."""

    def __init__(self, worker: WorkerConfig | None, spark: Mapping[str, str]) -> None:
        self._worker = worker
        self._engine = Engine(_SLOTS, spark)
        self._leases = LeaseServer()
        self._spark_started = False
        self._held: dict[str, _Held] = {}

    def reconcile(self, wanted: Mapping[str, Wanted]) -> None:
        """Stop what is no longer wanted or wanted otherwise, then start what is wanted."""
        changed = [n for n, held in self._held.items() if wanted.get(n) != held.wanted]
        self._stop(changed)
        for name, its in wanted.items():
            if name not in self._held:
                self._held[name] = self._start(name, its)

    def reports(self) -> dict[str, Report]:
        """Return what every connector here does. For any thread."""
        return {name: _report(held) for name, held in list(self._held.items())}

    def topics(self, name: str) -> set[str]:
        """Return the topics that a connector here has written to."""
        held = self._held.get(name)
        return held.instance.topics() if held is not None and held.instance is not None else set()

    def flows(self) -> list[FlowStatus]:
        """Return the flows whose data is copied here. For any thread."""
        instances = [held.instance for held in list(self._held.values())]
        return [i.status() for i in instances if isinstance(i, SourceInstance)]

    def alive(self) -> bool:
        """Whether this process can still do its work."""
        return self._engine.alive()

    def close(self) -> None:
        """Stop everything, Spark at last."""
        self._stop(list(self._held))
        self._leases.close()
        self._engine.close()

    def _stop(self, names: list[str]) -> None:
        """Stop connectors side by side, so that a slow one costs no more than itself."""
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
            written = properties_of(dict(wanted.config), f"connector {name}")
            instance = self._make(connector_config(written, name, self._worker))
        except MirrorError as exc:
            log.error("connector %s FAILED: %s", name, exc)  # noqa: TRY400 - a sentence, no trace
            return _Held(wanted, None, str(exc))
        instance.start()
        return _Held(wanted, instance)

    def _make(self, connector: ConnectorConfig) -> Instance:
        config = connector.config
        for warning in connector.warnings:
            log.warning("connector %s: %s", connector.name, warning)
        if connector.part is Part.SOURCE:
            if not self._spark_started:
                self._spark_started = True
                self._engine.start()
            return SourceInstance(config, self._engine, self._leases)
        naming = naming_of(config)
        if connector.part is Part.CHECKPOINT:
            topics = {naming.checkpoints_topic(config.flow.source)}
            return ScheduleInstance(GroupUpkeep(config), topics)
        return ScheduleInstance(HeartbeatUpkeep(config), {naming.heartbeats_topic()})


_AT_REST = {TargetState.PAUSED: RunState.PAUSED, TargetState.STOPPED: RunState.STOPPED}


def _report(held: _Held) -> Report:
    if held.error is not None:
        return Report(RunState.FAILED, held.error)
    if held.instance is None:
        return Report(_AT_REST[held.wanted.target])
    return held.instance.report()
