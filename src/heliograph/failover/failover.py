"""Failing a flow over: its consumer groups continue on the target, and it copies nothing until it is failed back.

Planning changes nothing. `carry_out` first holds the flow, then fences the process that copies it, then
moves the groups. Run again after an interruption, it finishes what is left.
"""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import StrEnum

from heliograph.config.flow import FlowConfig
from heliograph.config.naming import naming_of
from heliograph.errors import ConfigError, MirrorError
from heliograph.failover.copied import Settled, settle
from heliograph.failover.facts import FlowView, GroupsView, StampedCheckpoint, look, read_ends
from heliograph.failover.keep_out import keep_out
from heliograph.failover.moves import NOT_COPIED, GroupMove, Place, Stand, Views, plan_moves
from heliograph.groups.admin import Committed, commit_offsets
from heliograph.kafka.cluster import FOREVER, Cluster
from heliograph.model import TopicPartition
from heliograph.policy.filters import NameFilter
from heliograph.saved.holds import HoldStore
from heliograph.wire.hold_records import Hold, Phase

OnGroup = Callable[[str, int, int], None]
Groups = str | frozenset[str] | None
"""The selected groups: a regular expression that matches whole names, names, or None for all."""

_SILENCE_MS = 3_600_000  # of the source; a longer one is an objection
_SHOWN = 3


class Refused(MirrorError):
    """The request would do harm."""


class Kind(StrEnum):
    """What an objection is about; the numbers in its sentence may differ a moment later."""

    OTHER = "other"
    NO_GROUPS = "no groups"
    SILENCE = "silence"
    BEHIND = "behind"
    WRITTEN = "written to"
    IN_USE = "in use"
    UNREAD = "unread"
    TAKEN = "taken"
    BLOCKED = "blocked"
    AWAY = "away"


@dataclass(frozen=True, slots=True)
class Objection:
    """Why a person should not continue; `forcible` if a person may decide to anyway.

    `groups` are the groups that it is about, empty if it is about the flow.
    """

    sentence: str
    forcible: bool = True
    kind: Kind = Kind.OTHER
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FailoverPlan:
    """What a fail-over would do, and the objections to it.

    `settled` is empty if the source is gone; `written` is how much its topics grew during planning.
    """

    view: FlowView
    moves: tuple[GroupMove, ...]
    settled: Mapping[TopicPartition, Settled]
    objections: tuple[Objection, ...]
    keeps_flow: bool
    written: int = 0

    @property
    def behind(self) -> int | None:
        """How many offsets of the source are not on the target; None if that is unknown."""
        if self.view.source is None:
            return None
        return sum(settled.behind for settled in self.settled.values())

    @property
    def rpo_ms(self) -> int | None:
        """How far back in time the target is: later records of the source are not there.

        If the source is gone, this is the time since its last heartbeat that arrived, at most.
        """
        if self.view.source is None:
            beat = self.view.heartbeat
            return None if beat is None else max(self.view.now_ms - beat.timestamp_ms, 0)
        oldest = [its.oldest_ms for its in self.settled.values() if its.oldest_ms is not None]
        return max(self.view.now_ms - min(oldest), 0) if oldest else 0

    @property
    def done(self) -> bool:
        """Whether nothing is left to do."""
        held = self.keeps_flow or self.view.hold is not None
        return held and all(move.moved for move in self.moves)

    @property
    def settles(self) -> bool:
        """Whether all that groups have read is on the target, and nothing more arrives."""
        if self.keeps_flow:
            return not any(move.blocked for move in self.moves)
        return not self.behind and not self.written


@dataclass(frozen=True, slots=True)
class FailoverReport:
    """What was done: how many partitions of each group were moved, what was refused, and how long it took.

    `unfenced` says why a mirror that does not know of the hold may still write to remote partitions.
    """

    flow: str
    moved: Mapping[str, int]
    left: Mapping[str, str]
    held: bool
    seconds: float
    unfenced: Mapping[TopicPartition, str] = field(default_factory=dict)


