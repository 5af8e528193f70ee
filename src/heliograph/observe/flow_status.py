"""A flow and its partitions as they are now: for logs, tables, pages and programs."""

from dataclasses import dataclass, field
from enum import Enum

from heliograph.config.flow import FlowConfig
from heliograph.flows.schedule import ChoreStatus
from heliograph.flows.upkeep import GroupStatus


class State(Enum):
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    FAILED = "FAILED"
    STOPPED = "STOPPED"


@dataclass(frozen=True, slots=True)
class Spread:
    """Milliseconds: the last one measured, and the least, most and average of the last minute, if any."""

    last: float
    min: float | None = None
    max: float | None = None
    avg: float | None = None


@dataclass(frozen=True, slots=True)
class OpenTransactionStatus:
    """A transaction on the source behind whose first `offset` nothing is copied, open for at least so many seconds."""

    offset: int
    seconds: float
    producer_id: int | None
    transactional_id: str | None


@dataclass(frozen=True, slots=True)
class FlowStatus:
    """A flow as it is now, for logs, tables and pages.

    `reason` is why it has FAILED, or what it fails to do beside copying while it is RUNNING. `latency_counts`
    are records by the bounds of policy/latency.py, `losses` how often records were found lost, by kind,
    `copied` records and bytes by source topic, of those there are now. `tasks` are those at work,
    `handovers` partitions that went from one to another. Counts go on where a flow begins anew.
    `open_transactions` are those sentences of `waiting` that name a transaction left open on the source, and
    `open_transaction_seconds` is the longest of them, 0 if there is none.
    """

    flow: str
    state: State
    reason: str | None
    topics: int
    partitions: int
    records: int
    bytes: int
    lag: int | None
    tasks: int
    latency_ms: tuple[int | None, int | None]
    verdicts: dict[str, int]
    stopped: dict[str, str]
    refused: tuple[str, ...]
    waiting: tuple[str, ...]
    slices: tuple[tuple[str, ...], ...]
    remotes: frozenset[str]
    chores: tuple[ChoreStatus, ...]
    skipped_groups: dict[str, str] = field(default_factory=dict)
    restarts: int = 0
    losses: dict[str, int] = field(default_factory=dict)
    latency_counts: tuple[int, ...] = ()
    handovers: int = 0
    copied: dict[str, tuple[int, int]] = field(default_factory=dict)
    open_transactions: tuple[str, ...] = ()
    open_transaction_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """A partition as it is now: `upstream` and `downstream` are the next offsets on either side.

    `copied_ms` is the timestamp of the newest record copied. With an `open_transaction` it waits for the end of one.
    """

    topic: str
    partition: int
    remote_topic: str
    upstream: int
    downstream: int
    end_offset: int
    lag: int
    records: int
    bytes: int
    stopped: str | None
    stop_kind: str | None = None
    copied_ms: int | None = None
    record_age_ms: Spread | None = None
    replication_latency_ms: Spread | None = None
    open_transaction: OpenTransactionStatus | None = None


@dataclass(frozen=True, slots=True)
class KeptGroups:
    """What a checkpoint connector does for the groups of a flow, wherever the flow's data is copied."""

    connector: str
    flow: str
    groups: tuple[GroupStatus, ...]
    chores: tuple[ChoreStatus, ...]
    skipped: dict[str, str]


def status_at_rest(
    config: FlowConfig, state: State = State.STOPPED, reason: str | None = None
) -> FlowStatus:
    """Return the status of a flow that does not run."""
    return FlowStatus(
        flow=str(config.flow),
        state=state,
        reason=reason,
        topics=0,
        partitions=0,
        records=0,
        bytes=0,
        lag=None,
        tasks=0,
        latency_ms=(None, None),
        verdicts={},
        stopped={},
        refused=(),
        waiting=(),
        slices=(),
        remotes=frozenset(),
        chores=(),
    )
