"""What the source connector takes."""

from datetime import timedelta

from heliograph.config.fields import (
    BOOLEAN,
    CLASS,
    MILLISECONDS,
    PATTERNS,
    REPLICATION_FACTOR,
    SECONDS,
    STRING,
    Field,
    Part,
    one_of,
    whole,
)

_SOURCE = (Part.SOURCE,)
_BOTH = (Part.SOURCE, Part.CHECKPOINT)
_MIRROR = "org.apache.kafka.connect.mirror."

TOPICS = Field(
    "topics", PATTERNS, (".*",), "Topics to mirror: names or regular expressions.", _SOURCE
)
TOPICS_EXCLUDE = Field(
    "topics.exclude",
    PATTERNS,
    (r"mm2.*\.internal", r".*\.replica", "__.*"),
    "Topics not to mirror, whatever `topics` says.",
    _SOURCE,
)
CONFIG_PROPERTIES_EXCLUDE = Field(
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
    _SOURCE,
)
TOPIC_FILTER_CLASS = Field(
    "topic.filter.class",
    CLASS,
    _MIRROR + "DefaultTopicFilter",
    "What decides which topics are mirrored.",
    _BOTH,
)
CONFIG_PROPERTY_FILTER_CLASS = Field(
    "config.property.filter.class",
    CLASS,
    _MIRROR + "DefaultConfigPropertyFilter",
    "What decides which topic settings are copied.",
    _SOURCE,
)
CONSUMER_POLL_TIMEOUT = Field(
    "consumer.poll.timeout.ms",
    MILLISECONDS,
    timedelta(seconds=1),
    "How long one wait for records may take.",
    _BOTH,
)
REFRESH_TOPICS_ENABLED = Field(
    "refresh.topics.enabled", BOOLEAN, True, "Look for new topics and partitions.", _SOURCE
)
REFRESH_TOPICS_INTERVAL = Field(
    "refresh.topics.interval.seconds",
    SECONDS,
    timedelta(minutes=10),
    "How often to look for them.",
    _SOURCE,
)
SYNC_TOPIC_CONFIGS_ENABLED = Field(
    "sync.topic.configs.enabled", BOOLEAN, True, "Copy topic settings.", _SOURCE
)
SYNC_TOPIC_CONFIGS_INTERVAL = Field(
    "sync.topic.configs.interval.seconds",
    SECONDS,
    timedelta(minutes=10),
    "How often to copy them.",
    _SOURCE,
)
SYNC_TOPIC_ACLS_ENABLED = Field(
    "sync.topic.acls.enabled", BOOLEAN, True, "Copy topic ACLs.", _SOURCE
)
SYNC_TOPIC_ACLS_INTERVAL = Field(
    "sync.topic.acls.interval.seconds",
    SECONDS,
    timedelta(minutes=10),
    "How often to copy them.",
    _SOURCE,
)
REPLICATION_FACTOR_OF_REMOTES = Field(
    "replication.factor",
    whole("INT", 1, 2**15 - 1, but=(-1,)),
    2,
    "Replicas of new remote topics; -1 leaves it to the broker.",
    _SOURCE,
)
OFFSET_SYNCS_REPLICATION_FACTOR = Field(
    "offset-syncs.topic.replication.factor",
    REPLICATION_FACTOR,
    3,
    "Replicas of the offset-syncs topic.",
    _SOURCE,
)
OFFSET_LAG_MAX = Field(
    "offset.lag.max",
    whole("LONG", 0, 2**63 - 1),
    100,
    "How many records an offset sync may be behind before a new one is written.",
    _SOURCE,
)
OFFSET_SYNCS_LOCATION = Field(
    "offset-syncs.topic.location",
    one_of("source", "target"),
    "source",
    "Which cluster holds the offset-syncs topic; the same for source and checkpoint connector.",
    _BOTH,
)
EMIT_OFFSET_SYNCS_ENABLED = Field(
    "emit.offset-syncs.enabled", BOOLEAN, True, "Write offset syncs.", _SOURCE
)
HEARTBEATS_REPLICATION_ENABLED = Field(
    "heartbeats.replication.enabled",
    BOOLEAN,
    True,
    "Mirror heartbeat topics whatever the filter says.",
    _SOURCE,
)

SOURCE: tuple[Field[object], ...] = (
    TOPICS,
    TOPICS_EXCLUDE,
    CONFIG_PROPERTIES_EXCLUDE,
    TOPIC_FILTER_CLASS,
    CONFIG_PROPERTY_FILTER_CLASS,
    CONSUMER_POLL_TIMEOUT,
    REFRESH_TOPICS_ENABLED,
    REFRESH_TOPICS_INTERVAL,
    SYNC_TOPIC_CONFIGS_ENABLED,
    SYNC_TOPIC_CONFIGS_INTERVAL,
    SYNC_TOPIC_ACLS_ENABLED,
    SYNC_TOPIC_ACLS_INTERVAL,
    REPLICATION_FACTOR_OF_REMOTES,
    OFFSET_SYNCS_REPLICATION_FACTOR,
    OFFSET_LAG_MAX,
    OFFSET_SYNCS_LOCATION,
    EMIT_OFFSET_SYNCS_ENABLED,
    HEARTBEATS_REPLICATION_ENABLED,
)

USE_DEFAULTS_FROM = Field(
    "use.defaults.from",
    one_of("source", "target"),
    "target",
    "Whose default settings a remote topic gets; only read at the level of a flow.",
    _SOURCE,
)
TRANSACTION_BOUNDARY = Field(
    "transaction.boundary",
    one_of("poll", "interval", "connector"),
    "poll",
    "When Connect ends a transaction; here every 500 ms, or at the interval below if it is `interval`.",
    _SOURCE,
)
TRANSACTION_BOUNDARY_INTERVAL = Field(
    "transaction.boundary.interval.ms", MILLISECONDS, None, "Its interval.", _SOURCE
)
EXACTLY_ONCE_SUPPORT = Field(
    "exactly.once.support",
    one_of("requested", "required"),
    "requested",
    "Whether the connector must be exactly once; only read at the level of a flow.",
    _SOURCE,
)
FLOW_ONLY: tuple[Field[object], ...] = (
    USE_DEFAULTS_FROM,
    EXACTLY_ONCE_SUPPORT,
    TRANSACTION_BOUNDARY,
    TRANSACTION_BOUNDARY_INTERVAL,
    Field(
        "offsets.storage.topic",
        STRING,
        None,
        "A topic of its own for this connector's positions.",
        _SOURCE,
    ),
)