def plan_failover(
    config: FlowConfig,
    groups: Groups = None,
    *,
    keeps_flow: bool = False,
    within: timedelta = FOREVER,
) -> FailoverPlan:
    """Inspect both clusters and decide; raises DeadlinePassed if one of them takes longer than `within`."""
    with (
        closing(Cluster(config.source_admin, within)) as source,
        closing(Cluster(config.target, within)) as target,
    ):
        view = look(config, source, target)
        settled: dict[TopicPartition, Settled] = {}
        written = 0
        if view.source is not None:
            settled = settle(view, source, target)
            now = read_ends(config, source, view.source.ends)
            written = sum(end - view.source.ends[p] for p, end in now.items())
        return decide_failover(view, settled, groups, keeps_flow=keeps_flow, written=written)


def decide_failover(
    view: FlowView,
    settled: Mapping[TopicPartition, Settled],
    groups: Groups = None,
    *,
    keeps_flow: bool = False,
    written: int = 0,
) -> FailoverPlan:
    """Return what to do, based on what was seen."""
    check_phase(view)
    stands = choose_groups(find_stands(view), groups, view)
    states = view.source.groups.states if view.source else {}
    views = Views(states, view.groups.states, committed_offsets(view.groups))

    def missing(stand: Stand) -> int | None:
        its = settled.get(stand.partition)
        if its is None:
            is_unknown = view.source is None or stand.partition in view.source.away
            return None if is_unknown else 0
        return max(its.end - max(its.position.upstream, stand.offset), 0)

    def stale(group: str, stand: Stand) -> int | None:
        if view.source is None or stand.partition not in view.source.starts:
            return None if view.source is None else 0
        found = view.checkpoints.get(group, {}).get(view.remote(stand.partition))
        known = found.checkpoint.upstream if found else view.source.starts[stand.partition]
        return max(stand.offset - known, 0)

    def place(group: str, stand: Stand) -> Place | str:
        its = settled.get(stand.partition)
        if keeps_flow and its is not None and stand.offset > its.position.upstream:
            ahead = stand.offset - its.position.upstream
            return f"{ahead} records that it has read are not on {view.config.flow.target} yet"
        return translate(view, group, stand)

    moves = plan_moves(stands, place, views, missing, stale)
    plan = FailoverPlan(view, tuple(moves), settled, (), keeps_flow, written)
    return replace(plan, objections=tuple(_object_to(plan)))


def check_phase(view: FlowView) -> None:
    """Refuse to fail over a flow that is being failed back or was reversed."""
    if view.hold is None or view.hold.phase is Phase.FAILED_OVER:
        return
    flow = view.config.flow
    if view.hold.phase is Phase.RETURNING:
        raise Refused(f"a fail-back of {flow} was begun and not finished. Finish it first.")
    raise Refused(
        f"{flow} was turned round by a fail-back, so its records come from {flow.target} now. "
        f"Fail over '{flow.target}->{flow.source}' instead."
    )


def choose_groups(
    stands: Mapping[str, list[Stand]], groups: Groups, view: FlowView
) -> dict[str, list[Stand]]:
    """Return the selected groups; naming one that does not exist is an error."""
    if groups is None:
        return dict(stands)
    if isinstance(groups, frozenset):
        if strangers := sorted(groups.difference(stands)):
            raise ConfigError(
                f"{name_some(strangers)}: no group of {view.config.flow} is called so. Look again."
            )
        return {group: its for group, its in stands.items() if group in groups}
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


def committed_offsets(groups: GroupsView) -> dict[str, dict[TopicPartition, int]]:
    """Return what groups have committed, as plain offsets."""
    return {
        group: {p: at.offset for p, at in its.items() if at.offset >= 0}
        for group, its in groups.committed.items()
    }


