"""The reading half of a slice: fetch responses in, rows out. Runs in a Spark Python worker.

One thread, one request in flight per leader. The next fetch is sent before the rows of the last are
handed on, so the broker works while Spark copies.
"""

import time
from collections import Counter
from collections.abc import Iterator
from uuid import UUID

import pyarrow as pa

from heliograph.dataplane.assignment import Assignment
from heliograph.dataplane.chunks import EMPTY, TICK, ChunkSection, chunk_row, encode_index
from heliograph.dataplane.latency import Taken, taken
from heliograph.dataplane.lease import Lease
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
    Subject,
)
from heliograph.policy.batches import AbortedTransactions
from heliograph.wire.record_batch import (
    CONTROL,
    MAGIC_AT,
    check_crc,
    find_batches,
    next_offset_of,
    read_header,
)

_IDLE_WAIT = 0.5
_PLACE_EVERY = 0.5
_REPORT_EVERY = 1.0


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
                isolation=READ_COMMITTED if self._committed else READ_UNCOMMITTED,
            ),
        )
        self._fetcher.add(
            Subject(s.slot, s.source, UUID(s.topic_id), s.position.upstream, epoch=s.leader_epoch)
            for s in assignment.shares
        )
        self._small = limits.chunk_bytes // 8
        self._deadline = time.monotonic() + limits.epoch_seconds
        self._place_at = 0.0
        self._report_at = 0.0
        self._changed: set[int] = set()
        self._trouble: str | None = None
        self._ages: dict[int, Taken] = {}
        self._verdicts: Counter[str] = Counter()

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
        finally:
            self._fetcher.close()

    def _ended(self) -> bool:
        if time.monotonic() >= self._deadline:
            return True
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

    def _handed_on(self) -> Iterator[pa.RecordBatch]:
        wait = min(_IDLE_WAIT, max(self._deadline - time.monotonic(), 0.0))
        sessions, _ = self._fetcher.ready(wait, [self._lease.fileno()])
        for session in sessions:
            response = self._fetcher.take(session)
            if response is None:
                continue
            sections = self._sections(response)
            self._fetcher.ask()
            if sections:
                # A large response means that more is on its way: the writer shall not stop for answers.
                small = response.buffer.nbytes < self._small
                last = small and not self._fetcher.ready(0)[0]
                yield chunk_row(encode_index(sections, last=last), response.buffer)
        if not self._fetcher.ready(0)[0]:
            yield TICK
            yield EMPTY

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
                    sections.append(self._index(response.buffer, section))
                except CorruptRecord as exc:
                    self._stop(section.slot, "corrupt", str(exc))
        return sections

    def _index(self, buffer: memoryview, section: Section) -> ChunkSection:
        """Return the deliverable batches of a section, and advance past all of it."""
        position = self._positions[section.slot]
        transactions = AbortedTransactions(section.aborted if self._committed else ())
        kept = []
        newest = epoch = -1
        for extent in find_batches(buffer, section.start, section.end):
            if buffer[extent.start + MAGIC_AT] < 2:
                upstream, delivers = next_offset_of(buffer, extent.start), True
            else:
                header = read_header(buffer, extent.start)
                epoch = header.leader_epoch
                upstream = header.base_offset + header.last_offset_delta + 1
                delivers = (
                    transactions.delivers(header)
                    if self._committed
                    else not header.attributes & CONTROL
                )
                if not delivers:
                    # The writer checks what it writes; what is dropped here is checked here, lest a
                    # flipped bit make a data batch look like a control batch.
                    check_crc(buffer, extent, header)
                newest = header.max_timestamp
            if upstream <= position:
                continue
            if delivers:
                kept.append(extent)
            else:
                self._verdicts["dropped"] += 1
            position = upstream
            self._epochs[section.slot] = epoch
        self._positions[section.slot] = position
        self._fetcher.moved(section.slot, position, self._epochs[section.slot])
        self._changed.add(section.slot)
        if kept and newest >= 0:
            self._note_age(section.slot, time.time() * 1000 - newest)
        return ChunkSection(section.slot, position, self._ends[section.slot], kept)

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
        verdicts = dict(self._verdicts)
        self._changed.clear()
        self._ages.clear()
        self._verdicts.clear()
        self._lease.send(
            {"read": {"ends": ends, "ages": ages, "verdicts": verdicts, "trouble": self._trouble}}
        )
