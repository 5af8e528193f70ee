"""Fetching raw batches: one fetch session (KIP-227) per leader, one request in flight on each. Only `ready` waits.

A broker answers the requests of a connection in order, and one without new records only after some seconds. Partitions
that are added meanwhile are fetched in a session with the number 1, over a separate connection and with a short wait,
until the first session is free and takes them over. What the second session still returns for them then is left out.

The layout of both messages is in wire/fetch_response.py. With topic ids, a topic that was deleted and recreated is an
error, instead of the new topic's records under the old name.

Requests carry the leader epoch of the last record that was read (KIP-320). A broker whose log does not continue from
there says where it diverges, in tag 0, instead of sending other records from the same offsets.
"""

import struct
import time
from collections.abc import Collection, Container, Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from heliograph.errors import CorruptRecord, KafkaFault, MirrorError
from heliograph.kafka.brokers import Brokers, await_any
from heliograph.kafka.cluster import Described
from heliograph.model import TopicPartition
from heliograph.net.faults import LOST_SESSION, fault_for
from heliograph.net.transport import REQUEST_TIMEOUT, Channel, Room, no_room
from heliograph.wire.compact import write_uvarint
from heliograph.wire.fetch_response import Section, decode_response

API_KEY = 1
READ_UNCOMMITTED = 0
READ_COMMITTED = 1

_REQUEST = struct.Struct(">iiiibii")
_PARTITION = struct.Struct(">iiqiqib")
_I32 = struct.Struct(">i")
_SHORT = timedelta(milliseconds=50)  # a broker's wait for records in a session with the number 1
_DISTRUST = 5.0  # seconds until a broker is asked again after an invalid answer
_NONE = write_uvarint(1)  # an empty array


class Response(NamedTuple):
    buffer: memoryview
    sections: list[Section]


@dataclass(slots=True)
class Subject:
    """One partition being fetched: `position` is the next offset, `epoch` the leader epoch of the record before.

    `term` is the leader epoch by which it was placed.
    """

    slot: int
    partition: TopicPartition
    topic_id: UUID
    position: int
    session: "Session | None" = None
    epoch: int = -1
    term: int = -1


@dataclass(slots=True)
class Session:
    """A fetch session with one broker; `fresh` subjects go into the next request."""

    node: int
    channel: Channel
    version: int
    number: int = 0
    session_id: int = 0
    epoch: int = 0
    subjects: dict[int, Subject] = field(default_factory=dict)
    fresh: set[int] = field(default_factory=set)
    forgotten: dict[tuple[bytes, int], Subject] = field(default_factory=dict)
    asked_at: float | None = None
    correlation: int = 0
    frame: memoryview | None = None
    buffer: bytearray = field(default_factory=bytearray)

    @property
    def waiting(self) -> bool:
        return self.asked_at is not None

    def key_of(self, subject: Subject) -> tuple[bytes, int]:
        """Return the broker's key of a partition: one that is fetched again has the same key, whatever its slot."""
        return _topic_key(self.version, subject), subject.partition.index

    def keep(self, frame: memoryview) -> None:
        """Receive later responses into the memory of this one."""
        owner = frame.obj
        if isinstance(owner, bytearray):
            self.buffer = owner


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """How much and how long one fetch may take."""

    max_bytes: int = 4 << 20
    partition_max_bytes: int = 2 << 20
    wait: timedelta = timedelta(milliseconds=500)
    isolation: int = READ_COMMITTED


