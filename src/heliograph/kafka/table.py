"""A compacted topic as a table: read whole, written by key."""

import time
from collections.abc import Mapping
from datetime import timedelta

from heliograph.errors import KafkaFault
from heliograph.kafka.cluster import Cluster, patiently
from heliograph.kafka.offsets import EARLIEST, LATEST, list_offsets
from heliograph.kafka.plain import plain_batch
from heliograph.kafka.produce import Lane, Producer, Refused
from heliograph.kafka.scan import scan
from heliograph.kafka.topics import await_topics, create_topic
from heliograph.model import TopicPartition
from heliograph.wire.primitives import partition_for_key
from heliograph.wire.records import decode_body
from heliograph.wire.unpack import unpack

_ROWS_PER_BATCH = 1000
PATIENCE = timedelta(seconds=30)


class Table:
    """One compacted topic; keys are placed as Kafka's own partitioner places them."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._cluster = cluster
        self.topic = topic

    def ensure(self, partitions: int, replication_factor: int) -> None:
        """Create the topic if it is not there."""
        if self.topic not in patiently(lambda: self._cluster.describe([self.topic])):
            config = {"cleanup.policy": "compact"}
            patiently(
                lambda: create_topic(
                    self._cluster, self.topic, partitions, replication_factor, config
                )
            )
            await_topics(self._cluster, {self.topic: partitions})

    def read(self) -> dict[bytes, bytes]:
        """Return the latest value of every key, up to the end as it is now; a deleted key is absent."""
        partitions = self._partitions()
        starts = patiently(lambda: list_offsets(self._cluster, partitions, EARLIEST))
        ends = patiently(
            lambda: list_offsets(self._cluster, partitions, LATEST, committed_only=True)
        )
        rows: dict[bytes, bytes] = {}
        ranges = {p: (starts[p], ends[p]) for p in partitions}
        for _, batch in scan(self._cluster, ranges, committed_only=True, on_gap=lambda *_: None):
            for record in unpack(batch):
                key, value, _ = decode_body(record.body)
                if key is None:
                    continue
                if value is None:
                    rows.pop(key, None)
                else:
                    rows[key] = value
        return rows

    def write(self, rows: Mapping[bytes, bytes | None], within: timedelta = PATIENCE) -> None:
        """Store `rows`, and return when the cluster has them; a None deletes its key."""
        deadline = time.monotonic() + within.total_seconds()
        count = len(self._partitions(within))
        by_partition: dict[int, list[tuple[bytes, bytes | None]]] = {}
        for key, value in rows.items():
            by_partition.setdefault(partition_for_key(key, count), []).append((key, value))
        refused: list[Refused] = []
        producer = Producer(
            self._cluster,
            self.topic,
            [Lane(index, TopicPartition(self.topic, index)) for index in by_partition],
            on_stored=lambda _: None,
            on_refused=refused.append,
        )
        for index, members in by_partition.items():
            for start in range(0, len(members), _ROWS_PER_BATCH):
                producer.offer(index, plain_batch(members[start : start + _ROWS_PER_BATCH]))
        try:
            while not producer.idle:
                producer.pump(timeout=0.5)
                if time.monotonic() > deadline:
                    raise KafkaFault(f"write to {self.topic}", producer.trouble or "nothing", True)
        finally:
            producer.close()
        for refusal in refused:
            raise KafkaFault(f"write to {self.topic}", refusal.reason, retriable=False)

    def _partitions(self, within: timedelta = PATIENCE) -> list[TopicPartition]:
        topics = patiently(lambda: self._cluster.describe([self.topic]), within)
        if self.topic not in topics:
            raise KafkaFault(f"read {self.topic}", "UNKNOWN_TOPIC_OR_PARTITION", retriable=False)
        return topics[self.topic].partitions
