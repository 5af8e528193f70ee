"""What a flow keeps in sync in addition to its data, with a thread for each MirrorMaker 2 connector."""

from dataclasses import dataclass

from heliograph.config.flow import FlowConfig
from heliograph.flows.checkpoint import Checkpointer
from heliograph.flows.group_sync import GroupSync
from heliograph.flows.heartbeat import Heart
from heliograph.flows.offset_syncs import OffsetSyncWriter
from heliograph.flows.schedule import Chore, Schedule
from heliograph.flows.topic_acls import sync_topic_acls
from heliograph.flows.topic_configs import sync_topic_configs
from heliograph.kafka.cluster import Cluster
from heliograph.wire.mirror_records import Checkpoint


class TopicUpkeep(Schedule):
    """Offset syncs, configurations and ACLs: the source connector's chores, except refreshing topics."""

    def __init__(self, config: FlowConfig) -> None:
        source, target = Cluster(config.source_admin), Cluster(config.target_admin)
        self.syncs = OffsetSyncWriter(config)
        chores = self.syncs.chores()
        if config.mirroring.syncs_topic_configs:
            chores.append(
                Chore(
                    "topic configs",
                    config.mirroring.sync_topic_configs_interval,
                    lambda: sync_topic_configs(config, source, target),
                )
            )
        if config.mirroring.syncs_topic_acls:
            chores.append(
                Chore(
                    "topic ACLs",
                    config.mirroring.sync_topic_acls_interval,
                    lambda: sync_topic_acls(config, source, target),
                )
            )
        super().__init__(f"{config.flow} topics", chores, [source, target, self.syncs])


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """Where a group of the source stands on the target, and why it was not moved there, if it was not."""

    group: str
    checkpoints: tuple[Checkpoint, ...]
    skipped: str | None


class GroupUpkeep(Schedule):
    """Checkpoints and group offsets: the checkpoint connector."""

    def __init__(self, config: FlowConfig) -> None:
        self.flow = str(config.flow)
        source, target = Cluster(config.source_admin), Cluster(config.target_admin)
        self._checkpointer = Checkpointer(config, source, target)
        self._group_sync = GroupSync(config, self._checkpointer, target)
        chores = [*self._checkpointer.chores(), *self._group_sync.chores()]
        super().__init__(f"{config.flow} groups", chores, [source, target, self._checkpointer])

    def groups(self) -> list[GroupStatus]:
        """Return the groups as of the last checkpoints. Thread-safe."""
        skipped = self._group_sync.skipped
        return [
            GroupStatus(group, tuple(its.values()), skipped.get(group))
            for group, its in sorted(self._checkpointer.checkpoints().items())
        ]

    @property
    def skipped_groups(self) -> dict[str, str]:
        """Why groups were not moved on the target the last time."""
        return dict(self._group_sync.skipped)


class HeartbeatUpkeep(Schedule):
    """Heartbeats: the heartbeat connector, which also sends heartbeats for flows that copy nothing."""

    def __init__(self, config: FlowConfig) -> None:
        heart = Heart(config)
        super().__init__(f"{config.flow} heartbeat", heart.chores(), [heart])
