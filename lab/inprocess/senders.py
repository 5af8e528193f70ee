"""What a partition knows of its producers: epochs, the last five batches of each, and open transactions."""

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from lab.inprocess.batch import Batch
from lab.inprocess.code import Code, RefusedRequest

_REMEMBERED = 5
_LAST_SEQUENCE = (1 << 31) - 1


class Stored(NamedTuple):
    first: int
    last: int
    base_offset: int


@dataclass(slots=True)
class _Sender:
    epoch: int
    stored: deque[Stored] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    transaction_from: int | None = None


class Aborted(NamedTuple):
    """An aborted transaction: the offset of its first record and that of its marker."""

    producer_id: int
    first: int
    last: int


class Senders:
    """The producers of one partition."""

    def __init__(self) -> None:
        self._known: dict[int, _Sender] = {}
        self.aborted: list[Aborted] = []

    def find_duplicate(self, batch: Batch) -> int | None:
        """Return where a batch is that was stored before, if it is one of the producer's last five."""
        sender = self._known.get(batch.producer_id)
        if sender is None or sender.epoch != batch.producer_epoch:
            return None
        for stored in sender.stored:
            if (stored.first, stored.last) == (batch.sequence, batch.last_sequence):
                return stored.base_offset
        return None

    def check(self, batch: Batch) -> None:
        """Raise unless a batch is the next one of its producer; any is the first of an unknown producer."""
        sender = self._known.get(batch.producer_id)
        if sender is None:
            return
        if batch.producer_epoch < sender.epoch:
            raise RefusedRequest(Code.INVALID_PRODUCER_EPOCH)
        is_new = batch.producer_epoch > sender.epoch or not sender.stored
        expected = 0 if is_new else _after(sender.stored[-1].last)
        if batch.sequence != expected:
            raise RefusedRequest(Code.OUT_OF_ORDER_SEQUENCE_NUMBER)

    def note(self, batch: Batch) -> None:
        """Remember a batch that was stored."""
        sender = self._known.get(batch.producer_id)
        if sender is None or sender.epoch != batch.producer_epoch:
            sender = self._known[batch.producer_id] = _Sender(batch.producer_epoch)
        sender.stored.append(Stored(batch.sequence, batch.last_sequence, batch.base_offset))
        if batch.is_transactional and sender.transaction_from is None:
            sender.transaction_from = batch.base_offset

    def note_marker(self, marker: Batch, *, commit: bool) -> None:
        """End a producer's transaction; its next batch has the sequence 0."""
        sender = self._known.get(marker.producer_id)
        if sender is not None and sender.transaction_from is not None and not commit:
            first = sender.transaction_from
            self.aborted.append(Aborted(marker.producer_id, first, marker.base_offset))
        if sender is None or sender.epoch != marker.producer_epoch:
            self._known[marker.producer_id] = _Sender(marker.producer_epoch)
        else:
            sender.transaction_from = None

    def first_undecided(self) -> int | None:
        """Return the offset of the first record whose transaction is open."""
        opened = [s.transaction_from for s in self._known.values()]
        return min((offset for offset in opened if offset is not None), default=None)

    def forget(self) -> None:
        """Lose everything, as a broker does after `producer.id.expiration.ms`."""
        self._known.clear()


def _after(sequence: int) -> int:
    return 0 if sequence == _LAST_SEQUENCE else sequence + 1
