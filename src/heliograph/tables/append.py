"""Writing rows to an internal topic: in order, acknowledged by all, over a connection that is kept."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
_REST = 3.0  # times what it took until a partition was given up: so a quarter of the time is spent on it at most
_LONGEST_REST = 30.0


@dataclass(frozen=True, slots=True)
class _Stuck:
    """A partition that took no rows in time: until when it is not tried again with the same patience or less."""

    until: float
    within: timedelta
    fault: KafkaFault


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
        self._stuck: dict[int, _Stuck] = {}

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
        """Store rows by partition, and return when the cluster has them all.

        A partition whose broker did not answer just now is refused at once, so that its writer can do other things.
        """
        self._refuse_stuck(rows, within)
        began = time.monotonic()
        places = [TopicPartition(self.topic, index) for index in rows]
        if self.author is not None:
            self.author.prepare(places)
        producer = self._open(within)
        for index, members in rows.items():
            for some in _batches(members):
                producer.offer(index, self._sign(index, some, timestamp_ms))
        self._await(producer, began + within.total_seconds(), places)
        if producer.idle and not self._refused:
            self._forget_stuck(rows)
            return
        fault = self._fault_of(producer)
        if fault.retriable:
            rest = min(_REST * (time.monotonic() - began), _LONGEST_REST)
            stuck = _Stuck(time.monotonic() + rest, within, fault)
            self._stuck.update((index, stuck) for index in rows if producer.is_busy(index))
        self._fail(places)
        raise fault

    def _await(self, producer: Producer, deadline: float, places: Iterable[TopicPartition]) -> None:
        """Wait until everything is answered, or the deadline."""
        try:
            while not producer.idle and time.monotonic() <= deadline:
                producer.pump(timeout=0.5)
        except FlowFenced:
            self.close()
            raise
        except BaseException:
            self._fail(places)
            raise

    def _fault_of(self, producer: Producer) -> KafkaFault:
        """Return why rows could not be stored."""
        reason = self._refused[0].reason if self._refused else producer.trouble
        return KafkaFault(f"write to {self.topic}", reason or "nothing", not self._refused)

    def _forget_stuck(self, rows: Iterable[int]) -> None:
        for index in rows:
            self._stuck.pop(index, None)

    def _refuse_stuck(self, rows: Iterable[int], within: timedelta) -> None:
        for index in rows:
            stuck = self._stuck.get(index)
            if stuck is not None and within <= stuck.within and time.monotonic() < stuck.until:
                raise KafkaFault(stuck.fault.doing, stuck.fault.error, retriable=True)

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
