"""From source batches to batches the target takes: passed, merged, or re-encoded.

Everything here results in `Outgoing` values, in order. Nothing waits: batches are merged only with
others that are packed with them, and a batch without a neighbour is passed as it is.
"""

from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from heliograph.copying.slot import Slot
from heliograph.errors import MirrorError
from heliograph.kafka.lane import Outgoing
from heliograph.model import ProducerIdentity
from heliograph.policy.batches import Verdict, is_small, judge
from heliograph.wire.compression import UnfoldsTooFar, compress, decompress
from heliograph.wire.primitives import Buffer
from heliograph.wire.record_batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC_AT,
    BatchHeader,
    build_header,
    next_offset_of,
    read_header,
    restamp,
)
from heliograph.wire.records import RawRecord, RecordsBuilder
from heliograph.wire.unpack import append_time_of, check_end, unfold, unpack

_WINDOW, _WIDEST_WINDOW = 2 << 10, 256 << 10


class RecordTooLarge(MirrorError):
    """One record that is too large for the remote topic."""

    def __init__(self, upstream: int, size: int, limit: int) -> None:
        super().__init__(upstream, size, limit)
        self.upstream = upstream
        self.size = size
        self.limit = limit

    def __str__(self) -> str:
        return (
            f"the record at upstream offset {self.upstream} needs a batch of {self.size} bytes "
            f"and the remote topic takes {self.limit}"
        )


class Stamped(Protocol):
    """A writer to one remote partition: a slot, or a lane that slots share."""

    identity: ProducerIdentity

    @property
    def max_message_bytes(self) -> int: ...
    def take_sequence(self, count: int) -> int: ...


