"""A compacted topic as a table: read whole, written by key."""

import logging
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from heliograph.admin.topics import await_topics, create_topic
from heliograph.errors import KafkaFault
from heliograph.kafka.cluster import Cluster, patiently
from heliograph.kafka.offsets import EARLIEST, find_offsets_patiently
from heliograph.model import TopicPartition
from heliograph.tables.append import PATIENCE, Appender, Row
from heliograph.tables.author import Author
from heliograph.tables.rows import read_partitions
from heliograph.wire.primitives import partition_for_key

log = logging.getLogger(__name__)

_OPEN = timedelta(seconds=90)  # longer than our own transactions may be open


class Rows(NamedTuple):
    """The latest value of every key, and why some partitions could not be read."""

    found: dict[bytes, bytes]
    missing: Mapping[int, str]


class Table:
    """One compacted topic; keys are placed as Kafka's own partitioner places them."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._cluster = cluster
        self.topic = topic
        self._appender = Appender(cluster, topic)
        self._topic_id: UUID | None = None

    def sign_as(self, author: Author) -> None:
        """Write as a fenced author from now on."""
        self._appender.author = author

    def ensure(
        self,
        partitions: int,
        replication_factor: int,
        within: timedelta = PATIENCE,
        config: Mapping[str, str] | None = None,
    ) -> bool:
        """Create the topic if it does not exist; `config` are settings in addition to its cleanup policy.

        Return whether it holds nothing of what was written before: it was created now, or since the last call.
        """
        topic_id = self._find_id(within)
        is_made = False
        if topic_id is None:  # or a broker that has just started does not know it yet
            settings = {**(config or {}), "cleanup.policy": "compact"}
            is_made = patiently(
                lambda: create_topic(
                    self._cluster, self.topic, partitions, replication_factor, settings
                ),
                within,
            )
            await_topics(self._cluster, {self.topic: partitions})
            topic_id = self._find_id(within)
        # Before Kafka 2.8 topics have no id: there, a topic that others have recreated meanwhile is not noticed.
        is_other = self._topic_id not in (None, topic_id)
        if is_other:
            log.error("%s is gone and is made again. Check who deleted it.", self.topic)
            self._appender.give_up()
        self._topic_id = topic_id
        return is_made or is_other

    def _find_id(self, within: timedelta) -> UUID | None:
        found = patiently(lambda: self._cluster.describe([self.topic]), within).get(self.topic)
        return None if found is None else found.topic_id

    def read(self) -> dict[bytes, bytes]:
        """Return the latest value of every key, up to the current end; a deleted key is absent.

        Waits for transactions that are open now: what was committed after them counts.
        """
        return _latest(read_partitions(self._cluster, self._partitions(), _OPEN, past_open=True))

    def find(self) -> Rows:
        """Do as `read` for all partitions that can be read now."""
        partitions = self._partitions()
        missing = find_offsets_patiently(self._cluster, partitions, EARLIEST).missing
        there = [partition for partition in partitions if partition not in missing]
        rows = read_partitions(self._cluster, there, _OPEN, past_open=True)
        return Rows(_latest(rows), {p.index: str(fault) for p, fault in missing.items()})

    def place_of(self, key: bytes) -> int:
        """Return the partition of a key."""
        return partition_for_key(key, self._appender.partitions())

    def _partitions(self) -> list[TopicPartition]:
        return partitions_of(self._cluster, self.topic)

    def write(self, rows: Mapping[bytes, bytes | None], within: timedelta = PATIENCE) -> None:
        """Store `rows`, and return when the cluster has them; a None deletes its key."""
        self._appender.append_by_key(rows.items(), within)


def read_rows(cluster: Cluster, topic: str) -> Iterator[Row]:
    """Yield every row of a topic up to its current end, in order within partitions.

    Records that no consumer sees, or that have no key, are left out.
    """
    yield from read_partitions(cluster, partitions_of(cluster, topic))


def partitions_of(cluster: Cluster, topic: str) -> list[TopicPartition]:
    """Return the partitions of a topic that must exist."""
    topics = patiently(lambda: cluster.describe([topic]))
    if topic not in topics:
        raise KafkaFault(f"read {topic}", "UNKNOWN_TOPIC_OR_PARTITION", retriable=False)
    return topics[topic].partitions


def _latest(rows: Iterable[Row]) -> dict[bytes, bytes]:
    latest: dict[bytes, bytes] = {}
    for key, value in rows:
        if value is None:
            latest.pop(key, None)
        else:
            latest[key] = value
    return latest
