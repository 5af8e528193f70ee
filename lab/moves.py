"""Partitions of a job moved from task to task at will, instead of as their loads require."""

from heliograph.driving.job import FlowJob
from heliograph.driving.loads import Loads
from heliograph.policy.spread import Plan


class Proposal(Loads):
    """Always proposes one given spread over the slices."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self._plan = plan

    def propose(self, *_: object) -> Plan:
        return self._plan


def spread(job: FlowJob, plan: Plan) -> None:
    """Set which slice has which partitions, before there are tasks."""
    job._roster.slices = plan


def rebalance(job: FlowJob, plan: Plan) -> None:
    """Make a job move partitions from task to task."""
    job._roster._loads = Proposal(plan)
    job._roster.rebalance()


def is_moving(job: FlowJob) -> bool:
    """Whether a partition has left a task and is not with another one yet."""
    leaving = any(attempt.leaving for attempt in job._roster.attempts.values())
    return leaving or not all(partition.holder for partition in job.partitions())
