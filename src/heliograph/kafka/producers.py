"""Which producer has the transaction that keeps a partition's last stable offset where it is.

    DescribeProducers     brokers from 2.8, Read on the topic             producer id, epoch, start of its transaction
    ListTransactions      from 3.0, Describe on the transactional id      the transactional id of a producer
    DescribeTransactions  from 3.0, the same                              after how long its coordinator aborts it

What a broker is too old to report, or does not allow, is left out.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final, NamedTuple

from kafka.protocol.admin import (
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
)

from heliograph.errors import ClusterUnreachable, CorruptRecord, DeadlinePassed, KafkaFault
from heliograph.kafka.cluster import Cluster
from heliograph.model import TopicPartition

log = logging.getLogger(__name__)

_UNANSWERED: Final = (KafkaFault, ClusterUnreachable, DeadlinePassed, CorruptRecord)


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that has not ended: where it begins, and what brokers report about its producer.

    `timeout` is how long after its beginning its coordinator aborts it; None if no coordinator reports it.
    """

    start_offset: int
    producer_id: int | None = None
    epoch: int | None = None
    last_write_ms: int | None = None
    transactional_id: str | None = None
    timeout: timedelta | None = None


class _Named(NamedTuple):
    """What a coordinator reports about a producer: `covers` are the partitions where its transaction is open."""

    transactional_id: str
    timeout: timedelta | None = None
    covers: frozenset[TopicPartition] = frozenset()


def find_open_transactions(
    cluster: Cluster, stable: Mapping[TopicPartition, int]
) -> dict[TopicPartition, OpenTransaction | None]:
    """Return the transaction that keeps each partition's last stable offset at `stable`; None if it has ended.

    A partition whose leader does not say is left out. Raises only if no broker answers at all.
    """
    open_ones = _describe_producers(cluster, stable)
    ids = {t.producer_id for t in open_ones.values() if t and t.producer_id is not None}
    named = _name_producers(cluster, ids)
    return {
        partition: _with_name(transaction, partition, named)
        for partition, transaction in open_ones.items()
    }


def select_open(
    transactions: Iterable[OpenTransaction], stable_offset: int
) -> OpenTransaction | None:
    """Return the transaction that keeps the last stable offset where it is; None if it has ended.

    It begins at `stable_offset`, or before it if the source has deleted its first records.
    """
    first = min(transactions, key=lambda each: each.start_offset, default=None)
    return first if first is not None and first.start_offset <= stable_offset else None


def _describe_producers(
    cluster: Cluster, stable: Mapping[TopicPartition, int]
) -> dict[TopicPartition, OpenTransaction | None]:
    topics = cluster.describe_each({partition.topic for partition in stable}).found
    by_leader: dict[int, dict[str, list[int]]] = {}
    for partition in stable:
        topic = topics.get(partition.topic)
        if topic is not None and topic.leads(partition.index):
            members = by_leader.setdefault(topic.leaders[partition.index], {})
            members.setdefault(partition.topic, []).append(partition.index)
    spec = DescribeProducersRequest.TopicRequest
    open_ones: dict[TopicPartition, OpenTransaction | None] = {}
    for leader, members in by_leader.items():
        wanted = [spec(name=name, partition_indexes=indexes) for name, indexes in members.items()]
        answer = _ask(cluster, DescribeProducersRequest(topics=wanted), leader)
        for topic in answer.topics if answer else ():
            for described in topic.partitions:
                partition = TopicPartition(topic.name, described.partition_index)
                if partition in stable and not described.error_code:
                    open_ones[partition] = select_open(_open_at(described), stable[partition])
    return open_ones


def _open_at(described: Any) -> Iterator[OpenTransaction]:
    for producer in described.active_producers:
        if producer.current_txn_start_offset >= 0:
            yield OpenTransaction(
                start_offset=producer.current_txn_start_offset,
                producer_id=producer.producer_id,
                epoch=producer.producer_epoch,
                last_write_ms=producer.last_timestamp,
            )


def _name_producers(cluster: Cluster, ids: set[int]) -> dict[int, _Named]:
    """Return the producers that a coordinator names; any broker may be the coordinator of one."""
    named: dict[int, _Named] = {}
    for node in sorted(cluster.addresses()):
        missing = sorted(ids - named.keys())
        if not missing:
            break
        request = ListTransactionsRequest(state_filters=[], producer_id_filters=missing)
        answer = _ask(cluster, request, node)
        listed = answer.transaction_states if answer else ()
        names = {state.producer_id: state.transactional_id for state in listed}
        named |= {producer_id: _Named(name) for producer_id, name in names.items()}
        if names:
            named |= _describe_transactions(cluster, node, list(names.values()))
    return named


def _describe_transactions(cluster: Cluster, node: int, names: list[str]) -> dict[int, _Named]:
    answer = _ask(cluster, DescribeTransactionsRequest(transactional_ids=names), node)
    return {
        state.producer_id: _Named(
            state.transactional_id,
            timedelta(milliseconds=state.transaction_timeout_ms),
            frozenset(TopicPartition(t.topic, i) for t in state.topics for i in t.partitions),
        )
        for state in (answer.transaction_states if answer else ())
        if not state.error_code
    }


def _with_name(
    transaction: OpenTransaction | None, partition: TopicPartition, named: Mapping[int, _Named]
) -> OpenTransaction | None:
    if transaction is None or transaction.producer_id is None:
        return transaction
    producer = named.get(transaction.producer_id)
    if producer is None:
        return transaction
    return replace(
        transaction,
        transactional_id=producer.transactional_id,
        timeout=producer.timeout if partition in producer.covers else None,
    )


def _ask(cluster: Cluster, request: Any, node: int) -> Any | None:
    """Return what a broker answers; None if it is too old or away."""
    try:
        return cluster.call(request, node, newest=0)
    except _UNANSWERED as exc:
        log.debug("cluster=%s broker=%d not asked: %s", cluster.endpoint.cluster, node, exc)
        return None
