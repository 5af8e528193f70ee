"""One flow: throughput, lag, latency, topics, and what goes on inside."""

from deploy.grafana.make.overview import THRESHOLD, source_and_target
from deploy.grafana.make.panels import (
    GREEN,
    ORANGE,
    RED,
    STATES,
    YELLOW,
    Column,
    Json,
    Panel,
    Query,
    dashboard,
    heatmap,
    row,
    series,
    stat,
    table,
    variable,
)

FLOW = 'source="$source",target="$target"'
_TOPICS = f'{FLOW},topic=~"$topic"'
_REMOTE = f'{FLOW},topic=~"$remote_topic"'
_MM2 = "kafka_connect_mirror_mirrorsourceconnector"
_NONE_IS_GOOD = ((None, GREEN), (1, RED))
_RPO = ((None, GREEN), (60, YELLOW), (600, RED))


def flow() -> Json:
    variables = [
        *source_and_target(many=False),
        variable(
            "topic",
            "topic",
            f"heliograph_topic_lag_records{{{FLOW}}}",
            description="by its name on the source",
        ),
        _remote_topic(),
    ]
    panels = [*_now(), *_throughput(), *_lag(), *_latency(), *_topics(), *_inside(), *_mm2()]
    return dashboard(
        "heliograph-flow",
        "heliograph: flow",
        "One flow from its rate down to its partitions.",
        variables,
        panels,
    )


def _remote_topic() -> Json:
    query = f"label_values({_MM2}_record_count{{{FLOW}}}, topic)"
    made = variable("remote_topic", "remote topic", f"{_MM2}_record_count{{{FLOW}}}")
    named = {**made["query"], "query": query}
    told = "by its name on the target, as MirrorMaker 2's metrics have it"
    return {**made, "definition": query, "query": named, "description": told}


def _now() -> list[Panel]:
    return [
        row("Now"),
        stat(
            "State",
            f"heliograph:flow_state:code{{{FLOW}}}",
            "The state of the flow.",
            mapped=STATES,
        ),
        stat(
            "RPO",
            f"max(heliograph_flow_rpo_seconds{{{FLOW}}})",
            "Seconds of records that a loss of the source would cost now.",
            "s",
            _RPO,
        ),
        stat(
            "Worst RPO in a day",
            f"heliograph:flow_rpo_seconds:max1d{{{FLOW}}}",
            "The most that a loss of the source would have cost within the last day.",
            "s",
            _RPO,
        ),
        stat("Topics", f"max(heliograph_flow_topics{{{FLOW}}})", "Topics that are copied."),
        stat(
            "Partitions",
            f"max(heliograph_flow_partitions{{{FLOW}}})",
            "Partitions that are copied.",
        ),
        stat(
            "Records since its start",
            f"sum(heliograph_flow_records_total{{{FLOW}}})",
            "Records that the target acknowledged since the flow was started.",
        ),
        stat(
            "Partitions stopped",
            f"heliograph:flow_partitions_stopped:sum{{{FLOW}}}",
            "Partitions that do not go on until somebody decides.",
            steps=_NONE_IS_GOOD,
        ),
        stat(
            "Loss alarms in a day",
            f"sum(increase(heliograph:flow_loss_alarms:sum{{{FLOW}}}[1d]))",
            "Times that records were found lost, or others on the target, within the last day.",
            steps=_NONE_IS_GOOD,
        ),
        stat(
            "Topics refused",
            f"max(heliograph_flow_refused{{{FLOW}}})",
            "Topics that match and cannot be mirrored as they are; the flow's status says why.",
            steps=((None, GREEN), (1, ORANGE)),
        ),
        stat(
            "Waiting for",
            f"max(heliograph_flow_waiting{{{FLOW}}})",
            "Things that tasks wait for now, such as a broker that does not answer.",
            steps=((None, GREEN), (1, ORANGE)),
        ),
        stat(
            "Restarts in a day",
            f"sum(increase(heliograph_flow_restarts_total{{{FLOW}}}[1d]))",
            "How often the flow, or one of its slices, was started again after a failure within the last day.",
            steps=((None, GREEN), (5, ORANGE)),
        ),
        stat(
            "Latency p99",
            f"heliograph:replication_latency_seconds:p99_5m{{{FLOW}}}",
            "Replication latency that 99 % of the records of the last five minutes stay below.",
            "s",
        ),
    ]


