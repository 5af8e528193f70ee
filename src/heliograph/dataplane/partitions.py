"""What the driver knows of partitions and of the tasks at work on them; changed under the job's lock."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from heliograph.dataplane.assignment import LaneShare, Ledger, Share
from heliograph.dataplane.latency import Window
from heliograph.dataplane.lease_server import Line
from heliograph.model import Position, ProducerIdentity, TopicPartition

RETRY_STOPPED = timedelta(seconds=60)
MADE_ANEW = "made-anew"
UNTRACKED = "untracked"
TRUNCATED = "target-truncated"
LOSS = "loss"
LOST_TOPIC = "lost-topic"
LOST_REMOTE = "lost-remote"
REFUSED_FOR_GOOD = "refused-for-good"
NOWHERE = -1  # the downstream offset of a partition with a spread
MAY_PASS = frozenset({"refused", "too-large", "corrupt", LOST_TOPIC, LOST_REMOTE})
LOSSES = (
    LOSS,
    MADE_ANEW,
    UNTRACKED,
    TRUNCATED,
)  # kinds of stops that are alarms: records lack somewhere


@dataclass(frozen=True, slots=True)
class Stop:
    """Why a partition does not go on, since when, and where its source parted from what was read, if it did."""

    kind: str
    upstream: int
    reason: str
    since: float
    resume: int = -1

    @property
    def again(self) -> str:
        """What follows by itself, as the end of a sentence."""
        tried = f"; it is tried again after {RETRY_STOPPED.seconds} s"
        return tried if self.kind in MAY_PASS else ""

    def due(self, now: float) -> bool:
        """Whether it is time to try again; what only a person can decide is never tried again."""
        return self.kind in MAY_PASS and now - self.since > RETRY_STOPPED.total_seconds()


def stop_from(told: Mapping[str, Any]) -> Stop:
    """Return the stop that a task told of."""
    resume = told.get("resume", -1)
    return Stop(told["kind"], told["upstream"], told["reason"], time.monotonic(), resume)


@dataclass(slots=True, eq=False)
class Partition:
    """One partition: where it goes, how far it is, who may write to it, why it stopped.

    One with a `spread` has its records placed among so many remote partitions: see placing_job.py.
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
    end_offset: int = -1
    read_to: tuple[int, int] = (-1, -1)
    records: int = 0
    bytes: int = 0
    stop: Stop | None = None
    spread: int = 0
    copied_ms: int | None = None
    ages: Window = field(default_factory=Window)
    latencies: Window = field(default_factory=Window)

    def is_of(self, topic_id: str, remote_id: str) -> bool:
        """Whether it belongs to these two topics, and not to others of the same names."""
        return (self.topic_id, self.remote_id) == (topic_id, remote_id)

    def note_read(self, upstream: int, end_offset: int, epoch: int) -> None:
        """Take note of how far it was read, to a record of which leader epoch, and where the source ends."""
        self.read_to, self.end_offset = (upstream, epoch), end_offset

    def share(self, slot: int, *, resume: bool) -> Share:
        """Return what a task is told of it; it was fenced or handed over before."""
        assert self.identity is not None, "every member was fenced or handed over"
        return Share(
            slot=slot,
            source=self.source,
            topic_id=self.topic_id,
            remote=self.remote,
            position=self.position,
            identity=self.identity,
            sequence=self.sequence,
            resume=resume and not self.spread,
            max_message_bytes=self.max_message_bytes,
            spread=self.spread,
            leader_epoch=self.leader_epoch,
        )

    def waits(self, working: Sequence["Attempt"], now: float) -> bool:
        """Whether it stopped, is due to be tried again, and nobody tries it."""
        stop = self.stop
        if stop is None or not stop.due(now):
            return False
        return not any(a.began > stop.since and self in a.slots for a in working)

    @property
    def leader_epoch(self) -> int:
        """The leader's epoch of the last record before the position; -1 if that is not known."""
        upstream, epoch = self.read_to
        return epoch if upstream == self.position.upstream else -1

    @property
    def lag(self) -> int:
        return max(self.end_offset - self.position.upstream, 0)


@dataclass(slots=True)
class Attempt:
    """One task at work on a slice: its partitions by slot, and its two leases."""

    task: int
    slots: list[Partition]
    resuming: frozenset[int]
    epoch: int = 0
    began: float = field(default_factory=time.monotonic)
    lines: dict[str, Line] = field(default_factory=dict)
    done: bool = False
    done_at: float = 0.0
    troubles: dict[str, str] = field(default_factory=dict)
    lanes: tuple[LaneShare, ...] = ()
    ledger: Ledger | None = None
