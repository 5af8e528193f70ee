"""What the source connector takes."""

from datetime import timedelta
from enum import StrEnum

from heliograph.config.fields import (
    BOOLEAN,
    CLASS,
    HIGH,
    MEDIUM,
    MILLISECONDS,
    PATTERNS,
    REPLICATION_FACTOR,
    SECONDS,
    STRING,
    Field,
    Heading,
    Part,
    Settings,
    choice,
    is_on,
    whole,
)

_BOTH = (Part.SOURCE, Part.CHECKPOINT)
_MIRROR = "org.apache.kafka.connect.mirror."


class End(StrEnum):
    """One of the two clusters of a flow."""

    SOURCE = "source"
    TARGET = "target"


class TransactionBoundary(StrEnum):
    """When Connect ends a transaction."""

    POLL = "poll"
    INTERVAL = "interval"
    CONNECTOR = "connector"


class ExactlyOnceSupport(StrEnum):
    """Whether a connector must be exactly once."""

    REQUESTED = "requested"
    REQUIRED = "required"


class SourceSettings(Settings, by=(Part.SOURCE,)):
    """What the source connector takes."""

    topics = Field(
        "topics",
        PATTERNS,
        (".*",),
        "Topics to mirror: names or regular expressions.",
        importance=HIGH,
    )
    topics_exclude = Field(
        "topics.exclude",
        PATTERNS,
        (r"mm2.*\.internal", r".*\.replica", "__.*"),
        "Topics not to mirror, whatever `topics` says.",
        importance=HIGH,
    )
    config_properties_exclude = Field(
        "config.properties.exclude",
        PATTERNS,
        (
            "follower.replication.throttled.replicas",
            "leader.replication.throttled.replicas",
            "message.timestamp.difference.max.ms",
            "log.message.timestamp.before.max.ms",
            "log.message.timestamp.after.max.ms",
            "message.timestamp.type",
            "unclean.leader.election.enable",
            "min.insync.replicas",
        ),
        "Topic settings never copied to the remote topic.",
        importance=HIGH,
    )
    topic_filter_class = Field(
        "topic.filter.class",
        CLASS,
        _MIRROR + "DefaultTopicFilter",
        "What decides which topics are mirrored.",
        by=_BOTH,
    )
    config_property_filter_class = Field(
        "config.property.filter.class",
        CLASS,
        _MIRROR + "DefaultConfigPropertyFilter",
        "What decides which topic settings are copied.",
    )
    consumer_poll_timeout = Field(
        "consumer.poll.timeout.ms",
        MILLISECONDS,
        timedelta(seconds=1),
        "How long one wait for records may take.",
        by=_BOTH,
    )
    refresh_topics_enabled = Field(
        "refresh.topics.enabled", BOOLEAN, True, "Look for new topics and partitions."
    )
    refresh_topics_interval = Field(
        "refresh.topics.interval.seconds",
        SECONDS,
        timedelta(minutes=10),
        "How often to look for them.",
    )
    sync_topic_configs_enabled = Field(
        "sync.topic.configs.enabled", BOOLEAN, True, "Copy topic settings."
    )
    sync_topic_configs_interval = Field(
        "sync.topic.configs.interval.seconds",
        SECONDS,
        timedelta(minutes=10),
        "How often to copy them.",
    )
    sync_topic_acls_enabled = Field("sync.topic.acls.enabled", BOOLEAN, True, "Copy topic ACLs.")
    sync_topic_acls_interval = Field(
        "sync.topic.acls.interval.seconds",
        SECONDS,
        timedelta(minutes=10),
        "How often to copy them.",
    )
    replication_factor = Field(
        "replication.factor",
        whole("INT", 1, 2**15 - 1, but=(-1,)),
        2,
        "Replicas of new remote topics; -1 leaves it to the broker.",
    )
    offset_syncs_topic_replication_factor = Field(
        "offset-syncs.topic.replication.factor",
        REPLICATION_FACTOR,
        3,
        "Replicas of the offset-syncs topic.",
    )
    offset_lag_max = Field(
        "offset.lag.max",
        whole("LONG", 0, 2**63 - 1),
        100,
        "How many records an offset sync may be behind before a new one is written.",
    )
    offset_syncs_topic_location = Field(
        "offset-syncs.topic.location",
        choice(End),
        End.SOURCE,
        "Which cluster holds the offset-syncs topic; the same for source and checkpoint connector.",
        by=_BOTH,
    )
    emit_offset_syncs_enabled = Field(
        "emit.offset-syncs.enabled", BOOLEAN, True, "Write offset syncs."
    )
    heartbeats_replication_enabled = Field(
        "heartbeats.replication.enabled",
        BOOLEAN,
        True,
        "Mirror heartbeat topics whatever the filter says.",
    )

    @property
    def refreshes_topics(self) -> bool:
        """Whether new topics are looked for."""
        return is_on(self.refresh_topics_enabled, self.refresh_topics_interval)

    @property
    def syncs_topic_configs(self) -> bool:
        """Whether settings of remote topics follow those of their sources."""
        return is_on(self.sync_topic_configs_enabled, self.sync_topic_configs_interval)

    @property
    def syncs_topic_acls(self) -> bool:
        """Whether ACLs of remote topics follow those of their sources."""
        return is_on(self.sync_topic_acls_enabled, self.sync_topic_acls_interval)


class FlowOnlySettings(Settings, by=(Part.SOURCE,)):
    """What the source connector takes at the level of a flow alone."""

    use_defaults_from = Field(
        "use.defaults.from",
        choice(End),
        End.TARGET,
        "Whose default settings a remote topic gets; only read at the level of a flow.",
    )
    exactly_once_support = Field(
        "exactly.once.support",
        choice(ExactlyOnceSupport),
        ExactlyOnceSupport.REQUESTED,
        "Whether the connector must be exactly once; only read at the level of a flow.",
        importance=MEDIUM,
        heading=Heading("Exactly Once Support", 2, "SHORT", "Exactly once support"),
    )
    transaction_boundary = Field(
        "transaction.boundary",
        choice(TransactionBoundary),
        TransactionBoundary.POLL,
        "When Connect ends a transaction; here every 500 ms, or at the interval below if it is `interval`.",
        importance=MEDIUM,
        heading=Heading("Exactly Once Support", 3, "SHORT", "Transaction Boundary"),
    )
    transaction_boundary_interval: Field[timedelta | None] = Field(
        "transaction.boundary.interval.ms",
        MILLISECONDS,
        None,
        "Its interval.",
        heading=Heading("Exactly Once Support", 4, "SHORT", "Transaction boundary interval"),
    )
    offsets_storage_topic: Field[str | None] = Field(
        "offsets.storage.topic",
        STRING,
        None,
        "A topic of its own for this connector's positions.",
        heading=Heading("offsets.topic", 1, "LONG", "Offsets topic"),
    )
