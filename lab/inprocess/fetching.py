"""Fetch, as a broker answers it: at once where there is news, and otherwise after the client's longest wait."""

from dataclasses import dataclass
from typing import Any

from kafka.protocol.consumer import FetchResponse

from lab.inprocess.code import Code, RefusedRequest
from lab.inprocess.log import UNDEFINED, Epoch, PartitionLog
from lab.inprocess.messages import Asked
from lab.inprocess.senders import Aborted
from lab.inprocess.sessions import Session, Sessions, Wanted
from lab.inprocess.topics import Topics

_BY_ID = 13
_COMMITTED = 1
_TOPIC = FetchResponse.FetchableTopicResponse
_PARTITION = _TOPIC.PartitionData


@dataclass(slots=True)
class _Read:
    """What was read of one partition."""

    error: Code = Code.NONE
    end: int = -1
    stable: int = -1
    start: int = -1
    records: bytes = b""
    diverging: Epoch | None = None
    aborted: list[Aborted] | None = None
    is_resolved: bool = True

    @property
    def is_news(self) -> bool:
        return bool((self.error and self.is_resolved) or self.diverging or self.records)

    def message(self, index: int) -> Any:
        told = _PARTITION(
            partition_index=index,
            error_code=int(self.error),
            high_watermark=self.end,
            last_stable_offset=self.stable,
            log_start_offset=self.start,
            aborted_transactions=None
            if self.aborted is None
            else [
                _PARTITION.AbortedTransaction(producer_id=a.producer_id, first_offset=a.first)
                for a in self.aborted
            ],
            preferred_read_replica=-1,
            records=self.records,
        )
        if self.diverging is not None:
            told.diverging_epoch = _PARTITION.EpochEndOffset(
                epoch=self.diverging.number, end_offset=self.diverging.start
            )
        return told


class Fetch:
    """One fetch request while it is answered."""

    def __init__(self, topics: Topics, sessions: Sessions, asked: Asked) -> None:
        self._topics = topics
        self._asked = asked
        self._request = asked.request
        self._by_id = asked.version >= _BY_ID
        self.wait = asked.request.max_wait_ms / 1000
        self._refusal = Code.NONE
        self._session, self._is_incremental = Session(), False
        try:
            self._session, self._is_incremental = sessions.open(self._request, by_id=self._by_id)
        except RefusedRequest as exc:
            self._refusal = exc.code

    def attempt(self, *, is_over: bool) -> Any:
        """Return the response; None while there is no news and the client still waits."""
        if self._refusal:
            return FetchResponse(error_code=int(self._refusal), session_id=0, responses=[])
        reads = self._read_all()
        has_something = any(read.is_resolved for _, read in reads)
        if has_something and not is_over and not self._is_enough(reads):
            return None
        return FetchResponse(
            error_code=0, session_id=self._session.number, responses=self._topics_of(reads)
        )

    def _is_enough(self, reads: list[tuple[Wanted, _Read]]) -> bool:
        size = sum(len(read.records) for _, read in reads)
        failed = any(read.is_news and not read.records for _, read in reads)
        return failed or size >= self._request.min_bytes

    def _read_all(self) -> list[tuple[Wanted, _Read]]:
        reads = []
        left = self._request.max_bytes
        is_first = True
        for wanted in self._session.wanted.values():
            try:
                read = self._read(wanted, min(wanted.max_bytes, left), is_first=is_first)
            except RefusedRequest as exc:
                read = _Read(exc.code, is_resolved=exc.code is not Code.UNKNOWN_TOPIC_ID)
            is_first = is_first and not read.records
            left = max(left - len(read.records), 0)
            reads.append((wanted, read))
        return reads

    def _read(self, wanted: Wanted, max_bytes: int, *, is_first: bool) -> _Read:
        key, index = wanted.key
        name = key if isinstance(key, str) else self._topics.name_of(key)
        if name is None:
            raise RefusedRequest(Code.UNKNOWN_TOPIC_ID)
        partition = self._topics.served(name, index, self._asked.node)
        if wanted.leader_epoch >= 0 and wanted.leader_epoch != partition.epoch:
            is_old = wanted.leader_epoch < partition.epoch
            raise RefusedRequest(Code.FENCED_LEADER_EPOCH if is_old else Code.UNKNOWN_LEADER_EPOCH)
        log = partition.log
        read = _Read(end=log.end, stable=log.last_stable, start=log.start)
        read.aborted = [] if self._is_committed else None
        read.diverging = _find_divergence(log, wanted)
        if read.diverging is not None:
            return read
        log.check_offset(wanted.offset)
        until = log.last_stable if self._is_committed else log.end
        read.records = log.read(wanted.offset, until, max_bytes, one_at_least=is_first)
        if self._is_committed and read.records:
            read.aborted = log.aborted_within(wanted.offset, until)
        return read

    @property
    def _is_committed(self) -> bool:
        return bool(self._request.isolation_level == _COMMITTED)

    def _topics_of(self, reads: list[tuple[Wanted, _Read]]) -> list[Any]:
        grouped: dict[Any, list[Any]] = {}
        for wanted, read in reads:
            now = read.end, read.start
            is_same = read.is_resolved and not read.is_news and wanted.known == now
            if self._is_incremental and is_same:
                continue
            wanted.known = None if read.error else now
            if self._session.number and read.records:
                self._session.sent_records(wanted.key)
            grouped.setdefault(wanted.key[0], []).append(read.message(wanted.key[1]))
        named = "topic_id" if self._by_id else "topic"
        return [_TOPIC(**{named: key, "partitions": members}) for key, members in grouped.items()]


def _find_divergence(log: PartitionLog, wanted: Wanted) -> Epoch | None:
    """Return where the log parts from the one that a client has read (KIP-320)."""
    if wanted.fetched_epoch < 0:
        return None
    ended = log.end_of_epoch(wanted.fetched_epoch)
    if ended.start == UNDEFINED:
        raise RefusedRequest(Code.OFFSET_OUT_OF_RANGE)
    parts = ended.number < wanted.fetched_epoch or ended.start < wanted.offset
    return ended if parts else None
