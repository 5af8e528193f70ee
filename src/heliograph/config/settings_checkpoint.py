"""What the checkpoint and heartbeat connectors take."""

from datetime import timedelta

from heliograph.config.fields import (
    BOOLEAN,
    CLASS,
    HIGH,
    PATTERNS,
    REPLICATION_FACTOR,
    SECONDS,
    Field,
    Part,
    Settings,
    is_on,
)

_MIRROR = "org.apache.kafka.connect.mirror."


class CheckpointSettings(Settings, by=(Part.CHECKPOINT,)):
    """What the checkpoint connector takes."""

    groups = Field(
        "groups",
        PATTERNS,
        (".*",),
        "Consumer groups to follow: names or regular expressions.",
        importance=HIGH,
    )
    groups_exclude = Field(
        "groups.exclude",
        PATTERNS,
        ("console-consumer-.*", "connect-.*", "__.*"),
        "Consumer groups not to follow, whatever `groups` says.",
        importance=HIGH,
    )
    group_filter_class = Field(
        "group.filter.class",
        CLASS,
        _MIRROR + "DefaultGroupFilter",
        "What decides which groups to follow.",
    )
    refresh_groups_enabled = Field(
        "refresh.groups.enabled", BOOLEAN, True, "Look for new consumer groups."
    )
    refresh_groups_interval = Field(
        "refresh.groups.interval.seconds",
        SECONDS,
        timedelta(minutes=10),
        "How often to look for them.",
    )
    emit_checkpoints_enabled = Field(
        "emit.checkpoints.enabled", BOOLEAN, True, "Write checkpoints."
    )
    emit_checkpoints_interval = Field(
        "emit.checkpoints.interval.seconds",
        SECONDS,
        timedelta(minutes=1),
        "How often to write them.",
    )
    sync_group_offsets_enabled = Field(
        "sync.group.offsets.enabled",
        BOOLEAN,
        False,
        "Commit translated offsets for groups idle on the target.",
    )
    sync_group_offsets_interval = Field(
        "sync.group.offsets.interval.seconds",
        SECONDS,
        timedelta(minutes=1),
        "How often to commit them.",
    )
    checkpoints_topic_replication_factor = Field(
        "checkpoints.topic.replication.factor",
        REPLICATION_FACTOR,
        3,
        "Replicas of the checkpoints topic.",
    )

    @property
    def refreshes_groups(self) -> bool:
        """Whether new groups are looked for."""
        return is_on(self.refresh_groups_enabled, self.refresh_groups_interval)

    @property
    def emits(self) -> bool:
        """Whether checkpoints are written."""
        return is_on(self.emit_checkpoints_enabled, self.emit_checkpoints_interval)

    @property
    def syncs_groups(self) -> bool:
        """Whether groups that are idle on the target are moved there."""
        return is_on(self.sync_group_offsets_enabled, self.sync_group_offsets_interval)


class HeartbeatSettings(Settings, by=(Part.HEARTBEAT,)):
    """What the heartbeat connector takes."""

    emit_heartbeats_enabled = Field("emit.heartbeats.enabled", BOOLEAN, True, "Write heartbeats.")
    emit_heartbeats_interval = Field(
        "emit.heartbeats.interval.seconds", SECONDS, timedelta(seconds=1), "How often to write one."
    )
    heartbeats_topic_replication_factor = Field(
        "heartbeats.topic.replication.factor",
        REPLICATION_FACTOR,
        3,
        "Replicas of the heartbeats topic.",
    )

    @property
    def emits(self) -> bool:
        """Whether heartbeats are written."""
        return is_on(self.emit_heartbeats_enabled, self.emit_heartbeats_interval)
