"""The writing half of a slice: rows in, acknowledged batches out. Runs in a Spark Python worker.

Before its first batch it looks at the remote tail where the assignment asks for it (the driver has
fenced every predecessor by then), counts what is there beyond the saved position, and skips as many
source records. Progress is told to the driver only for what the target has acknowledged.
"""

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from heliograph.dataplane.assignment import Assignment
from heliograph.dataplane.chunks import ChunkSection, Row, open_row
from heliograph.dataplane.latency import LatencyBuckets
from heliograph.dataplane.lease import Lease
from heliograph.dataplane.packing import Packer, RecordTooLarge
from heliograph.dataplane.ring import Borrower
from heliograph.dataplane.slots import ForeignRecords, Slot, open_slot
from heliograph.dataplane.warm import warm_cluster
from heliograph.errors import CorruptRecord, FlowFenced
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.produce import Lane, Outgoing, Producer, Refused, Stored
from heliograph.kafka.tail import fingerprint, read_bodies, read_tails
from heliograph.policy.batches import AbortedTransactions, Verdict
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
    read_header,
)
from heliograph.wire.records import RawRecord
from heliograph.wire.unpack import unpack

_REPORT_EVERY = 1.0
_WAIT = 0.25
_ANSWERS = 0.01
_GLANCE = 0.002
_COLLECT_EVERY = 1.0
_BODIES = 50_000  # of a tail held at a time: 7 MB


