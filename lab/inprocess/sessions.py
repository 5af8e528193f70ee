"""Fetch sessions (KIP-227): what a broker remembers of the partitions that a connection fetches.

A request with epoch 0 begins a session, one with epoch -1 has none. Others name a session and its next epoch, and list
only what is new or forgotten; their answers hold only what has changed.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from uuid import UUID

from lab.inprocess.code import Code, RefusedRequest

Key: TypeAlias = tuple[UUID | str | None, int]

_NONE = -1
_LAST = (1 << 31) - 1


@dataclass(slots=True)
class Wanted:
    """A partition in a fetch; `known` is the high watermark and log start that the client was told last."""

    key: Key
    offset: int
    max_bytes: int
    leader_epoch: int
    fetched_epoch: int
    known: tuple[int, int] | None = None


@dataclass(slots=True)
class Session:
    """A session of a client; without an id, it lasts for one request."""

    number: int = 0
    epoch: int = 1
    by_id: bool = False
    wanted: dict[Key, Wanted] = field(default_factory=dict)

    def update(self, request: Any, *, by_id: bool) -> None:
        """Add what a request lists, and then remove what it forgets."""
        for entry in read_wanted(request, by_id=by_id):
            before = self.wanted.get(entry.key)
            entry.known = None if before is None else before.known
            self.wanted[entry.key] = entry
        for topic in request.forgotten_topics_data or ():
            for index in topic.partitions:
                self.wanted.pop((topic.topic_id if by_id else topic.topic, index), None)

    def sent_records(self, key: Key) -> None:
        """Put a partition last: those that got nothing come first in the next answer."""
        self.wanted[key] = self.wanted.pop(key)


class Sessions:
    """The sessions of one broker, at most `room` of them."""

    def __init__(self, node: int) -> None:
        self.room = 1000
        self._open: dict[int, Session] = {}
        self._last = node << 20  # no other broker has a session of the same number

    def open(self, request: Any, *, by_id: bool) -> tuple[Session, bool]:
        """Return the session of a request, and whether its answer leaves out what has not changed."""
        if request.session_epoch in (0, _NONE):
            self._open.pop(request.session_id, None)
            session = Session(by_id=by_id)
            session.update(request, by_id=by_id)
            if request.session_epoch == 0 and len(self._open) < self.room:
                self._last += 1
                session.number = self._last
                self._open[session.number] = session
            return session, False
        known = self._open.get(request.session_id)
        if known is None:
            raise RefusedRequest(Code.FETCH_SESSION_ID_NOT_FOUND)
        if known.epoch != request.session_epoch:
            raise RefusedRequest(Code.INVALID_FETCH_SESSION_EPOCH)
        known.update(request, by_id=by_id)
        known.epoch = 1 if known.epoch == _LAST else known.epoch + 1
        if not known.wanted:
            del self._open[known.number]
            return Session(by_id=by_id), False
        return known, True

    def forget(self) -> None:
        """Lose all sessions, as a broker that was restarted has."""
        self._open.clear()


def read_wanted(request: Any, *, by_id: bool) -> Iterator[Wanted]:
    for topic in request.topics or ():
        for entry in topic.partitions:
            yield Wanted(
                (topic.topic_id if by_id else topic.topic, entry.partition),
                entry.fetch_offset,
                entry.partition_max_bytes,
                -1 if entry.current_leader_epoch is None else entry.current_leader_epoch,
                -1 if entry.last_fetched_epoch is None else entry.last_fetched_epoch,
            )
