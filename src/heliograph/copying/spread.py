"""Writing to remote topics that have their own partition count: a record goes from any slot to any lane.

Slots are source partitions; lanes are remote ones, with numbers below 0. Invariants, besides those of the producer:

A  A slot's position moves past a stretch when all its batches, and all before them, are stored in all lanes.
B  A lane that cannot continue stops every slot of its topic: what was sent after that may be out of order.
C  Lanes of a topic that was stopped this way are not handed over: their sequences have gaps.
"""

from collections import Counter, deque
from dataclasses import dataclass

from heliograph.copying.placing import PlacedLane, Stretch, encode_stretch, stretches
from heliograph.copying.sections import ChunkSection
from heliograph.copying.slot import Slot
from heliograph.kafka.lane import Lane, Outgoing
from heliograph.kafka.produce import Producer
from heliograph.model import TopicPartition
from heliograph.wire.lease_messages import LaneShare


@dataclass(slots=True)
class _Ticket:
    """A stretch that is being written: `left` of its batches are not stored yet."""

    slot: Slot
    upstream: int
    left: int


class Spread:
    """The slots and lanes of a writer whose records are placed by key."""

    def __init__(self, producer: Producer, verdicts: Counter[str]) -> None:
        self._producer = producer
        self._verdicts = verdicts
        self._lanes: dict[int, PlacedLane] = {}
        self._numbers: dict[str, list[int]] = {}  # of a topic's lanes, by their index
        self._slots: dict[str, dict[int, Slot]] = {}
        self._queues: dict[int, deque[_Ticket]] = {}
        self._tickets: dict[Outgoing, _Ticket] = {}
        self._broken: set[str] = set()
        self._next = -1

    def take(self, lanes: tuple[LaneShare, ...]) -> None:
        """Write to these remote partitions; those of a topic arrive together, in order."""
        for lane in lanes:
            number, self._next = self._next, self._next - 1
            self._lanes[number] = PlacedLane(
                lane.remote, lane.identity, lane.sequence, lane.max_message_bytes
            )
            self._numbers.setdefault(lane.remote.topic, []).append(number)
            self._producer.add(Lane(number, lane.remote))

    def has(self, topic: str) -> bool:
        return topic in self._numbers

    def open(self, slot: Slot) -> None:
        """Place the records of a slot from now on."""
        self.limit(slot.share.remote.topic, slot.max_message_bytes)
        self._slots.setdefault(slot.share.remote.topic, {})[slot.share.slot] = slot
        self._queues[slot.share.slot] = deque()

    def limit(self, topic: str, max_message_bytes: int) -> None:
        """Note how large a batch the remote partitions of a topic accept now."""
        for number in self._numbers[topic]:
            self._lanes[number].max_message_bytes = max_message_bytes

    def users(self, lane: int) -> list[int]:
        """Return the slots that write to a lane."""
        return list(self._slots.get(self._lanes[lane].remote.topic, ()))

    def leave(self, slot: Slot) -> tuple[tuple[str, int, int], ...]:
        """Forget a slot; after the last of its topic, return the sequences of the lanes, if they have no gaps."""
        topic = slot.share.remote.topic
        del self._slots[topic][slot.share.slot], self._queues[slot.share.slot]
        if self._slots[topic]:
            return ()
        del self._slots[topic]
        numbers = self._numbers.pop(topic, [])
        lanes = [self._lanes.pop(number) for number in numbers]
        for number in numbers:
            self._producer.abandon(number)
            self._producer.remove(number)
        if topic in self._broken:
            self._broken.discard(topic)
            return ()
        return tuple((lane.remote.topic, lane.remote.index, lane.sequence) for lane in lanes)

    def write(self, slot: Slot, chunk: memoryview, section: ChunkSection) -> None:
        """Offer the records of a section to their lanes; raise before the first that cannot be placed."""
        for stretch in stretches(chunk, section, slot.read_to, self._verdicts):
            self._send(slot, stretch)

    def _send(self, slot: Slot, stretch: Stretch) -> None:
        numbers = self._numbers[slot.share.remote.topic]
        lanes = [self._lanes[number] for number in numbers]
        batches, reason = encode_stretch(stretch, slot.share.source.index, lanes)
        upstream = stretch.upstream if reason is None else reason.upstream
        self._verdicts["placed"] += len(batches)
        slot.read_to = upstream
        slot.pending += len(batches)
        ticket = _Ticket(slot, upstream, len(batches))
        self._queues[slot.share.slot].append(ticket)
        for index, batch in batches:
            self._tickets[batch] = ticket
            self._producer.offer(numbers[index], batch)
        self._settle(slot)
        if reason is not None:
            raise reason

    def stored(self, batch: Outgoing) -> Slot:
        """Note a stored batch; return its slot."""
        ticket = self._tickets.pop(batch)
        ticket.left -= 1
        ticket.slot.pending -= 1
        self._settle(ticket.slot)
        return ticket.slot

    def refused(self, lane: int) -> tuple[TopicPartition, list[Slot]]:
        """Give up all lanes of a topic (invariant B); return the remote partition, and the slots that stop."""
        remote = self._lanes[lane].remote
        self._broken.add(remote.topic)
        for number in self._numbers[remote.topic]:
            self._producer.abandon(number)
        slots = list(self._slots[remote.topic].values())
        stopped = {slot.share.slot for slot in slots}
        self._tickets = {
            batch: ticket
            for batch, ticket in self._tickets.items()
            if ticket.slot.share.slot not in stopped
        }
        for slot in slots:
            self._queues[slot.share.slot].clear()
            slot.pending = 0
        return remote, slots

    def _settle(self, slot: Slot) -> None:
        """Move a slot's position as far as invariant A allows."""
        queue = self._queues[slot.share.slot]
        while queue and not queue[0].left:
            slot.upstream = queue.popleft().upstream
        slot.advance()
