"""How much each partition carried since the last look, and whether another spread over the tasks would help."""

import time
from collections.abc import Mapping, Sequence

from heliograph.driving.partitions import Partition
from heliograph.model import TopicPartition
from heliograph.policy.balance import balance

_LOOK_EVERY = 30.0
_BEHIND = 5.0  # seconds of its own rate that a task may lag and still be said to keep up


class Loads:
    """Looks at the partitions of one job every so often."""

    def __init__(self) -> None:
        self._seen: dict[Partition, tuple[int, int]] = {}
        self._looked_at = time.monotonic()

    def propose(
        self,
        slices: Sequence[tuple[TopicPartition, ...]],
        partitions: Mapping[TopicPartition, Partition],
    ) -> list[tuple[TopicPartition, ...]] | None:
        """Return a better spread if the busiest task cannot keep up with what it has."""
        now = time.monotonic()
        passed = now - self._looked_at
        if passed < _LOOK_EVERY:
            return None
        self._looked_at = now
        records: dict[TopicPartition, int] = {}
        loads: dict[TopicPartition, float] = {}
        for source, partition in partitions.items():
            seen = self._seen.get(partition, (partition.records, partition.bytes))
            records[source] = partition.records - seen[0]
            loads[source] = (partition.bytes - seen[1]) / passed
        self._seen = {p: (p.records, p.bytes) for p in partitions.values()}
        busiest = max(slices, key=lambda members: sum(loads[p] for p in members), default=())
        lag = sum(partitions[p].lag for p in busiest)
        if lag * passed <= _BEHIND * sum(records[p] for p in busiest):
            return None
        return balance(slices, loads)
