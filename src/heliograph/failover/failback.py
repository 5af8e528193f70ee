"""Failing a flow back: records that never left the old primary are handled, and groups return to it exactly.

If topic names contain the cluster, each side keeps its own topics: the flow continues where it was held. If both
sides use the same names, the flow is reversed instead: the opposite flow starts right after the last record that
was copied, and this one stays held. Every step is recorded on the target before it is done and can be repeated,
so running an interrupted fail-back again finishes it.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from types import TracebackType
from typing import Self

from heliograph.admin.configs import topic_configs
from heliograph.admin.topics import await_topics, create_topic, grow_topics
from heliograph.config.flow import FlowConfig
from heliograph.config.naming import naming_of, replicates_of
from heliograph.failover.copied import Settled, settle
from heliograph.failover.copy import complete_copies
from heliograph.failover.facts import FlowView, look
from heliograph.failover.failover import (
    Objection,
    OnGroup,
    Refused,
    choose_groups,
    committed_offsets,
    move_groups,
    name_some,
)
from heliograph.failover.left_behind import Tail, find_tails, read_tail
from heliograph.failover.moves import GroupMove, Place, Stand, Views, plan_moves
from heliograph.flows.source import refresh_topics
from heliograph.kafka.cluster import Cluster, patiently
from heliograph.kafka.offsets import LATEST, list_offsets
from heliograph.model import Position, TopicPartition
from heliograph.policy.naming import quarantine_topic
from heliograph.saved.holds import HoldStore
from heliograph.saved.progress import open_progress
from heliograph.saved.runs import open_runs
from heliograph.wire.connect_records import SourceOffset
from heliograph.wire.hold_records import Hold, Phase, Range
from heliograph.wire.records import RawRecord

_LIMIT = "max.message.bytes"
_KEPT = {"cleanup.policy": "delete", "message.timestamp.type": "CreateTime"}

OnRecord = Callable[[TopicPartition, RawRecord], None]


class TailAction(Enum):
    """What to do with the records that never left the old primary."""

    REPLAY = "replay"
    QUARANTINE = "quarantine"
    DROP = "drop"


@dataclass(frozen=True, slots=True)
class FailbackPlan:
    """What a fail-back would do. `same_names`: topics have the same name on both sides."""

    view: FlowView
    back: FlowView
    settled: Mapping[TopicPartition, Settled]
    tails: tuple[Tail, ...]
    moves: tuple[GroupMove, ...]
    action: TailAction | None
    same_names: bool
    objections: tuple[Objection, ...] = ()

    @property
    def hold(self) -> Hold:
        assert self.view.hold is not None
        return self.view.hold

    @property
    def lost(self) -> int:
        """How many records the fail-over left behind."""
        return sum(tail.records for tail in self.tails)

    @property
    def lost_ms(self) -> int:
        """Time from the first record left behind to the last: how far back the fail-over went in time."""
        if not self.tails:
            return 0
        return max(t.last_ms for t in self.tails) - min(t.first_ms for t in self.tails)


@dataclass(frozen=True, slots=True)
class FailbackReport:
    """What was done; `left` says why a group did not return, or only in part."""

    flow: str
    action: str | None
    records: int
    moved: Mapping[str, int]
    left: Mapping[str, str]
    reversed: bool
    seconds: float


class Failback:
    """A fail-back of one flow, connected to both clusters."""

    def __init__(self, config: FlowConfig, reverse: FlowConfig, groups: str | None = None) -> None:
        """Take the flow that was failed over, the reverse flow, and a pattern of the groups that return.

        Without `groups`, the groups that the fail-over moved return.
        """
        self._config = config
        self._reverse = reverse
        self._groups = groups
        self._naming = naming_of(config)
        self._same_names = self._naming.format_remote_topic(config.flow.source, "t") == "t"
        self._stack = ExitStack()
        self._source = self._stack.enter_context(closing(Cluster(config.source_admin)))
        self._target = self._stack.enter_context(closing(Cluster(config.target)))
        self._holds = HoldStore(self._target, config)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def plan(
        self, action: TailAction | None = None, on_record: OnRecord = lambda *_: None
    ) -> FailbackPlan:
        """Inspect both clusters and decide; `on_record` receives every record that was left behind."""
        view = look(self._config, self._source, self._target)
        if view.hold is None:
            raise Refused(
                f"{self._config.flow} is not held, so it was not failed over or is back already. "
                "Nothing was done."
            )
        if view.source is None:
            self._source.describe(())  # raises if the cluster is gone
            raise Refused(
                f"{self._config.flow.source} is not all there yet: {view.gone} Try again when it is."
            )
        settled = self._settle(view)
        tails = find_tails(
            self._source, settled, committed_only=view.committed_only, on_record=on_record
        )
        back = look(self._reverse, self._target, self._source)
        decided = TailAction(view.hold.action) if view.hold.action else action
        plan = FailbackPlan(view, back, settled, tuple(tails), (), decided, self._same_names)
        plan = replace(plan, moves=tuple(self._moves(plan)))
        return replace(plan, objections=tuple(self._object_to(plan, action)))

    def carry_out(
        self, plan: FailbackPlan, on_group: OnGroup = lambda *_: None, *, force: bool = False
    ) -> FailbackReport:
        """Handle the records left behind, reverse or release the flow, and move the groups back.

        While some groups cannot return, the flow stays held: call this again with a newer plan. With `force`
        the flow is released anyway.
        """
        began = time.monotonic()
        copied = 0
        if plan.hold.phase is not Phase.REVERSED:
            hold = self._decide(plan, force=force)
            copied = self._deal_with_tails(plan, hold)
            if plan.same_names:
                self._turn_round(plan, force=force)
                self._holds.write(replace(hold, phase=Phase.REVERSED))
                plan = self.plan()
            else:
                self._skip_tails(plan)
        moved, left = move_groups(self._source, _movable(plan.moves), on_group)
        left |= {m.group: m.blocked[0].reason or "" for m in plan.moves if m.blocked}
        if (force or not left) and not plan.same_names:
            self._holds.release()
        return FailbackReport(
            flow=str(self._config.flow),
            action=plan.action.value if plan.action else None,
            records=copied,
            moved=moved,
            left=left,
            reversed=plan.same_names,
            seconds=time.monotonic() - began,
        )

    def _settle(self, view: FlowView) -> dict[TopicPartition, Settled]:
        """Return how far partitions were copied; a range that was decided is not computed again."""
        assert view.hold is not None
        if view.hold.phase is Phase.FAILED_OVER:
            return settle(view, self._source, self._target)
        return {
            p: Settled(p, view.remote(p), Position(its.start, its.downstream), its.end)
            for p, its in view.hold.ranges.items()
            # Once the flow is reversed, the source also holds the records that come back.
            if view.hold.phase is Phase.RETURNING
        }

    def _decide(self, plan: FailbackPlan, *, force: bool) -> Hold:
        """Record what to do with which records, unless an earlier run has recorded it."""
        if plan.hold.phase is Phase.RETURNING:
            return plan.hold
        if plan.same_names:
            self._check_quiet(plan, force=force)
        if plan.same_names or plan.action is not TailAction.REPLAY:
            refresh_topics(self._config, self._source, self._target)
        runs = open_runs(self._target, self._config)
        runs.load()
        for its in plan.settled.values():
            if its.runs:
                runs.add(its.partition, its.runs)
        runs.save()
        places = {t.partition: place for t in plan.tails if (place := self._copies(plan, t))}
        if plan.action is TailAction.QUARANTINE:
            self._make_quarantine({t.settled.remote.topic for t in plan.tails})
        wanted = sorted(set(places.values()))
        ends = patiently(lambda: list_offsets(self._target, wanted, LATEST)) if wanted else {}
        action = plan.action.value if plan.action else None
        ranges = {
            p: Range(
                its.position.upstream,
                its.end,
                its.position.downstream,
                ends[places[p]] if p in places else 0,
            )
            for p, its in plan.settled.items()
        }
        hold = replace(plan.hold, phase=Phase.RETURNING, action=action, ranges=ranges)
        self._holds.write(hold)
        return hold

    def _check_quiet(self, plan: FailbackPlan, *, force: bool) -> None:
        """Refuse to reverse a flow while its source still grows: new records would be skipped."""
        ends = patiently(lambda: list_offsets(self._source, list(plan.settled), LATEST))
        grown = sum(max(ends[p] - its.end, 0) for p, its in plan.settled.items())
        if grown and not force:
            raise Refused(
                f"{self._config.flow.source} is still written to, or a transaction is open there: {grown} "
                "offsets lie behind what was listed. Stop its producers, wait for the transaction to "
                "time out, and fail back again; --force passes over them."
            )

    def _copies(self, plan: FailbackPlan, tail: Tail) -> TopicPartition | None:
        """Return where this fail-back itself must copy a tail to, if anywhere."""
        remote = tail.settled.remote
        if plan.action is TailAction.QUARANTINE:
            return TopicPartition(quarantine_topic(self._naming, remote.topic), remote.index)
        return remote if plan.action is TailAction.REPLAY and plan.same_names else None

    def _make_quarantine(self, remotes: set[str]) -> None:
        """Create quarantine topics: unlimited retention, and the remote topic's limit on record size."""
        names = {remote: quarantine_topic(self._naming, remote) for remote in remotes}
        have = patiently(lambda: self._target.describe([*names, *names.values()]))
        limits = topic_configs(self._target, [r for r in remotes if r in have], [_LIMIT])
        counts = {name: len(have[remote].leaders) for remote, name in names.items()}
        for remote, name in names.items():
            if name not in have:
                settings = {"retention.ms": "-1", "retention.bytes": "-1", **_KEPT}
                if limit := limits.get(remote, {}).get(_LIMIT):
                    settings[_LIMIT] = limit
                factor = self._config.mirroring.replication_factor
                create_topic(self._target, name, counts[name], factor, settings)
        short = {n: c for n, c in counts.items() if n in have and len(have[n].leaders) < c}
        for fault in grow_topics(self._target, short).values():
            raise fault
        await_topics(self._target, counts)

    def _deal_with_tails(self, plan: FailbackPlan, hold: Hold) -> int:
        """Copy the tail records that still need a copy; return how many records."""
        copied = 0
        for tail in plan.tails:
            place = self._copies(plan, tail)
            if place is not None:
                copied += complete_copies(
                    self._target,
                    place,
                    hold.ranges[tail.partition].copies_from,
                    partial(
                        read_tail,
                        self._source,
                        tail.settled,
                        committed_only=plan.view.committed_only,
                    ),
                    f"heliograph-failback-{hold.flow}",
                )
        return copied

    def _skip_tails(self, plan: FailbackPlan) -> None:
        """Let the flow continue after the records that are dropped or quarantined."""
        if plan.action in {TailAction.DROP, TailAction.QUARANTINE} and plan.tails:
            positions = {
                t.partition: Position(t.settled.end, t.settled.position.downstream)
                for t in plan.tails
            }
            self._save(plan.view, self._source, self._target, positions)

    def _turn_round(self, plan: FailbackPlan, *, force: bool) -> None:
        """Let the reverse flow start after the last record that was copied."""
        self._check_quiet(plan, force=force)
        partitions = list(plan.settled)
        ends = patiently(lambda: list_offsets(self._source, partitions, LATEST))
        positions = {
            its.remote: Position(its.position.downstream, ends[its.partition])
            for its in plan.settled.values()
        }
        runs = open_runs(self._source, self._reverse)
        runs.load()
        for its in plan.settled.values():
            runs.turn(its.remote, plan.view.runs.get(its.partition), positions[its.remote])
        runs.save()
        self._save(plan.back, self._target, self._source, positions)
        HoldStore(self._source, self._reverse).release()

    def _save(
        self,
        view: FlowView,
        source: Cluster,
        target: Cluster,
        positions: Mapping[TopicPartition, Position],
    ) -> None:
        """Let a flow continue at `positions`; `source` and `target` are the clusters of that flow."""
        config = view.config
        remotes = {p: view.remote(p).topic for p in positions}
        here = patiently(lambda: source.describe({p.topic for p in positions}))
        there = patiently(lambda: target.describe(set(remotes.values())))
        with closing(Cluster(config.offset_storage.endpoint)) as storage:
            store = open_progress(storage, config)
            store.load()
            store.save(
                {
                    p: SourceOffset(
                        at.upstream,
                        at.downstream,
                        str(here[p.topic].topic_id),
                        str(there[remotes[p]].topic_id),
                    )
                    for p, at in positions.items()
                }
            )

    def _moves(self, plan: FailbackPlan) -> list[GroupMove]:
        """Return where groups of the target continue on the old primary."""
        stands: dict[str, list[Stand]] = {}
        for group, offsets in plan.view.groups.committed.items():
            its = [
                Stand(p, at.offset, at.metadata)
                for p, at in offsets.items()
                if at.offset >= 0 and self._returns(plan, p)
            ]
            if its and (self._groups is not None or group in plan.hold.groups):
                stands[group] = its
        if self._groups is not None:
            stands = choose_groups(stands, self._groups, plan.view)
        assert plan.view.source is not None
        home = plan.view.source.groups
        views = Views(plan.view.groups.states, home.states, committed_offsets(home))
        return plan_moves(stands, lambda _, s: self._translate(plan, s), views, lambda _: 0)

    def _returns(self, plan: FailbackPlan, partition: TopicPartition) -> bool:
        """Return whether a group's position on the target means something on the old primary."""
        back = plan.back.source.ends if plan.back.source else {}
        if plan.same_names:
            return partition in back
        return self._home(partition) in plan.settled or (
            self._reverse.common.enabled and partition in back
        )

    def _home(self, partition: TopicPartition) -> TopicPartition | None:
        """Return where the records of a remote partition of this flow came from."""
        if self._naming.topic_source(partition.topic) != self._config.flow.source:
            return None
        topic = self._naming.upstream_topic(partition.topic)
        return None if topic is None else TopicPartition(topic, partition.index)

    def _translate(self, plan: FailbackPlan, stand: Stand) -> Place | str:
        home = None if plan.same_names else self._home(stand.partition)
        if home is not None:
            return self._translate_home(plan, stand, home)
        if plan.same_names and plan.hold.phase is not Phase.REVERSED:
            return "it returns when the flow is turned round"
        tail = plan.hold.ranges.get(stand.partition)
        replayed = tail is not None and tail.end > tail.start and plan.action is TailAction.REPLAY
        if plan.same_names and tail is not None and replayed and stand.offset < tail.downstream:
            return (
                f"it has not read all that was copied before the fail-over, and would read {tail.end - tail.start} "
                f"offsets twice on {self._config.flow.source}; let it read on on {self._config.flow.target}"
            )
        back = plan.back
        remote = back.remote(stand.partition)
        runs = back.runs.get(stand.partition)
        position = back.position(stand.partition)
        if runs is None or position is None:
            return f"{remote} is not on {self._config.flow.source} yet: start {back.config.flow}"
        if stand.offset > position.upstream:
            waits = stand.offset - position.upstream
            return f"{waits} records that it has read are not on {remote.topic} yet"
        exact = runs.downstream_of(stand.offset)
        return "nobody knows where it was copied to" if exact is None else Place(remote, exact)

    def _translate_home(
        self, plan: FailbackPlan, stand: Stand, home: TopicPartition
    ) -> Place | str:
        """Return where a remote topic's reader continues in the topic that it was copied from."""
        settled = plan.settled[home]
        if stand.offset >= settled.position.downstream:
            skips = plan.action in {TailAction.DROP, TailAction.QUARANTINE}
            return Place(home, settled.end if skips else settled.position.upstream)
        runs = plan.view.runs.get(home)
        exact = runs.upstream_of(stand.offset) if runs else None
        return "nobody knows where it was copied from" if exact is None else Place(home, exact)

    def _object_to(self, plan: FailbackPlan, asked: TailAction | None) -> Iterator[Objection]:
        flow = self._config.flow
        shortfall = plan.view.shortfall()
        if shortfall is not None and plan.hold.phase is Phase.FAILED_OVER:
            yield Objection(
                f"{flow.source} lacks what {flow.target} has of it: {shortfall}. It is no primary to return to; "
                f"mirror it from {flow.target} first, or set {flow}.on.loss=continue and use --force.",
                forcible=self._config.copying.goes_on_after_loss,
            )
        left_out = {p.topic for p in plan.settled if not replicates_of(self._reverse)(p.topic)}
        if plan.same_names and left_out:
            yield Objection(
                f"{self._reverse.flow}.topics leaves out {name_some(sorted(left_out))}, so nothing of it would "
                f"come back. Let it be as that of {flow}.",
                forcible=False,
            )
        if plan.tails and plan.action is None:
            yield Objection(
                f"{plan.lost} records of {flow.source} were never copied to {flow.target}. Say what becomes of "
                "them: --tail replay, quarantine or drop; --list FILE shows them.",
                forcible=False,
            )
        if plan.action is not None and asked not in {None, plan.action}:
            yield Objection(
                f"an earlier fail-back of {flow} began with --tail {plan.action.value}. Finish that one.",
                forcible=False,
            )
        in_use = [move.group for move in plan.moves if move.in_use]
        if in_use:
            yield Objection(
                f"{name_some(in_use)} still read from {flow.target}. Stop those consumers first, or use "
                "--force: what they read from now on they read again."
            )
        for move in plan.moves:
            if move.reason is not None:
                yield Objection(f"{move.group}: {move.reason}. Stop its consumers there.")


def _movable(moves: Iterable[GroupMove]) -> list[GroupMove]:
    """Return the groups that can return completely: a group is on one cluster at a time."""
    return [move for move in moves if not move.blocked]
