"""A compacted topic followed while it is written, by many and for any length of time."""

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from uuid import UUID

from heliograph.kafka.cluster import Cluster, Topic, patiently
from heliograph.kafka.offsets import LATEST, list_offsets
from heliograph.model import TopicPartition
from heliograph.tables.append import PATIENCE, Appender, Row
from heliograph.tables.rows import read_range
from heliograph.tables.table import Table


class FollowedTopic:
    """A topic and how far it was read; owned by one thread at a time, as its cluster is.

    A caller that keeps anything from the rows must forget it when `on_anew` is called, from within
    `refresh`: the topic was deleted and recreated, and its rows come from the beginning.
    """

    def __init__(
        self, cluster: Cluster, topic: str, on_anew: Callable[[], None] = lambda: None
    ) -> None:
        self._cluster = cluster
        self.topic = topic
        self._on_anew = on_anew
        self._appender = Appender(cluster, topic)
        self._topic_id: UUID | None = None
        self._positions: dict[TopicPartition, int] = {}

    def ensure(
        self,
        partitions: int,
        replication_factor: int,
        config: Mapping[str, str] | None = None,
    ) -> None:
        """Create the topic, compacted, if it does not exist."""
        Table(self._cluster, self.topic).ensure(partitions, replication_factor, config=config)

    def refresh(self, within: timedelta = PATIENCE) -> list[Row]:
        """Return what was written since the last call, in order within partitions.

        A topic that does not exist returns no rows: what was read from it stays valid until it is recreated.
        """
        found = patiently(lambda: self._cluster.describe([self.topic]), within).get(self.topic)
        if found is None:
            return []
        ends = patiently(
            lambda: list_offsets(self._cluster, found.partitions, LATEST, committed_only=True),
            within,
        )
        self._notice_anew(found, ends)
        rows = [
            row
            for partition, end in ends.items()
            if (start := self._positions.get(partition, 0)) < end
            for row in read_range(self._cluster, partition, start, end)
        ]
        self._positions = ends
        return rows

    def append(self, rows: Iterable[Row], within: timedelta = PATIENCE) -> None:
        """Store rows, those of a partition in order, and return when the cluster has them all."""
        self._appender.append_by_key(rows, within)

    def close(self) -> None:
        """Close the connection for writing; the cluster stays open."""
        self._appender.close()

    def _notice_anew(self, found: Topic, ends: Mapping[TopicPartition, int]) -> None:
        # Before Kafka 2.8 topics have no id: there, only a topic that became shorter is noticed.
        shorter = any(ends.get(p, 0) < position for p, position in self._positions.items())
        if self._topic_id is not None and (shorter or found.topic_id != self._topic_id):
            self._positions = {}
            self._appender.close()
            self._on_anew()
        self._topic_id = found.topic_id