def find_stands(view: FlowView) -> dict[str, list[Stand]]:
    """Return where each group is on the source, from the source itself or else from its checkpoints."""
    settings = view.config.checkpoints
    accepts = NameFilter(settings.groups, settings.groups_exclude).accepts
    stands: dict[str, list[Stand]] = {}
    told = view.source.groups.committed if view.source else {}
    for group, offsets in told.items():
        its = [
            Stand(p, at.offset, at.metadata)
            for p, at in offsets.items()
            if at.offset >= 0 and _counts(view, p)
        ]
        if its and accepts(group):
            stands[group] = its
    for group, found in view.checkpoints.items():
        if group not in told and accepts(group):
            stands[group] = list(_from_checkpoints(view, found))
    return stands


def _counts(view: FlowView, partition: TopicPartition) -> bool:
    """Return whether a group's position on the source means something on the target."""
    if view.source is None:
        return False
    own = partition in view.source.ends or partition.topic in view.spread
    return own or _home(view, partition) in view.source.back_runs


def _home(view: FlowView, partition: TopicPartition) -> TopicPartition | None:
    """Return where the records of a partition of the source came from, if that is the target."""
    naming = naming_of(view.config)
    if naming.topic_source(partition.topic) != view.config.flow.target:
        return None
    topic = naming.upstream_topic(partition.topic)
    return (
        None if topic in {None, partition.topic} else TopicPartition(topic or "", partition.index)
    )


def _from_checkpoints(
    view: FlowView, found: Mapping[TopicPartition, StampedCheckpoint]
) -> Iterator[Stand]:
    naming = naming_of(view.config)
    for remote, its in found.items():
        topic = naming.upstream_topic(remote.topic) or remote.topic
        yield Stand(
            TopicPartition(topic, remote.index),
            its.checkpoint.upstream,
            its.checkpoint.metadata,
            max(view.now_ms - its.timestamp_ms, 0),
        )


def translate(view: FlowView, group: str, stand: Stand) -> Place | str:
    """Return where a group continues on the target, or why that is unknown."""
    flow = view.config.flow
    home = _home(view, stand.partition)
    if home is not None and view.source is not None and home in view.source.back_runs:
        back = view.source.back_runs[home].upstream_of(stand.offset)
        return "nobody knows where it was copied from" if back is None else Place(home, back)
    if stand.partition.topic in view.spread:
        return f"its records were placed by key into another number of partitions on {flow.target}"
    remote = view.remote(stand.partition)
    if remote not in view.ends and remote not in view.away:
        return f"{remote} is not on {flow.target}"
    runs = view.runs.get(stand.partition)
    exact = runs.downstream_of(stand.offset) if runs else None
    if exact is not None:
        return Place(remote, exact)
    found = view.checkpoints.get(group, {}).get(remote)
    guesses = [runs.floor_of(stand.offset)] if runs else []
    if found is not None and found.checkpoint.upstream <= stand.offset:
        guesses.append(found.checkpoint.downstream)
    known = [guess for guess in guesses if guess is not None]
    if known:
        return Place(remote, max(known), exact=False)
    return NOT_COPIED


