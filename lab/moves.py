"""Partitions of a job moved from task to task at will, in place of what their loads ask for."""

from heliograph.driving.job import FlowJob
from heliograph.driving.loads import Loads
from heliograph.policy.spread import Plan


class Proposal(Loads):
    """Finds that another spread over the slices would be better."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self._plan = plan

    def propose(self, *_: object) -> Plan:
        return self._plan


def spread(job: FlowJob, plan: Plan) -> None:
    """Say which slice has which partitions, before there are tasks."""
    job._roster.slices = plan


def rebalance(job: FlowJob, plan: Plan) -> None:
    """Have a job move partitions from task to task."""
    job._roster._loads = Proposal(plan)
    job._roster.rebalance()


def is_moving(job: FlowJob) -> bool:
    """Whether a partition has left a task and is not with another one yet."""
    leaving = any(attempt.leaving for attempt in job._roster.attempts.values())
    return leaving or not all(partition.holder for partition in job.partitions())