class Fetcher:
    """Fetches a set of partitions from their leaders, following them when they move."""

    def __init__(self, brokers: Brokers, limits: FetchLimits) -> None:
        self._brokers = brokers
        self._limits = limits
        self._subjects: dict[int, Subject] = {}
        self._homeless: set[int] = set()
        self._paused: set[int] = set()
        self._by_key: dict[tuple[bytes | str, int], int] = {}
        self._sessions: dict[tuple[int, int], Session] = {}
        self._ended: dict[int, str] = {}
        self._not_before: dict[int, float] = {}

    def add(self, subjects: Iterable[Subject]) -> None:
        """Start fetching `subjects`; their leaders are looked up at the next `place`."""
        for subject in subjects:
            self._subjects[subject.slot] = subject
            self._homeless.add(subject.slot)
            index = subject.partition.index
            self._by_key[subject.topic_id.bytes, index] = subject.slot
            self._by_key[subject.partition.topic, index] = subject.slot

    def remove(self, slot: int) -> None:
        """Stop fetching one partition."""
        subject = self._subjects.pop(slot, None)
        if subject is not None:
            self._leave(subject)
            self._homeless.discard(slot)
            self._paused.discard(slot)
            for key in (subject.topic_id.bytes, subject.partition.topic):
                if self._by_key.get((key, subject.partition.index)) == slot:
                    del self._by_key[key, subject.partition.index]

    def pause(self, slot: int) -> None:
        """Request no more of a partition until `resume`; what is on its way is dropped, and requested again then."""
        subject = self._subjects.get(slot)
        if subject is not None and slot not in self._paused:
            self._paused.add(slot)
            if subject.session is not None:
                self._leave(subject)
                self._homeless.discard(slot)

    def resume(self, slot: int) -> None:
        """Fetch a partition again, from where it was."""
        if slot in self._paused:
            self._paused.discard(slot)
            self._homeless.add(slot)

    def moved(self, slot: int, position: int, epoch: int = -1) -> None:
        """Set the next offset to fetch of `slot` to `position`, after a record of leader epoch `epoch`."""
        subject = self._subjects.get(slot)
        if subject is None:
            return
        subject.position = position
        subject.epoch = epoch
        session = subject.session
        if session is None:
            return
        session.fresh.add(slot)
        if not session.session_id:
            # Without a session a broker fills its answer in the order of the request: one that had data goes last.
            session.subjects[slot] = session.subjects.pop(slot)

    def lost_leader(self, slots: Iterable[int]) -> None:
        """Note that the leaders of these partitions must be looked up again."""
        for slot in slots:
            if slot in self._subjects:
                self._leave(self._subjects[slot])

    def fetches(self, slot: int) -> bool:
        return slot in self._subjects

    @property
    def empty(self) -> bool:
        return not self._subjects

    @property
    def homeless(self) -> bool:
        """Whether some partition is not being fetched from a leader."""
        return bool(self._homeless - self._paused)

    @property
    def asking(self) -> bool:
        """Whether some broker owes a response."""
        return any(session.waiting for session in self._sessions.values())

    def place(self) -> dict[int, str] | None:
        """Assign every homeless partition to its leader's session; return why some still have none, by slot.

        None if that is not known yet. Raises if the cluster as a whole does not answer.
        """
        homeless = [self._subjects[slot] for slot in sorted(self._homeless - self._paused)]
        described = self._brokers.describe_each({s.partition.topic for s in homeless})
        if described is None:
            return None
        why: dict[int, str] = {}
        nodes: dict[int, Session | str | None] = {}
        for subject in homeless:
            leader = self._leader_of(subject, described)
            if isinstance(leader, str):
                why[subject.slot] = leader
                continue
            if leader not in nodes:
                nodes[leader] = self._open(leader)
            session = nodes[leader]
            if isinstance(session, Session):
                self._settle(subject, session)
            elif session is not None:
                why[subject.slot] = session
        return why

    def _leader_of(self, subject: Subject, described: Described) -> int | str:
        """Return the broker to ask for a partition, or why there is none."""
        topic, index = described.found.get(subject.partition.topic), subject.partition.index
        if topic is None and self._sessions:
            # Deleted or forbidden: any broker says so in a fetch response, which is where it is handled.
            return next(iter(self._sessions))[0]
        if topic is None or not topic.leads(index):
            return described.why_waiting(subject.partition)
        if topic.epoch_of(index) < subject.term:
            return f"{subject.partition}: the broker that was asked for its leader knows an old one"
        subject.term = topic.epoch_of(index)
        return topic.leaders[index]

    def follow_leaders(self) -> bool:
        """Leave partitions whose leader has changed while the old one has not said so; return whether that is known.

        A broker that is cut off from its cluster continues to answer, but never has new records.
        """
        placed = [s for s in self._subjects.values() if s.session is not None]
        described = self._brokers.describe_each({s.partition.topic for s in placed})
        if described is None:
            return False
        for subject in placed:
            topic, index = described.found.get(subject.partition.topic), subject.partition.index
            if topic is None or not topic.leads(index) or subject.session is None:
                continue
            is_newer = topic.epoch_of(index) > subject.term
            if is_newer and topic.leaders[index] != subject.session.node:
                self._leave(subject)
        return True

    def ask(self) -> None:
        """Send the next fetch to every broker that is not already answering one."""
        for session in list(self._sessions.values()):
            if session.waiting:
                continue
            if session.number == 0:
                self._gather(session)
            if session.channel.expires or not session.subjects:
                if session.channel.expires:
                    self._end(session)
                continue
            try:
                request = self._encode(session)
                session.correlation = session.channel.correlation
                session.asked_at = time.monotonic()
                session.channel.send([request])
            except OSError as exc:
                self._end(session, exc)

    def interest(self) -> dict[int, int]:
        """Return the descriptors to poll, and for which events."""
        return {
            s.channel.fileno(): s.channel.interest() for s in self._sessions.values() if s.waiting
        }

    def is_ready(self) -> bool:
        """Whether data is available that `poll` would not report."""
        return any(s.waiting and s.channel.pending() for s in self._sessions.values())

    def collect(self, readable: Container[int], room: Room = no_room) -> list[Session]:
        """Receive and send what is possible; return the sessions with a whole response, for `take`.

        A response is received into what `room` offers for its size, or else into a separate buffer. Without a `room`
        it is valid until that broker's next response is received.
        """
        whole = []
        for session in list(self._sessions.values()):
            if session.asked_at is None:
                continue
            channel = session.channel
            if channel.fileno() in readable or channel.pending():
                try:
                    channel.flush()
                    kept = session.buffer if room is no_room else bytearray()
                    session.frame = channel.poll_frame(kept, room)
                except (OSError, CorruptRecord) as exc:
                    self._end(session, exc)
                    continue
                if session.frame is not None:
                    if room is no_room:
                        session.keep(session.frame)
                    whole.append(session)
                    continue
            patience = self._limits.wait.total_seconds() + REQUEST_TIMEOUT.total_seconds()
            if channel.is_silent(session.asked_at, patience):
                self._end(session, TimeoutError("it does not answer"))
        return whole

    def ready(self, timeout: float) -> list[Session]:
        """Wait for a whole response; return the sessions that have one. Returns at once if no request is in flight."""
        until = time.monotonic() + timeout
        while self.asking:
            left = 0.0 if self.is_ready() else max(until - time.monotonic(), 0.0)
            sessions = self.collect(await_any(self.interest(), left))
            if sessions or time.monotonic() >= until:
                return sessions
        return []

    def take(self, session: Session) -> Response | None:
        """Return a session's response, or None if the session was lost, or was ended because of an invalid answer."""
        buffer, session.frame, session.asked_at = session.frame, None, None
        assert buffer is not None, "a session is taken when it is whole"
        try:
            error, sections = self._decode(session, buffer)
        except CorruptRecord as exc:
            self._end(session, exc)
            return None
        if error in LOST_SESSION:
            session.session_id = session.epoch = 0
            return None
        if error:
            self._end(session, fault_for("fetch", error))
            return None
        return Response(buffer, sections)

    def close(self) -> None:
        """Forget all partitions. A channel that still owes a response is closed with its session."""
        for session in list(self._sessions.values()):
            self._end(session)
        self._subjects.clear()
        self._homeless.clear()
        self._by_key.clear()

    def _open(self, node: int) -> Session | str | None:
        """Return the session with a broker; None while the connection is being opened, or why there is none."""
        number = 0
        session = self._sessions.get((node, number))
        if session is not None and session.waiting:
            number = 1
            session = self._sessions.get((node, number))
        if session is not None:
            return session
        if time.monotonic() < self._not_before.get(node, 0.0):
            return self._ended.get(node)
        try:
            channel = self._brokers.channel(node, number)
        except KafkaFault as exc:
            self._ended[node] = str(exc)
            return str(exc)
        if channel is None:
            return self._ended.get(node)
        version = 13 if channel.supports(API_KEY, 13) else 12
        if not channel.supports(API_KEY, version):
            needed = "fetch (brokers of 2.7 or later are needed)"
            return str(KafkaFault(needed, "UNSUPPORTED_VERSION", retriable=False))
        self._ended.pop(node, None)
        session = self._sessions[node, number] = Session(node, channel, version, number)
        return session

    def _settle(self, subject: Subject, session: Session) -> None:
        subject.session = session
        self._homeless.discard(subject.slot)
        session.subjects[subject.slot] = subject
        session.fresh.add(subject.slot)
        session.forgotten.pop(session.key_of(subject), None)

    def _gather(self, session: Session) -> None:
        """Move the partitions that were added for a session's broker while it was busy to that session."""
        beside = self._sessions.get((session.node, 1))
        for subject in list(beside.subjects.values()) if beside is not None else ():
            self._leave(subject)
            self._settle(subject, session)

    def _leave(self, subject: Subject) -> None:
        session, subject.session = subject.session, None
        self._homeless.add(subject.slot)
        if session is not None:
            session.subjects.pop(subject.slot, None)
            session.fresh.discard(subject.slot)
            session.forgotten[session.key_of(subject)] = subject

    def _end(self, session: Session, why: Exception | None = None) -> None:
        self._sessions.pop((session.node, session.number), None)
        self._brokers.drop(session.node, session.number)
        if why is not None:
            cluster = self._brokers.endpoint.cluster
            self._ended[session.node] = f"broker {session.node} of {cluster} is away ({why})"
        if isinstance(why, MirrorError):
            self._not_before[session.node] = time.monotonic() + _DISTRUST
        session.asked_at = None
        for subject in session.subjects.values():
            subject.session = None
            if self._subjects.get(subject.slot) is subject:
                self._homeless.add(subject.slot)

    def _encode(self, session: Session) -> bytes:
        limits = self._limits
        is_alone = not session.number or (session.node, 0) not in self._sessions
        wait = limits.wait if is_alone else min(limits.wait, _SHORT)
        whole = session.session_id == 0
        asked = (
            session.subjects.values()
            if whole
            else [session.subjects[slot] for slot in session.fresh]
        )
        parts = [
            session.channel.next_header(API_KEY, session.version, flexible=True),
            _REQUEST.pack(
                -1,
                int(wait.total_seconds() * 1000),
                1,
                limits.max_bytes,
                limits.isolation,
                session.session_id,
                session.epoch,
            ),
            _encode_topics(session.version, asked, limits.partition_max_bytes),
            _encode_forgotten(session.version, () if whole else session.forgotten.values()),
            b"\x01\0",  # no rack, no tagged fields
        ]
        session.fresh.clear()
        session.forgotten.clear()
        return b"".join(parts)

    def _decode(self, session: Session, buffer: memoryview) -> tuple[int, list[Section]]:
        try:
            (correlation,) = _I32.unpack_from(buffer)
            if correlation != session.correlation:
                raise CorruptRecord("it answered another request than the one sent")
            error, session_id, sections = decode_response(session.version, buffer, self._by_key)
        except (struct.error, IndexError, UnicodeDecodeError) as exc:
            raise CorruptRecord("it sent a fetch response that ends early") from exc
        if not error:
            session.epoch = session.epoch % 0x7FFFFFFF + 1 if session_id else 0
            session.session_id = session_id
        # Fresh subjects were not requested yet: an answer for their partition is for a slot that had it before.
        subjects, fresh = session.subjects, session.fresh
        return error, [s for s in sections if s.slot in subjects and s.slot not in fresh]


