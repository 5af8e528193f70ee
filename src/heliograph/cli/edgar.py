"""Numbered rows like those of the EDGAR log files, and a thread that produces them at a steady rate."""

import random
import threading
import time
from collections.abc import Iterator
from itertools import islice

from heliograph.errors import KafkaFault
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.lane import Lane, Refused
from heliograph.kafka.plain import plain_batch
from heliograph.kafka.produce import Producer
from heliograph.model import Endpoint, TopicPartition

_STEP = 0.05


def edgar_rows(seed: int) -> Iterator[bytes]:
    """Yield rows without end: a running number, then ip, date, time, cik, accession and so on."""
    choose = random.Random(seed)  # noqa: S311 - a log file, not a key
    number = 0
    while True:
        ip = f"{choose.randrange(1, 224)}.{choose.randrange(256)}.{choose.randrange(256)}.jja"
        moment = number % 86_400
        clock = f"{moment // 3600:02d}:{moment // 60 % 60:02d}:{moment % 60:02d}"
        accession = f"{choose.randrange(10**10):010d}-17-{choose.randrange(10**6):06d}"
        size = choose.randrange(200, 900_000)
        yield (
            f"{number:012d},{ip},2017-06-30,{clock},0.0,{choose.randrange(10**7)}.0,{accession},"
            f"-index.htm,200.0,{size}.0,1.0,0.0,0.0,9.0,0.0,"
        ).encode()
        number += 1


class EdgarProducer(threading.Thread):
    """Writes `rate` rows a second over a topic's partitions, in turn, until it is stopped."""

    def __init__(self, endpoint: Endpoint, topic: str, partitions: int, rate: int) -> None:
        super().__init__(name=f"produce {topic}", daemon=True)
        self.produced = 0
        self._rate = rate
        self._stopping = threading.Event()
        self._refused: list[Refused] = []
        self._cluster = Cluster(endpoint)
        self._lanes = partitions
        self._producer = Producer(
            self._cluster,
            topic,
            [Lane(index, TopicPartition(topic, index)) for index in range(partitions)],
            on_stored=lambda _: None,
            on_refused=self._refused.append,
        )

    def run(self) -> None:
        rows = edgar_rows(seed=7)
        began = time.monotonic()
        turn = 0
        while not self._stopping.wait(_STEP):
            due = int((time.monotonic() - began) * self._rate) - self.produced
            share = -(-due // self._lanes)
            while due > 0:
                count = min(share, due)
                self._producer.offer(
                    turn % self._lanes, plain_batch((row[:12], row) for row in islice(rows, count))
                )
                turn += 1
                due -= count
                self.produced += count
            while not self._producer.idle:
                self._producer.pump(_STEP)
        self._cluster.close()

    def stop(self) -> int:
        """Wait until everything is stored; return how many rows that were."""
        self._stopping.set()
        self.join()
        for refusal in self._refused:
            raise KafkaFault(self.name, refusal.reason, retriable=False)
        return self.produced
