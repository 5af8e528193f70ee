"""The reading half of a slice: fetch responses in, rows out. Runs in a Spark Python worker.

One thread, one request in flight per leader. The next fetch is sent before the rows of the last are
handed on, so the broker works while Spark copies. A response is received into memory that the writer
shares, and waits for room there: that is what holds the source back while the target is slow.
"""

import time
from collections.abc import Iterator
from datetime import timedelta
from uuid import UUID

import pyarrow as pa

from heliograph.dataplane.assignment import Assignment
from heliograph.dataplane.chunks import TICKS, ChunkSection, Rows, encode_row
from heliograph.dataplane.latency import Taken, taken
from heliograph.dataplane.lease import Lease
from heliograph.dataplane.ring import Reference, open_ring
from heliograph.dataplane.warm import warm_cluster
from heliograph.errors import ClusterUnreachable, CorruptRecord, KafkaFault
from heliograph.kafka.faults import LOST_TOPIC, OFFSET_OUT_OF_RANGE, error_name, is_retriable
from heliograph.kafka.fetch import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    Fetcher,
    FetchLimits,
    Response,
    Section,
    Session,
    Subject,
)
from heliograph.kafka.transport import no_room
from heliograph.wire.record_batch import MAGIC_AT, last_batch, next_offset_of, read_header

_IDLE_WAIT, _ANSWERS_WAIT = 1.0, 0.2
_PLACE_EVERY = 0.5
_REPORT_EVERY = 1.0
_NAP, _LONGEST_NAP = 0.001, 0.05
_REST, _REST_PER_OFFSET, _OFFSETS, _LONGEST_REST = 2.0, 0.002, 2, 0.01
_RESPONSE_HEADS = 256 << 10  # beside its records, what a response says of thousands of partitions

_Found = tuple[list[ChunkSection], memoryview | Reference]