def _topic_key(version: int, subject: Subject) -> bytes:
    if version >= 13:
        return subject.topic_id.bytes
    name = subject.partition.topic.encode()
    return write_uvarint(len(name) + 1) + name


def _by_topic(version: int, subjects: Iterable[Subject]) -> dict[bytes, list[Subject]]:
    grouped: dict[bytes, list[Subject]] = {}
    for subject in subjects:
        grouped.setdefault(_topic_key(version, subject), []).append(subject)
    return grouped


def _encode_topics(version: int, subjects: Iterable[Subject], max_bytes: int) -> bytes:
    grouped = _by_topic(version, subjects)
    parts = [write_uvarint(len(grouped) + 1)]
    for key, members in grouped.items():
        parts += [key, write_uvarint(len(members) + 1)]
        parts += [
            _PARTITION.pack(s.partition.index, -1, s.position, s.epoch, -1, max_bytes, 0)
            for s in members
        ]
        parts.append(b"\0")
    return b"".join(parts)


def _encode_forgotten(version: int, subjects: Collection[Subject]) -> bytes:
    if not subjects:
        return _NONE
    grouped = _by_topic(version, subjects)
    parts = [write_uvarint(len(grouped) + 1)]
    for key, members in grouped.items():
        parts += [key, write_uvarint(len(members) + 1)]
        parts += [_I32.pack(s.partition.index) for s in members]
        parts.append(b"\0")
    return b"".join(parts)
