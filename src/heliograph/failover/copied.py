"""How far a flow has copied, exactly: what was saved, and what the target holds beyond it.

Positions and run maps are saved from time to time, so the target holds more than they show. The records
after them are compared on both sides until they differ or end.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from heliograph.failover.copy import read_records
from heliograph.failover.facts import FlowView
from heliograph.flows.source import Route
from heliograph.flows.tail_reading import TailReading, compare_tails
from heliograph.kafka.cluster import Cluster, patiently
from heliograph.kafka.offsets import EARLIEST, list_offsets
from heliograph.model import Position, TopicPartition

Runs = Sequence[tuple[int, int, int]]


@dataclass(frozen=True, slots=True)
class Settled:
    """All of a partition before `position` was copied, and nothing after it; the source ends at `end`.

    `runs` is what was found beyond the run map: (upstream, downstream, count) each. `oldest_ms` is the
    time of the first record that was not copied.
    """

    partition: TopicPartition
    remote: TopicPartition
    position: Position
    end: int
    runs: Runs = ()
    oldest_ms: int | None = None

    @property
    def behind(self) -> int:
        """How many offsets are left to copy; some may hold no record."""
        return max(self.end - self.position.upstream, 0)


def settle(view: FlowView, source: Cluster, target: Cluster) -> dict[TopicPartition, Settled]:
    """Return how far every partition was copied, and add what was found to the run maps of `view`.

    The source must answer. A partition that was never copied starts at the source's first offset.
    """
    assert view.source is not None, "only a source that answers can be compared with"
    settled = {}
    for partition, end in sorted(view.source.ends.items()):
        position = view.position(partition) or Position(view.source.starts[partition], 0)
        settled[partition] = Settled(partition, view.remote(partition), position, end)
    for reading in _compare(view, settled, source, target):
        its = settled[reading.route.source]
        runs = tuple(reading.match.runs)
        known = view.runs.get(its.partition)
        for run in runs if known is not None else ():
            known.add(*run)  # type: ignore[union-attr]
        last = runs[-1] if runs else None
        downstream = its.position.downstream if last is None else last[1] + last[2]
        position = Position(max(reading.match.front, its.position.upstream), downstream)
        settled[its.partition] = replace(its, position=position, runs=runs)
    return {p: _look_ahead(view, its, source) for p, its in settled.items()}


def _compare(
    view: FlowView,
    settled: Mapping[TopicPartition, Settled],
    source: Cluster,
    target: Cluster,
) -> list[TailReading]:
    wanted = [
        its for its in settled.values() if view.ends.get(its.remote, 0) > its.position.downstream
    ]
    if not wanted:
        return []
    firsts = patiently(lambda: list_offsets(target, [its.remote for its in wanted], EARLIEST))
    readings = [
        TailReading(
            Route(its.partition, "", its.remote, "", 0),
            its.position,
            Position(its.end, view.ends[its.remote]),
        )
        for its in wanted
        if firsts[its.remote] <= its.position.downstream  # else nothing is left to compare
    ]
    compare_tails(readings, source, target, committed_only=view.committed_only)
    return readings


def _look_ahead(view: FlowView, its: Settled, source: Cluster) -> Settled:
    """Skip offsets that hold no record, and note the time of the first one that was not copied."""
    if not its.behind:
        return its
    ahead = read_records(
        source,
        its.partition,
        its.position.upstream,
        its.end,
        committed_only=view.committed_only,
    )
    record = next(ahead, None)
    upstream = its.end if record is None else record.offset
    return replace(
        its,
        position=Position(upstream, its.position.downstream),
        oldest_ms=None if record is None else record.timestamp,
    )