class SliceReader:
    """Tails the partitions of one slice until the epoch ends."""

    def __init__(self, lease: Lease, assignment: Assignment) -> None:
        limits = assignment.limits
        self._lease = lease
        self._committed = limits.read_committed
        self._shares = {share.slot: share for share in assignment.shares}
        self._positions = {share.slot: share.position.upstream for share in assignment.shares}
        self._epochs = {share.slot: share.leader_epoch for share in assignment.shares}
        self._ends: dict[int, int] = {}
        self._fetcher = Fetcher(
            warm_cluster(assignment.endpoint),
            FetchLimits(
                max_bytes=limits.chunk_bytes,
                partition_max_bytes=limits.partition_bytes,
                wait=timedelta(seconds=_IDLE_WAIT),
                isolation=READ_COMMITTED if self._committed else READ_UNCOMMITTED,
            ),
        )
        self._fetcher.add(
            Subject(s.slot, s.source, UUID(s.topic_id), s.position.upstream, epoch=s.leader_epoch)
            for s in assignment.shares
        )
        self._ring = open_ring(limits.chunk_bytes + _RESPONSE_HEADS)
        self._rows = Rows()
        self._nap = _NAP
        self._busy = False
        self._advanced = 0  # offsets since the last rest
        self._called = True  # what the driver said before now is not heard yet
        self._small = min(limits.chunk_bytes, limits.partition_bytes) // 8
        self._deadline = time.monotonic() + limits.epoch_seconds
        self._place_at = 0.0
        self._report_at = 0.0
        self._changed: set[int] = set()
        self._trouble: str | None = None
        self._told: str | None = ""  # what it said of its trouble last: nothing yet
        self._ages: dict[int, Taken] = {}

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield chunks and ticks; the last fetch is handed over before the end."""
        ending = False
        try:
            while not ending:
                ending = self._ended()
                self._place()
                self._fetcher.ask()
                yield from self._handed_on()
                self._report(final=ending)
            yield from self._await_return()
        finally:
            self._fetcher.close()
            if self._ring is not None:
                self._ring.close()

    def _ended(self) -> bool:
        if time.monotonic() >= self._deadline:
            return True
        if self._called:
            self._called = False
            for message in self._lease.poll():
                for slot in message.get("drop", ()):
                    self._fetcher.remove(slot)
                if message.get("end"):
                    return True
        return False

    def _place(self) -> None:
        now = time.monotonic()
        if self._fetcher.homeless and now >= self._place_at:
            self._place_at = now + _PLACE_EVERY
            try:
                self._trouble = self._fetcher.place()
            except (ClusterUnreachable, KafkaFault) as exc:
                self._trouble = str(exc)

    def _await_return(self) -> Iterator[pa.RecordBatch]:
        """Stay until the writer needs no chunk any more; it opens them in this process."""
        while self._ring is not None and not self._ring.is_idle():
            self._lease.poll()
            yield TICKS
            self._take_nap()

    def _take_nap(self) -> None:
        time.sleep(self._nap)
        self._nap = min(2 * self._nap, _LONGEST_NAP)

    def _handed_on(self) -> Iterator[pa.RecordBatch]:
        if self._ring is not None and self._ring.is_full():
            # The last row may still be in the JVM, and a writer hears answers only when it is given a row.
            self._called = True
            yield TICKS
            self._take_nap()
            return
        self._nap = _NAP
        # A writer that has not heard all answers hears them with the next tick.
        at_ease = self._ring is None or self._ring.is_idle()
        wait = _IDLE_WAIT if at_ease else _ANSWERS_WAIT
        wait = min(wait, max(self._deadline - time.monotonic(), 0.0))
        sessions, called = self._fetcher.ready(wait, [self._lease.fileno()])
        self._called = bool(called)
        began, self._busy = time.monotonic(), False
        found: _Found | None = None
        for new in self._taken(sessions):
            if found is not None:
                yield self._rows.batch(encode_row(*found), push=False)
            found = new
        if found is None:
            yield TICKS
            return
        more = self._fetcher.asking and bool(self._fetcher.ready(0)[0])
        yield self._rows.batch(encode_row(*found, is_last=not more), push=not more)
        if not self._busy and not more:
            time.sleep(self._rest(time.monotonic() - began))

    def _taken(self, sessions: list[Session]) -> Iterator[_Found]:
        """Yield what the brokers sent; who sent much is asked again at once, since more is on its way."""
        for session in sessions:
            response = self._fetcher.take(session, self._ring.room if self._ring else no_room)
            if response is None:
                continue
            sections = self._sections(response)
            if response.buffer.nbytes >= self._small:
                self._busy = True
                self._fetcher.ask()
            if sections:
                yield sections, self._lent(response.buffer)

    def _rest(self, took: float) -> float:
        """Return how long to let records come together: a response costs as much for one as for a hundred.

        The shorter the fewer came, who may not be waited for; longer where the machine is slow.
        """
        few = min(self._advanced, _OFFSETS)
        self._advanced = 0
        return min(max(_REST * took, _REST_PER_OFFSET * few), _LONGEST_REST)

    def _lent(self, chunk: memoryview) -> memoryview | Reference:
        """Return where a chunk is for the writer; one that is not in the ring is copied before the next is taken."""
        reference = self._ring.lend(chunk) if self._ring else None
        return memoryview(bytes(chunk)) if reference is None else reference

    def _sections(self, response: Response) -> list[ChunkSection]:
        sections = []
        for section in response.sections:
            if section.slot not in self._shares:
                continue
            if section.error:
                self._fetch_failed(section)
                continue
            if section.parted >= 0:
                self._parted(section)
                continue
            self._note_end(section)
            if section.end > section.start:
                try:
                    found = self._index(response.buffer, section)
                except CorruptRecord as exc:
                    self._stop(section.slot, "corrupt", str(exc))
                    continue
                if found is not None:
                    sections.append(found)
        return sections

    def _index(self, buffer: memoryview, section: Section) -> ChunkSection | None:
        """Return where the batches of a section are, and advance past them; the writer looks into them."""
        slot, position = section.slot, self._positions[section.slot]
        last = last_batch(buffer, section.start, section.end)
        if last is None:
            return None
        epoch = newest = -1
        if buffer[last.start + MAGIC_AT] >= 2:
            header = read_header(buffer, last.start)
            upstream, epoch, newest = header.next_offset, header.leader_epoch, header.max_timestamp
        else:
            upstream = next_offset_of(buffer, last.start)
        if upstream > position:
            self._advanced += upstream - position
            position, self._epochs[slot] = upstream, epoch
        self._positions[slot] = position
        self._fetcher.moved(slot, position, self._epochs[slot])
        self._changed.add(slot)
        if newest >= 0:
            self._note_age(slot, time.time() * 1000 - newest)
        aborted = section.aborted if self._committed else ()
        return ChunkSection(slot, section.start, last.start + last.size, position, aborted)

    def _note_age(self, slot: int, age_ms: float) -> None:
        """Note how old the newest record of a section was: one look for all its batches."""
        known, new = self._ages.get(slot), taken(age_ms)
        self._ages[slot] = new if known is None else known + new

    def _note_end(self, section: Section) -> None:
        end = (
            section.last_stable
            if self._committed and section.last_stable >= 0
            else section.high_watermark
        )
        if self._ends.get(section.slot) != end:
            self._ends[section.slot] = end
            self._changed.add(section.slot)

    def _fetch_failed(self, section: Section) -> None:
        error = section.error
        share = self._shares[section.slot]
        if error == OFFSET_OUT_OF_RANGE:
            self._stop(section.slot, "out-of-range", "the source no longer has this offset")
        elif error in LOST_TOPIC:
            self._stop(
                section.slot,
                "lost-topic",
                f"{share.source.topic} is gone from the source, or was made anew",
            )
        elif is_retriable(error):
            self._trouble = f"{share.source}: {error_name(error)}"
            self._fetcher.lost_leader([section.slot])
        else:
            self._stop(section.slot, "refused", f"the source answered {error_name(error)}")

    def _parted(self, section: Section) -> None:
        """Stop where the source has other records now than those that were read."""
        reason = "the source is no longer the log that was read"
        self._stop(section.slot, "out-of-range", reason, resume=section.parted)

    def _stop(self, slot: int, kind: str, reason: str, resume: int = -1) -> None:
        self._fetcher.remove(slot)
        self._lease.send(
            {
                "stopped": {
                    "slot": slot,
                    "upstream": self._positions[slot],
                    "kind": kind,
                    "reason": reason,
                    "resume": resume,
                }
            }
        )

    def _report(self, *, final: bool) -> None:
        now = time.monotonic()
        if now < self._report_at and not final:
            return
        self._report_at = now + _REPORT_EVERY
        ends = [
            [slot, self._positions[slot], self._ends.get(slot, -1), self._epochs[slot]]
            for slot in self._changed
        ]
        ages = [[slot, *age] for slot, age in self._ages.items()]
        self._changed.clear()
        self._ages.clear()
        if ends or ages or self._trouble != self._told or final:
            self._told = self._trouble
            self._lease.send({"read": {"ends": ends, "ages": ages, "trouble": self._trouble}})
