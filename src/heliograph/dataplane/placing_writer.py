"""The writing half of a slice whose remote topics may have a partition count of their own.

Slots are source partitions and lanes are remote ones; a record goes from any slot of its topic to any
lane. Invariants, beside those of the producer:

A  A slot's position moves past a stretch when all its batches, and all before them, are stored in all lanes.
B  A lane that cannot go on stops every slot of its topic: what was sent behind is not known to be in order.
C  Lanes of a topic that was stopped so are not handed on: their sequences have holes.

Topics whose count is their source's are written as everywhere.
"""

from collections import deque
from dataclasses import dataclass
from typing import Any

from heliograph.dataplane.assignment import Assignment
from heliograph.dataplane.chunks import ChunkSection
from heliograph.dataplane.lease import Lease
from heliograph.dataplane.packing import RecordTooLarge
from heliograph.dataplane.partitions import REFUSED_FOR_GOOD
from heliograph.dataplane.placing import PlacedLane, Stretch, encode_stretch, stretches
from heliograph.dataplane.writer import SliceWriter
from heliograph.errors import CorruptRecord
from heliograph.kafka.produce import Lane, Outgoing, Refused, Stored
from heliograph.wire.record_batch import HEADER_SIZE


@dataclass(slots=True)
class _Ticket:
    """A stretch on its way: `left` batches of it are not stored."""

    slot: int
    upstream: int
    left: int


class PlacingWriter(SliceWriter):
    """Writes the rows of one slice, placing records by key where the assignment spreads them."""

    def __init__(self, lease: Lease, assignment: Assignment) -> None:
        self._first_lane = 1 + max((share.slot for share in assignment.shares), default=-1)
        self._placed = [
            PlacedLane(lane.remote, lane.identity, lane.sequence, lane.max_message_bytes)
            for lane in assignment.lanes
        ]
        self._by_topic: dict[str, list[PlacedLane]] = {}
        self._first_of: dict[str, int] = {}
        for number, lane in enumerate(self._placed, self._first_lane):
            self._first_of.setdefault(lane.remote.topic, number)
            self._by_topic.setdefault(lane.remote.topic, []).append(lane)
        self._queues: dict[int, deque[_Ticket]] = {
            share.slot: deque() for share in assignment.shares if share.spread
        }
        self._tickets: dict[Outgoing, _Ticket] = {}
        self._given_up: set[str] = set()
        super().__init__(lease, assignment)

    def _open_lanes(self, assignment: Assignment) -> list[Lane]:
        placed = [
            Lane(number, lane.remote) for number, lane in enumerate(self._placed, self._first_lane)
        ]
        return super()._open_lanes(assignment) + placed

    def _write_section(self, chunk: memoryview, section: ChunkSection) -> None:
        if section.slot not in self._queues:
            super()._write_section(chunk, section)
            return
        slot = self._slots[section.slot]
        if slot.stopped:
            return
        self._changed.add(section.slot)
        try:
            for stretch in stretches(chunk, section, slot.read_to, self._verdicts):
                reason = self._send(section.slot, stretch)
                if reason is not None:
                    self._halt(section.slot, "too-large", str(reason))
                    return
        except CorruptRecord as exc:
            self._halt(section.slot, "corrupt", str(exc))
            return
        slot.read_to = section.upstream
        slot.advance()

    def _send(self, index: int, stretch: Stretch) -> RecordTooLarge | None:
        """Offer a stretch to its lanes, and return why it ended early, if it did."""
        slot = self._slots[index]
        topic = slot.share.remote.topic
        batches, reason = encode_stretch(stretch, slot.share.source.index, self._by_topic[topic])
        upstream = stretch.upstream if reason is None else reason.upstream
        self._verdicts["placed"] += len(batches)
        slot.read_to = upstream
        slot.pending += len(batches)
        ticket = _Ticket(index, upstream, len(batches))
        self._queues[index].append(ticket)
        for lane, batch in batches:
            self._tickets[batch] = ticket
            self._producer.offer(self._first_of[topic] + lane, batch)
        self._settle(index)
        return reason

    def _stored(self, stored: Stored) -> None:
        if stored.slot < self._first_lane:
            super()._stored(stored)
            return
        batch = stored.batch
        ticket = self._tickets.pop(batch)
        slot = self._slots[ticket.slot]
        ticket.left -= 1
        slot.pending -= 1
        slot.records += batch.count
        slot.bytes += HEADER_SIZE + len(batch.payload)
        self._settle(ticket.slot)
        if slot.halt is not None and not slot.pending:
            self._stop(ticket.slot, *slot.halt)
        self._note_latency(slot, batch)
        self._changed.add(ticket.slot)

    def _settle(self, index: int) -> None:
        """Move a slot's position as far as invariant A allows."""
        slot, queue = self._slots[index], self._queues[index]
        while queue and not queue[0].left:
            slot.upstream = queue.popleft().upstream
        slot.advance()

    def _refused(self, refused: Refused) -> None:
        if refused.slot < self._first_lane:
            super()._refused(refused)
            return
        remote = self._placed[refused.slot - self._first_lane].remote
        reason = f"{remote}: the target answered: {refused.reason}"
        kind = "refused" if refused.may_pass else REFUSED_FOR_GOOD
        self._given_up.add(remote.topic)
        for number, lane in enumerate(self._placed, self._first_lane):
            if lane.remote.topic == remote.topic:
                self._producer.abandon(number)
        stopped = {i for i in self._queues if self._slots[i].share.remote.topic == remote.topic}
        self._tickets = {b: t for b, t in self._tickets.items() if t.slot not in stopped}
        for index in stopped:
            slot = self._slots[index]
            self._queues[index].clear()
            if not slot.stopped or slot.halt is not None:
                self._stop(index, kind, reason)

    def _handover(self) -> dict[str, Any]:
        lanes = [
            [lane.remote.topic, lane.remote.index, lane.sequence]
            for lane in self._placed
            if lane.remote.topic not in self._given_up
        ]
        return {**super()._handover(), "lanes": lanes}
