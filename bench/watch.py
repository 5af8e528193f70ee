"""Watching a remote topic fill, and counting afterwards what is really in it."""

import struct
import time
import zlib
from contextlib import closing

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as RdPartition

from bench.pump import open_cluster
from lab.clusters import LiveCluster

_BROKER = 1
_LIST_OFFSETS, _VERSION, _LATEST = 2, 5, -1
_ASKED = struct.Struct(">ibih")
_ASKED_PARTITION = struct.Struct(">iiq")
_ANSWER = struct.Struct(">ihqqi")
_COUNT = struct.Struct(">i")

Content = dict[int, tuple[int, int]]
"""Per partition: how many records, and a checksum of their values in order."""


class Ends:
    """The sum of a topic's end offsets, and the highest of them; 0 until the topic is there.

    Asked of the cluster's one broker in one request that is encoded once: an admin client needs a quarter of a
    second of CPU to ask for 5,000 partitions, which is taken from what is measured.
    """

    def __init__(self, cluster: LiveCluster, topic: str, partitions: int) -> None:
        self._live = cluster
        self._topic = topic
        self._partitions = partitions
        name = topic.encode()
        head = _ASKED.pack(-1, 0, 1, len(name)) + name + _COUNT.pack(partitions)
        asked = (_ASKED_PARTITION.pack(p, -1, _LATEST) for p in range(partitions))
        self._request = head + b"".join(asked)
        self._answers_at = (
            4 + 4 + 4 + 2 + len(name) + 4
        )  # correlation, throttle, topics, name, count
        self._cluster = open_cluster(cluster.name, cluster.bootstrap)
        self._exists = False
        self._last = 0
        self.highest = 0

    def total(self) -> int:
        if not self._exists:
            self._exists = self._live.partition_count(self._topic) == self._partitions
            if not self._exists:
                return 0
        channel = self._cluster.channel(_BROKER)
        channel.send([channel.next_header(_LIST_OFFSETS, _VERSION, flexible=False), self._request])
        answers = list(_ANSWER.iter_unpack(channel.receive()[self._answers_at :]))
        # One that was made a moment ago answers with an error, until its leader knows.
        if not any(error for _, error, _, _, _ in answers):
            ends = [offset for _, _, _, offset, _ in answers]
            self._last, self.highest = sum(ends), max(ends)
        return self._last

    def close(self) -> None:
        self._cluster.close()


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
