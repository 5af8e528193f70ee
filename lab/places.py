"""Where a consumer continues: the positions of a source partition next to those of its copy."""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

from heliograph.client import RunMap
from lab.clusters import LiveCluster


@dataclass(frozen=True, slots=True)
class Places:
    """One partition and its copy: offsets of the records that a consumer sees, the same on both sides, in order."""

    upstream: list[int]
    upstream_end: int
    downstream: list[int]
    downstream_end: int

    def are_the_same(self, upstream: int, downstream: int) -> bool:
        """Whether consumers at these two positions see the same record next, or both none."""
        return self.ahead(upstream, downstream) == 0

    def ahead(self, upstream: int, downstream: int) -> int:
        """Return how many records a consumer that continues downstream skips; negative if it repeats some."""
        return bisect_left(self.downstream, downstream) - bisect_left(self.upstream, upstream)

    def wrong(self, runs: RunMap) -> list[str]:
        """Return the first few errors of a run map about positions on either side."""
        return [told for _, told in zip(range(5), self._wrong(runs), strict=False)]

    def _wrong(self, runs: RunMap) -> Iterator[str]:
        for position in range(self.upstream_end + 1):
            downstream = runs.downstream_of(position)
            if downstream is None or not self.are_the_same(position, downstream):
                yield f"upstream {position} became {downstream}"
        for position in range(self.downstream_end + 1):
            upstream = runs.upstream_of(position)
            if upstream is None or not self.are_the_same(upstream, position):
                yield f"downstream {position} became {upstream}"
        for upstream, downstream in zip(self.upstream, self.downstream, strict=True):
            there, back = runs.downstream_of(upstream), runs.upstream_of(downstream)
            if (back, there) != (upstream, downstream):
                yield f"the record {upstream} is at {downstream}, not {there}; it came from there, not {back}"


def read_places(
    source: LiveCluster, topic: str, target: LiveCluster, remote: str, copied_from: int = 0
) -> list[Places]:
    """Return the places of every partition, none while not all of it is copied.

    With `copied_from` the copy begins at that upstream offset of each partition.
    """
    partitions = target.partition_count(remote)
    if not partitions or partitions < source.partition_count(topic):
        return []
    upstream = [r for r in source.consume(topic) if r.offset >= copied_from]
    downstream = target.consume(remote)
    if [(r.partition, r.key, r.value) for r in upstream] != [
        (r.partition, r.key, r.value) for r in downstream
    ]:
        return []
    ends, remote_ends = source.end_offsets(topic), target.end_offsets(remote)
    return [
        Places(
            [r.offset for r in upstream if r.partition == index],
            ends[index],
            [r.offset for r in downstream if r.partition == index],
            remote_ends[index],
        )
        for index in range(partitions)
    ]
