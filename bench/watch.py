"""Watching a remote topic fill, and counting afterwards what is really in it."""

import time
import zlib
from contextlib import closing

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as RdPartition
from confluent_kafka.admin import OffsetSpec

from tests.clusters import LiveCluster

# A topic that was made a moment ago.
_NOT_YET = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.UNKNOWN_TOPIC_OR_PART)

Content = dict[int, tuple[int, int]]
"""Per partition: how many records, and a checksum of their values in order."""


class Ends:
    """The sum of a topic's end offsets, and the highest of them; 0 until the topic is there."""

    def __init__(self, cluster: LiveCluster, topic: str, partitions: int) -> None:
        self._cluster = cluster
        self._topic = topic
        self._asked = {RdPartition(topic, p): OffsetSpec.latest() for p in range(partitions)}
        self._exists = False
        self._last = 0
        self.highest = 0

    def total(self) -> int:
        if not self._exists:
            self._exists = self._cluster.partition_count(self._topic) == len(self._asked)
            if not self._exists:
                return 0
        answers = self._cluster.admin.list_offsets(self._asked, request_timeout=10)
        try:
            ends = [answer.result(10).offset for answer in answers.values()]
            self._last, self.highest = sum(ends), max(ends)
        except KafkaException as exc:
            if not exc.args[0].retriable() and exc.args[0].code() not in _NOT_YET:
                raise
        return self._last


def read_content(cluster: LiveCluster, topic: str, within: float = 300) -> Content:
    """Return what a consumer of committed records sees of a topic."""
    partitions = cluster.partition_count(topic)
    settings = cluster.client(
        group_id="unused", enable_auto_commit=False, enable_partition_eof=True
    )
    settings["isolation.level"] = "read_committed"
    content: Content = dict.fromkeys(range(partitions), (0, 0))
    ended: set[int] = set()
    deadline = time.monotonic() + within
    with closing(Consumer(settings)) as consumer:
        consumer.assign([RdPartition(topic, p, OFFSET_BEGINNING) for p in range(partitions)])
        while len(ended) < partitions:
            assert time.monotonic() < deadline, f"{topic}: not read to its end within {within} s"
            for message in consumer.consume(10_000, timeout=0.5):
                error = message.error()
                if error is None:
                    count, checksum = content[message.partition()]
                    checksum = zlib.crc32(message.value(), checksum)
                    content[message.partition()] = (count + 1, checksum)
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's own name for it
                    ended.add(message.partition())
                else:
                    raise KafkaException(error)
    return content


def count(content: Content) -> int:
    return sum(records for records, _ in content.values())
