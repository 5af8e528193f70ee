"""What the checkpoint and heartbeat connectors take."""

from datetime import timedelta

from heliograph.config.fields import (
    BOOLEAN,
    CLASS,
    PATTERNS,
    REPLICATION_FACTOR,
    SECONDS,
    Field,
    Part,
)

_CHECKPOINT = (Part.CHECKPOINT,)
_HEARTBEAT = (Part.HEARTBEAT,)
_MIRROR = "org.apache.kafka.connect.mirror."

GROUPS = Field(
    "groups",
    PATTERNS,
    (".*",),
    "Consumer groups to follow: names or regular expressions.",
    _CHECKPOINT,
)
GROUPS_EXCLUDE = Field(
    "groups.exclude",
    PATTERNS,
    ("console-consumer-.*", "connect-.*", "__.*"),
    "Consumer groups not to follow, whatever `groups` says.",
    _CHECKPOINT,
)
REFRESH_GROUPS_ENABLED = Field(
    "refresh.groups.enabled", BOOLEAN, True, "Look for new consumer groups.", _CHECKPOINT
)
REFRESH_GROUPS_INTERVAL = Field(
    "refresh.groups.interval.seconds",
    SECONDS,
    timedelta(minutes=10),
    "How often to look for them.",
    _CHECKPOINT,
)
EMIT_CHECKPOINTS_ENABLED = Field(
    "emit.checkpoints.enabled", BOOLEAN, True, "Write checkpoints.", _CHECKPOINT
)
EMIT_CHECKPOINTS_INTERVAL = Field(
    "emit.checkpoints.interval.seconds",
    SECONDS,
    timedelta(minutes=1),
    "How often to write them.",
    _CHECKPOINT,
)
SYNC_GROUP_OFFSETS_ENABLED = Field(
    "sync.group.offsets.enabled",
    BOOLEAN,
    False,
    "Commit translated offsets for groups idle on the target.",
    _CHECKPOINT,
)
SYNC_GROUP_OFFSETS_INTERVAL = Field(
    "sync.group.offsets.interval.seconds",
    SECONDS,
    timedelta(minutes=1),
    "How often to commit them.",
    _CHECKPOINT,
)
CHECKPOINTS_REPLICATION_FACTOR = Field(
    "checkpoints.topic.replication.factor",
    REPLICATION_FACTOR,
    3,
    "Replicas of the checkpoints topic.",
    _CHECKPOINT,
)

CHECKPOINT: tuple[Field[object], ...] = (
    GROUPS,
    GROUPS_EXCLUDE,
    Field(
        "group.filter.class",
        CLASS,
        _MIRROR + "DefaultGroupFilter",
        "What decides which groups to follow.",
        _CHECKPOINT,
    ),
    REFRESH_GROUPS_ENABLED,
    REFRESH_GROUPS_INTERVAL,
    EMIT_CHECKPOINTS_ENABLED,
    EMIT_CHECKPOINTS_INTERVAL,
    SYNC_GROUP_OFFSETS_ENABLED,
    SYNC_GROUP_OFFSETS_INTERVAL,
    CHECKPOINTS_REPLICATION_FACTOR,
)

EMIT_HEARTBEATS_ENABLED = Field(
    "emit.heartbeats.enabled", BOOLEAN, True, "Write heartbeats.", _HEARTBEAT
)
EMIT_HEARTBEATS_INTERVAL = Field(
    "emit.heartbeats.interval.seconds",
    SECONDS,
    timedelta(seconds=1),
    "How often to write one.",
    _HEARTBEAT,
)
HEARTBEATS_REPLICATION_FACTOR = Field(
    "heartbeats.topic.replication.factor",
    REPLICATION_FACTOR,
    3,
    "Replicas of the heartbeats topic.",
    _HEARTBEAT,
)

HEARTBEAT: tuple[Field[object], ...] = (
    EMIT_HEARTBEATS_ENABLED,
    EMIT_HEARTBEATS_INTERVAL,
    HEARTBEATS_REPLICATION_FACTOR,
)
