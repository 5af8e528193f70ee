"""Fencing: after `fence`, no earlier writer of this flow can append to these partitions.

A writer's producer id belongs to a transactional id that is the flow's own. Its successor raises the
epoch of that id and aborts an empty transaction over the partitions: the abort markers carry the new
epoch into each of them, and the broker refuses whatever a sleeping predecessor still sends. Raising
the epoch alone is not enough: the partition's leader would not hear of it (measured on 4.3.1).
"""

from collections.abc import Sequence
from datetime import timedelta

from kafka.protocol.metadata import FindCoordinatorRequest
from kafka.protocol.producer import AddPartitionsToTxnRequest, EndTxnRequest, InitProducerIdRequest

from heliograph.errors import FlowFenced, KafkaFault
from heliograph.kafka.cluster import Cluster, patiently
from heliograph.kafka.faults import CONCURRENT_TRANSACTIONS, FENCED, fault_for
from heliograph.model import ProducerIdentity, TopicPartition

_TRANSACTION = 1
_TIMEOUT_MS = 60_000
_PATIENCE = timedelta(seconds=60)
_NOBODY = ProducerIdentity(-1, -1)


def fence(
    cluster: Cluster, transactional_id: str, partitions: Sequence[TopicPartition]
) -> ProducerIdentity:
    """Return the identity that alone may write to `partitions` now; its sequences start at 0."""

    def attempt() -> ProducerIdentity:
        node = _coordinator(cluster, transactional_id)
        identity = _init(cluster, node, transactional_id, _NOBODY)
        if partitions:
            _add_partitions(cluster, node, transactional_id, identity, partitions)
            _abort(cluster, node, transactional_id, identity)
            # The abort is answered before its markers are written. This answers only after them, and
            # only if nobody has fenced us since: a process that slept in here must not wake up with
            # a newer epoch than its successor's.
            fenced = identity
            identity = patiently(lambda: _init(cluster, node, transactional_id, fenced), _PATIENCE)
        return identity

    return patiently(attempt, _PATIENCE)


def _coordinator(cluster: Cluster, transactional_id: str) -> int:
    request = FindCoordinatorRequest(key=transactional_id, key_type=_TRANSACTION)
    answer = cluster.call(request, newest=2)
    _check(f"find the coordinator of {transactional_id}", answer.error_code)
    return int(answer.node_id)


def _init(
    cluster: Cluster, node: int, transactional_id: str, current: ProducerIdentity
) -> ProducerIdentity:
    """Return the next epoch; with a `current` identity, only if that is still the latest."""
    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=_TIMEOUT_MS,
        producer_id=current.producer_id,
        producer_epoch=current.epoch,
    )
    answer = cluster.call(request, node, newest=4)
    _check(f"take over the producer of {transactional_id}", answer.error_code)
    return ProducerIdentity(answer.producer_id, answer.producer_epoch)


def _add_partitions(
    cluster: Cluster,
    node: int,
    transactional_id: str,
    identity: ProducerIdentity,
    partitions: Sequence[TopicPartition],
) -> None:
    by_topic: dict[str, list[int]] = {}
    for partition in partitions:
        by_topic.setdefault(partition.topic, []).append(partition.index)
    spec = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=identity.producer_id,
        v3_and_below_producer_epoch=identity.epoch,
        v3_and_below_topics=[spec(name=n, partitions=i) for n, i in by_topic.items()],
    )
    for topic in cluster.call(request, node, newest=3).results_by_topic_v3_and_below:
        for answer in topic.results_by_partition:
            name = f"{topic.name}-{answer.partition_index}"
            _check(f"fence {name} for {transactional_id}", answer.partition_error_code)


def _abort(cluster: Cluster, node: int, transactional_id: str, identity: ProducerIdentity) -> None:
    request = EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        committed=False,
    )
    _check(f"end the fence of {transactional_id}", cluster.call(request, node, newest=4).error_code)


def _check(doing: str, code: int) -> None:
    if code in FENCED:
        raise FlowFenced(doing, "the transaction coordinator")
    if code == CONCURRENT_TRANSACTIONS:
        # The markers of the one before are still being written; kafka-python calls that final.
        raise KafkaFault(doing, "CONCURRENT_TRANSACTIONS", retriable=True)
    if code:
        raise fault_for(doing, code)
