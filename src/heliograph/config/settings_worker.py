"""What a Connect worker and the dedicated driver take."""

from datetime import timedelta

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
    one_of,
    whole,
)

_WORKER = (Part.WORKER,)
_DRIVER = (Part.DRIVER,)
_REST = (Part.DRIVER, Part.WORKER)

OFFSET_STORAGE_TOPIC = Field(
    "offset.storage.topic",
    STRING,
    None,
    "Topic with the source positions; mm2-offsets.<source>.internal for a flow.",
    _WORKER,
)
OFFSET_STORAGE_PARTITIONS = Field(
    "offset.storage.partitions",
    whole("INT", 1, 2**31 - 1, but=(-1,)),
    25,
    "Its partitions.",
    _WORKER,
)
OFFSET_STORAGE_REPLICATION_FACTOR = Field(
    "offset.storage.replication.factor", REPLICATION_FACTOR, 3, "Its replicas.", _WORKER
)
OFFSET_STORAGE_FILE = Field(
    "offset.storage.file.filename",
    STRING,
    None,
    "File with the source positions of a standalone worker.",
    _WORKER,
)
OFFSET_FLUSH_INTERVAL = Field(
    "offset.flush.interval.ms",
    MILLISECONDS,
    timedelta(seconds=5),
    "How often source positions are written; 5000 here where Connect has 60000, so less is looked at again after a crash.",
    _WORKER,
)
CONFIG_STORAGE_TOPIC = Field(
    "config.storage.topic",
    STRING,
    None,
    "Topic with the connectors; mm2-configs.<source>.internal for a flow.",
    _WORKER,
)
CONFIG_STORAGE_REPLICATION_FACTOR = Field(
    "config.storage.replication.factor", REPLICATION_FACTOR, 3, "Its replicas.", _WORKER
)
STATUS_STORAGE_TOPIC = Field(
    "status.storage.topic",
    STRING,
    None,
    "Topic with their state; mm2-status.<source>.internal for a flow.",
    _WORKER,
)
STATUS_STORAGE_PARTITIONS = Field(
    "status.storage.partitions",
    whole("INT", 1, 2**31 - 1, but=(-1,)),
    5,
    "Its partitions.",
    _WORKER,
)
STATUS_STORAGE_REPLICATION_FACTOR = Field(
    "status.storage.replication.factor", REPLICATION_FACTOR, 3, "Its replicas.", _WORKER
)
GROUP_ID = Field(
    "group.id", STRING, None, "Name of the worker group; <source>-mm2 for a flow.", _WORKER
)
EXACTLY_ONCE_SOURCE_SUPPORT = Field(
    "exactly.once.source.support",
    one_of("disabled", "preparing", "enabled"),
    "disabled",
    "`enabled` writes in transactions, for remote topics with other writers; without it no record is "
    "written twice, either, where there are none.",
    _WORKER,
)
REST_PORT = Field(
    "rest.port",
    whole("INT", 0, 65535),
    None,
    "The port of `listeners`, as Kafka 2 wrote it.",
    _WORKER,
)
REST_HOST_NAME = Field(
    "rest.host.name", STRING, "", "The host of `listeners`, as Kafka 2 wrote it.", _WORKER
)
REST_EXTENSION_CLASSES = Field(
    "rest.extension.classes",
    LIST,
    (),
    "Java extensions of the REST interface; not used, rest.access.file takes their place.",
    _WORKER,
)
ACCESS_FILE = Field(
    "rest.access.file",
    STRING,
    None,
    "File of who may use REST, made by `heliograph access add`; heliograph's own key.",
    _REST,
)
ALLOW_ORIGIN = Field(
    "access.control.allow.origin",
    STRING,
    "",
    "Sites, besides its own, whose pages may use REST; * allows any.",
    _REST,
)
ALLOW_METHODS = Field(
    "access.control.allow.methods",
    STRING,
    "",
    "The methods that they may use; by default GET, POST and HEAD.",
    _REST,
)
SSL_CLIENT_AUTH = Field(
    "ssl.client.auth",
    one_of("required", "requested", "none"),
    "none",
    "Ask REST clients for a certificate.",
    _REST,
)
LISTENERS = Field("listeners", LIST, ("http://:8083",), "Where the REST interface listens.", _REST)
SESSION_TIMEOUT = Field(
    "session.timeout.ms",
    MILLISECONDS,
    timedelta(seconds=10),
    "Silence after which a worker counts as lost.",
    _WORKER,
)
HEARTBEAT_INTERVAL = Field(
    "heartbeat.interval.ms",
    MILLISECONDS,
    timedelta(seconds=3),
    "How often a worker says it lives.",
    _WORKER,
)
REBALANCE_TIMEOUT = Field(
    "rebalance.timeout.ms",
    MILLISECONDS,
    timedelta(minutes=1),
    "How long workers may take to rejoin.",
    _WORKER,
)

