"""How a connector stands, from what a worker tells of it."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

from heliograph.cli.rest import ConnectApi
from heliograph.config.validate import find_plugin
from heliograph.connect.herder import RunState

_TRACE_SHOWN = 160


@dataclass(frozen=True, slots=True)
class Standing:
    """A connector's status as the worker tells it: None before it was begun, and where there is no such connector."""

    name: str
    kind: str
    status: dict[str, Any] | None
    is_deployed: bool = True

    @property
    def state(self) -> str | None:
        return self.status["connector"]["state"] if self.status else None

    @property
    def tasks(self) -> list[dict[str, Any]]:
        return list(self.status["tasks"]) if self.status else []

    @property
    def states(self) -> set[str | None]:
        """The connector's state and those of its tasks."""
        return {self.state, *(task["state"] for task in self.tasks)}

    @property
    def is_running(self) -> bool:
        """Whether it runs, with all its tasks: it has none where there is nothing to do."""
        return self.states == {RunState.RUNNING}

    def traces(self) -> list[str]:
        """Return why the connector and its tasks failed, each reason once."""
        if self.status is None:
            return []
        told = [self.status["connector"].get("trace"), *(t.get("trace") for t in self.tasks)]
        return list(dict.fromkeys(trace for trace in told if trace))

    def cells(self) -> tuple[str, ...]:
        """Return a row of a table: name, kind, state, tasks, worker, trace."""
        counts = Counter(task["state"] for task in self.tasks)
        tasks = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
        worker = self.status["connector"]["worker_id"] if self.status else ""
        shown = " / ".join(shorten(trace) for trace in self.traces())
        state = self.state or ("not begun" if self.is_deployed else "not deployed")
        return self.name, self.kind, state, tasks or "-", worker, shown

    def as_json(self) -> dict[str, Any]:
        if self.status is None:
            return {"name": self.name, "kind": self.kind, "state": None, "tasks": []}
        return {
            "name": self.name,
            "kind": self.kind,
            **self.status["connector"],
            "tasks": self.tasks,
        }


def ask_standing(api: ConnectApi, name: str, kind: str | None = None) -> Standing:
    """Ask how a connector stands; without a `kind`, its configuration tells."""
    status = api.status(name)
    config = api.config(name) if status is None or kind is None else None
    return Standing(name, kind or _kind(config or {}), status, bool(status or config))


def shorten(trace: str) -> str:
    """Return the first line of a trace, cut where it is long."""
    first = trace.strip().split("\n", 1)[0]
    return first if len(first) <= _TRACE_SHOWN else f"{first[: _TRACE_SHOWN - 1]}…"


def _kind(config: dict[str, str]) -> str:
    written = config.get("connector.class", "")
    return find_plugin(written) or written.rpartition(".")[2] or "?"
