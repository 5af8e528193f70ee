"""The result of a fault, and what a consumer of the remote topic saw of it."""

import json
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from lab.clusters import LiveCluster

RATE = 2000
RESULTS = "HELIOGRAPH_FAULTS_OUT"


@dataclass(slots=True)
class Result:
    """The result of one fault; `recovery` and `stall` are seconds.

    If it did not recover, `recovery` says how long the bench waited. Minus one means not counted. `busy` is the
    machine's load average of the last minute when the fault was over: times compare only if it does.
    """

    fault: str
    system: str = "heliograph"
    rate: int = RATE
    times: int = 0
    produced: int = 0
    lost: int = -1
    repeated: int = -1
    disorder: int = -1
    recovery: float = 0.0
    stall: float = 0.0
    recovered: bool = True
    busy: float = 0.0
    remark: str = ""

    @property
    def is_whole(self) -> bool:
        """Whether nothing is lost, and only repeated records are out of order, which the account counts as both."""
        return self.lost == 0 and self.disorder <= self.repeated

    @property
    def is_clean(self) -> bool:
        """Whether every record is there once and in order, and the mirror continues."""
        return self.recovered and self.lost == self.repeated == self.disorder == 0

    def append_to(self, file: Path) -> None:
        with file.open("a") as out:
            out.write(json.dumps(asdict(self)) + "\n")


class Watch:
    """What a consumer of the remote topic sees of it: when the newest record was produced, and pauses."""

    def __init__(self, cluster: LiveCluster, remote: str, partitions: int) -> None:
        settings = cluster.client(
            group_id="watch",
            enable_auto_commit=False,
            isolation_level="read_committed",
            reconnect_backoff_max_ms=500,
            fetch_wait_max_ms=100,
            topic_metadata_refresh_interval_ms=2000,
        )
        self._consumer = Consumer(settings)
        self._consumer.assign(
            [TopicPartition(remote, p, OFFSET_BEGINNING) for p in range(partitions)]
        )
        self.newest = dict.fromkeys(range(partitions), -1)
        self.stamps = dict.fromkeys(range(partitions), 0.0)
        self._arrived = dict.fromkeys(range(partitions), time.monotonic())
        self.records = 0
        self.stall = 0.0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._consumer.close()

    def _run(self) -> None:
        while not self._stopping.is_set():
            for message in self._consumer.consume(1000, timeout=0.1):
                partition, value = message.partition(), message.value()
                if message.error() is None and partition is not None and value is not None:
                    self.records += 1
                    self.newest[partition] = max(self.newest[partition], int(value))
                    self.stamps[partition] = message.timestamp()[1] / 1000
                    now = time.monotonic()
                    self.stall = max(self.stall, now - self._arrived[partition])
                    self._arrived[partition] = now
