"""Producing raw batches: several requests in flight per leader, order kept whatever fails.

A broker accepts one batch per partition and request, so a partition's batches go out in consecutive
requests. Invariants:

A  A partition's batches are sent in sequence order, and sent again in sequence order.
B  After a failure nothing of that partition is sent until all it has in flight is answered; then
   everything from the failed batch on is sent again, including what was stored meanwhile.
C  A batch is reported as stored only after all earlier ones of its partition.
D  At most five requests are in flight per broker: the broker remembers five batches per producer, so
   a batch sent twice is recognised and answered with its first offset.
E  Until a partition has answered, and again after it was idle or has failed, one batch of it is in flight: a broker
   that knows nothing of a producer accepts any sequence as its first, so the second batch could be stored without
   the first.
"""

import struct
import time
from collections import deque
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass

from heliograph.errors import CorruptRecord, FlowFenced, KafkaFault, MirrorError
from heliograph.kafka.brokers import Brokers, await_any
from heliograph.kafka.cluster import NO_LEADER, Described
from heliograph.kafka.lane import Batches, Lane, Outgoing, Refused, Stored, gather
from heliograph.net.faults import (
    DUPLICATE_SEQUENCE,
    FENCED,
    LOST_TRANSACTION,
    OUT_OF_ORDER_SEQUENCE,
    REFUSED_FOR_GOOD,
    error_name,
    is_retriable,
)
from heliograph.net.transport import REQUEST_TIMEOUT, Channel
from heliograph.wire.produce_messages import decode_answers, encode_owner, encode_produce

API_KEY = 0
VERSION = 8
_PATIENCE = 30.0
_RETRY_PAUSE = 0.1
_DISTRUST = 1.0  # seconds until a broker is tried again after an invalid answer
_SILENCE = 1.0  # seconds without a byte from a broker, or a connection to it, after which its partitions wait

_I32 = struct.Struct(">i")


@dataclass(slots=True)
class _Request:
    """A request in flight: its batches, and the correlation id of its answer; `is_late` once its lanes wait."""

    batches: Batches
    correlation: int
    sent_at: float
    is_late: bool = False