def _throughput() -> list[Panel]:
    return [
        row("Throughput"),
        series(
            "Records by topic",
            Query(
                f"sum by (topic) (rate(heliograph_topic_records_total{{{_TOPICS}}}[$__rate_interval]))",
                "{{topic}}",
            ),
            "Records that the target acknowledges, by topic of the source.",
            "cps",
        ),
        series(
            "Bytes by topic",
            Query(
                f"sum by (topic) (rate(heliograph_topic_bytes_total{{{_TOPICS}}}[$__rate_interval]))",
                "{{topic}}",
            ),
            "Bytes that the target acknowledges, as they are stored, by topic of the source.",
            "Bps",
        ),
    ]


def _lag() -> list[Panel]:
    return [
        row("Lag and RPO"),
        series(
            "RPO by topic",
            [
                Query(f"max by (topic) (heliograph_topic_rpo_seconds{{{_TOPICS}}})", "{{topic}}"),
                THRESHOLD,
            ],
            "Age of the oldest record of the source that is not on the target, and the alert's threshold.",
            "s",
        ),
        series(
            "Lag by topic",
            Query(f"sum by (topic) (heliograph_topic_lag_records{{{_TOPICS}}})", "{{topic}}"),
            "Offsets of the source that are not on the target yet.",
        ),
        series(
            "Partitions with most lag",
            Query(
                f"topk(10, heliograph_partition_lag_records{{{_TOPICS}}})",
                "{{topic}}-{{partition}}",
            ),
            "The ten partitions with most offsets to go. Without series where there are too many partitions.",
        ),
        series(
            "Partitions that are furthest behind in time",
            Query(
                f"topk(10, heliograph_partition_lag_seconds{{{_TOPICS}}})",
                "{{topic}}-{{partition}}",
            ),
            "How long the oldest offset that is not on the target has been on the source: the ten worst.",
            "s",
        ),
    ]


def _latency() -> list[Panel]:
    buckets = f"rate(heliograph_replication_latency_seconds_bucket{{{FLOW}}}[$__rate_interval])"
    return [
        row("Latency"),
        series(
            "Replication latency",
            [
                Query(f"histogram_quantile({q}, sum by (le) ({buckets}))", f"p{q * 100:g}")
                for q in (0.5, 0.9, 0.99)
            ],
            "Time from a record's timestamp to the target's acknowledgement. Old timestamps, as of records that are "
            "caught up with, make it long.",
            "s",
        ),
        heatmap(
            "Records by latency",
            f"sum by (le) (increase(heliograph_replication_latency_seconds_bucket{{{FLOW}}}[$__rate_interval]))",
            "How many records took how long.",
        ),
        series(
            "Latency since the start",
            Query(
                f"max by (quantile) (heliograph_flow_latency_seconds{{{FLOW}}})",
                "share of records: {{quantile}}",
            ),
            "What half and 99 % of all records since the flow started stayed below.",
            "s",
        ),
        series(
            "Tasks of Spark at work",
            Query(f"sum(heliograph_flow_tasks{{{FLOW}}})", "tasks"),
            "Tasks that copy partitions now, at most tasks.max. Each runs until the driver ends it.",
        ),
    ]


def _topics() -> list[Panel]:
    return [
        row("Topics"),
        table(
            "Topics",
            ("topic",),
            [
                Column(
                    "records/s",
                    f"sum by (topic) (rate(heliograph_topic_records_total{{{_TOPICS}}}[$__rate_interval]))",
                    "cps",
                ),
                Column(
                    "bytes/s",
                    f"sum by (topic) (rate(heliograph_topic_bytes_total{{{_TOPICS}}}[$__rate_interval]))",
                    "Bps",
                ),
                Column("records", f"sum by (topic) (heliograph_topic_records_total{{{_TOPICS}}})"),
                Column("lag", f"sum by (topic) (heliograph_topic_lag_records{{{_TOPICS}}})"),
                Column(
                    "lag in time",
                    f"max by (topic) (heliograph_topic_lag_seconds{{{_TOPICS}}})",
                    "s",
                    _RPO,
                ),
                Column(
                    "RPO", f"max by (topic) (heliograph_topic_rpo_seconds{{{_TOPICS}}})", "s", _RPO
                ),
            ],
            "Topics by their names on the source.",
            height=10,
        ),
    ]


