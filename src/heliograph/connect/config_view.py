"""What the rows of a config topic result in.

A set of task configurations counts from its commit on, and only if the commit's number of tasks was
written since the commit before. If compaction or a crash left fewer, the connector has no tasks until
all of them are written again.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import assert_never

from heliograph.connect.herder import Config, TargetState
from heliograph.wire.connect_state import (
    CommitRow,
    ConfigRow,
    ConnectorRow,
    RestartRow,
    TargetStateRow,
    TaskRow,
)


@dataclass(slots=True)
class ConfigView:
    """Connectors as the rows so far define them; `written` and `restarts` are for the reader to empty.

    `births` counts how often each was created: one that was deleted and recreated is another one, though
    it may have the same configuration. `written` are those created or overwritten.
    """

    connectors: dict[str, Config] = field(default_factory=dict)
    tasks: dict[str, tuple[Config, ...]] = field(default_factory=dict)
    target_states: dict[str, TargetState] = field(default_factory=dict)
    restarts: list[RestartRow] = field(default_factory=list)
    written: set[str] = field(default_factory=set)
    births: Counter[str] = field(default_factory=Counter)
    _uncommitted: dict[str, dict[int, Config]] = field(default_factory=dict)

    def clear(self) -> None:
        """Forget all, as if every connector had been deleted."""
        for kept in (self.connectors, self.tasks, self.target_states, self._uncommitted):
            kept.clear()
        self.restarts.clear()

    def apply(self, row: ConfigRow) -> None:
        """Apply the next row; an unknown target state raises ValueError."""
        match row:
            case ConnectorRow(name, None):
                self._remove(name)
            case ConnectorRow(name, properties):
                self.births[name] += name not in self.connectors
                self.connectors[name] = dict(properties or {})
                self.written.add(name)
            case TaskRow(name, index, properties):
                self._keep_task(name, index, properties)
            case CommitRow(name, tasks):
                self._commit(name, tasks or 0)
            case TargetStateRow(name, state):
                self._aim(name, state)
            case RestartRow():
                self.restarts.append(row)
            case _:
                assert_never(row)

    def _remove(self, name: str) -> None:
        self.connectors.pop(name, None)
        self.tasks.pop(name, None)
        self._uncommitted.pop(name, None)

    def _keep_task(self, name: str, index: int, properties: Mapping[str, str] | None) -> None:
        waiting = self._uncommitted.setdefault(name, {})
        if properties is None:
            waiting.pop(index, None)
        else:
            waiting[index] = dict(properties)

    def _commit(self, name: str, tasks: int) -> None:
        waiting = self._uncommitted.pop(name, {})
        # A commit without its connector is what compaction left of a deleted one.
        if name in self.connectors:
            complete = sorted(waiting) == list(range(tasks))
            self.tasks[name] = tuple(waiting[i] for i in range(tasks)) if complete else ()

    def _aim(self, name: str, state: str | None) -> None:
        if state is None:
            self.target_states.pop(name, None)
        else:
            self.target_states[name] = TargetState(state)