def _object_to(plan: FailoverPlan) -> Iterator[Objection]:
    """Yield objections to a fail-over, the worst first."""
    flow = plan.view.config.flow
    if not plan.moves:
        yield Objection(
            f"{flow.target} knows no consumer group of {flow.source}: there is no checkpoint. Check that "
            f"{flow}.emit.checkpoints.enabled is true, and that groups commit offsets.",
            kind=Kind.NO_GROUPS,
        )
    if not plan.keeps_flow and plan.view.hold is None:
        yield from _object_to_time(plan)
    yield from _object_to_away(plan)
    in_use = [move.group for move in plan.moves if move.in_use]
    if in_use:
        yield Objection(
            f"{name_some(in_use)} still read from {flow.source}. Stop those consumers, or use --force: "
            "what they read from now on they read again.",
            kind=Kind.IN_USE,
            groups=tuple(in_use),
        )
    unread = plan.view.source.groups.unread if plan.view.source else {}
    for group, reason in unread.items():
        yield Objection(
            f"{group}: {flow.source} does not tell where it is ({reason}). Try again.",
            kind=Kind.UNREAD,
            groups=(group,),
        )
    for move in plan.moves:
        if move.reason is not None:
            yield Objection(
                f"{move.group}: {move.reason}. Stop its consumers there, or leave it out with --groups.",
                kind=Kind.TAKEN,
                groups=(move.group,),
            )
        elif move.blocked:
            step = move.blocked[0]
            yield Objection(
                f"{move.group}: {len(move.blocked)} of its {len(move.steps)} partitions cannot be moved "
                f"({step.stand.partition}: {step.reason}). --force moves the others.",
                kind=Kind.BLOCKED,
                groups=(move.group,),
            )


def _object_to_away(plan: FailoverPlan) -> Iterator[Objection]:
    """Yield objections for unreadable partitions: what was copied of them since the last save is unknown."""
    flow, source = plan.view.config.flow, plan.view.source
    for cluster, away in (
        (flow.target, plan.view.away),
        (flow.source, source.away if source else {}),
    ):
        if away:
            partition, reason = next(iter(sorted(away.items())))
            yield Objection(
                f"{len(away)} partitions of {cluster} cannot be looked at ({partition}: {reason}). Bring them back, or "
                "use --force: groups go on there from what was saved last.",
                kind=Kind.AWAY,
            )


def _object_to_time(plan: FailoverPlan) -> Iterator[Objection]:
    """Yield objections to failing over just now."""
    flow = plan.view.config.flow
    if plan.view.source is None:
        silence = plan.rpo_ms
        if silence is not None and silence > _SILENCE_MS:
            yield Objection(
                f"{flow.target} last heard of {flow.source} {silence / 3_600_000:.1f} hours ago: either it is "
                "gone that long, or the mirror is, and all since then would be left behind. --force goes on.",
                kind=Kind.SILENCE,
            )
        return
    if plan.behind:
        yield Objection(
            f"{flow.source} answers, and {plan.behind} records of it are not on {flow.target} yet: they would "
            "be left behind. Stop its producers and let the mirror catch up (--wait), or use --force.",
            kind=Kind.BEHIND,
        )
    if plan.written > 0:
        yield Objection(
            f"{flow.source} is still written to ({plan.written} records just now), and what comes later would "
            "be left behind. Stop its producers, or use --keep-flow or --force.",
            kind=Kind.WRITTEN,
        )


def carry_out(plan: FailoverPlan, on_group: OnGroup = lambda *_: None) -> FailoverReport:
    """Hold the flow, fence the process that copies it, and move the groups."""
    began = time.monotonic()
    config = plan.view.config
    unfenced: Mapping[TopicPartition, str] = {}
    with closing(Cluster(config.target)) as target:
        if not plan.keeps_flow:
            holds = HoldStore(target, config)
            held = holds.read() or Hold(str(config.flow), time.time_ns() // 1_000_000)
            groups = held.groups | {move.group for move in plan.moves if move.reason is None}
            holds.write(replace(held, groups=groups))
            unfenced = keep_out(config, target, plan.view.ends)
        moved, left = move_groups(target, plan.moves, on_group)
    seconds = time.monotonic() - began
    return FailoverReport(str(config.flow), moved, left, not plan.keeps_flow, seconds, unfenced)


def move_groups(
    target: Cluster, moves: Iterable[GroupMove], on_group: OnGroup
) -> tuple[dict[str, int], dict[str, str]]:
    """Commit offsets for every group that can be moved; return the partitions moved, and why others were not."""
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


def name_some(names: list[str]) -> str:
    """Return some of the names, and how many more there are."""
    shown = ", ".join(names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"
