"""How long records took, counted in buckets so that reports of many tasks add up."""

from bisect import bisect_left
from collections.abc import Iterable

from heliograph.wire.lease_messages import Taken

_HALF = 30.0

BOUNDS_MS = (
    1,
    2,
    5,
    10,
    15,
    20,
    25,
    35,
    50,
    75,
    100,
    150,
    250,
    500,
    1000,
    2500,
    5000,
    10000,
    60000,
)


class LatencyBuckets:
    """Records by replication latency: from the record's timestamp to the target's acknowledgement."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_MS) + 1)

    def add(self, latency_ms: float, records: int) -> None:
        self.counts[bisect_left(BOUNDS_MS, latency_ms)] += records

    def merge(self, counts: Iterable[int]) -> None:
        self.counts = [mine + theirs for mine, theirs in zip(self.counts, counts, strict=True)]

    def nothing(self) -> list[int]:
        """Return counts of no record."""
        return [0] * len(self.counts)

    def drain(self) -> list[int]:
        """Return the counts and reset them."""
        counts, self.counts = self.counts, [0] * len(self.counts)
        return counts

    def quantile(self, fraction: float) -> int | None:
        """Return the bucket bound, in milliseconds, that `fraction` of the records stay below."""
        total = sum(self.counts)
        if not total:
            return None
        seen = 0
        for count, bound in zip(self.counts, (*BOUNDS_MS, BOUNDS_MS[-1]), strict=True):
            seen += count
            if seen >= fraction * total:
                return bound
        raise AssertionError("the counts add up to their total")


def taken(ms: float, records: int = 1) -> Taken:
    """Return the `Taken` of that many records, each of which took `ms` milliseconds."""
    return Taken(ms, ms, ms, ms * records, records)


class Window:
    """The times of the last minute: two halves of 30 s, as Kafka keeps its samples."""

    __slots__ = ("_began", "_newer", "_older", "last")

    def __init__(self) -> None:
        self.last: float | None = None
        self._began = float("-inf")
        self._older: Taken | None = None
        self._newer: Taken | None = None

    def add(self, now: float, more: Taken) -> None:
        self._turn(now)
        self.last = more.last
        self._newer = more if self._newer is None else self._newer + more

    def sum(self, now: float) -> Taken | None:
        """Return the sum of the window; None if nothing was added within it."""
        passed = now - self._began
        older = self._older if passed < _HALF else None
        newer = self._newer if passed < 2 * _HALF else None
        if older is None or newer is None:
            return newer or older
        return older + newer

    def _turn(self, now: float) -> None:
        passed = now - self._began
        if passed >= _HALF:
            self._older = self._newer if passed < 2 * _HALF else None
            self._newer, self._began = None, now
