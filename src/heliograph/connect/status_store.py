"""What connectors and tasks do, in Connect's status topic: each worker reports what it runs."""

import logging
import threading
import time
from collections.abc import Sequence

from heliograph.config.connectors import WorkerConfig
from heliograph.connect.herder import ConnectorStatus, RunState, TaskStatus
from heliograph.connect.state_topic import StateTopic
from heliograph.errors import CorruptRecord
from heliograph.tables.append import Row
from heliograph.wire.connect_state import (
    ConnectorStatusRow,
    Status,
    StatusRow,
    TaskStatusRow,
    TopicRow,
    decode_status_row,
    encode_status_row,
)

log = logging.getLogger(__name__)


class StatusStore:
    """All states as of the last `refresh` or write; any thread may read and write.

    `version` is the version that connectors of this worker report. Reading never waits for Kafka.
    """

    def __init__(self, worker: WorkerConfig, version: str) -> None:
        self._version = version
        self._lock = threading.Lock()
        self._connectors: dict[str, Status] = {}
        self._tasks: dict[str, dict[int, Status]] = {}
        self._topics: dict[str, set[str]] = {}
        self._topic = StateTopic(worker, "status", self._apply, self._forget)

    def open(self) -> None:
        """Create the topic if needed, and read it."""
        self._topic.open()

    def close(self) -> None:
        self._topic.close()

    def refresh(self) -> None:
        """Read what was written since the last time."""
        self._topic.refresh()

    def status(self, name: str) -> ConnectorStatus | None:
        """Return the last report on a connector and its tasks; None if there is none on the connector."""
        with self._lock:
            told = self._connectors.get(name)
            tasks = sorted(self._tasks.get(name, {}).items())
        if told is None:
            return None
        return ConnectorStatus(
            name,
            RunState(told.state),
            told.worker_id,
            tuple(TaskStatus(i, RunState(t.state), t.worker_id, t.trace) for i, t in tasks),
            told.trace,
        )

    def topics(self, name: str) -> list[str]:
        """Return the topics that a connector has written to, sorted."""
        with self._lock:
            return sorted(self._topics.get(name, ()))

    def put_connector_status(
        self, status: ConnectorStatus, generation: int, *, unless_newer: bool = False
    ) -> bool:
        """Report what a connector does, without its tasks.

        With `unless_newer` nothing is written, and False returned, if another worker has reported it in a
        later generation: the report of a worker that no longer has the connector comes too late.
        """
        new = self._status(status.state, status.worker_id, generation, status.trace)
        if unless_newer and not self._may_replace(self._connectors.get(status.name), new):
            return False
        self._write([ConnectorStatusRow(status.name, new)])
        return True

    def put_task_status(
        self, name: str, status: TaskStatus, generation: int, *, unless_newer: bool = False
    ) -> bool:
        """Report what one task does; see `put_connector_status`."""
        new = self._status(status.state, status.worker_id, generation, status.trace)
        with self._lock:
            old = self._tasks.get(name, {}).get(status.index)
        if unless_newer and not self._may_replace(old, new):
            return False
        self._write([TaskStatusRow(name, status.index, new)])
        return True

    def put_topic(self, connector: str, topic: str, task: int = 0) -> None:
        """Record that a connector has written to a topic, unless that is recorded already."""
        if topic not in self.topics(connector):
            self._write([TopicRow(connector, topic, task, time.time_ns() // 1_000_000)])

    def delete_connector(self, name: str) -> None:
        """Forget what was reported on a connector and all its tasks."""
        with self._lock:
            indexes = sorted(self._tasks.get(name, {}))
        self._write(
            [ConnectorStatusRow(name, None), *(TaskStatusRow(name, i, None) for i in indexes)]
        )

    def delete_task(self, name: str, index: int) -> None:
        self._write([TaskStatusRow(name, index, None)])

    def delete_topics(self, name: str) -> None:
        """Forget which topics a connector has written to."""
        if topics := self.topics(name):
            self._write([TopicRow(name, topic, None) for topic in topics])

    def _status(
        self, state: RunState, worker_id: str, generation: int, trace: str | None
    ) -> Status:
        return Status(state.value, worker_id, generation, trace, self._version)

    def _may_replace(self, old: Status | None, new: Status) -> bool:
        return old is None or old.worker_id == new.worker_id or old.generation <= new.generation

    def _write(self, rows: Sequence[StatusRow]) -> None:
        self._topic.write([encode_status_row(row) for row in rows])

    def _apply(self, written: Row) -> None:
        try:
            row = decode_status_row(*written)
            if row is not None:
                with self._lock:
                    self._take_in(row)
        except CorruptRecord as exc:
            log.warning("topic=%s %s", self._topic.name, exc)

    def _take_in(self, row: StatusRow) -> None:
        match row:
            case ConnectorStatusRow(name, None):
                self._connectors.pop(name, None)
            case ConnectorStatusRow(name, Status() as status) if _is_known(status):
                self._connectors[name] = status
            case TaskStatusRow(name, index, None):
                self._tasks.get(name, {}).pop(index, None)
            case TaskStatusRow(name, index, Status() as status) if _is_known(status):
                self._tasks.setdefault(name, {})[index] = status
            case TopicRow(connector, topic, None):
                self._topics.get(connector, set()).discard(topic)
            case TopicRow(connector, topic):
                self._topics.setdefault(connector, set()).add(topic)
            case _:
                log.warning("topic=%s passed over a state that is not known", self._topic.name)

    def _forget(self) -> None:
        with self._lock:
            for kept in (self._connectors, self._tasks, self._topics):
                kept.clear()


def _is_known(status: Status) -> bool:
    return status.state in RunState.__members__
