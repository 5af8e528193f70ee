"""Writing rows to an internal topic: in order, acknowledged by all, over a connection that is kept."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TypeAlias

from heliograph.errors import FlowFenced, KafkaFault
from heliograph.kafka.cluster import Cluster, patiently
from heliograph.kafka.lane import Lane, Outgoing, Refused
from heliograph.kafka.plain import plain_batch
from heliograph.kafka.produce import Producer
from heliograph.model import TopicPartition
from heliograph.tables.author import Author
from heliograph.wire.primitives import partition_for_key

Row: TypeAlias = tuple[bytes, bytes | None]

PATIENCE = timedelta(seconds=30)
_BATCH_ROWS = 1000
_BATCH_BYTES = 256 << 10


class Appender:
    """The writer of one topic; owned by one thread at a time, as its cluster is.

    With an `author` its rows are fenced and in order; without one, other writers may write at the same time.
    """

    def __init__(self, cluster: Cluster, topic: str, author: Author | None = None) -> None:
        self._cluster = cluster
        self.topic = topic
        self.author = author
        self._producer: Producer | None = None
        self._refused: list[Refused] = []
        self._partitions = 0

    def partitions(self, within: timedelta = PATIENCE) -> int:
        """Return how many partitions the topic has; looked up once."""
        if not self._partitions:
            found = patiently(lambda: self._cluster.describe([self.topic]), within)
            if self.topic not in found:
                raise KafkaFault(
                    f"write to {self.topic} on {self._cluster.endpoint.cluster}",
                    "UNKNOWN_TOPIC_OR_PARTITION",
                    retriable=False,
                )
            self._partitions = len(found[self.topic].leaders)
        return self._partitions

    def append(
        self,
        rows: Mapping[int, Sequence[Row]],
        within: timedelta = PATIENCE,
        timestamp_ms: int | None = None,
    ) -> None:
        """Store rows by partition, and return when the cluster has them all."""
        deadline = time.monotonic() + within.total_seconds()
        places = [TopicPartition(self.topic, index) for index in rows]
        if self.author is not None:
            self.author.prepare(places)
        producer = self._open(within)
        for index, members in rows.items():
            for some in _batches(members):
                producer.offer(index, self._sign(index, some, timestamp_ms))
        try:
            while not producer.idle and time.monotonic() <= deadline:
                producer.pump(timeout=0.5)
        except FlowFenced:
            self.close()
            raise
        except BaseException:
            self._fail(places)
            raise
        if not producer.idle or self._refused:
            retriable = not self._refused
            reason = producer.trouble if retriable else self._refused[0].reason
            self._fail(places)
            raise KafkaFault(f"write to {self.topic}", reason or "nothing", retriable)

    def append_by_key(self, rows: Iterable[Row], within: timedelta = PATIENCE) -> None:
        """Store rows where Kafka's own partitioner puts their keys, and return when all are stored."""
        count = self.partitions(within)
        by_partition: dict[int, list[Row]] = {}
        for key, value in rows:
            by_partition.setdefault(partition_for_key(key, count), []).append((key, value))
        self.append(by_partition, within)

    def close(self) -> None:
        """Forget what is in flight, and look the topic up again next time."""
        if self._producer is not None:
            self._producer.close()
        self._producer = None
        self._refused.clear()
        self._partitions = 0

    def give_up(self) -> None:
        """Note that the topic is no longer the one that was written to."""
        self._fail([TopicPartition(self.topic, index) for index in range(self._partitions)])

    def _fail(self, places: Iterable[TopicPartition]) -> None:
        self.close()
        if self.author is not None:
            self.author.give_up(places)

    def _sign(self, index: int, rows: Sequence[Row], timestamp_ms: int | None) -> Outgoing:
        if self.author is None:
            return plain_batch(rows, timestamp_ms)
        identity, sequence = self.author.sign(TopicPartition(self.topic, index), len(rows))
        return plain_batch(rows, timestamp_ms, identity, sequence)

    def _open(self, within: timedelta) -> Producer:
        if self._producer is None:
            lanes = [Lane(i, TopicPartition(self.topic, i)) for i in range(self.partitions(within))]
            self._producer = Producer(
                self._cluster,
                self.topic,
                lanes,
                on_stored=lambda _: None,
                on_refused=self._refused.append,
            )
        return self._producer


def _batches(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Yield `rows` in chunks that any broker accepts as a batch."""
    some: list[Row] = []
    size = 0
    for row in rows:
        some.append(row)
        size += len(row[0]) + len(row[1] or b"")
        if len(some) == _BATCH_ROWS or size > _BATCH_BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some
