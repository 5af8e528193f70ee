"""Fail-over and fail-back for programs: the same JSON for the commands and the page."""

from typing import Any

from heliograph.failover.failback import FailbackPlan
from heliograph.failover.failover import FailoverPlan, FailoverReport
from heliograph.failover.moves import GroupMove


def failover_json(plan: FailoverPlan) -> dict[str, Any]:
    """Return what a fail-over would do."""
    return {
        "flow": str(plan.view.config.flow),
        "source_answers": plan.view.source is not None,
        "behind": plan.behind,
        "written_meanwhile": plan.written,
        "rpo_ms": plan.rpo_ms,
        "held_since_ms": plan.view.hold.since_ms if plan.view.hold else None,
        "objections": [objection.sentence for objection in plan.objections],
        "groups": [move_json(move) for move in plan.moves],
    }


def report_json(report: FailoverReport) -> dict[str, Any]:
    """Return what a fail-over did."""
    return {
        "moved": dict(report.moved),
        "left": dict(report.left),
        "held": report.held,
        "unfenced": {str(partition): reason for partition, reason in report.unfenced.items()},
        "seconds": round(report.seconds, 3),
    }


def failback_json(plan: FailbackPlan) -> dict[str, Any]:
    """Return what a fail-back would do."""
    return {
        "flow": str(plan.view.config.flow),
        "held_since_ms": plan.hold.since_ms,
        "lost": plan.lost,
        "lost_ms": plan.lost_ms,
        "tail": plan.action.value if plan.action else None,
        "tails": [
            {
                "topic": tail.partition.topic,
                "partition": tail.partition.index,
                "records": tail.records,
                "from": tail.settled.position.upstream,
                "to": tail.settled.end,
                "first_ms": tail.first_ms,
                "last_ms": tail.last_ms,
            }
            for tail in plan.tails
        ],
        "objections": [objection.sentence for objection in plan.objections],
        "groups": [move_json(move) for move in plan.moves],
    }


def move_json(move: GroupMove) -> dict[str, Any]:
    """Return a group and its partitions for programs."""
    return {
        "group": move.group,
        "ready": move.ready,
        "moved": move.moved,
        "reason": move.reason,
        "in_use_on_the_source": move.in_use,
        "partitions": [
            {
                "topic": step.stand.partition.topic,
                "partition": step.stand.partition.index,
                "offset": step.stand.offset,
                "age_ms": step.stand.age_ms,
                "goes_on_in": str(step.place.partition) if step.place else None,
                "at": step.place.offset if step.place else None,
                "exact": step.place.exact if step.place else None,
                "committed_there": step.there,
                "missing": step.missing,
                "stale": step.stale,
                "reason": step.reason,
            }
            for step in move.steps
        ],
    }
