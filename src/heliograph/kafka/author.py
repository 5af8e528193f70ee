"""Who signs the rows of a driver's own topics: a fenced identity, with a sequence for each partition.

A driver that was succeeded finds its rows refused, and a row that was held up on its way cannot land behind a later
one: whatever becomes of a write that failed, the next one has a new epoch.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from heliograph.model import ProducerIdentity, TopicPartition
from heliograph.wire.record_batch import next_sequence


@dataclass(slots=True)
class Author:
    """One identity on one cluster; for one thread at a time. `renew` returns its next epoch, or raises FlowFenced."""

    identity: ProducerIdentity
    renew: Callable[[], ProducerIdentity]
    _sequences: dict[TopicPartition, int] = field(default_factory=dict)
    _is_stale: bool = False

    def sign(self, partition: TopicPartition, count: int) -> tuple[ProducerIdentity, int]:
        """Return as whom, and from which sequence on, `count` rows are written to a partition."""
        sequence = self._sequences.get(partition, 0)
        self._sequences[partition] = next_sequence(sequence, count)
        return self.identity, sequence

    def give_up(self) -> None:
        """Take note that rows were signed of which nobody knows whether they were stored."""
        self._is_stale = True

    def prepare(self) -> None:
        """Take a new epoch if rows may be on their way; before anything is signed."""
        if self._is_stale:
            self.identity = self.renew()
            self._sequences.clear()
            self._is_stale = False
