"""What every one of the three connectors takes: Connect's generic keys and the mirror's own."""

from datetime import timedelta

from heliograph.config.fields import (
    BOOLEAN,
    CLASS,
    CONNECTORS,
    COUNT,
    HIGH,
    LIST,
    LONG,
    MEDIUM,
    MILLISECONDS,
    STRING,
    Field,
    Heading,
    Part,
    Settings,
    one_of,
    some_of,
)

_BOTH = (Part.SOURCE, Part.CHECKPOINT)

DEFAULT_POLICY = "org.apache.kafka.connect.mirror.DefaultReplicationPolicy"
IDENTITY_POLICY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"


class ConnectorSettings(Settings, by=CONNECTORS):
    """What every one of the three connectors takes."""

    name = Field(
        "name",
        STRING,
        "",
        "A name for the connector; source positions are stored under it.",
        required=True,
        importance=HIGH,
        heading=Heading("Common", 1, "MEDIUM", "Connector name"),
    )
    connector_class = Field(
        "connector.class",
        STRING,
        "",
        "Which of the three mirror connectors this is.",
        required=True,
        importance=HIGH,
        heading=Heading("Common", 2, "LONG", "Connector class"),
    )
    connector_plugin_version: Field[str | None] = Field(
        "connector.plugin.version",
        STRING,
        None,
        "Version of the connector plug-in; not used.",
        importance=MEDIUM,
        heading=Heading("Common", 3, "MEDIUM", "Connector version"),
    )
    tasks_max = Field(
        "tasks.max",
        COUNT,
        1,
        "How many tasks the flow may use at a time.",
        importance=HIGH,
        heading=Heading("Common", 4, "SHORT", "Tasks max"),
    )
    tasks_max_enforce = Field(
        "tasks.max.enforce",
        BOOLEAN,
        True,
        "Refuse more tasks than tasks.max.",
        heading=Heading("Common", 5, "SHORT", "Enforce tasks max"),
    )
    key_converter: Field[str | None] = Field(
        "key.converter",
        CLASS,
        None,
        "Converter of keys; records are always copied byte for byte.",
        heading=Heading("Common", 6, "SHORT", "Key converter class"),
    )
    key_converter_plugin_version: Field[str | None] = Field(
        "key.converter.plugin.version",
        STRING,
        None,
        "Version of the key converter; not used.",
        heading=Heading("Common", 7, "SHORT", "Key converter version"),
    )
    value_converter: Field[str | None] = Field(
        "value.converter",
        CLASS,
        None,
        "Converter of values; records are always copied byte for byte.",
        heading=Heading("Common", 8, "SHORT", "Value converter class"),
    )
    value_converter_plugin_version: Field[str | None] = Field(
        "value.converter.plugin.version",
        STRING,
        None,
        "Version of the value converter; not used.",
        heading=Heading("Common", 9, "SHORT", "Value converter version"),
    )
    header_converter: Field[str | None] = Field(
        "header.converter",
        CLASS,
        None,
        "Converter of headers; records are always copied byte for byte.",
        heading=Heading("Common", 10, "SHORT", "Header converter class"),
    )
    header_converter_plugin_version: Field[str | None] = Field(
        "header.converter.plugin.version",
        STRING,
        None,
        "Version of the header converter; not used.",
        heading=Heading("Common", 11, "SHORT", "Header converter version"),
    )
    transforms = Field(
        "transforms",
        LIST,
        (),
        "Names of record transforms, in order.",
        heading=Heading("Transforms", 12, "LONG", "Transforms"),
    )
    predicates = Field(
        "predicates",
        LIST,
        (),
        "Names of predicates that transforms refer to.",
        heading=Heading("Predicates", 13, "LONG", "Predicates"),
    )
    config_action_reload = Field(
        "config.action.reload",
        one_of("none", "restart"),
        "restart",
        "What to do when a provider's value changes.",
        heading=Heading("Common", 14, "MEDIUM", "Reload Action"),
    )
    errors_retry_timeout = Field(
        "errors.retry.timeout",
        LONG,
        0,
        "Milliseconds to retry a failed record; -1 is for ever.",
        importance=MEDIUM,
        heading=Heading("Error Handling", 1, "MEDIUM", "Retry Timeout for Errors"),
    )
    errors_retry_delay_max = Field(
        "errors.retry.delay.max.ms",
        MILLISECONDS,
        timedelta(minutes=1),
        "Longest pause between such retries.",
        importance=MEDIUM,
        heading=Heading("Error Handling", 2, "MEDIUM", "Maximum Delay Between Retries for Errors"),
    )
    errors_tolerance = Field(
        "errors.tolerance",
        one_of("none", "all"),
        "none",
        "Whether a record that fails a transform may be skipped.",
        importance=MEDIUM,
        heading=Heading("Error Handling", 3, "SHORT", "Error Tolerance"),
    )
    errors_log_enable = Field(
        "errors.log.enable",
        BOOLEAN,
        False,
        "Log every failed record's position.",
        importance=MEDIUM,
        heading=Heading("Error Handling", 4, "SHORT", "Log Errors"),
    )
    errors_log_include_messages = Field(
        "errors.log.include.messages",
        BOOLEAN,
        False,
        "Log the failed record itself too.",
        importance=MEDIUM,
        heading=Heading("Error Handling", 5, "SHORT", "Log Error Details"),
    )
    enabled = Field(
        "enabled",
        BOOLEAN,
        True,
        "Mirror this flow; in mm2.properties a flow is off unless it says true.",
    )
    source_cluster_alias = Field(
        "source.cluster.alias",
        STRING,
        "",
        "The name of the source cluster, as remote topics carry it.",
        required=True,
        importance=HIGH,
    )
    target_cluster_alias = Field(
        "target.cluster.alias", STRING, "target", "The name of the target cluster.", importance=HIGH
    )
    admin_timeout = Field(
        "admin.timeout.ms",
        MILLISECONDS,
        timedelta(seconds=60),
        "How long an admin request may take.",
    )
    replication_policy_class = Field(
        "replication.policy.class",
        CLASS,
        DEFAULT_POLICY,
        "How remote topics are named: MM2's default or identity class, or `package.module:Class` in Python.",
    )
    replication_policy_separator = Field(
        "replication.policy.separator",
        STRING,
        ".",
        "The separator of alias and topic in a remote name.",
    )
    replication_policy_internal_topic_separator_enabled = Field(
        "replication.policy.internal.topic.separator.enabled",
        BOOLEAN,
        True,
        "Use the separator in the names of checkpoint and offset-sync topics too.",
    )
    forwarding_admin_class = Field(
        "forwarding.admin.class",
        CLASS,
        "org.apache.kafka.clients.admin.ForwardingAdmin",
        "Accepted for MM2's sake; heliograph always talks to the cluster itself.",
    )
    metric_reporters = Field(
        "metric.reporters",
        LIST,
        ("org.apache.kafka.common.metrics.JmxReporter",),
        "Accepted for MM2's sake; Java reporters cannot be loaded.",
    )
    config_providers = Field(
        "config.providers",
        LIST,
        (),
        "Names of secret providers; `file`, `env` and `dir` work undeclared.",
    )
    metric_names_formats = Field(
        "metric.names.formats",
        some_of("legacy", "new"),
        ("legacy",),
        "Which of MM2's metric naming schemes to use.",
        by=_BOTH,
    )
