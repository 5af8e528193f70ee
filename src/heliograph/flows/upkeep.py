"""What a flow keeps in step beside its data, a thread for each of MirrorMaker 2's connectors."""

from heliograph.config.flow import FlowConfig
from heliograph.flows.checkpoint import Checkpointer
from heliograph.flows.group_sync import GroupSync
from heliograph.flows.heartbeat import Heart
from heliograph.flows.offset_syncs import OffsetSyncWriter
from heliograph.flows.schedule import Chore, Schedule
from heliograph.flows.topic_acls import sync_topic_acls
from heliograph.flows.topic_configs import sync_topic_configs
from heliograph.kafka.cluster import Cluster


class TopicUpkeep(Schedule):
    """Offset syncs, configurations and ACLs: the source connector's, beside refreshing topics."""

    def __init__(self, config: FlowConfig) -> None:
        source, target = Cluster(config.source_admin), Cluster(config.target_admin)
        self.syncs = OffsetSyncWriter(config)
        chores = self.syncs.chores()
        if config.sync_topic_configs_enabled:
            chores.append(
                Chore(
                    "topic configs",
                    config.sync_topic_configs_interval,
                    lambda: sync_topic_configs(config, source, target),
                )
            )
        if config.sync_topic_acls_enabled:
            chores.append(
                Chore(
                    "topic ACLs",
                    config.sync_topic_acls_interval,
                    lambda: sync_topic_acls(config, source, target),
                )
            )
        super().__init__(f"{config.flow} topics", chores, [source, target, self.syncs])


class GroupUpkeep(Schedule):
    """Checkpoints and group offsets: the checkpoint connector."""

    def __init__(self, config: FlowConfig) -> None:
        source, target = Cluster(config.source_admin), Cluster(config.target_admin)
        checkpointer = Checkpointer(config, source, target)
        self._group_sync = GroupSync(config, checkpointer, target)
        chores = [*checkpointer.chores(), *self._group_sync.chores()]
        super().__init__(f"{config.flow} groups", chores, [source, target, checkpointer])

    @property
    def skipped_groups(self) -> dict[str, str]:
        """Why groups were not moved on the target the last time."""
        return dict(self._group_sync.skipped)


class HeartbeatUpkeep(Schedule):
    """Heartbeats: the heartbeat connector, which also beats for flows that copy nothing."""

    def __init__(self, config: FlowConfig) -> None:
        heart = Heart(config)
        super().__init__(f"{config.flow} heartbeat", heart.chores(), [heart])
