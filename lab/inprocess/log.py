"""The log of one partition: batches in order, leader epochs, and what producers may append."""

from typing import NamedTuple

from lab.inprocess.batch import Batch
from lab.inprocess.code import Code, RefusedRequest
from lab.inprocess.senders import Aborted, Senders

UNDEFINED = -1


class Epoch(NamedTuple):
    number: int
    start: int


class PartitionLog:
    """A log with one copy, so that all of it is below the high watermark."""

    def __init__(self) -> None:
        self.start = 0
        self.batches: list[Batch] = []
        self.senders = Senders()
        self._epochs: list[Epoch] = []
        self._end = 0

    @property
    def end(self) -> int:
        return self._end

    @property
    def last_stable(self) -> int:
        undecided = self.senders.first_undecided()
        return self._end if undecided is None else min(undecided, self._end)

    def begin_epoch(self, number: int) -> None:
        """Note that a leader of a new epoch writes from here on."""
        self._epochs = [epoch for epoch in self._epochs if epoch.start < self._end]
        self._epochs.append(Epoch(number, self._end))

    def append(self, batch: Batch) -> int:
        """Store a batch and return its base offset; that of the first copy for one that is stored already."""
        if batch.producer_id >= 0:
            stored_at = self.senders.find_duplicate(batch)
            if stored_at is not None:
                return stored_at
            self.senders.check(batch)
        stored = self._put(batch)
        if batch.producer_id >= 0:
            self.senders.note(stored)
        return stored.base_offset

    def append_marker(self, marker: Batch, *, commit: bool) -> None:
        self.senders.note_marker(self._put(marker), commit=commit)

    def _put(self, batch: Batch) -> Batch:
        stored = batch.stored_at(self._end, self._epochs[-1].number)
        self.batches.append(stored)
        self._end = stored.next_offset
        return stored

    def check_offset(self, offset: int) -> None:
        if not self.start <= offset <= self._end:
            raise RefusedRequest(Code.OFFSET_OUT_OF_RANGE)

    def read(self, offset: int, until: int, max_bytes: int, *, one_at_least: bool) -> bytes:
        """Return batches from the one with `offset` on; the last is cut where `max_bytes` end."""
        wanted = [b for b in self.batches if b.next_offset > offset and b.base_offset < until]
        if not wanted:
            return b""
        first = len(wanted[0].data)
        if first > max_bytes and not one_at_least:
            return b""
        return b"".join(b.data for b in wanted)[: max(max_bytes, first)]

    def aborted_within(self, start: int, end: int) -> list[Aborted]:
        """Return the aborted transactions with records from `start` to before `end`."""
        return [a for a in self.senders.aborted if a.last >= start and a.first < end]

    def end_of_epoch(self, number: int) -> Epoch:
        """Return the largest epoch up to `number` and where it ends; UNDEFINED where the log does not know."""
        if not self._epochs or number > self._epochs[-1].number or number < 0:
            return Epoch(UNDEFINED, UNDEFINED)
        if number == self._epochs[-1].number:
            return Epoch(number, self._end)
        later = next(epoch for epoch in self._epochs if epoch.number > number)
        known = [epoch.number for epoch in self._epochs if epoch.number <= number]
        return Epoch(known[-1] if known else number, later.start)

    def offset_at(self, timestamp: int) -> int:
        """Return the first offset of the first batch with a record of that time or later, or UNDEFINED."""
        found = (b.base_offset for b in self.batches if b.max_timestamp >= timestamp)
        return next((max(offset, self.start) for offset in found), UNDEFINED)

    def delete_before(self, offset: int) -> None:
        """Delete records, as retention does."""
        self.start = max(self.start, min(offset, self._end))
        self.batches = [b for b in self.batches if b.next_offset > self.start]

    def truncate(self, end: int) -> None:
        """Lose the batches from `end` on, as an unclean election does; producers are known by what is left."""
        self.batches = [b for b in self.batches if b.next_offset <= end]
        self._end = self.batches[-1].next_offset if self.batches else self.start
        self._epochs = [epoch for epoch in self._epochs if epoch.start < self._end]
        self.senders = Senders()
        for batch in self.batches:
            if batch.producer_id >= 0 and not batch.is_control:
                self.senders.note(batch)
