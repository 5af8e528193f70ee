"""The writing half of a slice: sections in, acknowledged batches out. Nothing here waits.

While a partition has batches that cannot be sent yet, the sections behind them are put off: packed later, many small
batches become one, so that a target that answers slowly is not written to two records at a time.
Only positions that the target has acknowledged are reported. A partition that cannot continue halts: it takes
nothing more, what is pending is stored, and then it is reported as stopped, at the stored position.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from heliograph.copying.packing import Packer, RecordTooLarge
from heliograph.copying.sections import ChunkSection, cut
from heliograph.copying.slot import Slot, open_slot
from heliograph.copying.spread import Spread
from heliograph.errors import CorruptRecord, KafkaFault
from heliograph.kafka.brokers import Brokers
from heliograph.kafka.lane import Lane, Outgoing, Refused, Stored
from heliograph.kafka.produce import Producer
from heliograph.model import Position, StopKind, TopicPartition
from heliograph.policy.batches import AbortedTransactions
from heliograph.policy.latency import LatencyBuckets
from heliograph.wire.lease_messages import (
    Foreign,
    LaneShare,
    Share,
    SlotWritten,
    Stopped,
    Welcome,
)
from heliograph.wire.record_batch import (
    HEADER_SIZE,
    MAGIC_AT,
    BatchHeader,
    batch_at,
    corrupt_batch,
    crc_matches,
    first_offset_of,
    is_lone,
    next_offset_of,
    next_sequence,
    read_header,
)
from heliograph.wire.unpack import unpack

# Bytes: a smaller section that is put off is copied, so that its buffer is free again.
_SMALL = 64 << 10


class Writer:
    """Writes the sections of one slice to the target."""

    def __init__(
        self,
        brokers: Brokers,
        welcome: Welcome,
        on_stop: Callable[[Stopped], None],
        on_foreign: Callable[[Foreign], None],
        on_forgotten: Callable[[int, str], None],
    ) -> None:
        """Take where to write; `on_forgotten` is called with slots whose broker forgot what was written to them."""
        self._flow = welcome.flow
        self._in_transactions = welcome.ledger is not None
        self._on_forgotten = on_forgotten
        self._limits = welcome.limits
        self._on_stop = on_stop
        self._on_foreign = on_foreign
        ledger = welcome.ledger
        self.producer = Producer(
            brokers,
            welcome.flow,
            on_stored=self._stored,
            on_refused=self._refused,
            max_in_flight=self._limits.in_flight_requests,
            transactional_id=None if ledger is None else ledger.transactional_id,
        )
        self.slots: dict[int, Slot] = {}
        self.changed: set[int] = set()
        self.verdicts: Counter[str] = Counter()
        self.latency = LatencyBuckets()
        self._spread = Spread(self.producer, self.verdicts)
        self._sequences: dict[tuple[TopicPartition, str], int] = {}  # in transactions
        self._put_off: set[int] = set()  # slots with sections that wait for room

    def take(self, share: Share, position: Position) -> None:
        """Write a partition from a position on; nothing is stored after it.

        In transactions a task has one identity while it lives: a partition that returns continues its sequence.
        """
        sequence = self._sequences.get((share.remote, share.remote_id), share.sequence)
        slot = self.slots[share.slot] = open_slot(share, position, sequence)
        self.changed.add(share.slot)
        if share.spread:
            self._spread.open(slot)
        else:
            self.producer.add(Lane(share.slot, share.remote))

    def take_lanes(self, lanes: tuple[LaneShare, ...]) -> None:
        """Write to remote partitions that source partitions share."""
        self._spread.take(lanes)

    def has_lanes(self, topic: str) -> bool:
        """Whether this task may write to the remote partitions of a topic that source partitions share."""
        return self._spread.has(topic)

    def limit(self, slot: int, max_message_bytes: int) -> None:
        """Note that a remote topic now accepts batches of another size."""
        if slot in self.slots:
            state = self.slots[slot]
            state.max_message_bytes = max_message_bytes
            if state.share.spread:
                self._spread.limit(state.share.remote.topic, max_message_bytes)

    def is_settled(self, slot: int) -> bool:
        """Whether all that was read of a partition is stored."""
        state = self.slots[slot]
        return not state.pending and not self.producer.is_busy(slot)

    def leave(self, slot: int) -> tuple[tuple[str, int, int], ...]:
        """Forget a settled partition; return the sequences of lanes that are no longer used."""
        state = self.slots.pop(slot)
        self._put_off.discard(slot)
        if state.share.spread:
            return self._spread.leave(state)
        self.producer.remove(slot)
        return ()

    def write(self, chunk: memoryview, section: ChunkSection) -> None:
        """Offer the batches of a section to the producer, or put them off."""
        slot = self.slots.get(section.slot)
        if slot is None or slot.halt is not None:
            return
        self.changed.add(section.slot)
        if slot.share.spread:
            self._spread_out(slot, chunk, section)
        elif slot.put_off or self.producer.is_full(section.slot):
            self._wait_for_room(slot, chunk, section)
        else:
            self._offer(slot, [(chunk, section)])

    def go_on(self) -> bool:
        """Offer what was put off for partitions that have room now; return whether there was anything."""
        has_room = [slot for slot in self._put_off if not self.producer.is_full(slot)]
        for number in has_room:
            slot = self.slots[number]
            is_last = slot.halt is not None
            sections, slot.put_off = slot.put_off, []
            slot.pending -= 1
            self._put_off.discard(number)
            self._offer(slot, sections)
            self.producer.go_on(number)
            if is_last and not slot.pending:
                self._stop(slot)
        return bool(has_room)

    def unpin(self, slot: int) -> None:
        """Copy what is queued for a waiting partition, so that it does not keep its receive buffers alive."""
        self.producer.unpin(slot)
        state = self.slots.get(slot)
        if state is not None:
            state.put_off = [cut(chunk, section) for chunk, section in state.put_off]

    def _wait_for_room(self, slot: Slot, chunk: memoryview, section: ChunkSection) -> None:
        size = section.end - section.start
        if not slot.put_off:
            slot.pending += 1
            self._put_off.add(section.slot)
        slot.put_off.append(cut(chunk, section) if size < _SMALL else (chunk, section))
        self.producer.put_off(section.slot, size)

    def _spread_out(self, slot: Slot, chunk: memoryview, section: ChunkSection) -> None:
        try:
            self._spread.write(slot, chunk, section)
        except (CorruptRecord, RecordTooLarge) as exc:
            self._halt_at(slot, exc)
            return
        slot.read_to = section.upstream
        slot.advance()

    def _offer(self, slot: Slot, sections: Sequence[tuple[memoryview, ChunkSection]]) -> None:
        number = slot.share.slot
        try:
            for batch in self._batches(slot, sections):
                slot.pending += 1
                self.producer.offer(number, batch)
        except (CorruptRecord, RecordTooLarge) as exc:
            self._halt_at(slot, exc)
            return
        slot.read_to = sections[-1][1].upstream
        slot.advance()

    def _halt_at(self, slot: Slot, exc: CorruptRecord | RecordTooLarge) -> None:
        """Stop a partition at records that cannot be written."""
        kind = StopKind.CORRUPT if isinstance(exc, CorruptRecord) else StopKind.TOO_LARGE
        self.halt(Stopped(slot.share.slot, slot.upstream, kind, str(exc)))

    def _batches(
        self, slot: Slot, sections: Sequence[tuple[memoryview, ChunkSection]]
    ) -> Iterator[Outgoing]:
        """Yield what to send for the source batches of sections, in order."""
        packer = Packer(slot, self._limits.merge_bytes, self.verdicts)
        for chunk, section in sections:
            yield from self._pack(slot, packer, chunk, section, is_only=len(sections) == 1)
        yield from packer.flush()

    def _pack(
        self, slot: Slot, packer: Packer, chunk: memoryview, section: ChunkSection, *, is_only: bool
    ) -> Iterator[Outgoing]:
        """Yield what is ready to be sent of one section."""
        transactions = AbortedTransactions(section.aborted)
        at = section.start
        while (extent := batch_at(chunk, at, section.end)) is not None:
            view = chunk[at : at + extent.size]
            header = read_header(view, 0) if view[MAGIC_AT] >= 2 else None
            fresh = first_offset_of(header) >= slot.read_to
            alone = is_only and extent.size == section.end - section.start
            if fresh and not alone and header is not None and is_lone(header):
                after = yield from packer.add_lone(chunk, at, section.end)
                if after > at:
                    at = after
                    continue
            at += extent.size
            if header is not None and not crc_matches(view, header):
                yield from packer.flush()
                raise corrupt_batch(header)
            if header is not None and not transactions.delivers(header):
                self.verdicts["dropped"] += 1
            elif fresh:
                yield from packer.add(view, header, alone=alone)
            else:
                yield from self._later_part(slot, packer, view, header)

    def _later_part(
        self, slot: Slot, packer: Packer, view: memoryview, header: BatchHeader | None
    ) -> Iterator[Outgoing]:
        """Yield what is to be sent of a batch that begins before the position."""
        if next_offset_of(view, 0) <= slot.read_to:
            return
        records = unpack(view)
        wanted = [record for record in records if record.offset >= slot.read_to]
        if header is None and len(wanted) == len(records):
            yield from packer.add(view, header)
            return
        self.verdicts["skipped"] += 1
        yield from packer.add_records(view, wanted)

    def halt(self, stop: Stopped) -> None:
        """Stop a partition once all that was read of it before is stored."""
        slot = self.slots.get(stop.slot)
        if slot is not None and slot.halt is None:
            slot.halt = stop
            if not slot.pending:
                self._stop(slot)

    def give_back(self, most: int) -> None:
        """Give back partitions, largest first, while those that wait for their brokers hold more than `most` bytes."""
        held = self.producer.held_bytes
        for lane in sorted(self.producer.troubled.values(), key=lambda lane: -lane.bytes):
            if held <= most:
                break
            if lane.slot >= 0:
                held -= lane.bytes
                self._on_forgotten(lane.slot, lane.trouble or "its broker is away")
                self.producer.abandon(lane.slot)
                self._put_off.discard(lane.slot)

    def waits(self) -> Iterator[tuple[int, str]]:
        """Yield why partitions make no progress for the moment, by slot."""
        for number, lane in self.producer.troubled.items():
            slots = [number] if number >= 0 else self._spread.users(number)
            for slot in slots:
                yield slot, lane.trouble or ""

    def news(self) -> tuple[SlotWritten, ...]:
        """Return how far partitions were written, for those that changed since the last call."""
        news = tuple(
            self.slots[slot].report() for slot in sorted(self.changed) if slot in self.slots
        )
        self.changed.clear()
        return news

    def close(self) -> None:
        self.producer.close()

    def _stored(self, stored: Stored) -> None:
        batch = stored.batch
        if stored.slot < 0:
            slot = self._spread.stored(batch)
        else:
            slot = self.slots[stored.slot]
            if not self._is_expected(slot, stored):
                return
            slot.pending -= 1
            if self._in_transactions:
                self._note_sequence(slot.share, batch.count)
            slot.upstream = batch.upstream
            slot.downstream = stored.base_offset
            for upstream, count in batch.spans:
                slot.ran(upstream, slot.downstream, count)
                slot.downstream += count
            slot.advance()
        slot.records += batch.count
        slot.bytes += HEADER_SIZE + len(batch.payload)
        self._note_latency(slot, batch)
        self.changed.add(slot.share.slot)
        if slot.halt is not None and not slot.pending:
            self._stop(slot)

    def _note_sequence(self, share: Share, count: int) -> None:
        place = share.remote, share.remote_id
        before = self._sequences.get(place, share.sequence)
        self._sequences[place] = next_sequence(before, count)

    def _is_expected(self, slot: Slot, stored: Stored) -> bool:
        """Check where a batch was stored: directly after the one before, if there is no other writer."""
        remote, expected = slot.share.remote, slot.downstream
        if stored.base_offset < expected:
            reason = f"{remote} ended at {expected} and is now at {stored.base_offset}"
            self._stop_at_once(slot, StopKind.TRUNCATED, reason)
            return False
        if stored.base_offset > expected and slot.share.ours and not slot.alarmed:
            slot.alarmed = True
            self._on_foreign(
                Foreign(
                    slot.share.slot,
                    f"{remote}: offsets {expected} to {stored.base_offset - 1} were written by somebody else, "
                    "while this flow writes there. Positions stay exact; give the remote topic one writer.",
                )
            )
        return True

    def _note_latency(self, slot: Slot, batch: Outgoing) -> None:
        if batch.max_timestamp < 0:
            return  # its records have no timestamps
        took = time.time() * 1000 - batch.max_timestamp
        self.latency.add(took, batch.count)
        slot.took(took, batch.count, batch.max_timestamp)

    def _refused(self, refused: Refused) -> None:
        reason = f"the target answered: {refused.reason}"
        # Part of it may be stored: a commit would include that, with the position before it.
        unsure = self._in_transactions and (refused.forgot or refused.may_pass)
        if unsure or (refused.forgot and refused.slot < 0):
            raise KafkaFault(f"produce for {self._flow}", refused.reason, retriable=True)
        if refused.forgot:
            self._on_forgotten(refused.slot, reason)
        elif refused.slot >= 0:
            self._stop_at_once(self.slots[refused.slot], StopKind.REFUSED, reason)
        else:
            self._refuse_topic(refused, reason)

    def _refuse_topic(self, refused: Refused, reason: str) -> None:
        """Stop all partitions whose records may go to a lane that accepts no more."""
        kind = StopKind.REFUSED_FOR_GOOD if refused.for_good else StopKind.REFUSED
        remote, slots = self._spread.refused(refused.slot)
        for slot in slots:
            self._stop_at_once(slot, kind, f"{remote}: {reason}")

    def _stop_at_once(self, slot: Slot, kind: StopKind, reason: str) -> None:
        """Stop a partition whose pending batches will not be stored."""
        if not slot.share.spread:
            self.producer.abandon(slot.share.slot)
            self._put_off.discard(slot.share.slot)
        slot.halt = Stopped(slot.share.slot, slot.upstream, kind, reason)
        self._stop(slot)

    def _stop(self, slot: Slot) -> None:
        """Report that a slot has stopped, at its stored position; the copier then forgets it."""
        halt = slot.halt
        assert halt is not None, "a slot stops for a reason"
        self._on_stop(
            Stopped(
                halt.slot,
                slot.upstream,
                halt.kind,
                halt.reason,
                halt.resume,
                spent=halt.kind not in _READ_ONLY,
            )
        )


_READ_ONLY = frozenset(
    {StopKind.OUT_OF_RANGE, StopKind.LOST_TOPIC}
)  # stops of the source, by which no sequence was spent
