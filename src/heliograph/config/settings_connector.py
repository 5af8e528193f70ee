"""What every one of the three connectors takes: Connect's generic keys and the mirror's own."""

from datetime import timedelta

from heliograph.config.fields import (
    BOOLEAN,
    CLASS,
    COUNT,
    LIST,
    LONG,
    MILLISECONDS,
    STRING,
    Field,
    Part,
    one_of,
    some_of,
)

_BOTH = (Part.SOURCE, Part.CHECKPOINT)

DEFAULT_POLICY = "org.apache.kafka.connect.mirror.DefaultReplicationPolicy"
IDENTITY_POLICY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"

NAME = Field(
    "name",
    STRING,
    "",
    "A name for the connector; source positions are stored under it.",
    required=True,
)
CONNECTOR_CLASS = Field(
    "connector.class", STRING, "", "Which of the three mirror connectors this is.", required=True
)
TASKS_MAX = Field("tasks.max", COUNT, 1, "How many tasks the flow may use at a time.")
ENABLED = Field(
    "enabled",
    BOOLEAN,
    True,
    "Mirror this flow; in mm2.properties a flow is off unless it says true.",
)
SOURCE_CLUSTER_ALIAS = Field(
    "source.cluster.alias",
    STRING,
    "",
    "The name of the source cluster, as remote topics carry it.",
    required=True,
)
TARGET_CLUSTER_ALIAS = Field(
    "target.cluster.alias", STRING, "target", "The name of the target cluster."
)
ADMIN_TIMEOUT = Field(
    "admin.timeout.ms", MILLISECONDS, timedelta(seconds=60), "How long an admin request may take."
)
REPLICATION_POLICY_CLASS = Field(
    "replication.policy.class",
    CLASS,
    DEFAULT_POLICY,
    "How remote topics are named: MM2's default or identity class, or `package.module:Class` in Python.",
)
REPLICATION_POLICY_SEPARATOR = Field(
    "replication.policy.separator",
    STRING,
    ".",
    "The separator of alias and topic in a remote name.",
)
INTERNAL_SEPARATOR_ENABLED = Field(
    "replication.policy.internal.topic.separator.enabled",
    BOOLEAN,
    True,
    "Use the separator in the names of checkpoint and offset-sync topics too.",
)
FORWARDING_ADMIN_CLASS = Field(
    "forwarding.admin.class",
    CLASS,
    "org.apache.kafka.clients.admin.ForwardingAdmin",
    "Accepted for MM2's sake; heliograph always talks to the cluster itself.",
)
METRIC_REPORTERS = Field(
    "metric.reporters",
    LIST,
    ("org.apache.kafka.common.metrics.JmxReporter",),
    "Accepted for MM2's sake; Java reporters cannot be loaded.",
)
CONFIG_PROVIDERS = Field(
    "config.providers",
    LIST,
    (),
    "Names of secret providers; `file`, `env` and `dir` work undeclared.",
)
METRIC_NAMES_FORMATS = Field(
    "metric.names.formats",
    some_of("legacy", "new"),
    ("legacy",),
    "Which of MM2's metric naming schemes to use.",
    _BOTH,
)

COMMON: tuple[Field[object], ...] = (
    NAME,
    CONNECTOR_CLASS,
    Field("connector.plugin.version", STRING, None, "Version of the connector plug-in; not used."),
    TASKS_MAX,
    Field("tasks.max.enforce", BOOLEAN, True, "Refuse more tasks than tasks.max."),
    Field(
        "key.converter", CLASS, None, "Converter of keys; records are always copied byte for byte."
    ),
    Field("key.converter.plugin.version", STRING, None, "Version of the key converter; not used."),
    Field(
        "value.converter",
        CLASS,
        None,
        "Converter of values; records are always copied byte for byte.",
    ),
    Field(
        "value.converter.plugin.version", STRING, None, "Version of the value converter; not used."
    ),
    Field(
        "header.converter",
        CLASS,
        None,
        "Converter of headers; records are always copied byte for byte.",
    ),
    Field(
        "header.converter.plugin.version",
        STRING,
        None,
        "Version of the header converter; not used.",
    ),
    Field("transforms", LIST, (), "Names of record transforms, in order."),
    Field("predicates", LIST, (), "Names of predicates that transforms refer to."),
    Field(
        "config.action.reload",
        one_of("none", "restart"),
        "restart",
        "What to do when a provider's value changes.",
    ),
    Field(
        "errors.retry.timeout", LONG, 0, "Milliseconds to retry a failed record; -1 is for ever."
    ),
    Field(
        "errors.retry.delay.max.ms",
        MILLISECONDS,
        timedelta(minutes=1),
        "Longest pause between such retries.",
    ),
    Field(
        "errors.tolerance",
        one_of("none", "all"),
        "none",
        "Whether a record that fails a transform may be skipped.",
    ),
    Field("errors.log.enable", BOOLEAN, False, "Log every failed record's position."),
    Field("errors.log.include.messages", BOOLEAN, False, "Log the failed record itself too."),
    ENABLED,
    SOURCE_CLUSTER_ALIAS,
    TARGET_CLUSTER_ALIAS,
    ADMIN_TIMEOUT,
    REPLICATION_POLICY_CLASS,
    REPLICATION_POLICY_SEPARATOR,
    INTERNAL_SEPARATOR_ENABLED,
    FORWARDING_ADMIN_CLASS,
    METRIC_REPORTERS,
    CONFIG_PROVIDERS,
    METRIC_NAMES_FORMATS,
)
