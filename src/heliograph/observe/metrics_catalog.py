"""Every metric of /metrics, declared once: its name, type, labels and meaning.

MirrorMaker 2's metrics are JMX beans, and the rules of a JMX exporter make their Prometheus names. The
names here are those of Strimzi's rules and of any rule set with lowercaseOutputName:
`kafka.connect.mirror:type=MirrorSourceConnector` attribute `record-count` is
`kafka_connect_mirror_mirrorsourceconnector_record_count`, a gauge as all of them are there. Labels are the
bean's tags as of Kafka 4.0, which are those of older versions plus `source`.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class Kind(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Fold(StrEnum):
    """How two values under the same labels are combined, such as those of a topic's partitions."""

    SUM = "sum"
    MAX = "max"
    MIN = "min"


@dataclass(frozen=True, slots=True, eq=False)
class Metric:
    """One metric. The last label of a histogram is `le`."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str
    fold: Fold = Fold.SUM


class Spread(NamedTuple):
    """A measure as Kafka keeps it: its last value, and three over a window."""

    last: Metric
    min: Metric
    max: Metric
    avg: Metric


_FLOW = ("source", "target")
_TOPIC = (*_FLOW, "topic")
_PARTITION = (*_TOPIC, "partition")
_GROUP = (*_FLOW, "group")
_CHECKPOINT = (*_GROUP, "topic", "partition")
_CHORE = (*_FLOW, "chore")
_SOURCE_BEAN = "kafka_connect_mirror_mirrorsourceconnector_"
_CHECKPOINT_BEAN = "kafka_connect_mirror_mirrorcheckpointconnector_"


def _counter(name: str, labels: tuple[str, ...], text: str) -> Metric:
    return Metric(f"heliograph_{name}_total", Kind.COUNTER, labels, text)


def _gauge(name: str, labels: tuple[str, ...], text: str, fold: Fold = Fold.SUM) -> Metric:
    return Metric(f"heliograph_{name}", Kind.GAUGE, labels, text, fold)


def _worst(name: str, labels: tuple[str, ...], text: str) -> Metric:
    return _gauge(name, labels, text, Fold.MAX)


def _mm2(name: str, text: str) -> Metric:
    return Metric(_SOURCE_BEAN + name, Kind.GAUGE, _PARTITION, text)


def _spread(name: str, labels: tuple[str, ...], text: str) -> Spread:
    def one(suffix: str, which: str, fold: Fold) -> Metric:
        return Metric(f"{name}{suffix}", Kind.GAUGE, labels, f"{text}: {which}.", fold)

    return Spread(
        one("", "the last", Fold.MAX),
        one("_min", "the least of the last minute", Fold.MIN),
        one("_max", "the most of the last minute", Fold.MAX),
        one("_avg", "the average of the last minute", Fold.MAX),
    )


RECORD_COUNT = _mm2("record_count", "Records that the target acknowledged.")
RECORD_RATE = _mm2(
    "record_rate", "The same per second, over the last 30 to 60 s of scraping; from the second on."
)
BYTE_COUNT = _mm2(
    "byte_count",
    "Bytes that the target acknowledged: batches as they are stored, where MM2 counts values alone.",
)
BYTE_RATE = _mm2("byte_rate", "The same per second, as record_rate.")
RECORD_AGE = _spread(
    f"{_SOURCE_BEAN}record_age_ms", _PARTITION, "Age of records when they were read"
)
REPLICATION_LATENCY = _spread(
    f"{_SOURCE_BEAN}replication_latency_ms",
    _PARTITION,
    "Time from a record's timestamp to the target's acknowledgement",
)
CHECKPOINT_LATENCY = _spread(
    f"{_CHECKPOINT_BEAN}checkpoint_latency_ms",
    _CHECKPOINT,
    "Time from reading the group's offsets to the acknowledged checkpoint, which is one round for all "
    "groups of a flow; MM2 measures the writing alone",
)

FLOW_STATE = _worst("flow_state", (*_FLOW, "state"), "1 for the state that the flow is in, else 0.")
FLOW_TOPICS = _gauge("flow_topics", _FLOW, "Topics that are copied.")
FLOW_PARTITIONS = _gauge("flow_partitions", _FLOW, "Partitions that are copied.")
FLOW_RECORDS = _counter("flow_records", _FLOW, "Records that the target acknowledged.")
FLOW_BYTES = _counter("flow_bytes", _FLOW, "Bytes that the target acknowledged.")
FLOW_LATENCY = _worst(
    "flow_latency_seconds",
    (*_FLOW, "quantile"),
    "Replication latency that this share of the records stayed below, since the flow first ran here.",
)
LATENCY = Metric(
    "heliograph_replication_latency_seconds",
    Kind.HISTOGRAM,
    (*_FLOW, "le"),
    "Records by the time from their timestamp to the target's acknowledgement; without a sum.",
)
FLOW_BATCHES = _counter(
    "flow_batches",
    (*_FLOW, "verdict"),
    "Batches by what was done: pass, merge, reencode, placed (by key), skipped (partly on the target "
    "already), dropped (control batches and those of aborted transactions).",
)
FLOW_TASKS = _gauge(
    "flow_tasks", _FLOW, "Tasks of Spark at work: one per slice that has partitions."
)
FLOW_HANDOVERS = _counter(
    "flow_handovers", _FLOW, "Partitions that one task handed over, to be copied by another."
)
FLOW_RESTARTS = _counter(
    "flow_restarts", _FLOW, "How often the flow or one of its slices was started again by itself."
)
FLOW_WAITING = _gauge(
    "flow_waiting", _FLOW, "Things that tasks wait for now, such as a broker that does not answer."
)
FLOW_REFUSED = _gauge("flow_refused", _FLOW, "Topics that cannot be mirrored as they are.")
FLOW_STOPPED = _gauge(
    "flow_partitions_stopped",
    (*_FLOW, "kind"),
    "Partitions that do not go on, by kind: loss, out-of-range, made-anew, untracked, target-truncated "
    "and others.",
)
FLOW_OPEN_TRANSACTION = _worst(
    "flow_open_transaction_seconds",
    _FLOW,
    "Seconds for which the oldest transaction left open on the source has kept a partition from being copied, as "
    "seen by this process; 0 if none has for open.transaction.seconds.",
)
LOSS_ALARMS = _counter(
    "loss_alarms",
    (*_FLOW, "reason"),
    "Times that records were found lost, by partition and kind of stop (loss, made-anew, untracked, "
    "target-truncated; also where on.loss=continue goes on), or others on the target (foreign).",
)

FLOW_LAG = _gauge("flow_lag_records", _FLOW, "Offsets of the source not yet on the target.")
FLOW_LAG_SECONDS = _worst(
    "flow_lag_seconds", _FLOW, "The worst heliograph_partition_lag_seconds of the flow."
)
FLOW_RPO = _worst(
    "flow_rpo_seconds",
    _FLOW,
    "Seconds of records that a loss of the source would cost now: flow_lag_seconds, and at least the time "
    "since the flow was last seen RUNNING.",
)
TOPIC_RECORDS = _counter("topic_records", _TOPIC, "Records that the target acknowledged.")
TOPIC_BYTES = _counter("topic_bytes", _TOPIC, "Bytes that the target acknowledged.")
TOPIC_LAG = _gauge("topic_lag_records", _TOPIC, "Offsets of the source not yet on the target.")
TOPIC_LAG_SECONDS = _worst(
    "topic_lag_seconds", _TOPIC, "The worst heliograph_partition_lag_seconds of the topic."
)
TOPIC_RPO = _worst(
    "topic_rpo_seconds",
    _TOPIC,
    "Age of the oldest source record not yet on the target: topic_lag_seconds, and at least the time since "
    "the flow was last seen RUNNING.",
)
PARTITION_LAG = _gauge(
    "partition_lag_records", _PARTITION, "Offsets of the source not yet on the target."
)
PARTITION_LAG_SECONDS = _worst(
    "partition_lag_seconds",
    _PARTITION,
    "How long the oldest offset that is not on the target has been on the source, 0 where all are.",
)

GROUPS = _gauge("groups", _FLOW, "Consumer groups that have checkpoints.")
GROUPS_SKIPPED = _gauge(
    "groups_skipped",
    (*_FLOW, "reason"),
    "Groups that were not moved on the target, by reason: at most 10 reasons, the rest as `other`.",
)
GROUP_SKIPPED = _worst(
    "group_skipped", (*_GROUP, "reason"), "1 for a group that was not moved on the target."
)
FLOW_CHECKPOINT_AGE = _worst(
    "flow_checkpoint_age_seconds",
    _FLOW,
    "The worst heliograph_checkpoint_age_seconds of the flow, however many groups it has; before the first "
    "translation, the time since its checkpoint connector was first seen.",
)
CHECKPOINT_AGE = _worst(
    "checkpoint_age_seconds",
    _GROUP,
    "Seconds since the group's offsets were last translated, as seen by scraping.",
)

CHORE_RUNS = _counter("chore_runs", _CHORE, "How often a chore of the flow was done.")
CHORE_FAILURES = _worst(
    "chore_failures", _CHORE, "How often in a row, up to the last time, it could do nothing."
)
CHORE_TROUBLES = _gauge("chore_troubles", _CHORE, "Things that it could not do the last time.")
CHORE_SECONDS = _worst("chore_seconds", _CHORE, "How long it took the last time.")
CHORE_BUSY = _worst("chore_busy_seconds", _CHORE, "For how long it has been at work now, else 0.")


PROCESSES = _gauge("processes", ("part",), "Processes of this one: driver, jvm, python.")
PROCESS_CPU = _counter("process_cpu_seconds", ("part",), "CPU time of them, and of those gone.")
PROCESS_MEMORY = _gauge(
    "process_resident_memory_bytes",
    ("part",),
    "Their resident memory; what Python processes share counts for each.",
)

DRILL_TIME = _worst("last_drill_timestamp_seconds", _FLOW, "When the last drill began.")
DRILL_OK = _worst("last_drill_ok", _FLOW, "1 if every group would have gone on exactly, else 0.")
DRILL_RPO = _worst("last_drill_rpo_seconds", _FLOW, "The RPO that it measured.")
DRILL_RTO = _worst("last_drill_rto_seconds", _FLOW, "The RTO that it measured.")
VERIFY_TIME = _worst("last_verify_timestamp_seconds", _FLOW, "When the last verify ended.")
VERIFY_OK = _worst(
    "last_verify_ok", _FLOW, "1 if all was equal, 0 if not, -1 if nobody could tell."
)
VERIFY_RECORDS = _worst("last_verify_records", _FLOW, "Records that it compared.")

BUILD = _worst("build_info", ("version",), "Always 1; the version of heliograph.")
FOLDED = _gauge(
    "series_folded",
    ("level",),
    "Partitions, topics and groups that have no series of their own, because there are too many.",
)
SNAPSHOT_SECONDS = _worst("metrics_snapshot_seconds", (), "How long this answer's numbers took.")

FAMILIES: tuple[tuple[str, tuple[Metric, ...]], ...] = (
    (
        "MirrorMaker 2's: MirrorSourceConnector",
        (RECORD_COUNT, RECORD_RATE, BYTE_COUNT, BYTE_RATE, *RECORD_AGE, *REPLICATION_LATENCY),
    ),
    ("MirrorMaker 2's: MirrorCheckpointConnector", tuple(CHECKPOINT_LATENCY)),
    (
        "Flows",
        (
            FLOW_STATE,
            FLOW_TOPICS,
            FLOW_PARTITIONS,
            FLOW_RECORDS,
            FLOW_BYTES,
            FLOW_LATENCY,
            LATENCY,
            FLOW_BATCHES,
            FLOW_TASKS,
            FLOW_HANDOVERS,
            FLOW_RESTARTS,
            FLOW_WAITING,
            FLOW_REFUSED,
            FLOW_STOPPED,
            FLOW_OPEN_TRANSACTION,
            LOSS_ALARMS,
        ),
    ),
    (
        "Lag and RPO",
        (
            FLOW_LAG,
            FLOW_LAG_SECONDS,
            FLOW_RPO,
            TOPIC_RECORDS,
            TOPIC_BYTES,
            TOPIC_LAG,
            TOPIC_LAG_SECONDS,
            TOPIC_RPO,
            PARTITION_LAG,
            PARTITION_LAG_SECONDS,
        ),
    ),
    (
        "Consumer groups",
        (GROUPS, GROUPS_SKIPPED, GROUP_SKIPPED, FLOW_CHECKPOINT_AGE, CHECKPOINT_AGE),
    ),
    ("Chores", (CHORE_RUNS, CHORE_FAILURES, CHORE_TROUBLES, CHORE_SECONDS, CHORE_BUSY)),
    (
        "Processes and Spark",
        (
            PROCESSES,
            PROCESS_CPU,
            PROCESS_MEMORY,
        ),
    ),
    (
        "Drills and verifies",
        (DRILL_TIME, DRILL_OK, DRILL_RPO, DRILL_RTO, VERIFY_TIME, VERIFY_OK, VERIFY_RECORDS),
    ),
    ("About this page", (BUILD, FOLDED, SNAPSHOT_SECONDS)),
)
METRICS: tuple[Metric, ...] = tuple(metric for _, family in FAMILIES for metric in family)
