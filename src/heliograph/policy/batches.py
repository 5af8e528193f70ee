"""What happens to a batch: a decision over its header alone, so that no record is decoded to make it.

control batch, batch of an aborted transaction      DROP (they were never delivered)
holes, LogAppendTime, delete horizon, old magic,
larger than the target takes                        REENCODE (a consumer sees the same records; small ones in common)
small                                               MERGE with waiting neighbours, alone PASS
anything else                                       PASS (the payload is not touched)
"""

from collections.abc import Iterable
from enum import Enum

from heliograph.wire.record_batch import (
    APPEND_TIME,
    CONTROL,
    DELETE_HORIZON,
    TRANSACTIONAL,
    BatchHeader,
)

_NEEDS_REENCODING = APPEND_TIME | DELETE_HORIZON

# Below this, sending a separate batch costs more than encoding its records into a common one.
SMALL_RECORDS = 16
SMALL_BYTES = 8 << 10


class Verdict(Enum):
    PASS = "pass"  # noqa: S105 - a verdict, not a password
    MERGE = "merge"
    REENCODE = "reencode"


def judge(header: BatchHeader, size: int, *, target_max_bytes: int) -> Verdict:
    """Return what to do with a deliverable batch of `size` bytes."""
    if (
        header.magic != 2
        or header.attributes & _NEEDS_REENCODING
        or header.records != header.last_offset_delta + 1
        or size > target_max_bytes
    ):
        return Verdict.REENCODE
    return Verdict.MERGE if is_small(header.records, size) else Verdict.PASS


def is_small(records: int, size: int) -> bool:
    """Whether a batch is worth merging with its neighbours."""
    return records <= SMALL_RECORDS and size <= SMALL_BYTES


class AbortedTransactions:
    """Identifies the batches of aborted transactions in one fetched range; pass them in offset order.

    A fetch response lists every aborted transaction that touches its range, so a new object is made
    per partition and response.
    """

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        self._coming = sorted(((first, producer) for producer, first in aborted), reverse=True)
        self._open: set[int] = set()

    def delivers(self, header: BatchHeader) -> bool:
        """Return whether a read_committed consumer would see this batch's records."""
        last = header.base_offset + header.last_offset_delta
        while self._coming and self._coming[-1][0] <= last:
            self._open.add(self._coming.pop()[1])
        if header.attributes & CONTROL:
            # Commit or abort: either way this producer's open transaction ends here.
            self._open.discard(header.producer_id)
            return False
        return not (header.attributes & TRANSACTIONAL and header.producer_id in self._open)
