"""The records of a measurement: lines like those of the EDGAR access logs, about 165 bytes each."""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import cycle, islice

from confluent_kafka import Producer
from confluent_kafka.admin import ResourceType

from bench.watch import count, read_content
from lab.clusters import LiveCluster, Outgoing, eventually
from lab.compacted import alter_config

LINE_BYTES = 165
_LINES = 20_000  # more than a batch holds, so that a batch compresses as real data does
_PER_TRANSACTION = 100
_ABORTED = 10  # one transaction of that many
_COMPACTING = {
    "cleanup.policy": "compact",
    "segment.ms": "500",
    "segment.bytes": str(16 << 20),
    "min.cleanable.dirty.ratio": "0.01",
}
# Both systems copy a topic's settings: what hurried the compaction must not be copied too.
_COMPACTED = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "segment.ms": str(7 * 24 * 3600 * 1000),
    "segment.bytes": str(1 << 30),
}


@dataclass(frozen=True, slots=True)
class Filled:
    """A source topic that is full before a system starts; `share` is of the bytes that were asked for.

    `tasks` is what the flow is given; with `executors` they run on a Spark cluster of so many.
    """

    producer: Mapping[str, object] = field(default_factory=dict)
    compression: str = "none"
    share: float = 1.0
    record_bytes: int = LINE_BYTES
    partitions: int = 6
    records: int | None = None
    kind: str = "appended"
    consumer: Mapping[str, str] = field(default_factory=dict)
    tasks: int = 2
    executors: int = 0

    def count(self, asked: int) -> int:
        """Return how many records are written where `asked` of the usual size are wanted."""
        wanted = self.records or int(asked * self.share * LINE_BYTES / self.record_bytes)
        return max(wanted, 10 * self.partitions)


def fill(source: LiveCluster, topic: str, filled: Filled, records: int) -> None:
    """Make the topic and write its records, spread evenly over the partitions."""
    config = _COMPACTING if filled.kind == "compacted" else {}
    source.create_topic(filled.partitions, config, name=topic)
    values = islice(cycle(list(_values(filled.record_bytes))), records)
    if filled.kind == "transactions":
        _write_transactions(source, topic, filled, values)
        return
    settings = {
        **source.client(acks=1),
        "queue.buffering.max.messages": 200_000,
        "queue.buffering.max.kbytes": 1 << 20,
        **filled.producer,
    }
    producer = Producer(settings)
    dice = random.Random(1)
    for number, value in enumerate(values):
        if filled.kind == "compacted":
            # Half as many keys as records: compaction leaves about four of ten.
            chosen = dice.randrange(records // 2)
            _send(producer, topic, value, chosen % filled.partitions, b"%d" % chosen)
        else:
            _send(producer, topic, value, number % filled.partitions, None)
        if number % 1000 == 0:
            producer.poll(0)
    left = producer.flush(120)
    assert left == 0, f"{topic}: {left} records were not acknowledged within 120 s"
    if filled.kind == "compacted":
        _compact(source, topic, filled.partitions, records)


def _send(producer: Producer, topic: str, value: bytes, partition: int, key: bytes | None) -> None:
    while True:
        try:
            producer.produce(topic, value, key, partition)
        except BufferError:
            producer.poll(0.05)
        else:
            return


def _write_transactions(
    source: LiveCluster, topic: str, filled: Filled, values: Iterator[bytes]
) -> None:
    producer = Producer(source.client(transactional_id=topic, linger_ms=0))
    producer.init_transactions(30)
    number = 0
    while chunk := list(islice(values, _PER_TRANSACTION)):
        producer.begin_transaction()
        for value in chunk:
            producer.produce(topic, value, partition=number % filled.partitions)
        assert producer.flush(30) == 0  # librdkafka aborts nothing that was not sent
        number += 1
        if number % _ABORTED:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)


def _compact(source: LiveCluster, topic: str, partitions: int, records: int) -> None:
    """Return when the cleaner was there, and comes no more."""
    alter_config(source, ResourceType.BROKER, "1", {"log.cleaner.backoff.ms": "200"})
    seen: list[int] = []

    def is_compacted() -> bool:
        # Only an append closes a segment, and only closed ones are compacted.
        rolls = [Outgoing(b"", key=b"roll", partition=p) for p in range(partitions)]
        source.produce(topic, rolls)
        seen.append(count(read_content(source, topic)))
        return len(seen) > 1 and seen[-1] < records * 0.6 and seen[-1] >= seen[-2]

    eventually(is_compacted, 180, lambda: f"{topic} holds {seen} of {records} records")
    alter_config(source, ResourceType.TOPIC, topic, _COMPACTED)
    alter_config(source, ResourceType.BROKER, "1", {"log.cleaner.backoff.ms": "15000"})


def _values(size: int) -> Iterator[bytes]:
    """Yield lines, or several of them together where records are to be larger."""
    lines = list(_lines())
    if size == LINE_BYTES:
        yield from lines
        return
    text = b"\n".join(lines)
    for number in range(20):
        start = number * 12_345
        yield (text[start:] + text[:start])[:size]


def _lines() -> Iterator[bytes]:
    chance = random.Random(20170630)  # the same lines in every run
    for number in range(_LINES):
        address = ".".join(str(chance.randrange(1, 255)) for _ in range(3))
        second = number % 86400
        clock = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
        filing = (
            f"{chance.randrange(10**10):010}-{chance.randrange(18):02}-{chance.randrange(10**6):06}"
        )
        agent = chance.choice(
            ("Mozilla/5.0 (X11; Linux x86_64)", "Mozilla/5.0 (Windows NT 10.0; Win64)")
        )
        yield (
            f"{address}.jga,2017-06-30,{clock},0.0,{chance.randrange(10**6, 2 * 10**6)}.0,{filing},"
            f"-index.htm,200.0,{chance.randrange(1000, 90000)}.0,1.0,0.0,0.0,10.0,0.0,"
            f"{agent},{chance.randrange(10**9)}"
        ).encode()
