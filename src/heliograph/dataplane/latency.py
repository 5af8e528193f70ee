"""How long records took, counted in buckets so that reports of many tasks add up."""

from bisect import bisect_left
from collections.abc import Iterable

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

    def drain(self) -> list[int]:
        """Return the counts and start anew."""
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
