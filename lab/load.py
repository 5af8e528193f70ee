"""A steady load of numbered records, by an independent client, and the account of what arrived."""

import threading
import time
from collections import Counter

from confluent_kafka import Producer

from lab.clusters import LiveCluster


class SteadyLoad:
    """Produces `rate` numbered records a second, in turn over the partitions, until its context ends."""

    def __init__(
        self,
        cluster: LiveCluster,
        topic: str,
        partitions: int,
        rate: int = 2000,
        **config: object,
    ) -> None:
        """Take what to write to; `config` is librdkafka's, as for LiveCluster.client."""
        settings = {"linger_ms": 5, "enable_idempotence": True, **config}
        self._producer = Producer(cluster.client(**settings))
        self._topic = topic
        self._partitions = partitions
        self._rate = rate
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.produced = 0

    def __enter__(self) -> "SteadyLoad":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> int:
        self._stopping.set()
        self._thread.join()
        assert self._producer.flush(30) == 0
        return self.produced

    def _run(self) -> None:
        began = time.monotonic()
        while not self._stopping.wait(0.01):
            due = int((time.monotonic() - began) * self._rate)
            while self.produced < due:
                number = self.produced
                self._producer.produce(
                    self._topic, value=b"%012d" % number, partition=number % self._partitions
                )
                self.produced += 1
            self._producer.poll(0)


def account(target: LiveCluster, remote: str, produced: int, partitions: int) -> dict[str, int]:
    """Return how many numbers are lost, repeated and out of order on the target."""
    seen: Counter[int] = Counter()
    disorder = 0
    last = dict.fromkeys(range(partitions), -1)
    for record in target.consume(remote):
        assert record.value is not None
        number = int(record.value)
        seen[number] += 1
        if number <= last[record.partition]:
            disorder += 1
        last[record.partition] = max(last[record.partition], number)
    repeated = sum(count - 1 for count in seen.values())
    lost = sum(1 for number in range(produced) if number not in seen)
    return {"lost": lost, "repeated": repeated, "out of order": disorder}