class SliceWriter:
    """Writes the rows of one slice to the target until there are no more."""

    def __init__(self, lease: Lease, assignment: Assignment) -> None:
        self._lease = lease
        self._limits = assignment.limits
        # Tails are read over connections of their own: those of the producer owe it answers.
        self._tails = Cluster(assignment.endpoint)
        resume = {s.remote: s.position.downstream for s in assignment.shares if s.resume}
        tails = read_tails(self._tails, resume) if resume else {}
        self._slots = {s.slot: open_slot(s, tails.get(s.remote)) for s in assignment.shares}
        self._producer = Producer(
            warm_cluster(assignment.endpoint),
            assignment.flow,
            self._open_lanes(assignment),
            on_stored=self._stored,
            on_refused=self._refused,
            max_in_flight=self._limits.in_flight_requests,
            transactional_id=assignment.ledger.transactional_id if assignment.ledger else None,
        )
        self._changed = {slot for slot, state in self._slots.items() if state.share.resume}
        self._verdicts: Counter[str] = Counter()
        self._borrower = Borrower()
        self._latency = LatencyBuckets()
        self._told: str | None = ""  # what it said of its trouble last: nothing yet
        self._report_at = self._collect_at = 0.0
        for index, slot in self._slots.items():
            self._look_at_tail(index, slot)

    def _open_lanes(self, assignment: Assignment) -> list[Lane]:
        return [Lane(share.slot, share.remote) for share in assignment.shares]

    def close(self) -> None:
        """Leave no answer unread on connections that the next epoch uses."""
        self._producer.close()
        self._tails.close()

    def _look_at_tail(self, index: int, slot: Slot) -> None:
        """Say what is wrong with a remote tail before anything is written behind it."""
        remote, downstream = slot.share.remote, slot.share.position.downstream
        if slot.tail_end < downstream:
            reason = f"{remote} ended at {downstream} and now ends at {slot.tail_end}: it was truncated or made anew"
            self._stop(index, "target-truncated", reason)
        elif slot.missing:
            reason = str(slot.foreign(f"{slot.missing} offsets after it were deleted"))
            self._lease.send({"alarm": {"slot": index, "reason": reason}})
        else:
            slot.advance()

    def write(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Write every row, then wait until the target has acknowledged all of it."""
        try:
            for batch in batches:
                is_last = False
                for number in range(batch.num_rows):
                    is_last = self._write_row(open_row(batch, number, self._borrower))
                    if not is_last:
                        self._send_on(is_last=False)
                if is_last:
                    self._send_on(is_last=True)
            while not self._producer.idle:
                self._pump(_WAIT)
        except FlowFenced as exc:
            self._fenced(exc)
            raise
        self._report(final=True)

    def _fenced(self, exc: FlowFenced) -> None:
        """Tell that somebody else has the flow now: it must not be taken back."""
        self._lease.send({"failed": {"kind": "fenced", "reason": str(exc)}})

    def _write_row(self, row: Row) -> bool:
        """Offer the chunk of a row to the producer; return whether nothing more is there for the moment.

        Who calls may not keep the row: its buffer goes back when its last batch is stored.
        """
        sections, chunk, is_last = row
        if chunk is not None:
            for section in sections:
                self._write_section(chunk, section)
        return is_last

    def _send_on(self, *, is_last: bool) -> None:
        """Send what may be sent, and hear answers: for a moment, if no row is on its way that would wait for it.

        While more is coming, the next row is asked for when half a chunk at most is not on its way. That bounds memory;
        and with partitions of the next chunk beside those of this one, a request carries more batches.
        """
        until = time.monotonic() + _ANSWERS
        left = _ANSWERS if is_last and not self._borrower.more_is_coming() else 0.0
        self._pump(min(left, _GLANCE))
        while self._producer.unsent_bytes > (0 if is_last else self._limits.chunk_bytes // 2):
            self._pump(_WAIT)
        while is_last and not self._producer.idle and not self._borrower.more_is_coming():
            left = until - time.monotonic()
            if left <= 0:
                break
            self._pump(min(left, _GLANCE))
        if self._producer.idle and time.monotonic() >= self._collect_at:
            self._collect_at = time.monotonic() + _COLLECT_EVERY
            self._borrower.collect()

    def _write_section(self, chunk: memoryview, section: ChunkSection) -> None:
        slot = self._slots[section.slot]
        if slot.stopped:
            return
        try:
            for batch in self._batches(slot, chunk, section):
                slot.pending += 1
                self._producer.offer(section.slot, batch)
        except CorruptRecord as exc:
            self._halt(section.slot, "corrupt", str(exc))
            return
        except RecordTooLarge as exc:
            self._halt(section.slot, "too-large", str(exc))
            return
        except ForeignRecords as exc:
            self._fail(exc, section.slot)
            raise
        slot.read_to = section.upstream
        slot.advance()
        self._changed.add(section.slot)

    def _batches(self, slot: Slot, chunk: memoryview, section: ChunkSection) -> Iterator[Outgoing]:
        """Yield what to send for the source batches of one section, in order."""
        packer = Packer(slot, self._limits.merge_bytes, self._verdicts)
        transactions = AbortedTransactions(section.aborted)
        at = section.start
        while (extent := batch_at(chunk, at, section.end)) is not None:
            view = chunk[at : at + extent.size]
            header = read_header(view, 0) if view[MAGIC_AT] >= 2 else None
            fresh = not slot.behind and first_offset_of(header) >= slot.read_to
            alone = extent.size == section.end - section.start
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
                self._verdicts["dropped"] += 1
            elif fresh:
                yield from packer.add(view, header, alone=alone)
            elif next_offset_of(view, 0) > slot.read_to:
                exact = packer.verdict(header, extent.size) is Verdict.PASS
                records = self._left(slot, view, header, exact=exact)
                yield from packer.add_records(view, records)
        yield from packer.flush()

    def _left(
        self, slot: Slot, view: memoryview, header: BatchHeader | None, *, exact: bool
    ) -> list[RawRecord]:
        """Return the records of a batch that are not on the target yet.

        Called for a batch that begins before the position, and while the slot is behind its tail:
        on a successor's first batches. With `exact` the batch would be passed, so its copy in the
        tail, if it is whole, has the same payload.
        """
        self._verdicts["skipped"] += 1
        if (
            exact
            and header is not None
            and header.base_offset >= slot.read_to
            and slot.skip_twin(fingerprint(header, view[HEADER_SIZE:]), header.base_offset)
        ):
            return []
        slot.leave_batches()
        wanted = [record for record in unpack(view) if record.offset >= slot.read_to]
        skipped = slot.skip_bodies(wanted)
        while slot.unread is not None and not slot.bodies:
            window = slot.take_window(_BODIES)
            slot.bodies.extend(read_bodies(self._tails, slot.share.remote, *window))
            skipped += slot.skip_bodies(wanted[skipped:])
        return wanted[skipped:]

    def _pump(self, timeout: float) -> None:
        self._producer.pump(timeout)
        now = time.monotonic()
        if now >= self._report_at:
            self._report_at = now + _REPORT_EVERY
            self._report(final=False)

    def _stored(self, stored: Stored) -> None:
        slot = self._slots[stored.slot]
        batch = stored.batch
        if stored.base_offset < slot.downstream:
            self._stop(
                stored.slot,
                "target-truncated",
                f"{slot.share.remote} ended at {slot.downstream} and is now at {stored.base_offset}",
            )
            return
        slot.pending -= 1
        slot.upstream = batch.upstream
        slot.downstream = stored.base_offset
        for upstream, count in batch.spans:
            slot.ran(upstream, slot.downstream, count)
            slot.downstream += count
        slot.records += batch.count
        slot.bytes += HEADER_SIZE + len(batch.payload)
        slot.advance()
        if slot.halt is not None and not slot.pending:
            self._stop(stored.slot, *slot.halt)
        self._note_latency(slot, batch)
        self._changed.add(stored.slot)

    def _note_latency(self, slot: Slot, batch: Outgoing) -> None:
        if batch.max_timestamp < 0:
            return  # its records have none
        took = time.time() * 1000 - batch.max_timestamp
        self._latency.add(took, batch.count)
        slot.took(took, batch.count, batch.max_timestamp)

    def _refused(self, refused: Refused) -> None:
        self._stop(refused.slot, "refused", f"the target answered: {refused.reason}")

    def _halt(self, slot_index: int, kind: str, reason: str) -> None:
        """Stop a partition before a record that cannot be copied, once all before it are stored."""
        slot = self._slots[slot_index]
        slot.stopped = True
        slot.halt = kind, reason
        if not slot.pending:
            self._stop(slot_index, kind, reason)

    def _stop(self, slot_index: int, kind: str, reason: str) -> None:
        slot = self._slots[slot_index]
        slot.stopped, slot.halt = True, None
        self._producer.abandon(slot_index)
        self._lease.send(
            {
                "stopped": {
                    "slot": slot_index,
                    "upstream": slot.upstream,
                    "kind": kind,
                    "reason": reason,
                }
            }
        )

    def _fail(self, exc: ForeignRecords, slot: int) -> None:
        self._lease.send({"failed": {"kind": "foreign", "slot": slot, "reason": str(exc)}})

    def _report(self, *, final: bool) -> None:
        self._lease.poll()
        if not (final or self._has_news()):
            return
        self._told = self._producer.trouble
        message: dict[str, Any] = {
            "slots": [self._slot_report(slot) for slot in sorted(self._changed)],
            "verdicts": dict(self._verdicts),
            "latency": self._latency.drain(),
            "taken": [self._taken(slot) for slot in self._changed if self._slots[slot].latency],
            "trouble": self._producer.trouble,
        }
        self._changed.clear()
        self._verdicts.clear()
        if final:
            message |= self._handover()
        self._lease.send({"done" if final else "wrote": message})

    def _has_news(self) -> bool:
        counted = self._changed or self._verdicts or any(self._latency.counts)
        return bool(counted) or self._producer.trouble != self._told

    def _handover(self) -> dict[str, Any]:
        """Return what the next writer must know beside the slots."""
        # An epoch may end before a tail was met whole; then the next writer must meet it again.
        return {"behind": [index for index, slot in self._slots.items() if slot.behind]}

    def _taken(self, index: int) -> list[Any]:
        slot = self._slots[index]
        taken, slot.latency = slot.latency, None
        return [index, slot.copied_ms, *(taken or ())]

    def _slot_report(self, index: int) -> list[Any]:
        slot = self._slots[index]
        report = [
            index,
            slot.upstream,
            slot.downstream,
            slot.sequence,
            slot.records,
            slot.bytes,
            slot.runs,
        ]
        slot.records = slot.bytes = 0
        slot.runs = []
        return report
