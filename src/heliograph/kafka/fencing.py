"""Fencing: after `fence`, no earlier writer of this flow can append to these partitions.

A writer's producer id belongs to a transactional id that is the flow's own. Its successor raises the
epoch of that id and aborts an empty transaction over the partitions: the abort markers carry the new
epoch into each of them, and the broker refuses whatever a sleeping predecessor still sends. Raising
the epoch alone is not enough: the partition's leader would not hear of it (measured on 4.3.1).
"""

from collections.abc import Sequence
from datetime import timedelta

from heliograph.kafka.cluster import Cluster, patiently
from heliograph.kafka.transactions import (
    add_partitions,
    end_transaction,
    find_coordinator,
    next_epoch,
)
from heliograph.model import ProducerIdentity, TopicPartition

_PATIENCE = timedelta(seconds=60)


def fence(
    cluster: Cluster, transactional_id: str, partitions: Sequence[TopicPartition]
) -> ProducerIdentity:
    """Return the identity that alone may write to `partitions` now; its sequences start at 0."""

    def attempt() -> ProducerIdentity:
        node = find_coordinator(cluster, transactional_id)
        identity = next_epoch(cluster, node, transactional_id)
        if partitions:
            add_partitions(cluster, node, transactional_id, identity, partitions)
            end_transaction(cluster, node, transactional_id, identity, commit=False)
            # The abort is answered before its markers are written. This answers only after them, and
            # only if nobody has fenced us since: a process that slept in here must not wake up with
            # a newer epoch than its successor's.
            fenced = identity
            identity = patiently(
                lambda: next_epoch(cluster, node, transactional_id, fenced), _PATIENCE
            )
        return identity

    return patiently(attempt, _PATIENCE)
