"""What the driver knows of partitions and of the tasks at work on them; changed under the job's lock."""

from dataclasses import dataclass, field
from datetime import timedelta

from heliograph.dataplane.assignment import LaneShare
from heliograph.dataplane.latency import Window
from heliograph.dataplane.lease_server import Line
from heliograph.model import Position, ProducerIdentity, TopicPartition

RETRY_STOPPED = timedelta(seconds=60)
MADE_ANEW = "made-anew"
UNTRACKED = "untracked"
TRUNCATED = "target-truncated"
LOSS = "loss"
REFUSED_FOR_GOOD = "refused-for-good"
NOWHERE = -1  # the downstream offset of a partition with a spread
MAY_PASS = frozenset({"refused", "too-large", "corrupt", "lost-topic", "lost-remote"})
LOSSES = (
    LOSS,
    MADE_ANEW,
    UNTRACKED,
    TRUNCATED,
)  # kinds of stops that are alarms: records lack somewhere


@dataclass(frozen=True, slots=True)
class Stop:
    """Why a partition does not go on, and since when."""

    kind: str
    upstream: int
    reason: str
    since: float

    def due(self, now: float) -> bool:
        """Whether it is time to try again; what only a person can decide is never tried again."""
        return self.kind in MAY_PASS and now - self.since > RETRY_STOPPED.total_seconds()


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
    lines: dict[str, Line] = field(default_factory=dict)
    done: bool = False
    done_at: float = 0.0
    troubles: dict[str, str] = field(default_factory=dict)
    lanes: tuple[LaneShare, ...] = ()
