"""What the driver knows of partitions and of the tasks that work on them; changed under the job's lock."""

import time
from dataclasses import dataclass, field
from datetime import timedelta

from heliograph.driving.lease_server import Line
from heliograph.kafka.producers import OpenTransaction
from heliograph.model import NOWHERE, Position, ProducerIdentity, StopKind, TopicPartition
from heliograph.policy.latency import Window
from heliograph.wire.lease_messages import Share, SlotRead, SlotWritten, Stopped

RETRY_STOPPED = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class Stop:
    """Why a partition stopped, since when, and where its source diverged from what was read, if it did."""

    kind: StopKind
    upstream: int
    reason: str
    since: float
    resume: int = -1

    @property
    def again(self) -> str:
        """What happens next automatically, as the end of a sentence."""
        return f". Retrying in {RETRY_STOPPED.seconds} s" if self.kind.may_pass else ""

    def due(self, now: float) -> bool:
        """Whether it is time to try again; what only a person can decide is never retried."""
        return self.kind.may_pass and now - self.since > RETRY_STOPPED.total_seconds()


def stop_from(stopped: Stopped) -> Stop:
    """Return the stop that a task reported."""
    return Stop(stopped.kind, stopped.upstream, stopped.reason, time.monotonic(), stopped.resume)


@dataclass(frozen=True, slots=True)
class HeldBack:
    """A partition where a transaction on the source is open: read_committed ends at its first `offset`.

    `seconds` is how long the last stable offset has not moved, `behind` how many offsets lie after it.
    """

    source: TopicPartition
    offset: int
    seconds: float
    behind: int
    transaction: OpenTransaction | None


