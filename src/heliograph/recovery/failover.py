"""Failing a flow over: its consumer groups go on on the target, and it copies nothing until it is failed back.

Looking and deciding change nothing; `carry_out` first holds the flow, then fences whoever copies it, then
moves the groups. Done again after an interruption, it finishes what is left.
"""

import re
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace

from heliograph.config.flow import FlowConfig
from heliograph.errors import ConfigError, MirrorError
from heliograph.flows.holds import HoldStore
from heliograph.flows.source import naming_of
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.fencing import fence
from heliograph.kafka.groups import Committed, commit_offsets
from heliograph.model import TopicPartition
from heliograph.policy.checkpoints import downstream_topic
from heliograph.policy.filters import NameFilter
from heliograph.policy.moves import NOT_COPIED, GroupMove, Place, Stand, Views, plan_moves
from heliograph.recovery.settle import Settled, settle
from heliograph.recovery.view import FlowView, GroupsView, look, read_ends
from heliograph.wire.hold_records import Hold

OnGroup = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Objection:
    """Why a person should not go on; `forcible` if a person could want to all the same."""

    sentence: str
    forcible: bool = True


@dataclass(frozen=True, slots=True)
class FailoverPlan:
    """What a fail-over would do, and what speaks against it.

    `settled` is empty if the source is gone; `written` is how far its topics grew while we looked.
    """

    view: FlowView
    moves: tuple[GroupMove, ...]
    settled: Mapping[TopicPartition, Settled]
    objections: tuple[Objection, ...]
    keeps_flow: bool
    written: int = 0

    @property
    def behind(self) -> int | None:
        """How many offsets of the source are not on the target; None if nobody can tell."""
        if self.view.source is None:
            return None
        return sum(settled.behind for settled in self.settled.values())

    @property
    def heard_ms(self) -> int | None:
        """When the source was alive for sure: the newest of its heartbeats that was copied."""
        beat = self.view.heartbeat
        return None if beat is None else beat.timestamp_ms

    @property
    def done(self) -> bool:
        """Whether nothing is left to do."""
        held = self.keeps_flow or self.view.hold is not None
        return held and all(move.moved for move in self.moves)


@dataclass(frozen=True, slots=True)
class FailoverReport:
    """What was done: how many partitions were moved by group, what was refused, and how long it took."""

    flow: str
    moved: Mapping[str, int]
    left: Mapping[str, str]
    held: bool
    seconds: float


def plan_failover(
    config: FlowConfig, groups: str | None = None, *, keeps_flow: bool = False
) -> FailoverPlan:
    """Look at both ends, and decide. `groups` is a regular expression that matches whole names."""
    with closing(Cluster(config.source_admin)) as source, closing(Cluster(config.target)) as target:
        view = look(config, source, target)
        settled, written = {}, 0
        if view.source is not None:
            settled = settle(view, source, target)
            written = sum(read_ends(config, source, view.source.ends).values()) - sum(
                view.source.ends.values()
            )
        return decide_failover(view, settled, groups, keeps_flow=keeps_flow, written=written)


def decide_failover(
    view: FlowView,
    settled: Mapping[TopicPartition, Settled],
    groups: str | None = None,
    *,
    keeps_flow: bool = False,
    written: int = 0,
) -> FailoverPlan:
    """Return what to do, by what was seen."""
    stands = choose_groups(find_stands(view), groups, view)
    views = Views(
        view.source.groups.states if view.source else {}, view.groups.states, there(view.groups)
    )

    def missing(stand: Stand) -> int | None:
        its = settled.get(stand.partition)
        if its is None:
            return None
        return max(its.end - max(its.position.upstream, stand.offset), 0)

    def stale(group: str, stand: Stand) -> int | None:
        if view.source is None:
            return None
        found = view.checkpoints.get(group, {}).get(view.remote(stand.partition))
        known = found.checkpoint.upstream if found else view.source.starts[stand.partition]
        return max(stand.offset - known, 0)

    moves = plan_moves(stands, lambda stand: translate(view, stand), views, missing, stale)
    plan = FailoverPlan(view, tuple(moves), settled, (), keeps_flow, written)
    return replace(plan, objections=tuple(object_to(plan)))


def choose_groups(
    stands: Mapping[str, list[Stand]], groups: str | None, view: FlowView
) -> dict[str, list[Stand]]:
    """Return the groups that are meant; naming one that is not there is a mistake."""
    if groups is None:
        return dict(stands)
    try:
        wanted = re.compile(groups)
    except re.error as exc:
        raise ConfigError(f"--groups {groups}: not a regular expression ({exc}).") from exc
    chosen = {group: its for group, its in stands.items() if wanted.fullmatch(group)}
    if not chosen:
        known = ", ".join(sorted(stands)[:5]) or "none"
        raise ConfigError(
            f"--groups {groups}: no group of {view.config.flow} is called so; there are: {known}."
        )
    return chosen


def there(groups: GroupsView) -> dict[str, dict[TopicPartition, int]]:
    """Return what groups have committed, as plain offsets."""
    return {
        group: {p: at.offset for p, at in its.items() if at.offset >= 0}
        for group, its in groups.committed.items()
    }


