"""Moving groups on the target to where they stand on the source, if nobody uses them there.

MirrorMaker 2 looks at a group's state some time before it writes, and overwrites a group that was in
use then and is not now. Here state and offsets are read right before, and no group is taken back.
"""

import logging
from collections.abc import Iterable

from heliograph.config.flow import FlowConfig
from heliograph.flows.checkpoint import Checkpointer, in_words
from heliograph.flows.schedule import Chore
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.groups import Committed, commit_offsets, fetch_committed, list_groups
from heliograph.policy.checkpoints import plan_commits, refusal_to_sync

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
        if not settings.sync_group_offsets_enabled:
            return []
        interval = settings.sync_group_offsets_interval
        return [Chore("group offset sync", interval, self.sync, delayed=True)]

    def sync(self) -> Iterable[str]:
        """Move every group that has checkpoints and is not in use on the target."""
        listed = list_groups(self._target)
        checkpoints = self._checkpoints.checkpoints()
        skipped = {}
        free = []
        for group in checkpoints:
            state = listed[group].state if group in listed else ""
            refusal = refusal_to_sync(state)
            if refusal is None:
                free.append(group)
            else:
                skipped[group] = refusal
        committed, unread = fetch_committed(self._target, free)
        refused = dict(unread)
        moved = 0
        for group, offsets in committed.items():
            positions = {partition: at.offset for partition, at in offsets.items()}
            behind = plan_commits(checkpoints[group].values(), positions)
            if not behind:
                continue
            wanted = {c.partition: Committed(c.downstream, c.metadata) for c in behind}
            reasons = commit_offsets(self._target, group, wanted)
            for reason in reasons.values():
                refused[group] = reason
            moved += len(reasons) < len(wanted)
        if moved:
            log.info("flow=%s moved groups=%d on the target", self._config.flow, moved)
        self.skipped = skipped | refused
        return in_words(refused, "moved on the target")
