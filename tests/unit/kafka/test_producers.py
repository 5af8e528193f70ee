import logging
from collections.abc import Iterable
from typing import Any, cast
from uuid import UUID

import pytest
from kafka.protocol.admin import DescribeProducersResponse

from heliograph.errors import DeadlinePassed, KafkaFault
from heliograph.kafka.cluster import Cluster, Described, Topic
from heliograph.kafka.producers import OpenTransaction, find_open_transactions, select_open
from heliograph.model import Endpoint, TopicPartition

EARLY, LATE = OpenTransaction(100, producer_id=1), OpenTransaction(120, producer_id=2)


def test_the_first_open_transaction_holds_the_partition_back() -> None:
    assert select_open([LATE, EARLY], 100) is EARLY


def test_a_transaction_whose_first_records_were_deleted_still_holds_the_partition_back() -> None:
    assert select_open([EARLY], 110) is EARLY


def test_a_transaction_that_begins_behind_is_not_the_one_that_was_seen() -> None:
    assert select_open([LATE], 100) is None
    assert select_open([], 100) is None


def producers(start_offset: int) -> Any:
    """Return what the leader of t-0 answers of a producer whose transaction begins there."""
    partition = DescribeProducersResponse.TopicResponse.PartitionResponse
    state = partition.ProducerState(
        producer_id=7, producer_epoch=3, last_timestamp=9, current_txn_start_offset=start_offset
    )
    answer = partition(partition_index=0, error_code=0, active_producers=[state])
    topic = DescribeProducersResponse.TopicResponse(name="t", partitions=[answer])
    return DescribeProducersResponse(topics=[topic])


class Broker:
    """The only broker of a cluster, which leads the one partition of t; it answers with what it was given, or raises."""

    endpoint = Endpoint("A", (("h", 1),))

    def __init__(self, **answers: Any) -> None:
        self._answers = answers

    def describe_each(self, names: Iterable[str]) -> Described:
        found = {name: Topic(name, UUID(int=1), (1,), internal=False) for name in names}
        return Described(found, {})

    def addresses(self) -> dict[int, tuple[str, int]]:
        return {1: ("h", 1)}

    def call(self, request: Any, node: int, newest: int) -> Any:
        del node, newest
        answer = self._answers[request.name.removesuffix("Request")]
        if isinstance(answer, Exception):
            raise answer
        return answer


PARTITION = TopicPartition("t", 0)
TOO_OLD = KafkaFault("call", "UNSUPPORTED_VERSION", retriable=False)


def ask(**answers: Any) -> dict[TopicPartition, OpenTransaction | None]:
    return find_open_transactions(cast("Cluster", Broker(**answers)), {PARTITION: 100})


def test_a_broker_before_2_8_is_left_out_and_nothing_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    assert ask(DescribeProducers=TOO_OLD) == {}
    assert not caplog.records


@pytest.mark.parametrize("answer", [TOO_OLD, DeadlinePassed("ask A", 2)])
def test_a_producer_is_known_without_its_transactional_id(answer: Exception) -> None:
    open_one = OpenTransaction(100, producer_id=7, epoch=3, last_write_ms=9)
    assert ask(DescribeProducers=producers(100), ListTransactions=answer) == {PARTITION: open_one}


def test_a_producer_between_transactions_holds_nothing_back() -> None:
    assert ask(DescribeProducers=producers(-1)) == {PARTITION: None}
