"""Fencing: after it, no earlier writer with this transactional id can append to these partitions.

A writer's producer id belongs to a transactional id. The successor raises the epoch of that id and aborts
an empty transaction over the partitions. The abort markers carry the new epoch into each of them, and the broker
refuses whatever a sleeping predecessor still sends. Raising the epoch alone is not enough: the partition's
leader would not learn of it (measured on 4.3.1). A coordinator that has forgotten the id (after
`transactional.id.expiration.ms`) assigns a new producer id, whose markers fence no earlier writer:
see driving/ownership.py.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import NamedTuple

from heliograph.errors import KafkaFault
from heliograph.kafka.cluster import Cluster, patiently
from heliograph.kafka.transactions import (
    NOBODY,
    end_transaction,
    find_coordinator,
    next_epoch,
    try_partitions,
)
from heliograph.model import ProducerIdentity, TopicPartition

_PATIENCE = timedelta(seconds=60)
_LAST_EPOCH = 0x7FFF - 2  # beyond it the coordinator assigns a new producer id to the caller


class Fenced(NamedTuple):
    """The only identity that may write now, and why some partitions were not fenced."""

    identity: ProducerIdentity
    refused: Mapping[TopicPartition, str]


def fence(
    cluster: Cluster,
    transactional_id: str,
    partitions: Sequence[TopicPartition],
    current: ProducerIdentity = NOBODY,
) -> ProducerIdentity:
    """Return the only identity that may write to `partitions` now; its sequences start at 0.

    With a `current` identity, this succeeds only if that is still the latest.
    """
    identity = open_identity(cluster, transactional_id, current, _PATIENCE)
    fenced = fence_group(cluster, transactional_id, identity, partitions, _PATIENCE)
    for reason in fenced.refused.values():
        raise KafkaFault(f"fence the writers of {transactional_id}", reason, retriable=False)
    return fenced.identity


def fence_group(
    cluster: Cluster,
    transactional_id: str,
    identity: ProducerIdentity,
    partitions: Sequence[TopicPartition],
    within: timedelta,
) -> Fenced:
    """Fence those partitions that can be fenced, as the holder of `identity`; the new sequences start at 0.

    A partition that the coordinator refuses (no such topic, no permission) is left out. Raises FlowFenced if
    `identity` is not the latest, and KafkaFault if the markers are not written in time.
    """
    refused: dict[TopicPartition, str] = {}

    def attempt() -> None:
        wanted = [partition for partition in partitions if partition not in refused]
        if not wanted:
            return
        node = find_coordinator(cluster, transactional_id)
        refused.update(try_partitions(cluster, node, transactional_id, identity, wanted))
        if any(partition in refused for partition in wanted):
            # One refusal keeps all of them out of the transaction.
            raise KafkaFault(f"fence {len(wanted)} partitions", "OPERATION_NOT_ATTEMPTED", True)
        end_transaction(cluster, node, transactional_id, identity, commit=False)

    patiently(attempt, within)
    if len(refused) == len(partitions):
        return Fenced(identity, refused)
    # The abort is answered before its markers are written. This call returns only after they are, and only if no other
    # process has fenced us since: a process that slept here must not wake up with a newer epoch than its successor's.
    return Fenced(open_identity(cluster, transactional_id, identity, within), refused)


def open_identity(
    cluster: Cluster, transactional_id: str, current: ProducerIdentity, within: timedelta
) -> ProducerIdentity:
    """Return the next epoch of an id, only if `current` is the latest; for NOBODY, whichever identity is the latest."""

    def attempt() -> ProducerIdentity:
        node = find_coordinator(cluster, transactional_id)
        return next_epoch(cluster, node, transactional_id, current)

    return patiently(attempt, within)


def was_forgotten(before: ProducerIdentity, now: ProducerIdentity) -> bool:
    """Return whether an id has another producer id now: then `now` does not fence a writer that uses `before`."""
    return before.producer_id >= 0 and before.producer_id != now.producer_id


def is_used_up(identity: ProducerIdentity) -> bool:
    """Return whether an identity has the last epoch: the next has another producer id, though nothing was forgotten."""
    return identity.epoch >= _LAST_EPOCH
