"""A flow's stream in transactions: records and the positions after them become visible together, or not at all.

Every slice has a transactional id of its own and commits by itself, so remote topics may have other
writers: nothing is read back from them. What counts is what was committed: where an attempt ended before
it was done, positions are read from the ledger again, after its transaction was settled. The flow's own
id tells drivers apart: one that was superseded finds out before its next attempt.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from heliograph.dataplane.assignment import Claim, Ledger
from heliograph.dataplane.job import FlowJob
from heliograph.dataplane.partitions import Attempt, Partition
from heliograph.kafka.transactions import slice_id, take_over
from heliograph.model import Position, ProducerIdentity, TopicPartition

Saved = Callable[[], Mapping[TopicPartition, Position]]


class TransactionalJob(FlowJob):
    """Runs one flow whose writers commit positions with their records."""

    reads_tails = False

    def __init__(
        self, *given: Any, ledger: Ledger, saved: Saved, own: ProducerIdentity, **named: Any
    ) -> None:
        """Take what FlowJob takes, the ledger, how to read it, and the flow's own identity."""
        super().__init__(*given, **named)
        self._ledger = ledger
        self._saved = saved
        self._own = own
        self._turns: Counter[int] = Counter()
        self._held: dict[TopicPartition, tuple[int, int]] = {}

    def _handed_over(self, _partition: Partition) -> bool:
        return False  # a new epoch costs one request, and sequences start anew with it

    def _take_over(self, slice_index: int, partitions: Sequence[Partition]) -> ProducerIdentity:
        flow = self._options.transactional_id
        self._own = take_over(self._target, flow, self._own)
        identity = self._settle(slice_index)
        torn = [p for p in partitions if not p.clean]
        for partition in torn:
            index, turn = self._held.get(partition.source, (slice_index, -1))
            if self._turns[index] == turn:
                self._settle(index)  # nobody has since whoever held it last under that id
        if torn:
            saved = self._saved()
            with self._lock:
                for partition in torn:
                    partition.position = saved.get(partition.source, partition.position)
        for partition in partitions:
            self._held[partition.source] = slice_index, self._turns[slice_index]
        return replace(identity, transactional=True)

    def _settle(self, slice_index: int) -> ProducerIdentity:
        """Return the next identity of a slice; what it left open is aborted by then."""
        self._turns[slice_index] += 1
        return take_over(self._target, slice_id(self._options.transactional_id, slice_index))

    def _new_attempt(self, claim: Claim) -> Attempt:
        attempt = super()._new_attempt(claim)
        attempt.ledger = replace(
            self._ledger,
            transactional_id=slice_id(self._options.transactional_id, claim.slice_index),
            remote_ids=tuple(partition.remote_id for partition in attempt.slots),
        )
        return attempt
