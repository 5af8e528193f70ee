"""The records of a measurement: lines like those of the EDGAR access logs, about 165 bytes each."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle, islice

from confluent_kafka import Producer

from tests.clusters import LiveCluster

PARTITIONS = 6
_LINES = 20_000  # more than a batch holds, so that a batch compresses as real data does


@dataclass(frozen=True, slots=True)
class Case:
    """How a source topic is written, and what share of the records it gets."""

    name: str
    producer: dict[str, object]
    compression: str = "none"
    share: float = 1.0

    @property
    def topic(self) -> str:
        return f"edgar-{self.name}"

    def records(self, asked: int) -> int:
        return int(asked * self.share)


_BATCHES: dict[str, object] = {"batch.size": 65536, "linger.ms": 50, "batch.num.messages": 100_000}
_SINGLE: dict[str, object] = {"linger.ms": 0, "batch.num.messages": 1}
CASES = {
    case.name: case
    for case in (
        Case("plain", _BATCHES),
        Case("lz4", {**_BATCHES, "compression.type": "lz4"}, compression="lz4"),
        Case("single", _SINGLE, share=0.1),
    )
}


def fill(source: LiveCluster, case: Case, records: int) -> None:
    """Make the case's topic and write its records, spread evenly over the partitions."""
    source.create_topic(PARTITIONS, name=case.topic)
    producer = Producer(
        {**source.client(acks=1), "queue.buffering.max.messages": 200_000, **case.producer}
    )
    for number, line in enumerate(islice(cycle(list(_lines())), records)):
        while True:
            try:
                producer.produce(case.topic, line, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.05)
        if number % 1000 == 0:
            producer.poll(0)
    left = producer.flush(120)
    assert left == 0, f"{case.topic}: {left} records were not acknowledged within 120 s"


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