def find_stands(view: FlowView) -> dict[str, list[Stand]]:
    """Return where each group stands on the source, as the source says or else its checkpoints."""
    config = view.config
    settings = config.checkpoints
    accepts = NameFilter(settings.groups, settings.groups_exclude).accepts
    stands: dict[str, list[Stand]] = {}
    if view.source is None:
        naming = naming_of(config)
        for group, its in view.checkpoints.items():
            for remote, found in its.items():
                topic = naming.upstream_topic(remote.topic) or remote.topic
                stand = Stand(
                    TopicPartition(topic, remote.index),
                    found.checkpoint.upstream,
                    found.checkpoint.metadata,
                    max(view.now_ms - found.timestamp_ms, 0),
                )
                stands.setdefault(group, []).append(stand)
        return stands
    for group, offsets in view.source.groups.committed.items():
        if not accepts(group):
            continue
        for partition, at in offsets.items():
            if at.offset >= 0 and partition in view.source.ends:
                stands.setdefault(group, []).append(Stand(partition, at.offset, at.metadata))
    return stands


def translate(view: FlowView, stand: Stand) -> Place | str:
    """Return where a group goes on on the target, or why nobody knows."""
    flow = view.config.flow
    topic = downstream_topic(
        stand.partition.topic,
        naming=naming_of(view.config),
        source_alias=flow.source,
        target_alias=flow.target,
    )
    remote = TopicPartition(topic, stand.partition.index)
    if remote not in view.ends:
        return f"{remote} is not on {flow.target}"
    runs = view.runs.get(stand.partition)
    exact = runs.downstream_of(stand.offset) if runs else None
    if exact is not None:
        return Place(remote, exact)
    for its in view.checkpoints.values():
        found = its.get(remote)
        if found is not None and found.checkpoint.upstream == stand.offset:
            return Place(remote, found.checkpoint.downstream, exact=False)
    return NOT_COPIED


def object_to(plan: FailoverPlan) -> Iterable[Objection]:
    """Yield what speaks against a fail-over, the worst first."""
    view = plan.view
    flow = view.config.flow
    if not plan.moves:
        yield Objection(
            f"{flow.target} knows no consumer group of {flow.source}: there is no checkpoint. Check that "
            f"{flow}.emit.checkpoints.enabled is true, and that groups commit offsets."
        )
    behind = plan.behind
    if behind:
        yield Objection(
            f"{flow.source} answers, and {behind} records of it are not on {flow.target} yet: they would be "
            "left behind. Stop its producers and let the mirror catch up (--wait), or use --force."
        )
    if plan.written > 0 and not plan.keeps_flow:
        yield Objection(
            f"{flow.source} is still written to ({plan.written} records just now), and what comes later would "
            "be left behind. Stop its producers, or use --keep-flow or --force."
        )
    in_use = [move.group for move in plan.moves if move.in_use]
    if in_use:
        yield Objection(
            f"{_names(in_use)} still read from {flow.source}. Stop those consumers, or use --force: "
            "what they read from now on they read again."
        )
    for move in plan.moves:
        if move.reason is not None:
            yield Objection(
                f"{move.group}: {move.reason}. Stop its consumers there, or leave it out with --groups."
            )
        elif move.blocked:
            step = move.blocked[0]
            yield Objection(
                f"{move.group}: {len(move.blocked)} of its {len(move.steps)} partitions cannot be "
                f"translated ({step.stand.partition}: {step.reason}). --force moves the others."
            )


def carry_out(plan: FailoverPlan, on_group: OnGroup = lambda *_: None) -> FailoverReport:
    """Hold the flow, fence whoever copies it, and move the groups."""
    began = time.monotonic()
    config = plan.view.config
    with closing(Cluster(config.target)) as target:
        if not plan.keeps_flow:
            holds = HoldStore(target, config)
            if holds.read() is None:
                holds.write(Hold(str(config.flow), time.time_ns() // 1_000_000))
            remotes = sorted(plan.view.ends)
            fence(target, config.transactional_id, remotes)
        moved, left = move_groups(target, plan.moves, on_group)
    return FailoverReport(
        str(config.flow), moved, left, not plan.keeps_flow, time.monotonic() - began
    )


def move_groups(
    target: Cluster, moves: Iterable[GroupMove], on_group: OnGroup
) -> tuple[dict[str, int], dict[str, str]]:
    """Commit for every group that can be moved; return the partitions moved, and why others were not."""
    moved: dict[str, int] = {}
    left: dict[str, str] = {}
    listed = list(moves)
    for number, move in enumerate(listed, 1):
        if move.reason is not None:
            left[move.group] = move.reason
            continue
        wanted = {
            step.place.partition: Committed(step.place.offset, step.stand.metadata)
            for step in move.steps
            if step.place is not None and step.moves
        }
        refused = commit_offsets(target, move.group, wanted)
        moved[move.group] = len(wanted) - len(refused)
        for partition, reason in refused.items():
            left[move.group] = f"{partition}: {reason}"
        for step in move.blocked:
            left.setdefault(move.group, f"{step.stand.partition}: {step.reason}")
        on_group(move.group, number, len(listed))
    return moved, left


def check_flow(plan: FailoverPlan, *, force: bool) -> None:
    """Raise what speaks against a fail-over, unless it is to be done all the same."""
    for objection in plan.objections:
        if not (force and objection.forcible):
            raise Refused(objection.sentence)


class Refused(MirrorError):
    """What was asked for would do harm."""


def _names(names: list[str]) -> str:
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more groups"