class Packer:
    """Turns the source batches of sections that follow each other into batches for one remote partition."""

    def __init__(self, slot: Slot, merge_bytes: int, verdicts: Counter[str]) -> None:
        self._slot = slot
        self._limit = slot.max_message_bytes
        self._room = min(merge_bytes, self._limit // 2)
        self._verdicts = verdicts
        self._merge: _Merge | None = None

    def verdict(self, header: BatchHeader | None, size: int) -> Verdict:
        """Return what `add` would do with a batch; one without a v2 header has an old magic."""
        if header is None:
            return Verdict.REENCODE
        return judge(header, size, target_max_bytes=self._limit)

    def add(
        self, view: memoryview, header: BatchHeader | None, *, alone: bool = False
    ) -> Iterator[Outgoing]:
        """Take one source batch; yield what is ready to be sent. One that is `alone` has no other to merge with."""
        verdict = self.verdict(header, len(view))
        if alone and verdict is Verdict.MERGE:
            verdict = Verdict.PASS
        self._verdicts[verdict.value] += 1
        if header is None:
            records = unpack(view)
            if alone or len(view) > self._room or not is_small(len(records), len(view)):
                yield from self.add_records(view, records)
            else:
                yield from self._merge_records(view, records)
            return
        if verdict is Verdict.REENCODE:
            yield from self._reencode(view, header, alone=alone)
            return
        payload = view[HEADER_SIZE:]
        if verdict is Verdict.PASS:
            yield from self.flush()
            yield pass_batch(self._slot, header, payload)
            return
        try:
            plain = decompress(header.codec, payload, self._room) if header.codec else payload
        except UnfoldsTooFar:
            # It is small only while compressed: merging it gains nothing.
            yield from self.flush()
            yield pass_batch(self._slot, header, payload)
            return
        merge = self._merge
        if merge is None or merge.codec != header.codec or merge.size + len(view) > self._room:
            yield from self.flush()
            merge = self._merge = _Merge(header.codec)
        merge.add(header, payload, plain)

    def add_lone(self, chunk: memoryview, start: int, end: int) -> Generator[Outgoing, None, int]:
        """Take one-record batches in a row, from `start` on; return where they end.

        They are cut from copies of parts of the chunk: a slice of bytes costs half as much as one of a view.
        """
        window = _WINDOW + 2 * read_header(chunk, start).length
        while start < end:
            data = bytes(chunk[start : min(start + window, end)])
            at, full = 0, True
            while full:
                merge = self._merge
                if merge is None or merge.codec:
                    yield from self.flush()
                    merge = self._merge = _Merge(0)
                before = merge.batches
                at, full = merge.add_lone(data, at, self._room)
                self._verdicts[Verdict.MERGE.value] += merge.batches - before
                if full:
                    yield from self.flush()
            if not at:
                break
            start += at
            window = min(4 * window, _WIDEST_WINDOW)
        return start

    def add_records(self, view: memoryview, records: Sequence[RawRecord]) -> Iterator[Outgoing]:
        """Take some records of one source batch and re-encode them with its codec."""
        yield from self.flush()
        codec = read_header(view, 0).codec if view[MAGIC_AT] >= 2 else 0
        yield from reencode(self._slot, records, codec, next_offset_of(view, 0))

    def _reencode(
        self, view: memoryview, header: BatchHeader, *, alone: bool
    ) -> Iterator[Outgoing]:
        """Take a batch that cannot be passed: a small one is merged, a larger one becomes a separate batch."""
        plain = unfold(view, header)
        is_common = not alone and len(view) <= self._room and is_small(header.records, len(view))
        merge = self._merge if is_common else None
        if merge is None or merge.codec != header.codec or merge.size + len(view) > self._room:
            yield from self.flush()
            merge = _Merge(header.codec)
        merge.add_with_holes(header, plain)
        if is_common:
            self._merge = merge
            return
        payload = merge.payload()
        if HEADER_SIZE + len(payload) > self._limit:
            yield from reencode(self._slot, unpack(view), header.codec, header.next_offset)
        elif header.records:
            yield merge.seal(self._slot, payload)

    def _merge_records(self, view: memoryview, records: Sequence[RawRecord]) -> Iterator[Outgoing]:
        """Collect the records of a small batch that cannot be passed as it is."""
        codec = read_header(view, 0).codec if view[MAGIC_AT] >= 2 else 0
        merge = self._merge
        if merge is None or merge.codec != codec or merge.size + len(view) > self._room:
            yield from self.flush()
            merge = self._merge = _Merge(codec)
        merge.add_records(records, next_offset_of(view, 0))

    def flush(self) -> Iterator[Outgoing]:
        """Yield what was collected for merging, if anything."""
        if self._merge is not None and self._merge.builder.count:
            yield self._merge.finish(self._slot)
        self._merge = None


def pass_batch(slot: Slot, header: BatchHeader, payload: memoryview) -> Outgoing:
    """Return the batch with a new header and an unchanged payload."""
    sequence = slot.take_sequence(header.records)
    stamped = restamp(header, payload, slot.identity, sequence)
    return Outgoing(
        stamped,
        payload,
        header.records,
        header.next_offset,
        header.max_timestamp,
        ((header.base_offset, header.records),),
    )


@dataclass(slots=True)
class _Merge:
    """Small batches of one partition and codec, collected until the section ends or it is full."""

    codec: int
    builder: RecordsBuilder = field(default_factory=RecordsBuilder)
    first: tuple[BatchHeader, memoryview] | None = None
    spans: list[tuple[int, int]] = field(default_factory=list)
    batches: int = 0
    upstream: int = 0

    @property
    def size(self) -> int:
        return self.builder.size

    def add(self, header: BatchHeader, payload: memoryview, plain: Buffer) -> None:
        if self.batches == 0:
            self.first = header, payload
        if self.spans and self.upstream == header.base_offset:
            first, count = self.spans[-1]
            self.spans[-1] = first, count + header.records
        else:
            self.spans.append((header.base_offset, header.records))
        self.batches += 1
        self.upstream = header.next_offset
        self.builder.add_batch(plain, header.records, header.base_offset, header.base_timestamp)

    def add_records(self, records: Sequence[RawRecord], upstream: int) -> None:
        """Add the records of a batch that ends before `upstream`: re-encoded, even if no others follow."""
        for record in records:
            self.builder.add(record.timestamp, record.attributes, record.body)
        for first, count in spans_of(records) if records else ():
            if self.spans and sum(self.spans[-1]) == first:
                self.spans[-1] = self.spans[-1][0], self.spans[-1][1] + count
            else:
                self.spans.append((first, count))
        self.first = None
        self.batches += 1
        self.upstream = upstream

    def add_with_holes(self, header: BatchHeader, plain: Buffer) -> None:
        """Add the records of a batch that has holes, or a log append time: re-encoded, even if no others follow."""
        found = self.builder.add_with_holes(
            bytes(plain),
            header.records,
            header.base_offset,
            header.base_timestamp,
            append_time_of(header),
        )
        if found:
            check_end(header, sum(found[-1]) - 1)
            if self.spans and sum(self.spans[-1]) == found[0][0]:
                self.spans[-1] = self.spans[-1][0], self.spans[-1][1] + found.pop(0)[1]
            self.spans += found
        self.first = None
        self.batches += 1
        self.upstream = header.next_offset

    def add_lone(self, data: bytes, at: int, room: int) -> tuple[int, bool]:
        """Add ordinary one-record batches from `at` on; return where they end, and whether the merge is full."""
        if not self.batches and len(data) - at >= HEADER_SIZE:
            header = read_header(data, at)
            end = at + LOG_OVERHEAD + header.length
            # A copy: a view would keep all of `data` until this one batch is stored.
            self.first = header, memoryview(data[at + HEADER_SIZE : end])
        before = self.builder.count
        at, full = self.builder.add_lone(data, at, room, self.spans)
        self.batches += self.builder.count - before
        if self.spans:
            self.upstream = sum(self.spans[-1])
        return at, full and self.batches > 0

    def finish(self, slot: Slot) -> Outgoing:
        """Return what was collected: a lone batch passed as it is, several as one."""
        if self.batches == 1 and self.first is not None:
            return pass_batch(slot, *self.first)
        return self.seal(slot, self.payload())

    def payload(self) -> bytes:
        plain = self.builder.finish()
        return compress(self.codec, plain) if self.codec else plain

    def seal(self, slot: Slot, payload: bytes) -> Outgoing:
        """Return a batch of all that was collected."""
        return _sealed(slot, self.codec, payload, self.builder, self.upstream, spans=self.spans)


def reencode(
    slot: Stamped, records: Sequence[RawRecord], codec: int, upstream: int
) -> Iterator[Outgoing]:
    """Yield `records` in as few batches as the target's limit allows; the last ends at `upstream`."""
    if not records:
        return
    limit = slot.max_message_bytes
    builder = RecordsBuilder()
    for record in records:
        builder.add(record.timestamp, record.attributes, record.body)
    payload = compress(codec, builder.finish()) if codec else builder.finish()
    size = HEADER_SIZE + len(payload)
    if size <= limit:
        yield _sealed(slot, codec, payload, builder, upstream, spans=spans_of(records))
        return
    if len(records) == 1:
        raise RecordTooLarge(records[0].offset, size, limit)
    middle = len(records) // 2
    yield from reencode(slot, records[:middle], codec, records[middle].offset)
    yield from reencode(slot, records[middle:], codec, upstream)


def spans_of(records: Iterable[RawRecord]) -> list[tuple[int, int]]:
    """Return the offsets of `records` as (first, count) of each consecutive range."""
    spans: list[tuple[int, int]] = []
    first, end = 0, -1
    for record in records:
        if record.offset == end:
            end += 1
            continue
        if end > first:
            spans.append((first, end - first))
        first, end = record.offset, record.offset + 1
    spans.append((first, end - first))
    return spans


def _sealed(
    slot: Stamped,
    codec: int,
    payload: bytes,
    builder: RecordsBuilder,
    upstream: int,
    *,
    spans: Iterable[tuple[int, int]],
) -> Outgoing:
    header = build_header(
        payload,
        attributes=codec,
        count=builder.count,
        base_timestamp=builder.base_timestamp,
        max_timestamp=builder.max_timestamp,
        identity=slot.identity,
        sequence=slot.take_sequence(builder.count),
    )
    return Outgoing(header, payload, builder.count, upstream, builder.max_timestamp, tuple(spans))
