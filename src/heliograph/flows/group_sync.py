"""Moving groups on the target to their source positions, if they are not in use there.

MirrorMaker 2 reads a group's state some time before it writes, and overwrites a group that was in
use then and is not now. Here, state and offsets are read right before the write, and no group is
moved back.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from heliograph.config.flow import FlowConfig
from heliograph.flows.checkpoint import Checkpointer, in_words
from heliograph.flows.schedule import Chore
from heliograph.groups.admin import Committed, commit_offsets, fetch_committed, list_groups
from heliograph.kafka.cluster import Cluster
from heliograph.model import TopicPartition
from heliograph.policy.checkpoints import plan_commits, refusal_to_sync
from heliograph.wire.mirror_records import Checkpoint

log = logging.getLogger(__name__)


class GroupSync:
    """Commits translated offsets; `skipped` says why a group was left alone the last time."""

    def __init__(self, config: FlowConfig, checkpoints: Checkpointer, target: Cluster) -> None:
        self._config = config
        self._checkpoints = checkpoints
        self._target = target
        self.skipped: dict[str, str] = {}

    def chores(self) -> list[Chore]:
        settings = self._config.checkpoints
        if not self._config.syncs_groups:
            return []
        interval = settings.sync_group_offsets_interval
        return [Chore("group offset sync", interval, self.sync, delayed=True)]

    def sync(self) -> Iterable[str]:
        """Move every group that has checkpoints and is not in use on the target."""
        plan = plan_group_sync(self._target, self._checkpoints.checkpoints())
        refused = dict(plan.unread)
        moved = 0
        for group, behind in plan.behind.items():
            reasons = move_group(self._target, group, behind)
            for reason in reasons.values():
                refused[group] = reason
            moved += len(reasons) < len(behind)
        if moved:
            log.info("flow=%s moved groups=%d on the target", self._config.flow, moved)
        self.skipped = {**plan.skipped, **refused}
        return in_words(refused, "moved on the target")


@dataclass(frozen=True, slots=True)
class GroupSyncPlan:
    """What to commit for groups on the target, why groups are left alone, and why some cannot be read."""

    behind: Mapping[str, Sequence[Checkpoint]]
    skipped: Mapping[str, str]
    unread: Mapping[str, str]


def plan_group_sync(
    target: Cluster, checkpoints: Mapping[str, Mapping[TopicPartition, Checkpoint]]
) -> GroupSyncPlan:
    """Return what a sync would do, given the target's groups as they are now. Changes nothing."""
    listed = list_groups(target)
    skipped = {}
    free = []
    for group in checkpoints:
        state = listed[group].state if group in listed else ""
        refusal = refusal_to_sync(state)
        if refusal is None:
            free.append(group)
        else:
            skipped[group] = refusal
    committed, unread = fetch_committed(target, free)
    behind = {}
    for group, offsets in committed.items():
        positions = {partition: at.offset for partition, at in offsets.items()}
        if wanted := plan_commits(checkpoints[group].values(), positions):
            behind[group] = wanted
    return GroupSyncPlan(behind, skipped, unread)


def move_group(
    target: Cluster, group: str, checkpoints: Iterable[Checkpoint]
) -> dict[TopicPartition, str]:
    """Commit checkpoints for a group without members on the target; return why partitions were refused."""
    wanted = {c.partition: Committed(c.downstream, c.metadata) for c in checkpoints}
    return commit_offsets(target, group, wanted)