WORKER: tuple[Field[object], ...] = (
    OFFSET_STORAGE_FILE,
    REST_PORT,
    REST_HOST_NAME,
    GROUP_ID,
    Field(
        "client.id",
        STRING,
        None,
        "Name in the brokers' logs; <source>-><target> for a flow.",
        (Part.WORKER, Part.CLIENT),
    ),
    OFFSET_STORAGE_TOPIC,
    OFFSET_STORAGE_PARTITIONS,
    OFFSET_STORAGE_REPLICATION_FACTOR,
    OFFSET_FLUSH_INTERVAL,
    Field(
        "offset.flush.timeout.ms",
        MILLISECONDS,
        timedelta(seconds=5),
        "How long writing positions may take.",
        _WORKER,
    ),
    CONFIG_STORAGE_TOPIC,
    CONFIG_STORAGE_REPLICATION_FACTOR,
    STATUS_STORAGE_TOPIC,
    STATUS_STORAGE_PARTITIONS,
    STATUS_STORAGE_REPLICATION_FACTOR,
    EXACTLY_ONCE_SOURCE_SUPPORT,
    Field("plugin.path", LIST, (), "Where Java plug-ins are; not used.", _WORKER),
    Field(
        "plugin.discovery",
        one_of("only_scan", "hybrid_warn", "hybrid_fail", "service_load"),
        "hybrid_warn",
        "How they are found; not used.",
        _WORKER,
    ),
    Field(
        "connector.client.config.override.policy",
        STRING,
        "All",
        "What connectors may override of their clients.",
        _WORKER,
    ),
    Field(
        "connect.protocol",
        one_of("eager", "compatible", "sessioned"),
        "sessioned",
        "How workers agree; not used.",
        _WORKER,
    ),
    Field(
        "scheduled.rebalance.max.delay.ms",
        MILLISECONDS,
        timedelta(minutes=5),
        "How long to wait for a lost worker.",
        _WORKER,
    ),
    SESSION_TIMEOUT,
    HEARTBEAT_INTERVAL,
    REBALANCE_TIMEOUT,
    Field(
        "worker.sync.timeout.ms",
        MILLISECONDS,
        timedelta(seconds=3),
        "How long a worker may catch up.",
        _WORKER,
    ),
    Field(
        "worker.unsync.backoff.ms",
        MILLISECONDS,
        timedelta(minutes=5),
        "How long it stays out otherwise.",
        _WORKER,
    ),
    Field(
        "task.shutdown.graceful.timeout.ms",
        MILLISECONDS,
        timedelta(seconds=5),
        "How long tasks may take to stop.",
        _WORKER,
    ),
    Field(
        "topic.creation.enable",
        BOOLEAN,
        True,
        "Let connectors create topics by topic.creation rules.",
        _WORKER,
    ),
    Field(
        "topic.tracking.enable", BOOLEAN, True, "Remember which topics a connector used.", _WORKER
    ),
    Field("topic.tracking.allow.reset", BOOLEAN, True, "Let users reset that memory.", _WORKER),
    Field(
        "client.dns.lookup",
        one_of("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
        "use_all_dns_ips",
        "How host names are looked up.",
        _WORKER,
    ),
    Field(
        "metadata.max.age.ms",
        MILLISECONDS,
        timedelta(minutes=5),
        "How old metadata may be.",
        _WORKER,
    ),
    Field(
        "request.timeout.ms",
        MILLISECONDS,
        timedelta(seconds=40),
        "How long a request may take.",
        _WORKER,
    ),
    Field(
        "retry.backoff.ms",
        MILLISECONDS,
        timedelta(milliseconds=100),
        "First pause between tries.",
        _WORKER,
    ),
    Field(
        "retry.backoff.max.ms",
        MILLISECONDS,
        timedelta(seconds=1),
        "Longest pause between tries.",
        _WORKER,
    ),
    Field(
        "reconnect.backoff.ms",
        MILLISECONDS,
        timedelta(milliseconds=50),
        "First pause before reconnecting.",
        _WORKER,
    ),
    Field(
        "reconnect.backoff.max.ms",
        MILLISECONDS,
        timedelta(seconds=1),
        "Longest pause before reconnecting.",
        _WORKER,
    ),
    Field(
        "connections.max.idle.ms",
        MILLISECONDS,
        timedelta(minutes=9),
        "When an idle connection is closed.",
        _WORKER,
    ),
    Field(
        "socket.connection.setup.timeout.ms",
        MILLISECONDS,
        timedelta(seconds=10),
        "How long connecting may take.",
        _WORKER,
    ),
    Field(
        "socket.connection.setup.timeout.max.ms",
        MILLISECONDS,
        timedelta(seconds=30),
        "The same after many tries.",
        _WORKER,
    ),
    Field(
        "send.buffer.bytes", INT, 131072, "TCP send buffer; -1 leaves it to the system.", _WORKER
    ),
    Field(
        "receive.buffer.bytes",
        INT,
        32768,
        "TCP receive buffer; -1 leaves it to the system.",
        _WORKER,
    ),
    Field("metrics.num.samples", COUNT, 2, "Samples a metric keeps.", _WORKER),
    Field(
        "metrics.sample.window.ms",
        MILLISECONDS,
        timedelta(seconds=30),
        "Time a sample covers.",
        _WORKER,
    ),
    Field(
        "metrics.recording.level",
        one_of("INFO", "DEBUG", "TRACE"),
        "INFO",
        "How much is measured.",
        _WORKER,
    ),
    Field(
        "inter.worker.key.generation.algorithm",
        STRING,
        "HmacSHA256",
        "Key algorithm between workers.",
        _WORKER,
    ),
    Field("inter.worker.key.size", INT, None, "Its key size.", _WORKER),
    Field(
        "inter.worker.key.ttl.ms", MILLISECONDS, timedelta(hours=1), "Life of such a key.", _WORKER
    ),
    Field(
        "inter.worker.signature.algorithm",
        STRING,
        "HmacSHA256",
        "Signature between workers.",
        _WORKER,
    ),
    Field(
        "inter.worker.verification.algorithms",
        LIST,
        ("HmacSHA256",),
        "Signatures a worker accepts.",
        _WORKER,
    ),
    REST_EXTENSION_CLASSES,
    Field("admin.listeners", LIST, None, "Where the admin part of REST listens.", _WORKER),
)

CLUSTERS = Field(
    "clusters", LIST, (), "The names of all clusters, separated by commas.", _DRIVER, required=True
)

DRIVER: tuple[Field[object], ...] = (
    CLUSTERS,
    Field(
        "dedicated.mode.enable.internal.rest",
        BOOLEAN,
        False,
        "MM2's internal REST server; not needed here.",
        _DRIVER,
    ),
    LISTENERS,
    Field(
        "rest.advertised.host.name", STRING, None, "Host other workers reach this one by.", _REST
    ),
    Field("rest.advertised.port", INT, None, "Port other workers reach this one by.", _REST),
    Field(
        "rest.advertised.listener", STRING, None, "Protocol other workers reach this one by.", _REST
    ),
    ACCESS_FILE,
    ALLOW_ORIGIN,
    ALLOW_METHODS,
    Field("response.http.headers.config", STRING, "", "Headers added to every answer.", _REST),
    SSL_CLIENT_AUTH,
)
