"""Whether a consumer group could fail over now, and if not, what prevents it."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from heliograph.config.flow import FlowConfig
from heliograph.failover.facts import FlowView
from heliograph.failover.failover import FailoverPlan, find_stands, plan_failover
from heliograph.failover.moves import GroupMove
from heliograph.policy.filters import NameFilter


@dataclass(frozen=True, slots=True)
class Explanation:
    """A group as one flow sees it. Without a `move` it cannot fail over on this flow, and `reasons` say why."""

    flow: str
    group: str
    move: GroupMove | None
    reasons: tuple[str, ...]
    plan: FailoverPlan

    @property
    def ready(self) -> bool:
        return self.move is not None and self.move.ready


def explain_group(config: FlowConfig, group: str) -> Explanation:
    """Inspect both clusters of a flow, and return what a fail-over would do to a group."""
    plan = plan_failover(config)
    move = next((move for move in plan.moves if move.group == group), None)
    plan = replace(plan, moves=(move,) if move else ())
    reasons = tuple(_reasons(plan.view, group, move))
    return Explanation(str(config.flow), group, move, reasons, plan)


def _reasons(view: FlowView, group: str, move: GroupMove | None) -> Iterator[str]:
    if move is None:
        yield _unknown(view, group)
        return
    if move.reason is not None:
        yield f"{move.group}: {move.reason}"
    for step in move.blocked:
        yield f"{step.stand.partition}: {step.reason}"
    known = view.checkpoints.get(group, {})
    bare = [s.place.partition for s in move.steps if s.place and s.place.partition not in known]
    if bare and view.source is not None:
        yield (
            f"{len(bare)} partitions have no checkpoint yet ({bare[0]}), so that "
            f"it could not go on there if {view.config.flow.source} were lost now"
        )


def _unknown(view: FlowView, group: str) -> str:
    """Return why a flow does nothing for a group."""
    flow = view.config.flow
    settings = view.config.checkpoints
    if not NameFilter(settings.groups, settings.groups_exclude).accepts(group):
        return f"{flow}.groups and {flow}.groups.exclude leave {group} out"
    if view.source is None:
        return f"{flow.source} does not answer, and {flow.target} has no checkpoint of {group}"
    committed = view.source.groups.committed.get(group, {})
    if group in view.source.groups.unread:
        return f"{group} cannot be read on {flow.source}: {view.source.groups.unread[group]}"
    if not committed:
        return f"{flow.source} has no group {group}, or it has committed nothing"
    if group not in find_stands(view):
        topics = ", ".join(sorted({p.topic for p in committed})[:3])
        return f"{flow} copies none of the topics that {group} reads ({topics})"
    return f"nothing is known of {group}"
