"""Producer ids, and transactions as their coordinator keeps them.

The markers of a transaction are written when it is ended, before the answer. A real coordinator answers first, and for
some milliseconds answers CONCURRENT_TRANSACTIONS to what follows.
"""

import time
from dataclasses import dataclass, field
from typing import Any

from kafka.protocol.metadata import FindCoordinatorResponse
from kafka.protocol.producer import (
    AddPartitionsToTxnResponse,
    EndTxnResponse,
    InitProducerIdResponse,
)

from lab.inprocess.batch import make_marker
from lab.inprocess.code import Code
from lab.inprocess.messages import Asked
from lab.inprocess.topics import Topics

_NOBODY = -1
_NAMES_ITSELF = 3  # the first version of InitProducerId with the identity that its sender has
_FENCES_BY_NAME = (
    4  # the first version of InitProducerId in which a fenced producer learns it by that name
)
_NAMED_SINCE = {22: _FENCES_BY_NAME, 24: 2, 26: 2}
_RESULT = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult


@dataclass(slots=True)
class _Owner:
    """The latest producer with a transactional id, and the partitions in its open transaction."""

    producer_id: int
    epoch: int
    joined: set[tuple[str, int]] = field(default_factory=set)


class Transactions:
    """All transactional ids of a cluster."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._owners: dict[str, _Owner] = {}
        self._last_id = 1000

    def has(self, producer_id: int, topic: str, index: int) -> bool:
        """Whether a producer has a partition in its open transaction."""
        owners = (o for o in self._owners.values() if o.producer_id == producer_id)
        return any((topic, index) in owner.joined for owner in owners)

    def init(self, asked: Asked) -> Any:
        """Return a new producer id, or the next epoch of a transactional id."""
        request = asked.request
        name = request.transactional_id
        if name is None:
            self._last_id += 1
            return InitProducerIdResponse(error_code=0, producer_id=self._last_id, producer_epoch=0)
        owner = self._owners.get(name)
        if owner is None:
            self._last_id += 1
            owner = self._owners[name] = _Owner(self._last_id, -1)
        elif not _is_current(asked, owner):
            return InitProducerIdResponse(error_code=int(_fenced(asked)))
        owner.epoch += 1
        self._end(owner, commit=False)
        return InitProducerIdResponse(
            error_code=0, producer_id=owner.producer_id, producer_epoch=owner.epoch
        )

    def find_coordinator(self, node: int, host: str, port: int) -> Any:
        return FindCoordinatorResponse(
            error_code=0, error_message=None, node_id=node, host=host, port=port
        )

    def join(self, asked: Asked) -> Any:
        """Add partitions to a transaction: all of them, or none if one does not exist."""
        request = asked.request
        wanted = [(t.name, i) for t in request.v3_and_below_topics for i in t.partitions]
        code = self._check(
            asked,
            request.v3_and_below_transactional_id,
            request.v3_and_below_producer_id,
            request.v3_and_below_producer_epoch,
        )
        missing = {place for place in wanted if not self._exists(*place)}
        codes = dict.fromkeys(wanted, code)
        if not code and missing:
            codes = dict.fromkeys(wanted, Code.OPERATION_NOT_ATTEMPTED)
            codes |= dict.fromkeys(missing, Code.UNKNOWN_TOPIC_OR_PARTITION)
        elif not code:
            self._owners[request.v3_and_below_transactional_id].joined.update(wanted)
        return AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=[
                _RESULT(
                    name=topic.name,
                    results_by_partition=[
                        _RESULT.AddPartitionsToTxnPartitionResult(
                            partition_index=i, partition_error_code=int(codes[topic.name, i])
                        )
                        for i in topic.partitions
                    ],
                )
                for topic in request.v3_and_below_topics
            ]
        )

    def end(self, asked: Asked) -> Any:
        """Commit or abort a transaction."""
        request = asked.request
        name = request.transactional_id
        code = self._check(asked, name, request.producer_id, request.producer_epoch)
        if not code and not self._owners[name].joined:
            code = Code.INVALID_TXN_STATE
        if not code:
            self._end(self._owners[name], commit=request.committed)
        return EndTxnResponse(error_code=int(code))

    def _check(self, asked: Asked, name: str, producer_id: int, epoch: int) -> Code:
        owner = self._owners.get(name)
        if owner is None or owner.producer_id != producer_id:
            return Code.INVALID_PRODUCER_ID_MAPPING
        return Code.NONE if owner.epoch == epoch else _fenced(asked)

    def _exists(self, name: str, index: int) -> bool:
        topic = self._topics.by_name.get(name)
        return topic is not None and 0 <= index < len(topic.partitions)

    def _end(self, owner: _Owner, *, commit: bool) -> None:
        now = time.time_ns() // 1_000_000
        marker = make_marker(owner.producer_id, owner.epoch, commit=commit, timestamp=now)
        for name, index in sorted(owner.joined):
            if self._exists(name, index):
                log = self._topics.by_name[name].partitions[index].log
                log.append_marker(marker, commit=commit)
        owner.joined.clear()


def _is_current(asked: Asked, owner: _Owner) -> bool:
    """Whether a producer names no identity, or the latest."""
    request = asked.request
    if asked.version < _NAMES_ITSELF or request.producer_id == _NOBODY:
        return True
    return (request.producer_id, request.producer_epoch) == (owner.producer_id, owner.epoch)


def _fenced(asked: Asked) -> Code:
    named = asked.version >= _NAMED_SINCE[asked.api]
    return Code.PRODUCER_FENCED if named else Code.INVALID_PRODUCER_EPOCH
