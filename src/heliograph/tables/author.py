"""The signer of the rows in a driver's own topics: a fenced identity, with a sequence for each partition.

The rows of a driver that has a successor are refused, and a row that was delayed on its way cannot be stored after a
later one: whatever the outcome of a failed write, the next one has a new epoch.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from heliograph.model import ProducerIdentity, TopicPartition
from heliograph.wire.record_batch import next_sequence


@dataclass(slots=True)
class Author:
    """One identity on one cluster; for one thread at a time. `renew` returns its next epoch, or raises FlowFenced.

    `producer` returns the producer id that it has now: one that has used up its epochs gets another.
    """

    identity: ProducerIdentity
    renew: Callable[[], ProducerIdentity]
    producer: Callable[[], int] | None = None
    _sequences: dict[TopicPartition, int] = field(default_factory=dict)
    _stale: set[TopicPartition] = field(default_factory=set)

    def sign(self, partition: TopicPartition, count: int) -> tuple[ProducerIdentity, int]:
        """Return the identity, and the first sequence, with which `count` rows are written to a partition."""
        sequence = self._sequences.get(partition, 0)
        self._sequences[partition] = next_sequence(sequence, count)
        return self.identity, sequence

    def give_up(self, partitions: Iterable[TopicPartition]) -> None:
        """Note that rows of these partitions were signed and may or may not have been stored."""
        self._stale.update(partitions)

    def prepare(self, partitions: Iterable[TopicPartition]) -> None:
        """Take a new epoch if rows of these partitions may be on their way; call this before signing anything."""
        is_other = self.producer is not None and self.producer() != self.identity.producer_id
        if is_other or not self._stale.isdisjoint(partitions):
            self.identity = self.renew()
            self._sequences.clear()
            self._stale.clear()
