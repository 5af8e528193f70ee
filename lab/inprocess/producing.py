"""Produce, as a leader answers it: one batch per partition, checked, and stored once."""

from typing import Any

from kafka.protocol.producer import ProduceResponse

from lab.inprocess.batch import read_batch
from lab.inprocess.code import Code, RefusedRequest
from lab.inprocess.messages import Asked
from lab.inprocess.topics import Topics
from lab.inprocess.transactions import Transactions

_TOPIC = ProduceResponse.TopicProduceResponse
_PARTITION = _TOPIC.PartitionProduceResponse
_ACKS = (-1, 1)


def answer_produce(topics: Topics, transactions: Transactions, asked: Asked) -> Any:
    """Store what a request holds, and return the response; requests without acknowledgement are refused."""
    request = asked.request
    told = []
    for topic in request.topic_data:
        partitions = []
        for entry in topic.partition_data:
            try:
                if request.acks not in _ACKS:
                    raise RefusedRequest(Code.INVALID_REQUIRED_ACKS)
                offset, start = _append(topics, transactions, asked, topic.name, entry)
                partitions.append(_answer(entry.index, Code.NONE, offset, start))
            except RefusedRequest as exc:
                partitions.append(_answer(entry.index, exc.code))
        told.append(_TOPIC(name=topic.name, partition_responses=partitions))
    return ProduceResponse(responses=told)


def _append(
    topics: Topics, transactions: Transactions, asked: Asked, name: str, entry: Any
) -> tuple[int, int]:
    partition = topics.served(name, entry.index, asked.node)
    batch = read_batch(entry.records, topics.by_name[name].max_message_bytes)
    if batch.is_transactional:
        if asked.request.transactional_id is None:
            raise RefusedRequest(Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if not transactions.has(batch.producer_id, name, entry.index):
            raise RefusedRequest(Code.INVALID_TXN_STATE)
    return partition.log.append(batch), partition.log.start


def _answer(index: int, code: Code, offset: int = -1, start: int = -1) -> Any:
    return _PARTITION(
        index=index,
        error_code=int(code),
        base_offset=offset,
        log_append_time_ms=-1,
        log_start_offset=start,
        record_errors=[],
        error_message=None,
    )
