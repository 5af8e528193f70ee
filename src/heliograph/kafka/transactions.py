"""Transactions as a Kafka client runs them: begun by adding partitions, ended for all of them at once."""

import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TypeVar

from kafka.protocol.metadata import FindCoordinatorRequest
from kafka.protocol.producer import AddPartitionsToTxnRequest, EndTxnRequest, InitProducerIdRequest

from heliograph.errors import FlowFenced, KafkaFault
from heliograph.kafka.cluster import Cluster, patiently
from heliograph.model import ProducerIdentity, TopicPartition
from heliograph.net.faults import (
    CONCURRENT_TRANSACTIONS,
    FENCED,
    LOST_TOPIC,
    OPERATION_NOT_ATTEMPTED,
    fault_for,
)

T = TypeVar("T")

_TRANSACTION = 1
_TIMEOUT_MS = 60_000
_PATIENCE = timedelta(seconds=60)
_PAUSE = timedelta(milliseconds=5)
_HEARD_OF = 1.0  # seconds after which a coordinator certainly knows a new topic

_SLICES = 32

NOBODY = ProducerIdentity(-1, -1)


def slice_id(transactional_id: str, index: int) -> str:
    """Return the transactional id of one slice of a flow: each slice has separate transactions."""
    return f"{transactional_id}-{index}"


def find_coordinator(cluster: Cluster, transactional_id: str) -> int:
    """Return the transaction coordinator of an id."""
    request = FindCoordinatorRequest(key=transactional_id, key_type=_TRANSACTION)
    answer = cluster.call(request, newest=2)
    _check(f"find the coordinator of {transactional_id}", answer.error_code)
    return int(answer.node_id)


def next_epoch(
    cluster: Cluster, node: int, transactional_id: str, current: ProducerIdentity = NOBODY
) -> ProducerIdentity:
    """Return the next epoch; with a `current` identity, only if that is still the latest.

    A transaction that an earlier epoch left open is aborted.
    """
    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=_TIMEOUT_MS,
        producer_id=current.producer_id,
        producer_epoch=current.epoch,
    )
    answer = cluster.call(request, node, newest=4)
    _check(f"take over the producer of {transactional_id}", answer.error_code)
    return ProducerIdentity(answer.producer_id, answer.producer_epoch)


def take_over(
    cluster: Cluster, transactional_id: str, current: ProducerIdentity = NOBODY
) -> ProducerIdentity:
    """Return the next epoch of an id, wherever its coordinator is, with retries."""

    def attempt() -> ProducerIdentity:
        return next_epoch(
            cluster, find_coordinator(cluster, transactional_id), transactional_id, current
        )

    return patiently(attempt, _PATIENCE)


def settle_slices(cluster: Cluster, transactional_id: str, slices: int = _SLICES) -> None:
    """Abort the transactions that any slice of a flow has left open.

    A predecessor may have had more slices than we have; up to 32 are known only to the coordinator.
    """
    for index in range(max(slices, _SLICES)):
        take_over(cluster, slice_id(transactional_id, index))


def try_partitions(
    cluster: Cluster,
    node: int,
    transactional_id: str,
    identity: ProducerIdentity,
    partitions: Sequence[TopicPartition],
) -> dict[TopicPartition, str]:
    """Begin a transaction, or add more partitions to it.

    Return why some are refused permanently: then none of them is added.
    """
    refused = {}
    for partition, code in _add(cluster, node, transactional_id, identity, partitions):
        if code == OPERATION_NOT_ATTEMPTED:
            continue
        if code and code not in FENCED and code != CONCURRENT_TRANSACTIONS:
            fault = fault_for(f"write to {partition} in a transaction", code)
            if not fault.retriable or code in LOST_TOPIC:
                refused[partition] = str(fault)
                continue
        _check(f"let {transactional_id} write to {partition} in a transaction", code)
    return refused


def _add(
    cluster: Cluster,
    node: int,
    transactional_id: str,
    identity: ProducerIdentity,
    partitions: Sequence[TopicPartition],
) -> list[tuple[TopicPartition, int]]:
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
    return [
        (TopicPartition(topic.name, answer.partition_index), answer.partition_error_code)
        for topic in cluster.call(request, node, newest=3).results_by_topic_v3_and_below
        for answer in topic.results_by_partition
    ]


def end_transaction(
    cluster: Cluster, node: int, transactional_id: str, identity: ProducerIdentity, *, commit: bool
) -> None:
    """Commit or abort; answered before the markers are written."""
    request = EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        committed=commit,
    )
    doing = f"{'commit' if commit else 'abort'} the transaction of {transactional_id}"
    _check(doing, cluster.call(request, node, newest=4).error_code)


class Transactions:
    """The transactions of one producer, one after the other; owned by one thread at a time."""

    def __init__(self, cluster: Cluster, transactional_id: str, identity: ProducerIdentity) -> None:
        self._cluster = cluster
        self._id = transactional_id
        self._identity = identity
        self._node: int | None = None
        self._joined: set[TopicPartition] = set()

    @property
    def is_open(self) -> bool:
        return bool(self._joined)

    def join(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, str]:
        """Add partitions; the first of them begin a transaction. Return why some are refused."""
        new = [partition for partition in partitions if partition not in self._joined]
        refused: dict[TopicPartition, str] = {}
        until = time.monotonic() + _HEARD_OF
        while new and (found := self._try(new)):
            if time.monotonic() < until:
                time.sleep(_PAUSE.total_seconds())
                continue
            refused |= found
            new = [partition for partition in new if partition not in found]
        self._joined.update(new)
        return refused

    def commit(self) -> None:
        """Make all that was written since the first `join` visible at once."""
        self._ask(
            lambda node: end_transaction(self._cluster, node, self._id, self._identity, commit=True)
        )
        self._joined.clear()

    def _try(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, str]:
        # Right after a commit its markers are still being written, for some milliseconds.
        return self._ask(
            lambda node: try_partitions(self._cluster, node, self._id, self._identity, partitions)
        )

    def _ask(self, call: Callable[[int], T]) -> T:
        def attempt() -> T:
            if self._node is None:
                self._node = find_coordinator(self._cluster, self._id)
            try:
                return call(self._node)
            except (KafkaFault, OSError):
                self._node = None  # it may have moved
                raise

        return patiently(attempt, _PATIENCE, first_pause=_PAUSE)


def _check(doing: str, code: int) -> None:
    if code in FENCED:
        raise FlowFenced(doing, "the transaction coordinator")
    if code == CONCURRENT_TRANSACTIONS:
        # The markers of the previous transaction are still being written; kafka-python calls that not retriable.
        raise KafkaFault(doing, "CONCURRENT_TRANSACTIONS", retriable=True)
    if code:
        raise fault_for(doing, code)
