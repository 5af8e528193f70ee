"""Real brokers for tests, read and written by librdkafka: a second opinion on all that we write ourselves."""

import os
import re
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as RdPartition
from confluent_kafka.admin import AdminClient, ClusterMetadata, NewTopic, OffsetSpec

from heliograph.embedded.cluster import Cluster, start_cluster

T = TypeVar("T")

# ACLs can be created and read, and everybody is still allowed everything.
_OPEN_ACLS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "super.users": "User:ANONYMOUS",
}


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A record to produce; None leaves the choice to the producer."""

    value: bytes | None
    key: bytes | None = None
    partition: int | None = None
    timestamp: int | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(frozen=True, slots=True)
class Record:
    """A record as a consumer sees it; `timestamp` is (type, milliseconds), type 1 is CreateTime."""

    partition: int
    offset: int
    timestamp: tuple[int, int]
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def eventually(
    condition: Callable[[], T],
    within: float = 30,
    describe: Callable[[], object] | None = None,
) -> T:
    """Return the condition's first true value, or fail with what `describe` says after `within` seconds."""
    deadline = time.monotonic() + within
    while True:
        if value := condition():
            return value
        if time.monotonic() > deadline:
            told = f": {describe()}" if describe else f"; the last value was {value!r}"
            raise AssertionError(f"not within {within} s{told}")
        time.sleep(0.05)


class LiveCluster:
    """A running cluster with what tests do to it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.name = cluster.name
        self.bootstrap = cluster.bootstrap

    @cached_property
    def admin(self) -> AdminClient:
        return AdminClient(self.client())

    def client(self, **config: object) -> dict[str, Any]:
        """Return librdkafka settings for this cluster; `linger_ms=5` sets linger.ms."""
        given = {key.replace("_", "."): value for key, value in config.items()}
        # 2: librdkafka logs each lost connection, and tests that stop brokers are full of them.
        return {"bootstrap.servers": self.bootstrap, "log_level": 2, **given}

    def create_topic(
        self,
        partitions: int = 1,
        config: Mapping[str, str] | None = None,
        *,
        name: str | None = None,
        replication: int = 1,
    ) -> str:
        """Create a topic that no other test has, and return its name once it can be written to."""
        topic = name or unique_name()
        new = NewTopic(topic, partitions, replication, config=dict(config or {}))
        self.admin.create_topics([new])[topic].result(timeout=30)
        eventually(lambda: self.partition_count(topic) == partitions)
        return topic

    def topics(self) -> set[str]:
        return set(self.metadata().topics)

    def metadata(self) -> ClusterMetadata:
        """Return the cluster's metadata; retries, as librdkafka may ask a broker that a test has killed."""
        for _ in range(3):
            with suppress(KafkaException):
                return self.admin.list_topics(timeout=10)
        return self.admin.list_topics(timeout=30)

    def partition_count(self, topic: str) -> int:
        """Return how many partitions of a topic have a leader; 0 where there is no such topic."""
        found = self.metadata().topics.get(topic)
        if found is None or found.error is not None:
            return 0
        return sum(partition.leader >= 0 for partition in found.partitions.values())

    def end_offsets(self, topic: str) -> list[int]:
        """Return the next offset of each partition; markers count, as everywhere in Kafka."""
        wanted = {
            RdPartition(topic, p): OffsetSpec.latest() for p in range(self.partition_count(topic))
        }
        found = self.admin.list_offsets(wanted) if wanted else {}
        try:
            return [found[p].result(timeout=30).offset for p in sorted(found)]
        except KafkaException:
            return []  # a topic in creation: its leader does not know it yet

    def produce(
        self, topic: str, records: Iterable[Outgoing | bytes], **config: object
    ) -> list[tuple[int, int]]:
        """Write records in order, acknowledged by all, and return the (partition, offset) of each."""
        producer = Producer(self.client(**config))
        landed: list[tuple[int, int]] = []
        failed: list[KafkaError] = []

        def note(position: int) -> Callable[[KafkaError | None, Any], None]:
            def delivered(error: KafkaError | None, message: Any) -> None:
                if error is not None:
                    failed.append(error)
                else:
                    landed[position] = (message.partition(), message.offset())

            return delivered

        for position, record in enumerate(records):
            landed.append((-1, -1))
            _send(producer, topic, record, note(position))
        assert producer.flush(60) == 0, f"{topic}: not all records were acknowledged within 60 s"
        if failed:
            raise KafkaException(failed[0])
        return landed

    def consume(
        self, topic: str, within: float = 60, isolation: str = "read_committed"
    ) -> list[Record]:
        """Return all that a consumer can see of a topic now, partition by partition, in offset order."""
        partitions = self.partition_count(topic)
        assert partitions, f"{self.name} has no topic {topic}"
        settings = self.client(
            group_id="unused",
            enable_auto_commit=False,
            enable_partition_eof=True,
            fetch_wait_max_ms=20,
            isolation_level=isolation,
        )
        with closing(Consumer(settings)) as consumer:
            consumer.assign([RdPartition(topic, p, OFFSET_BEGINNING) for p in range(partitions)])
            return sorted(_read_to_end(consumer, topic, partitions, within), key=_place)


def start_live_cluster(
    name: str,
    folder: Path,
    *,
    brokers: int = 1,
    config: Mapping[str, str] | None = None,
    heap: str | None = None,
    collector: str | None = None,
    proxied: bool = False,
) -> LiveCluster:
    """Start a cluster for a single test; the caller stops it."""
    settings = {**_OPEN_ACLS, **(config or {})}
    return LiveCluster(
        start_cluster(
            name,
            brokers=brokers,
            data_root=folder,
            config=settings,
            heap=heap,
            collector=collector,
            proxied=proxied,
        )
    )


def unique_name() -> str:
    """Return the running test's name and a random tail."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "topic").split(" ")[0].split("::")[-1]
    return f"{re.sub(r'[^A-Za-z0-9._-]', '-', test)[:80]}-{uuid.uuid4().hex[:8]}"


def _send(
    producer: Producer,
    topic: str,
    record: Outgoing | bytes,
    delivered: Callable[[KafkaError | None, Any], None],
) -> None:
    if isinstance(record, bytes):
        record = Outgoing(record)
    chosen: dict[str, Any] = {}
    if record.partition is not None:
        chosen["partition"] = record.partition
    if record.timestamp is not None:
        chosen["timestamp"] = record.timestamp
    if record.headers:
        chosen["headers"] = list(record.headers)
    while True:
        try:
            producer.produce(topic, record.value, record.key, on_delivery=delivered, **chosen)
        except BufferError:
            producer.poll(0.1)
        else:
            producer.poll(0)
            return


def _read_to_end(
    consumer: Consumer, topic: str, partitions: int, within: float
) -> Iterable[Record]:
    ended: set[int] = set()
    deadline = time.monotonic() + within
    while len(ended) < partitions:
        assert time.monotonic() < deadline, (
            f"{topic}: only {sorted(ended)} of {partitions} read to their end"
        )
        for message in consumer.consume(1000, timeout=0.2):
            error = message.error()
            if error is None:
                yield Record(
                    message.partition(),
                    message.offset(),
                    message.timestamp(),
                    message.key(),
                    message.value(),
                    tuple(message.headers() or ()),
                )
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition())
            else:
                raise KafkaException(error)


def _place(record: Record) -> tuple[int, int]:
    return record.partition, record.offset
