"""The offset syncs of a flow: a few correct offset pairs per partition, for MirrorMaker 2's own tools."""

import threading
from collections.abc import Iterable, Mapping
from datetime import timedelta

from heliograph.config.flow import FlowConfig
from heliograph.config.naming import naming_of
from heliograph.config.settings_source import End
from heliograph.errors import MirrorError
from heliograph.flows.schedule import Chore
from heliograph.kafka.cluster import Cluster
from heliograph.model import TopicPartition
from heliograph.policy.offset_syncs import SyncQueue
from heliograph.tables.append import Appender
from heliograph.tables.table import Table
from heliograph.wire.mirror_records import encode_offset_sync

_TICK = timedelta(seconds=1)


def offset_syncs_topic(config: FlowConfig) -> str:
    """Return the topic's name, which contains the alias of the cluster that it is not on."""
    on_source = config.mirroring.offset_syncs_topic_location is End.SOURCE
    return naming_of(config).offset_syncs_topic(
        config.flow.target if on_source else config.flow.source
    )


class OffsetSyncWriter:
    """Writes the due syncs once a second, and all other changes at each offset flush."""

    def __init__(self, config: FlowConfig) -> None:
        self._config = config
        self._cluster = Cluster(config.offset_syncs)
        self._table = Table(self._cluster, offset_syncs_topic(config))
        self._appender: Appender | None = None
        self._lock = threading.Lock()
        self._queue = SyncQueue(config.mirroring.offset_lag_max)

    def chores(self) -> list[Chore]:
        if not self._config.mirroring.emit_offset_syncs_enabled:
            return []
        flush = self._config.working.offset_flush_interval
        return [
            Chore("offset-syncs", _TICK, self.fire),
            Chore("offset-syncs flush", flush, self.flush, delayed=True),
        ]

    def close(self) -> None:
        self._cluster.close()

    def note(self, partition: TopicPartition, runs: Iterable[tuple[int, int, int]]) -> None:
        """Record what was stored. Thread-safe."""
        with self._lock:
            self._queue.note(partition, runs)

    def recall(self, places: Mapping[TopicPartition, tuple[int, int]]) -> None:
        """Record where the last records of an earlier start are, for a topic that no longer exists."""
        with self._lock:
            for partition, (upstream, downstream) in places.items():
                self._queue.recall(partition, upstream, downstream)

    def forget(self, partition: TopicPartition) -> None:
        """Start again with a partition. Thread-safe."""
        with self._lock:
            self._queue.forget(partition)

    def flush(self) -> Iterable[str]:
        """Write the newest pair of every partition that advanced, or of all if the topic was deleted."""
        if self._ensure():
            self._appender = None
        with self._lock:
            self._queue.promote()
        return self.fire()

    def fire(self) -> Iterable[str]:
        """Write the syncs that are due; create the topic if it does not exist."""
        appender, self._appender = self._appender, None
        if appender is None:
            self._ensure()
            appender = Appender(self._cluster, self._table.topic)
        with self._lock:
            due = self._queue.due()
        if due:
            try:
                rows = [encode_offset_sync(sync) for sync in due]
                appender.append({0: rows}, self._config.common.admin_timeout)
            except MirrorError:
                with self._lock:
                    self._queue.put_back(due)
                raise
        self._appender = appender
        return ()

    def _ensure(self) -> bool:
        """Create the topic if it does not exist; return whether what was written to it is gone."""
        is_empty = self._table.ensure(
            1, self._config.mirroring.offset_syncs_topic_replication_factor
        )
        if is_empty:
            with self._lock:
                self._queue.repeat()
        return is_empty
