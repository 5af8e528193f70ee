"""The counters of a flow: they only grow, whatever happens to its jobs and partitions."""

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field

from heliograph.model import TopicPartition
from heliograph.policy.latency import LatencyBuckets


@dataclass(slots=True)
class Tally:
    """Counters of one flow, handed from job to job, because a scraper reads a falling counter as a reset.

    `records` and `bytes` are by source topic, including topics that are gone. Jobs run one after the
    other, and each changes it under its own lock.
    """

    records: Counter[str] = field(default_factory=Counter)
    bytes: Counter[str] = field(default_factory=Counter)
    verdicts: Counter[str] = field(default_factory=Counter)
    losses: Counter[str] = field(default_factory=Counter)
    latency: LatencyBuckets = field(default_factory=LatencyBuckets)
    handovers: int = 0
    restarts: int = 0
    _alarms: dict[TopicPartition, tuple[str, Hashable]] = field(default_factory=dict)

    def add(self, topic: str, records: int, size: int) -> None:
        """Count records of a source topic that the target acknowledged."""
        self.records[topic] += records
        self.bytes[topic] += size

    def alarm(self, partition: TopicPartition, kind: str, about: Hashable) -> None:
        """Count a loss, once: `about` distinguishes it from the next one of the same partition and kind."""
        if self._alarms.get(partition) != (kind, about):
            self._alarms[partition] = kind, about
            self.losses[kind] += 1