def _inside() -> list[Panel]:
    stopped = (
        f"sum by (kind) (heliograph_flow_partitions_stopped{{{FLOW}}}) "
        f'or label_replace(0 * sum(heliograph_flow_partitions{{{FLOW}}}), "kind", "none", "", "")'
    )
    return [
        row("Inside"),
        series(
            "Batches by what was done",
            Query(
                f"sum by (verdict) (rate(heliograph_flow_batches_total{{{FLOW}}}[$__rate_interval]))",
                "{{verdict}}",
            ),
            "pass: as it was; merge: several as one; reencode: encoded again; placed: by key; skipped: partly on the target "
            "already; dropped: control batches and aborted transactions.",
            "cps",
            stacked=True,
        ),
        series(
            "Loss alarms",
            Query(f"sum by (reason) (heliograph_loss_alarms_total{{{FLOW}}})", "{{reason}}"),
            "Times since the start that records were found lost, or others on the target (foreign).",
        ),
        series(
            "Partitions stopped, by kind",
            Query(stopped, "{{kind}}"),
            "Partitions that do not go on.",
        ),
        series(
            "Partitions handed over, and restarts",
            [
                Query(
                    f"60 * sum(rate(heliograph_flow_handovers_total{{{FLOW}}}[$__rate_interval]))",
                    "partitions per minute",
                ),
                Query(
                    f"60 * sum(rate(heliograph_flow_restarts_total{{{FLOW}}}[$__rate_interval]))",
                    "restarts per minute",
                ),
            ],
            "A partition that is handed over goes on in another task, for balance or because topics changed; the others do "
            "not pause.",
        ),
        series(
            "Chores: how long the last one took",
            Query(f"max by (chore) (heliograph_chore_seconds{{{FLOW}}})", "{{chore}}"),
            "What the flow keeps in sync besides its records.",
            "s",
        ),
        series(
            "Chores: failures in a row, and things not done",
            [
                Query(
                    f"max by (chore) (heliograph_chore_failures{{{FLOW}}})", "{{chore}}: failures"
                ),
                Query(
                    f"max by (chore) (heliograph_chore_troubles{{{FLOW}}})", "{{chore}}: troubles"
                ),
            ],
            "More than one failure in a row counts as failed. Troubles are things that it could not do the last time.",
        ),
    ]


def _mm2() -> list[Panel]:
    by = "sum by (topic)"
    return [
        row("By MirrorMaker 2's metrics"),
        series(
            "Record rate",
            Query(f"{by} ({_MM2}_record_rate{{{_REMOTE}}})", "{{topic}}"),
            "MirrorSourceConnector's record-rate, by remote topic.",
            "cps",
        ),
        series(
            "Byte rate",
            Query(f"{by} ({_MM2}_byte_rate{{{_REMOTE}}})", "{{topic}}"),
            "MirrorSourceConnector's byte-rate, by remote topic; batches as they are stored.",
            "Bps",
        ),
        series(
            "Records",
            Query(f"{by} ({_MM2}_record_count{{{_REMOTE}}})", "{{topic}}"),
            "MirrorSourceConnector's record-count, by remote topic.",
        ),
        series(
            "Bytes",
            Query(f"{by} ({_MM2}_byte_count{{{_REMOTE}}})", "{{topic}}"),
            "MirrorSourceConnector's byte-count, by remote topic.",
            "bytes",
        ),
        _spread("Record age", "record_age_ms", "when they were read from the source"),
        _spread("Replication latency", "replication_latency_ms", "when the target acknowledged"),
    ]


def _spread(title: str, name: str, when: str) -> Panel:
    return series(
        title,
        [
            Query(f"min({_MM2}_{name}_min{{{_REMOTE}}})", "min"),
            Query(f"avg({_MM2}_{name}_avg{{{_REMOTE}}})", "avg"),
            Query(f"max({_MM2}_{name}_max{{{_REMOTE}}})", "max"),
            Query(f"max({_MM2}_{name}{{{_REMOTE}}})", "last"),
        ],
        f"Age of records {when}, over the last minute; without values while nothing comes but for the last.",
        "ms",
    )
