"""The connectors of a worker group, in Connect's config topic: written by any worker, followed by all."""

import logging
import threading
from collections.abc import Mapping, Sequence

from heliograph.config.connectors import WorkerConfig
from heliograph.connect.config_view import ConfigView
from heliograph.connect.herder import Config, TargetState
from heliograph.connect.state_topic import StateTopic
from heliograph.errors import CorruptRecord
from heliograph.tables.append import Row
from heliograph.wire.connect_state import (
    CommitRow,
    ConfigRow,
    ConnectorRow,
    RestartRow,
    TargetStateRow,
    TaskRow,
    decode_config_row,
    encode_config_row,
)

log = logging.getLogger(__name__)


class ConfigStore:
    """All connectors as of the last `refresh` or write; any thread may read and write.

    Reading never waits for Kafka. A write returns when it was read back.
    """

    def __init__(self, worker: WorkerConfig) -> None:
        self._view = ConfigView()
        self._lock = threading.Lock()
        self._topic = StateTopic(worker, "config", self._apply, self._forget)

    def open(self) -> None:
        """Create the topic if needed and read it; requests from before now are not for this worker."""
        self._topic.open()
        self.take_restarts()
        self.take_written()

    def close(self) -> None:
        self._topic.close()

    def refresh(self) -> None:
        """Read what was written since the last time."""
        self._topic.refresh()

    def take_written(self) -> frozenset[str]:
        """Return the connectors created or overwritten since the last call."""
        with self._lock:
            written = frozenset(self._view.written)
            self._view.written.clear()
        return written

    def take_restarts(self) -> list[RestartRow]:
        """Return the restarts requested since the last call."""
        with self._lock:
            restarts = list(self._view.restarts)
            self._view.restarts.clear()
        return restarts

    def connectors(self) -> list[str]:
        """Return the names of all connectors, sorted."""
        with self._lock:
            return sorted(self._view.connectors)

    def properties(self, name: str) -> Config | None:
        """Return a connector's configuration, expressions unresolved; None if there is none."""
        with self._lock:
            found = self._view.connectors.get(name)
            return None if found is None else dict(found)

    def births(self, name: str) -> int:
        """Return how often a connector of that name was created since this store was opened, and before."""
        with self._lock:
            return self._view.births[name]

    def tasks(self, name: str) -> tuple[Config, ...]:
        """Return the configurations of its tasks; none where not all of them were written."""
        with self._lock:
            return tuple(dict(task) for task in self._view.tasks.get(name, ()))

    def target_state(self, name: str) -> TargetState:
        """Return the target state of a connector; STARTED by default."""
        with self._lock:
            return self._view.target_states.get(name, TargetState.STARTED)

    def put_connector(
        self, name: str, config: Mapping[str, str], state: TargetState | None = None
    ) -> None:
        """Create or change a connector, with its initial state."""
        aim = [] if state is None else [TargetStateRow(name, state.value)]
        self._write([*aim, ConnectorRow(name, config)])

    def put_tasks(self, name: str, configs: Sequence[Mapping[str, str]]) -> None:
        """Replace all tasks of a connector."""
        tasks = [TaskRow(name, index, config) for index, config in enumerate(configs)]
        self._write([*tasks, CommitRow(name, len(configs))])

    def remove_connector(self, name: str) -> None:
        """Delete a connector; its positions stay."""
        self._write([ConnectorRow(name, None), TargetStateRow(name, None)])

    def put_target_state(self, name: str, state: TargetState) -> None:
        self._write([TargetStateRow(name, state.value)])

    def request_restart(self, name: str, *, include_tasks: bool, only_failed: bool) -> None:
        """Request that all workers restart what they run of a connector."""
        self._write([RestartRow(name, include_tasks, only_failed)])

    def _write(self, rows: Sequence[ConfigRow]) -> None:
        self._topic.write([encode_config_row(row) for row in rows])

    def _apply(self, written: Row) -> None:
        try:
            row = decode_config_row(*written)
            if row is not None:
                with self._lock:
                    self._view.apply(row)
        except CorruptRecord as exc:
            log.warning("topic=%s %s", self._topic.name, exc)
        except ValueError as exc:
            log.warning(
                "topic=%s passed over a target state: %s. Set it anew.", self._topic.name, exc
            )

    def _forget(self) -> None:
        with self._lock:
            self._view.clear()
