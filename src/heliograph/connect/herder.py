"""Kafka Connect's nouns, and what a REST API may ask of the herder, which manages connectors.

A herder answers for all connectors of its group, wherever they run. Every method may block for some
seconds and may be called from any thread. What cannot be done raises RestError, with Connect's status codes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from heliograph.errors import MirrorError

Config = dict[str, str]
# A position as Connect shows it: {"partition": {...}, "offset": {...} or None}
Offset = dict[str, Any]


class RestError(MirrorError):
    """A request that cannot be fulfilled; `status` is the HTTP status that says so."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(status, message)
        self.status = status
        self.message = message

    def __str__(self) -> str:
        return self.message


class RunState(StrEnum):
    """What a connector or task does now."""

    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    FAILED = "FAILED"
    RESTARTING = "RESTARTING"
    STOPPED = "STOPPED"


class TargetState(StrEnum):
    """The state that was requested for a connector."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


@dataclass(frozen=True, slots=True)
class TaskStatus:
    index: int
    state: RunState
    worker_id: str
    trace: str | None = None


@dataclass(frozen=True, slots=True)
class ConnectorStatus:
    """A connector as its worker last told of it."""

    name: str
    state: RunState
    worker_id: str
    tasks: tuple[TaskStatus, ...] = ()
    trace: str | None = None


@dataclass(frozen=True, slots=True)
class ConnectorInfo:
    """A connector as it was configured, expressions unresolved; `tasks` are their configurations."""

    name: str
    config: Config
    tasks: tuple[Config, ...] = field(default=())


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


class Herder(Protocol):
    """Manages connectors. An unknown name raises RestError 404 in every method but `put_config`."""

    def cluster_id(self) -> str:
        """Return the id of the Kafka cluster that this worker belongs to."""

    def health(self) -> tuple[str, str]:
        """Return "healthy", "starting" or "unhealthy", and a sentence."""

    def connectors(self) -> list[str]:
        """Return the names of all connectors, sorted."""

    def info(self, name: str) -> ConnectorInfo:
        """Return a connector's configuration."""

    def status(self, name: str) -> ConnectorStatus:
        """Return what a connector and its tasks do."""

    def put_config(
        self,
        name: str,
        config: Mapping[str, str],
        *,
        must_be_new: bool = False,
        state: TargetState = TargetState.STARTED,
    ) -> tuple[ConnectorInfo, bool]:
        """Create or change a connector; return it, and whether it is new. It was validated before.

        With `must_be_new` an existing one is a 409. `state` only counts for a new one.
        """

    def delete(self, name: str) -> None:
        """Stop a connector and forget its configuration."""

    def set_target_state(self, name: str, state: TargetState) -> None:
        """Pause, stop or resume a connector; returns when the target state is stored."""

    def restart(
        self, name: str, *, include_tasks: bool = False, only_failed: bool = False
    ) -> ConnectorStatus:
        """Restart a connector, and return what it is about to do."""

    def restart_task(self, name: str, index: int) -> None:
        """Restart one task."""

    def topics(self, name: str) -> list[str]:
        """Return the topics that a connector has written to since the last reset."""

    def reset_topics(self, name: str) -> None:
        """Forget which topics a connector has written to."""

    def offsets(self, name: str) -> list[Offset]:
        """Return the saved positions of a connector."""

    def alter_offsets(self, name: str, offsets: list[Offset] | None) -> None:
        """Set positions of a stopped connector, delete those whose offset is None, or reset all with None."""


def status_of(name: str, worker_id: str, report: Report) -> ConnectorStatus:
    """Return what a worker reports about a connector it runs."""
    tasks = tuple(
        TaskStatus(index, task.state, worker_id, task.trace)
        for index, task in enumerate(report.tasks)
    )
    return ConnectorStatus(name, report.state, worker_id, tasks, report.trace)


def planned_restart(
    now: ConnectorStatus, *, include_tasks: bool, only_failed: bool
) -> ConnectorStatus:
    """Return a connector's status with all that is about to be restarted marked so."""

    def after(state: RunState) -> RunState:
        return RunState.RESTARTING if not only_failed or state is RunState.FAILED else state

    tasks = tuple(
        TaskStatus(t.index, after(t.state) if include_tasks else t.state, t.worker_id, t.trace)
        for t in now.tasks
    )
    return ConnectorStatus(now.name, after(now.state), now.worker_id, tasks, now.trace)
