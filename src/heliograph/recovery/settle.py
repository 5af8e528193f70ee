"""How far a flow has copied, exactly: what was saved, and what the target holds beyond it.

Positions and run maps are saved from time to time, so the target holds more than they tell. The records
after them are compared on both sides, one by one, until they differ or end.
"""

from dataclasses import dataclass

from heliograph.kafka.cluster import Cluster, patiently
from heliograph.kafka.copy import read_records
from heliograph.kafka.offsets import EARLIEST, list_offsets
from heliograph.kafka.tail import body_digest
from heliograph.model import Position, TopicPartition
from heliograph.recovery.view import FlowView


@dataclass(frozen=True, slots=True)
class Settled:
    """All of a partition before `position` was copied, and nothing after it; the source ends at `end`."""

    partition: TopicPartition
    remote: TopicPartition
    position: Position
    end: int

    @property
    def behind(self) -> int:
        """How many offsets are left to copy; some may hold no record."""
        return max(self.end - self.position.upstream, 0)


def settle(view: FlowView, source: Cluster, target: Cluster) -> dict[TopicPartition, Settled]:
    """Return how far every partition was copied, and add what was found to the run maps of `view`.

    The source must answer. What was never copied begins where the source does.
    """
    assert view.source is not None, "only a source that answers can be compared with"
    settled = {}
    for partition, end in sorted(view.source.ends.items()):
        remote = view.remote(partition)
        position = view.position(partition)
        if position is None:
            position = Position(view.source.starts[partition], 0)
        elif view.ends.get(remote, 0) > position.downstream:
            position = _compare(view, source, target, partition, position)
        settled[partition] = Settled(partition, remote, position, end)
    return settled


def _compare(
    view: FlowView,
    source: Cluster,
    target: Cluster,
    partition: TopicPartition,
    position: Position,
) -> Position:
    """Return the position after the last record that is on both sides."""
    assert view.source is not None
    remote = view.remote(partition)
    first = patiently(lambda: list_offsets(target, [remote], EARLIEST))[remote]
    if first > position.downstream:
        return position  # what came after it is deleted already: nothing to compare
    copies = read_records(target, remote, position.downstream, view.ends[remote])
    originals = read_records(
        source,
        partition,
        position.upstream,
        view.source.ends[partition],
        committed_only=view.config.isolation_level == "read_committed",
    )
    runs = view.runs.get(partition)
    for copy in copies:
        original = next(originals, None)
        if original is None or body_digest(original) != body_digest(copy):
            break
        if runs is not None:
            runs.add(original.offset, copy.offset, 1)
        position = Position(original.offset + 1, copy.offset + 1)
    return position
