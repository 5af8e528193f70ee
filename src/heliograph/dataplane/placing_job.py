"""A flow's stream whose remote topics may have a partition count of their own: one slice, shared lanes.

Beside the partitions of the source, the driver keeps the lanes: remote partitions that all source
partitions of a topic write to, under one identity. A lane is given to an attempt and comes back with
its `done`; one that did not come back is fenced before it is given again.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from heliograph.dataplane.assignment import Claim, LaneShare
from heliograph.dataplane.job import FlowJob
from heliograph.dataplane.partitions import NOWHERE, Attempt, Partition
from heliograph.kafka.cluster import patiently
from heliograph.kafka.offsets import LATEST, list_offsets
from heliograph.model import Position, ProducerIdentity, TopicPartition


class _Lane(NamedTuple):
    identity: ProducerIdentity
    sequence: int


class PlacingJob(FlowJob):
    """Runs one flow in one slice, placing records by key where a partition has a spread."""

    def __init__(self, *given: Any, **named: Any) -> None:  # what FlowJob takes
        super().__init__(*given, **named)
        assert self._options.slices == 1, "lanes are shared by all partitions of a topic"
        self._lanes: dict[TopicPartition, _Lane] = {}
        self._spreads: dict[TopicPartition, tuple[TopicPartition, int]] = {}

    def assign(self, partitions: Sequence[Partition]) -> bool:
        """Work on these partitions; a known one is spread otherwise from the next epoch on."""
        with self._lock:
            self._spreads = {p.source: (p.remote, p.spread) for p in partitions}
            turned = any(
                p.source in self._partitions and self._partitions[p.source].spread != p.spread
                for p in partitions
            )
            changed = super().assign(partitions)
            if turned and not changed:
                self._end_epoch()
            return turned or changed

    def _new_attempt(self, claim: Claim) -> Attempt:
        with self._lock:
            self._revoke(claim.slice_index)
            members = self._due(claim.slice_index)
            for partition in members:
                self._turn(partition)
            lost = [p for p in members if not p.spread and p.position.downstream == NOWHERE]
        if lost:
            # Nobody knows where one left off that shared its remote partition: it goes on at the end.
            remotes = [p.remote for p in lost]
            ends = patiently(lambda: list_offsets(self._target, remotes, LATEST))
            for partition in lost:
                partition.position = Position(partition.position.upstream, ends[partition.remote])
        attempt = super()._new_attempt(claim)
        with self._lock:
            attempt.lanes = self._give_lanes(attempt)
        return attempt

    def _turn(self, partition: Partition) -> None:
        """Spread a partition as it was assigned; nobody is at work on it."""
        remote, spread = self._spreads[partition.source]
        if partition.spread != spread:
            partition.remote, partition.spread = remote, spread
            partition.identity = None
            partition.position = Position(partition.position.upstream, NOWHERE)

    def _give_lanes(self, attempt: Attempt) -> tuple[LaneShare, ...]:
        given: dict[TopicPartition, LaneShare] = {}
        for slot, partition in enumerate(attempt.slots):
            for remote in _lanes_of(partition):
                assert partition.identity is not None, "every member was fenced or handed over"
                if slot in attempt.resuming:
                    self._lanes[remote] = _Lane(partition.identity, 0)
                identity, sequence = self._lanes[remote]
                limit = partition.max_message_bytes
                given[remote] = LaneShare(remote, identity, sequence, limit)
        for remote in given:
            del self._lanes[remote]
        return tuple(given.values())

    def _handed_over(self, partition: Partition) -> bool:
        if not partition.spread:
            return super()._handed_over(partition)
        lanes = _lanes_of(partition)
        return partition.identity is not None and all(lane in self._lanes for lane in lanes)

    def _remotes(self, partitions: Sequence[Partition]) -> list[TopicPartition]:
        straight = super()._remotes([p for p in partitions if not p.spread])
        return list(dict.fromkeys([*straight, *(r for p in partitions for r in _lanes_of(p))]))

    def _note_done(self, attempt: Attempt, role: str, content: dict[str, Any]) -> None:
        super()._note_done(attempt, role, content)
        identities = {lane.remote: lane.identity for lane in attempt.lanes}
        for topic, index, sequence in content.get("lanes", ()):
            remote = TopicPartition(topic, index)
            self._lanes[remote] = _Lane(identities[remote], sequence)


def _lanes_of(partition: Partition) -> list[TopicPartition]:
    return [TopicPartition(partition.remote.topic, index) for index in range(partition.spread)]
