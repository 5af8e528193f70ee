"""What a Connect worker and the dedicated driver take."""

from datetime import timedelta
from enum import StrEnum

from heliograph.config.fields import (
    BOOLEAN,
    COUNT,
    INT,
    LIST,
    MILLISECONDS,
    REPLICATION_FACTOR,
    STRING,
    Field,
    Part,
    Settings,
    choice,
    one_of,
    whole,
)


class SourceSupport(StrEnum):
    """Whether a worker's source connectors may write in transactions."""

    DISABLED = "disabled"
    PREPARING = "preparing"
    ENABLED = "enabled"


class DriverSettings(Settings, by=(Part.DRIVER,)):
    """What mm2.properties says about the mirror as a whole."""

    clusters = Field(
        "clusters", LIST, (), "The names of all clusters, separated by commas.", required=True
    )
    dedicated_mode_enable_internal_rest = Field(
        "dedicated.mode.enable.internal.rest",
        BOOLEAN,
        False,
        "MM2's internal REST server; not needed here.",
    )


class WorkerSettings(Settings, by=(Part.WORKER,)):
    """What a Connect worker takes."""

    offset_storage_file_filename: Field[str | None] = Field(
        "offset.storage.file.filename",
        STRING,
        None,
        "File with the source positions of a standalone worker.",
    )
    rest_port: Field[int | None] = Field(
        "rest.port", whole("INT", 0, 65535), None, "The port of `listeners`, as Kafka 2 wrote it."
    )
    rest_host_name = Field(
        "rest.host.name", STRING, "", "The host of `listeners`, as Kafka 2 wrote it."
    )
    group_id: Field[str | None] = Field(
        "group.id", STRING, None, "Name of the worker group; <source>-mm2 for a flow."
    )
    client_id: Field[str | None] = Field(
        "client.id",
        STRING,
        None,
        "Name in the brokers' logs; <source>-><target> for a flow.",
        by=(Part.WORKER, Part.CLIENT),
    )
    offset_storage_topic: Field[str | None] = Field(
        "offset.storage.topic",
        STRING,
        None,
        "Topic with the source positions; mm2-offsets.<source>.internal for a flow.",
    )
    offset_storage_partitions = Field(
        "offset.storage.partitions", whole("INT", 1, 2**31 - 1, but=(-1,)), 25, "Its partitions."
    )
    offset_storage_replication_factor = Field(
        "offset.storage.replication.factor", REPLICATION_FACTOR, 3, "Its replicas."
    )
    offset_flush_interval = Field(
        "offset.flush.interval.ms",
        MILLISECONDS,
        timedelta(seconds=5),
        "How often source positions are written; 5000 here where Connect has 60000, so less is looked at again after a crash.",
    )
    offset_flush_timeout = Field(
        "offset.flush.timeout.ms",
        MILLISECONDS,
        timedelta(seconds=5),
        "How long writing positions may take.",
    )
    config_storage_topic: Field[str | None] = Field(
        "config.storage.topic",
        STRING,
        None,
        "Topic with the connectors; mm2-configs.<source>.internal for a flow.",
    )
    config_storage_replication_factor = Field(
        "config.storage.replication.factor", REPLICATION_FACTOR, 3, "Its replicas."
    )
    status_storage_topic: Field[str | None] = Field(
        "status.storage.topic",
        STRING,
        None,
        "Topic with their state; mm2-status.<source>.internal for a flow.",
    )
    status_storage_partitions = Field(
        "status.storage.partitions", whole("INT", 1, 2**31 - 1, but=(-1,)), 5, "Its partitions."
    )
    status_storage_replication_factor = Field(
        "status.storage.replication.factor", REPLICATION_FACTOR, 3, "Its replicas."
    )
    exactly_once_source_support = Field(
        "exactly.once.source.support",
        choice(SourceSupport),
        SourceSupport.DISABLED,
        "`enabled` writes in transactions, for remote topics with other writers; without it no record is "
        "written twice, either, where there are none.",
    )
    plugin_path = Field("plugin.path", LIST, (), "Where Java plug-ins are; not used.")
    plugin_discovery = Field(
        "plugin.discovery",
        one_of("only_scan", "hybrid_warn", "hybrid_fail", "service_load"),
        "hybrid_warn",
        "How they are found; not used.",
    )
    connector_client_config_override_policy = Field(
        "connector.client.config.override.policy",
        STRING,
        "All",
        "What connectors may override of their clients.",
    )
    connect_protocol = Field(
        "connect.protocol",
        one_of("eager", "compatible", "sessioned"),
        "sessioned",
        "How workers agree; not used.",
    )
    scheduled_rebalance_max_delay = Field(
        "scheduled.rebalance.max.delay.ms",
        MILLISECONDS,
        timedelta(minutes=5),
        "How long to wait for a lost worker.",
    )
    session_timeout = Field(
        "session.timeout.ms",
        MILLISECONDS,
        timedelta(seconds=10),
        "Silence after which a worker counts as lost.",
    )
    heartbeat_interval = Field(
        "heartbeat.interval.ms",
        MILLISECONDS,
        timedelta(seconds=3),
        "How often a worker says it lives.",
    )
    rebalance_timeout = Field(
        "rebalance.timeout.ms",
        MILLISECONDS,
        timedelta(minutes=1),
        "How long workers may take to rejoin.",
    )
    worker_sync_timeout = Field(
        "worker.sync.timeout.ms",
        MILLISECONDS,
        timedelta(seconds=3),
        "How long a worker may catch up.",
    )
    worker_unsync_backoff = Field(
        "worker.unsync.backoff.ms",
        MILLISECONDS,
        timedelta(minutes=5),
        "How long it stays out otherwise.",
    )
    task_shutdown_graceful_timeout = Field(
        "task.shutdown.graceful.timeout.ms",
        MILLISECONDS,
        timedelta(seconds=5),
        "How long tasks may take to stop.",
    )
    topic_creation_enable = Field(
        "topic.creation.enable",
        BOOLEAN,
        True,
        "Let connectors create topics by topic.creation rules.",
    )
    topic_tracking_enable = Field(
        "topic.tracking.enable", BOOLEAN, True, "Remember which topics a connector used."
    )
    topic_tracking_allow_reset = Field(
        "topic.tracking.allow.reset", BOOLEAN, True, "Let users reset that memory."
    )
    client_dns_lookup = Field(
        "client.dns.lookup",
        one_of("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
        "use_all_dns_ips",
        "How host names are looked up.",
    )
    metadata_max_age = Field(
        "metadata.max.age.ms", MILLISECONDS, timedelta(minutes=5), "How old metadata may be."
    )
    request_timeout = Field(
        "request.timeout.ms", MILLISECONDS, timedelta(seconds=40), "How long a request may take."
    )
    retry_backoff = Field(
        "retry.backoff.ms", MILLISECONDS, timedelta(milliseconds=100), "First pause between tries."
    )
    retry_backoff_max = Field(
        "retry.backoff.max.ms", MILLISECONDS, timedelta(seconds=1), "Longest pause between tries."
    )
    reconnect_backoff = Field(
        "reconnect.backoff.ms",
        MILLISECONDS,
        timedelta(milliseconds=50),
        "First pause before reconnecting.",
    )
    reconnect_backoff_max = Field(
        "reconnect.backoff.max.ms",
        MILLISECONDS,
        timedelta(seconds=1),
        "Longest pause before reconnecting.",
    )
    connections_max_idle = Field(
        "connections.max.idle.ms",
        MILLISECONDS,
        timedelta(minutes=9),
        "When an idle connection is closed.",
    )
    socket_connection_setup_timeout = Field(
        "socket.connection.setup.timeout.ms",
        MILLISECONDS,
        timedelta(seconds=10),
        "How long connecting may take.",
    )
    socket_connection_setup_timeout_max = Field(
        "socket.connection.setup.timeout.max.ms",
        MILLISECONDS,
        timedelta(seconds=30),
        "The same after many tries.",
    )
    send_buffer_bytes = Field(
        "send.buffer.bytes", INT, 131072, "TCP send buffer; -1 leaves it to the system."
    )
    receive_buffer_bytes = Field(
        "receive.buffer.bytes", INT, 32768, "TCP receive buffer; -1 leaves it to the system."
    )
    metrics_num_samples = Field("metrics.num.samples", COUNT, 2, "Samples a metric keeps.")
    metrics_sample_window = Field(
        "metrics.sample.window.ms", MILLISECONDS, timedelta(seconds=30), "Time a sample covers."
    )
    metrics_recording_level = Field(
        "metrics.recording.level", one_of("INFO", "DEBUG", "TRACE"), "INFO", "How much is measured."
    )
    inter_worker_key_generation_algorithm = Field(
        "inter.worker.key.generation.algorithm",
        STRING,
        "HmacSHA256",
        "Key algorithm between workers.",
    )
    inter_worker_key_size: Field[int | None] = Field(
        "inter.worker.key.size", INT, None, "Its key size."
    )
    inter_worker_key_ttl = Field(
        "inter.worker.key.ttl.ms", MILLISECONDS, timedelta(hours=1), "Life of such a key."
    )
    inter_worker_signature_algorithm = Field(
        "inter.worker.signature.algorithm", STRING, "HmacSHA256", "Signature between workers."
    )
    inter_worker_verification_algorithms = Field(
        "inter.worker.verification.algorithms",
        LIST,
        ("HmacSHA256",),
        "Signatures a worker accepts.",
    )
    rest_extension_classes = Field(
        "rest.extension.classes",
        LIST,
        (),
        "Java extensions of the REST interface; not used, rest.access.file takes their place.",
    )
    admin_listeners: Field[tuple[str, ...] | None] = Field(
        "admin.listeners", LIST, None, "Where the admin part of REST listens."
    )
