"""What a plan found: plain values, and the same as JSON."""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

from heliograph.flows.starts import Origin
from heliograph.model import Flow, TopicPartition
from heliograph.plan.judgement import Backlog, Clash, Loop
from heliograph.policy.acls import Acl, Operation, Permission
from heliograph.policy.topic_configs import ConfigChange, ResetConfig, SetConfig

# A little less than was measured on two cores shared with the brokers of both sides: see docs/benchmarks.
MEASURED_BYTES_PER_SECOND = 100_000_000


@dataclass(frozen=True, slots=True)
class TopicToMake:
    """A topic that would be created; an internal one has no `topic` that it is a copy of."""

    cluster: str
    remote_topic: str
    partitions: int
    replication_factor: int
    topic: str | None = None
    configs: Mapping[str, str] = field(default_factory=dict)
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class TopicToGrow:
    topic: str
    remote_topic: str
    partitions_now: int
    partitions: int


@dataclass(frozen=True, slots=True)
class SkippedTopic:
    topic: str
    reason: str


@dataclass(frozen=True, slots=True)
class ConfigsToChange:
    remote_topic: str
    changes: tuple[ConfigChange, ...]


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """Where the copy of a partition would start, and how much it copies; a `blocked` one waits for a person."""

    source: TopicPartition
    remote: TopicPartition
    origin: Origin
    upstream: int
    end: int
    backlog: Backlog
    loss: str | None = None
    blocked: bool = False
    is_heartbeats: bool = False

    @property
    def is_work(self) -> bool:
        """Whether this is something to do; one or two heartbeats are always in transit."""
        return self.blocked or bool(self.backlog.offsets and not self.is_heartbeats)


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """A group of the source: `checkpoints` would be written for it, `moves` made on the target.

    `passed_over` says why there are no checkpoints, `left_alone` why it is not moved. On `ahead`
    partitions it has read records that are not copied yet, and would read them again on the target.
    """

    group: str
    partitions: int = 0
    ahead: int = 0
    checkpoints: int = 0
    moves: int = 0
    passed_over: str | None = None
    left_alone: str | None = None

    @property
    def is_work(self) -> bool:
        return bool(self.checkpoints or self.moves)


@dataclass(frozen=True, slots=True)
class FlowPlan:
    """One flow. With a `failure` nothing else is known of it; one that is held copies nothing."""

    flow: Flow
    failure: str | None = None
    held: str | None = None
    make: tuple[TopicToMake, ...] = ()
    make_internal: tuple[TopicToMake, ...] = ()
    grow: tuple[TopicToGrow, ...] = ()
    skip: tuple[SkippedTopic, ...] = ()
    configs: tuple[ConfigsToChange, ...] = ()
    acls: tuple[Acl, ...] = ()
    partitions: tuple[PartitionPlan, ...] = ()
    groups: tuple[GroupPlan, ...] = ()
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def has_work(self) -> bool:
        return bool(
            self.held
            or self.make
            or self.make_internal
            or self.grow
            or self.configs
            or self.acls
            or self.problems
            or any(p.is_work for p in self.partitions)
            or any(g.is_work for g in self.groups)
        )

    @property
    def offsets(self) -> int:
        return sum(p.backlog.offsets for p in self.partitions if not p.blocked)

    @property
    def bytes(self) -> int | None:
        """How much would be copied; None where the source reports no sizes."""
        known = [p.backlog.bytes for p in self.partitions if not p.blocked]
        return None if None in known else sum(size for size in known if size is not None)

    @property
    def bytes_are_estimated(self) -> bool:
        return any(p.backlog.is_estimate for p in self.partitions)

    @property
    def origins(self) -> dict[Origin, int]:
        return dict(Counter(p.origin for p in self.partitions))


@dataclass(frozen=True, slots=True)
class MirrorPlan:
    """All flows of a file, and the conflicts between them."""

    flows: tuple[FlowPlan, ...]
    loops: tuple[Loop, ...] = ()
    clashes: tuple[Clash, ...] = ()
    warnings: tuple[str, ...] = ()
    bytes_per_second: int = MEASURED_BYTES_PER_SECOND

    @property
    def has_work(self) -> bool:
        return bool(self.loops or self.clashes or any(flow.has_work for flow in self.flows))

    @property
    def exit_code(self) -> int:
        """0 nothing to do, 1 something to do, 3 unknown for at least one flow."""
        if any(flow.failure for flow in self.flows):
            return 3
        return 1 if self.has_work else 0

    def seconds(self, flow: FlowPlan) -> float | None:
        """Return about how long the copying of a flow takes by itself."""
        return None if flow.bytes is None else flow.bytes / self.bytes_per_second

    def to_json(self) -> str:
        found = {
            "has_work": self.has_work,
            "exit_code": self.exit_code,
            "bytes_per_second": self.bytes_per_second,
            "flows": [
                {
                    **_plain(flow),
                    "has_work": flow.has_work,
                    "offsets": flow.offsets,
                    "bytes": flow.bytes,
                    "bytes_are_estimated": flow.bytes_are_estimated,
                    "seconds": self.seconds(flow),
                }
                for flow in self.flows
            ],
            "loops": [[_plain(place) for place in loop.way] for loop in self.loops],
            "clashes": [_plain(clash) for clash in self.clashes],
            "warnings": list(self.warnings),
        }
        return json.dumps(found, indent=2)


_SHAPES: dict[type, Callable[[Any], object]] = {
    Flow: str,
    Origin: lambda origin: origin.name.lower(),
    Operation: lambda operation: operation.name,
    Permission: lambda permission: permission.name,
    SetConfig: lambda change: {"name": change.name, "value": change.value},
    ResetConfig: lambda change: {"name": change.name, "value": None},
}


def _plain(value: Any) -> Any:  # Any: JSON
    if shape := _SHAPES.get(type(value)):
        return shape(value)
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    if is_dataclass(value):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    return value