class Producer:
    """Writes batches to remote partitions and reports, in order, which are stored. Only `pump` waits."""

    def __init__(
        self,
        brokers: Brokers,
        flow: str,
        lanes: Iterable[Lane] = (),
        *,
        on_stored: Callable[[Stored], None],
        on_refused: Callable[[Refused], None],
        max_in_flight: int = 5,
        transactional_id: str | None = None,
    ) -> None:
        self._owner = encode_owner(transactional_id)
        self._in_transactions = transactional_id is not None
        self._brokers = brokers
        self._flow = flow
        self._lanes = {lane.slot: lane for lane in lanes}
        self._on_stored = on_stored
        self._on_refused = on_refused
        self._max_in_flight = max_in_flight
        self._flying: dict[int, deque[_Request]] = {}
        self._channels: dict[int, Channel] = {}
        self._busy: dict[int, Lane] = {}
        self.troubled: dict[
            int, Lane
        ] = {}  # lanes with batches that make no progress at the moment, by slot
        self.unstored_bytes = 0  # of batches that were offered and are not acknowledged
        self._retry_at = 0.0
        self._opening: dict[int, float] = {}  # when the connection attempts to brokers began

    @property
    def idle(self) -> bool:
        return not self._busy

    @property
    def trouble(self) -> str | None:
        """Why some partition makes no progress at the moment."""
        return next((lane.trouble for lane in self.troubled.values()), None)

    @property
    def held_bytes(self) -> int:
        """How many bytes belong to partitions that wait for their brokers: they must not hold up the others."""
        return sum(lane.bytes for lane in self.troubled.values())

    def add(self, lane: Lane) -> None:
        """Add a partition to write to."""
        self._lanes[lane.slot] = lane

    def remove(self, slot: int) -> None:
        """Stop writing to a partition; answers still due are ignored."""
        lane = self._lanes.pop(slot)
        assert not lane.bytes, "only a partition at rest is removed"

    def is_busy(self, slot: int) -> bool:
        """Whether a partition has batches to store, or answers are due."""
        return slot in self._busy

    def offer(self, slot: int, batch: Outgoing) -> None:
        """Queue a batch behind those of its partition."""
        lane = self._lanes[slot]
        lane.waiting.append(batch)
        lane.size += len(batch.payload)
        self.unstored_bytes += len(batch.payload)
        self._busy[slot] = lane

    def is_full(self, slot: int) -> bool:
        """Whether a partition has batches that could not be sent yet: what comes behind them may be joined meanwhile."""
        return bool(self._lanes[slot].waiting)

    def put_off(self, slot: int, size: int) -> None:
        """Count bytes that are kept for a partition, and not offered yet, as unstored."""
        lane = self._lanes[slot]
        lane.put_off += size
        self.unstored_bytes += size
        self._busy[slot] = lane

    def go_on(self, slot: int) -> None:
        """Note that what was put off for a partition is offered from now on, or dropped."""
        lane = self._lanes[slot]
        self.unstored_bytes -= lane.put_off
        lane.put_off = 0
        self._rest(lane)

    def pump(self, timeout: float = 0.0) -> None:
        """Send what may be sent; process answers, waiting up to `timeout` for one."""
        self.send()
        if not any(self._flying.values()) and self._busy:
            timeout = min(timeout, max(self._retry_at - time.monotonic(), 0.0))
        if self.collect(await_any(self.interest(), 0.0 if self.is_ready() else timeout)):
            self.send()

    def interest(self) -> dict[int, int]:
        """Return the descriptors to poll, and for which events."""
        return {
            self._channels[node].fileno(): self._channels[node].interest()
            for node, queue in self._flying.items()
            if queue
        }

    def is_ready(self) -> bool:
        """Whether data is available that `poll` would not report."""
        return any(self._channels[n].pending() for n, queue in self._flying.items() if queue)

    def retry_in(self) -> float | None:
        """Return in how many seconds `send` may make progress without an answer; None if it cannot."""
        if all(lane.leader != NO_LEADER or lane.failed for lane in self._busy.values()):
            return None
        return max(self._retry_at - time.monotonic(), 0.0)

    def silent_at(self) -> float:
        """Return when the next broker that owes an answer will have been silent for too long; see `collect`."""
        return min(
            (
                max(queue[0].sent_at, self._channels[node].heard_at) + _SILENCE
                for node, queue in self._flying.items()
                if queue and not queue[0].is_late
            ),
            default=float("inf"),
        )

    def retry_now(self) -> None:
        """Look for leaders and connections at the next `send`: something has changed."""
        self._retry_at = 0.0

    def collect(self, readable: Container[int]) -> bool:
        """Receive what was answered and flush what is queued; return whether there was an answer."""
        answered = False
        for node, queue in list(self._flying.items()):
            if not queue:
                continue
            channel = self._channels[node]
            if channel.fileno() in readable or channel.pending():
                answered = self._receive(node, channel) or answered
            elif channel.is_silent(queue[0].sent_at, REQUEST_TIMEOUT.total_seconds()):
                self._lose(node, f"{self._name(node)} does not answer")
            elif not queue[0].is_late and channel.is_silent(queue[0].sent_at, _SILENCE):
                self._note_late(node, queue)
        return answered

    def _note_late(self, node: int, queue: Iterable[_Request]) -> None:
        """Let the partitions of a broker that has stopped answering wait: their bytes do not count for the others."""
        for request in queue:
            request.is_late = True
        for lane in self._busy.values():
            is_waiting = lane.sent or lane.waiting  # an abandoned one only awaits answers
            if lane.leader == node and lane.trouble is None and is_waiting:
                self._trouble(lane, f"{self._name(node)} does not answer")

    def cut(self) -> None:
        """Send nothing more of a request that was sent only in part: it may be too late for it."""
        for node, channel in list(self._channels.items()):
            if channel.is_sending:
                self._lose(
                    node, "a request was given up, because it was not sure whose the flow is"
                )

    def close(self) -> None:
        """Give up; a channel that still owes answers is dropped, because no other reader may use it."""
        for node, queue in self._flying.items():
            if queue:
                self._brokers.drop(node)
        self._flying.clear()
        self._channels.clear()

    def abandon(self, slot: int) -> None:
        """Drop what is queued for a partition that cannot continue; answers still due are ignored."""
        lane = self._lanes[slot]
        self.unstored_bytes -= lane.bytes
        lane.size = lane.put_off = 0
        lane.waiting.clear()
        lane.sent.clear()
        self._trouble(lane, None)
        lane.failed = lane.in_flight > 0
        self._rest(lane)

    def unpin(self, slot: int) -> None:
        """Copy what is queued for a waiting partition, so that it does not keep its receive buffers alive."""
        lane = self._lanes.get(slot)
        for batch in (*lane.sent, *lane.waiting) if lane is not None else ():
            if isinstance(batch.payload, memoryview):
                batch.payload = bytes(batch.payload)

    def send(self) -> None:
        """Send what may be sent."""
        if not self._busy:
            return
        if any(lane.leader == NO_LEADER for lane in self._busy.values()):
            self._place()
        by_leader: dict[int, list[Lane]] = {}
        for lane in self._busy.values():
            if lane.waiting and not lane.failed and lane.leader != NO_LEADER:
                by_leader.setdefault(lane.leader, []).append(lane)
        for node, lanes in by_leader.items():
            self._send_to(node, lanes)

    def _send_to(self, node: int, lanes: list[Lane]) -> None:
        channel = self._channels[node]
        flying = self._flying.setdefault(node, deque())
        if flying and flying[0].is_late:
            self._note_late(node, ())
        if channel.expires:
            if not flying:  # a new connection has a new login
                self._lose(node, None)
                for lane in lanes:
                    lane.leader = NO_LEADER
            return
        while len(flying) < self._max_in_flight:
            batches = gather(lanes)
            if not batches:
                return
            head = channel.next_header(API_KEY, VERSION, flexible=False)
            entries = [(lane.partition, batch.header, batch.payload) for lane, batch in batches]
            parts = encode_produce(head, self._owner, entries)
            flying.append(_Request(batches, channel.correlation, time.monotonic()))
            try:
                channel.send(parts)
            except OSError as exc:
                self._lose(node, self._describe(node, exc))
                return

    def _describe(self, node: int, exc: OSError) -> str:
        reason = str(exc) or type(exc).__name__
        return f"{self._name(node)} hung up ({reason})"

    def _name(self, node: int) -> str:
        return f"broker {node} of {self._brokers.endpoint.cluster}"

    def _receive(self, node: int, channel: Channel) -> bool:
        """Process all responses that a broker has sent; return whether there was one."""
        answered = False
        while self._flying.get(node):
            try:
                channel.flush()
                # A separate buffer: an answer that has arrived only in part must outlast those of other brokers.
                frame = channel.poll_frame(bytearray())
            except OSError as exc:
                self._lose(node, self._describe(node, exc))
                return answered
            except CorruptRecord as exc:
                self._distrust(node, exc)
                return answered
            if frame is None:
                return answered
            answered = True
            try:
                self._take(node, frame)
            except CorruptRecord as exc:
                self._distrust(node, exc)
        return answered

    def _distrust(self, node: int, exc: CorruptRecord) -> None:
        """Give up a connection after an invalid answer."""
        self._lose(node, f"{self._name(node)}: {exc}")
        self._retry_at = time.monotonic() + _DISTRUST

    def _take(self, node: int, frame: memoryview) -> None:
        """Process a response, which answers the oldest request in flight to that broker."""
        asked = self._flying[node][0]
        request = {lane.partition: (lane, batch) for lane, batch in asked.batches}
        if _I32.unpack_from(frame)[0] != asked.correlation:
            raise CorruptRecord("it answered another request than the one sent")
        try:
            answers = list(decode_answers(frame))
        except (struct.error, UnicodeDecodeError) as exc:
            raise CorruptRecord("it sent a produce response that ends early") from exc
        if len(answers) != len(request) or {answer[0] for answer in answers} != request.keys():
            raise CorruptRecord("it answered for other partitions than were sent")
        queue = self._flying[node]
        queue.popleft()
        if asked.is_late:
            for other in queue:
                other.is_late = False
        for partition, error, base_offset, message in answers:
            lane, batch = request[partition]
            self._answered(lane, batch, error, base_offset, message)

    def _answered(
        self, lane: Lane, batch: Outgoing, error: int, base_offset: int, message: str
    ) -> None:
        lane.in_flight -= 1
        if lane.failed:
            self._recover(lane)
        elif error == 0:
            stored = lane.sent.popleft()
            assert stored is batch, "answers come in the order of the requests"
            lane.lost_since = None
            lane.known_at = time.monotonic()
            self._trouble(lane, None)
            lane.size -= len(batch.payload)
            self.unstored_bytes -= len(batch.payload)
            self._on_stored(Stored(lane.slot, batch, base_offset))
            self._rest(lane)
        elif error in FENCED:
            raise FlowFenced(self._flow, str(lane.partition))
        elif error in (OUT_OF_ORDER_SEQUENCE, DUPLICATE_SEQUENCE):
            # Nothing failed before this one, so the broker lost its state of this producer.
            self._refuse(lane, error_name(error), forgot=True)
        elif self._in_transactions and error in LOST_TRANSACTION:
            raise KafkaFault(f"produce to {lane.partition}", error_name(error), retriable=True)
        elif is_retriable(error):
            self._fail(lane, f"{lane.partition}: {error_name(error)}", own=True)
        else:
            for_good = error in REFUSED_FOR_GOOD
            self._refuse(lane, message or error_name(error), for_good=for_good)

    def _lose(self, node: int, reason: str | None) -> None:
        """Treat everything in flight to `node` as failed; it may or may not have been stored."""
        self._brokers.drop(node)
        self._channels.pop(node, None)
        requests = self._flying.pop(node, deque())
        for lane in self._lanes.values():
            if lane.leader == node:
                lane.leader = NO_LEADER
        for request in requests:
            for lane, _ in request.batches:
                lane.in_flight -= 1
                lane.failed = True
        for request in requests:
            for lane, _ in request.batches:
                if lane.failed:
                    self._fail(lane, reason or "its connection ended")

    def _fail(self, lane: Lane, reason: str, *, own: bool = False) -> None:
        """Queue a lane's batches again; `own` says that only this partition has the trouble.

        Such a partition is given up after a while, so that it does not hold up the others of its
        slice. If a broker or a cluster is away, the lane waits for it.
        """
        self._trouble(lane, reason)
        lane.failed = True
        lane.known_at = float("-inf")
        if own and lane.lost_since is None:
            lane.lost_since = time.monotonic()
        if own and time.monotonic() - (lane.lost_since or 0.0) > _PATIENCE:
            self._refuse(lane, reason, may_pass=True)
            return
        self._retry_at = time.monotonic() + _RETRY_PAUSE
        self._recover(lane)

    def _recover(self, lane: Lane) -> None:
        """Once nothing of a failed lane is in flight, queue everything again (invariants A and B)."""
        if lane.in_flight:
            return
        lane.waiting.extendleft(reversed(lane.sent))
        lane.sent.clear()
        lane.failed = False
        lane.leader = NO_LEADER
        self._rest(lane)

    def _refuse(self, lane: Lane, reason: str, **how: bool) -> None:
        batch = lane.sent[0] if lane.sent else lane.waiting[0]
        self.abandon(lane.slot)
        self._on_refused(Refused(lane.slot, batch, reason, **how))

    def _trouble(self, lane: Lane, reason: str | None) -> None:
        if reason is not None:
            self.troubled[lane.slot] = lane
        elif lane.trouble is not None:
            self.troubled.pop(lane.slot, None)
        lane.trouble = reason

    def _rest(self, lane: Lane) -> None:
        if not lane.sent and not lane.waiting and not lane.in_flight and not lane.put_off:
            self._busy.pop(lane.slot, None)
            self._trouble(lane, None)

    def _place(self) -> None:
        """Look up the leaders of busy partitions that have none."""
        if time.monotonic() < self._retry_at:
            return
        homeless = [
            lane for lane in self._busy.values() if lane.leader == NO_LEADER and not lane.failed
        ]
        if not homeless:
            return
        try:
            described = self._brokers.describe_each({lane.partition.topic for lane in homeless})
        except MirrorError as exc:
            self._retry_at = time.monotonic() + _RETRY_PAUSE
            for lane in homeless:
                self._trouble(lane, str(exc))
            return
        if described is None:
            self._retry_at = time.monotonic() + _RETRY_PAUSE
        else:
            self._lead(homeless, described)

    def _lead(self, homeless: list[Lane], described: Described) -> None:
        """Assign lanes to their leaders, if these have a connection; the others are tried again."""
        nodes: dict[int, str | None] = {}
        for lane in homeless:
            if lane.slot not in self._busy:
                continue  # given up together with one before it
            topic = described.found.get(lane.partition.topic)
            index = lane.partition.index
            leads = topic is not None and index < len(topic.leaders)
            leader = topic.leaders[index] if topic is not None and leads else NO_LEADER
            if leader == NO_LEADER:
                why = f"{lane.partition} has no leader"
                if topic is None:
                    why = described.why_missing(lane.partition.topic)
                self._fail(lane, why, own=True)
                continue
            if leader not in nodes:
                nodes[leader] = self._open(leader)
            if leader in self._channels:
                lane.leader = leader
            else:
                self._retry_at = time.monotonic() + _RETRY_PAUSE
                self._trouble(lane, nodes[leader] or lane.trouble or self._describe_wait(leader))

    def _open(self, node: int) -> str | None:
        """Ensure a connection to a broker; return why there is none, if that is known."""
        if node in self._channels:
            return None
        try:
            channel = self._brokers.channel(node)
        except KafkaFault as exc:
            return str(exc)
        if channel is not None:
            self._channels[node] = channel
            self._opening.pop(node, None)
        return None

    def _describe_wait(self, node: int) -> str | None:
        """Return what a lane waits for if a connection takes long to open, else None."""
        now = time.monotonic()
        long = now - self._opening.setdefault(node, now) > _SILENCE
        return f"{self._name(node)} is being connected to" if long else None