@dataclass(slots=True, eq=False)
class Partition:
    """One partition: where it goes, how far it is, which identity may write to it, why it stopped.

    With a `spread`, its records are placed among that many remote partitions; `turn` is another place that it
    gets as soon as no task works on it. `clean` means that its `identity` and `sequence` may be handed on: the
    task that wrote there last has said so. `made` means that this driver created its remote topic, for it.
    It is `claimed` while the right to write it is being taken; if that fails, it is retried after a `pause`.
    `open_since` is when the last stable offset was first seen where it is, if that is below the high watermark;
    `open_transaction` is what is known about the transaction that keeps it there.
    """

    source: TopicPartition
    topic_id: str
    remote: TopicPartition
    remote_id: str
    max_message_bytes: int
    position: Position
    identity: ProducerIdentity | None = None
    sequence: int = 0
    clean: bool = False
    made: bool = False
    min_in_sync: int = 1
    claimed: bool = False
    pause: float = 0.0
    end_offset: int = -1
    stable_offset: int = -1
    open_since: float | None = None
    open_transaction: OpenTransaction | None = None
    read_to: tuple[int, int] = (-1, -1)
    records: int = 0
    bytes: int = 0
    stop: Stop | None = None
    spread: int = 0
    turn: tuple[TopicPartition, int] | None = None
    holder: "Attempt | None" = None
    waits: str | None = None
    retry_at: float = 0.0
    copied_ms: int | None = None
    ages: Window = field(default_factory=Window)
    latencies: Window = field(default_factory=Window)

    def is_of(self, topic_id: str, remote_id: str) -> bool:
        """Whether it belongs to these two topics, and not to others of the same names."""
        return (self.topic_id, self.remote_id) == (topic_id, remote_id)

    def is_due(self, now: float) -> bool:
        """Whether it should be given to a task."""
        if self.holder is not None or self.claimed or now < self.retry_at:
            return False
        return self.stop is None or self.stop.due(now)

    def note_read(self, read: SlotRead, now: float) -> None:
        """Note how far it was read, the leader epoch of the last record read, and where the source ends."""
        self.read_to = read.upstream, read.leader_epoch
        if read.stable != self.stable_offset or read.stable >= read.end:
            self.open_since = self.open_transaction = None
        if read.stable < read.end and self.open_since is None:
            self.open_since = now
        self.end_offset, self.stable_offset = read.end, read.stable
        if read.age is not None:
            self.ages.add(now, read.age)

    def note_transaction(self, offset: int, transaction: OpenTransaction | None) -> None:
        """Note what holds it back at `offset`, if its last stable offset is still there."""
        if self.open_since is not None and self.stable_offset == offset:
            self.open_transaction = transaction

    def held_back(self, now: float) -> HeldBack | None:
        """Return for how long its last stable offset has not moved below the high watermark, if it is below."""
        if self.open_since is None:
            return None
        return HeldBack(
            source=self.source,
            offset=self.stable_offset,
            seconds=max(now - self.open_since, 0.0),
            behind=self.end_offset - self.stable_offset,
            transaction=self.open_transaction,
        )

    def note_written(self, written: SlotWritten, now: float) -> None:
        """Note what the target has acknowledged."""
        if self.stop is not None and written.upstream > self.stop.upstream:
            self.stop = None
        self.position = Position(written.upstream, written.downstream)
        self.sequence = written.sequence
        self.records += written.records
        self.bytes += written.size
        if written.took is not None:
            self.copied_ms = written.copied_ms
            self.latencies.add(now, written.took)

    def share(self, slot: int, *, resume: bool, ours: bool) -> Share:
        """Return what is sent to a task about it; it was fenced or handed over before."""
        assert self.identity is not None, "every member was fenced or handed over"
        return Share(
            slot=slot,
            source=self.source,
            topic_id=self.topic_id,
            remote=self.remote,
            remote_id=self.remote_id,
            position=self.position,
            identity=self.identity,
            sequence=self.sequence,
            resume=resume and not self.spread,
            max_message_bytes=self.max_message_bytes,
            spread=self.spread,
            leader_epoch=self.leader_epoch,
            ours=ours,
        )

    def apply_turn(self) -> None:
        """Take the place that it should have now; no task works on it."""
        if self.turn is not None:
            self.remote, self.spread = self.turn
            self.turn, self.identity = None, None
            self.position = Position(self.position.upstream, NOWHERE)

    @property
    def remotes(self) -> list[TopicPartition]:
        """Return all remote partitions that it may write to."""
        if not self.spread:
            return [self.remote]
        return [TopicPartition(self.remote.topic, index) for index in range(self.spread)]

    @property
    def leader_epoch(self) -> int:
        """The leader epoch of the last record before the position; -1 if that is not known."""
        upstream, epoch = self.read_to
        return epoch if upstream == self.position.upstream else -1

    @property
    def is_read(self) -> bool:
        """Whether a task reads it now, so that what is known of its source is current."""
        return self.holder is not None and self.waits is None and self.stop is None

    @property
    def lag(self) -> int:
        return max(self.end_offset - self.position.upstream, 0)


@dataclass(slots=True, eq=False)
class Attempt:
    """One task that works on a slice: its lease, and its partitions by slot. Slots are never reused.

    `cpu_seconds` are those of its process so far. `silent_looks` counts looks without a ping from it.
    """

    slice_index: int
    task: int
    line: Line
    slots: dict[int, Partition] = field(default_factory=dict)
    leaving: set[int] = field(default_factory=set)
    lane_topics: set[str] = field(default_factory=set)
    next_slot: int = 0
    is_ending: bool = False
    silent_looks: int = 0
    cpu_seconds: float = 0.0

    def take(self, partition: Partition) -> int:
        """Note that the task holds a partition from now on, and return its slot."""
        slot, self.next_slot = self.next_slot, self.next_slot + 1
        self.slots[slot] = partition
        partition.holder = self
        return slot

    def release(self, slot: int) -> Partition | None:
        """Note that the task no longer holds a slot, and return its partition."""
        self.leaving.discard(slot)
        partition = self.slots.pop(slot, None)
        if partition is not None:
            partition.holder, partition.waits = None, None
        return partition
