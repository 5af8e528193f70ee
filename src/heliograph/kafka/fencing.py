"""Fencing: after `fence`, no earlier writer of this name can append to these partitions.

A writer's producer id belongs to a transactional id. Its successor raises the epoch of that id and aborts
an empty transaction over the partitions: the abort markers carry the new epoch into each of them, and the broker
refuses whatever a sleeping predecessor still sends. Raising the epoch alone is not enough: the partition's
leader would not hear of it (measured on 4.3.1). A coordinator that has forgotten the id (after
`transactional.id.expiration.ms`) gives a new producer id, whose markers fence nobody: see driving/ownership.py.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import NamedTuple

from heliograph.errors import KafkaFault
from heliograph.kafka.cluster import Cluster, patiently
from heliograph.kafka.transactions import (
    add_partitions,
    end_transaction,
    find_coordinator,
    next_epoch,
    try_partitions,
)
from heliograph.model import ProducerIdentity, TopicPartition

_PATIENCE = timedelta(seconds=60)


class Fenced(NamedTuple):
    """The identity that alone may write now, and why some partitions were not fenced."""

    identity: ProducerIdentity
    refused: Mapping[TopicPartition, str]


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


def fence_group(
    cluster: Cluster,
    transactional_id: str,
    identity: ProducerIdentity,
    partitions: Sequence[TopicPartition],
    within: timedelta,
) -> Fenced:
    """Fence what can be fenced of some partitions, as the holder of `identity`; its sequences start at 0.

    A partition that the coordinator refuses (no such topic, no right) is left out. Raises FlowFenced if
    `identity` is not the latest, and KafkaFault if markers are not written within that time.
    """
    refused: dict[TopicPartition, str] = {}

    def attempt() -> ProducerIdentity:
        node = find_coordinator(cluster, transactional_id)
        wanted = [partition for partition in partitions if partition not in refused]
        refused.update(try_partitions(cluster, node, transactional_id, identity, wanted))
        joined = [partition for partition in wanted if partition not in refused]
        if not joined:
            return identity
        if len(joined) < len(wanted):
            # One refusal leaves all of them out.
            raise KafkaFault(f"fence {len(joined)} partitions", "OPERATION_NOT_ATTEMPTED", True)
        end_transaction(cluster, node, transactional_id, identity, commit=False)
        return identity

    patiently(attempt, within)
    if len(refused) == len(partitions):
        return Fenced(identity, refused)

    def settled() -> ProducerIdentity:
        node = find_coordinator(cluster, transactional_id)
        return next_epoch(cluster, node, transactional_id, identity)

    return Fenced(patiently(settled, within), refused)


def open_identity(
    cluster: Cluster, transactional_id: str, current: ProducerIdentity, within: timedelta
) -> ProducerIdentity:
    """Return the next epoch of an id, only if `current` is the latest; of whoever had it, for NOBODY."""

    def attempt() -> ProducerIdentity:
        node = find_coordinator(cluster, transactional_id)
        return next_epoch(cluster, node, transactional_id, current)

    return patiently(attempt, within)
