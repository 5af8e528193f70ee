"""The recent load of partitions and tasks, and whether another spread over tasks would help."""

import time
from collections.abc import Callable, Mapping, Sequence

from heliograph.driving.partitions import Attempt, Partition
from heliograph.model import TopicPartition
from heliograph.policy.spread import Look, Plan, respread

_LOOK_EVERY = 1.0
_BALANCE_EVERY = 10.0  # a move must show first whether it helped
_BEHIND = 5.0  # seconds at its own rate that a task may lag and still count as keeping up
_CALM = 60.0
_LITTLE = 0.3  # of a core


class Loads:
    """Looks at the partitions and tasks of one job at intervals."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: dict[Partition, tuple[int, int]] = {}
        self._cpu: dict[Attempt, float] = {}
        self._looked_at = clock()
        self._moved_at = clock() - _BALANCE_EVERY
        self._loaded_at = clock()
        self.bytes: dict[TopicPartition, float] = {}

    def propose(
        self,
        slices: Sequence[tuple[TopicPartition, ...]],
        partitions: Mapping[TopicPartition, Partition],
        attempts: Mapping[int, Attempt],
        most: int,
    ) -> Plan | None:
        """Return a better spread over at most `most` tasks, if there is one and it is time to look."""
        now = self._clock()
        passed = now - self._looked_at
        if passed < _LOOK_EVERY:
            return None
        self._looked_at = now
        records: dict[TopicPartition, int] = {}
        for source, partition in partitions.items():
            before = self._seen.get(partition, (partition.records, partition.bytes))
            records[source] = partition.records - before[0]
            self.bytes[source] = (partition.bytes - before[1]) / passed
        busy = [self._busy(attempts.get(index), passed) for index in range(len(slices))]
        self._seen = {p: (p.records, p.bytes) for p in partitions.values()}
        self._cpu = {attempt: attempt.cpu_seconds for attempt in attempts.values()}
        if sum(busy) > _LITTLE:
            self._loaded_at = now
        behind = [self._is_behind(members, partitions, records, passed) for members in slices]
        look = Look(self.bytes, busy, behind, calm=now - self._loaded_at > _CALM)
        planned = respread(slices, look, most)
        if planned is None:
            return None
        if len(planned) <= len(slices) and now - self._moved_at < _BALANCE_EVERY:
            return None
        self._moved_at = now
        return planned

    def _is_behind(
        self,
        members: Sequence[TopicPartition],
        partitions: Mapping[TopicPartition, Partition],
        records: Mapping[TopicPartition, int],
        passed: float,
    ) -> bool:
        """Whether a task lags with what it could copy; for what waits, another task would wait for the same broker."""
        going = [p for p in members if not (partitions[p].waits or partitions[p].stop)]
        carried = sum(records[p] for p in going)
        return carried > 0 and sum(partitions[p].lag for p in going) * passed > _BEHIND * carried

    def _busy(self, attempt: Attempt | None, passed: float) -> float:
        """Return the share of a core that a task used since the last look."""
        if attempt is None:
            return 0.0
        return (attempt.cpu_seconds - self._cpu.get(attempt, attempt.cpu_seconds)) / passed
