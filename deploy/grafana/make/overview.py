"""All flows at a glance."""

from deploy.grafana.make.panels import (
    GREEN,
    ORANGE,
    RED,
    STATES,
    WENT_WELL,
    YELLOW,
    YES_NO,
    Column,
    Json,
    Panel,
    Query,
    dashboard,
    row,
    series,
    stat,
    table,
    timeline,
    variable,
)

FLOWS = 'source=~"$source",target=~"$target"'
NAME = "{{source}}->{{target}}"
THRESHOLD = Query("heliograph:threshold_rpo_seconds", "threshold")
_FLOW_PAGE = "/d/heliograph-flow?var-source=${__data.fields.source}&var-target=${__data.fields.target}&${__url_time_range}"
_NONE_IS_GOOD = ((None, GREEN), (1, RED))
_RPO = ((None, GREEN), (60, YELLOW), (600, RED))
_MONTH = ((None, GREEN), (30 * 86400, ORANGE))


def source_and_target(*, many: bool = True) -> list[Json]:
    """Return the variables that choose flows."""
    chosen = 'source=~"$source"' if many else 'source="$source"'
    return [
        variable("source", "source", "heliograph_flow_state", many=many),
        variable("target", "target", f"heliograph_flow_state{{{chosen}}}", many=many),
    ]


def overview() -> Json:
    return dashboard(
        "heliograph-overview",
        "heliograph: overview",
        "All flows: do they run, how far behind are they, what would a loss of a source cost.",
        source_and_target(),
        [*_now(), *_flows(), *_history(), *_alerts()],
    )


def _now() -> list[Panel]:
    return [
        row("Now"),
        stat(
            "Flows running",
            f'sum(heliograph_flow_state{{state="RUNNING",{FLOWS}}})',
            "Flows that copy now.",
        ),
        stat(
            "Flows not running",
            f"sum(heliograph:flow_state:code{{{FLOWS}}} != bool 1)",
            "Flows that are STARTING, PAUSED, STOPPED or FAILED.",
            steps=_NONE_IS_GOOD,
        ),
        stat(
            "Records",
            f"sum(rate(heliograph_flow_records_total{{{FLOWS}}}[$__rate_interval]))",
            "Records that the targets acknowledge, in all flows.",
            "cps",
        ),
        stat(
            "Bytes",
            f"sum(rate(heliograph_flow_bytes_total{{{FLOWS}}}[$__rate_interval]))",
            "Bytes that the targets acknowledge, as they are stored, in all flows.",
            "Bps",
        ),
        stat(
            "Lag",
            f"sum(heliograph_flow_lag_records{{{FLOWS}}})",
            "Offsets of the sources that are not on their targets yet.",
        ),
        stat(
            "Worst RPO now",
            f"max(heliograph_flow_rpo_seconds{{{FLOWS}}})",
            "Seconds of records that a loss of a source would cost now, in the flow where it is most.",
            "s",
            _RPO,
        ),
        stat(
            "Worst RPO in a day",
            f"max(heliograph:flow_rpo_seconds:max1d{{{FLOWS}}})",
            "The most that a loss of a source would have cost within the last day.",
            "s",
            _RPO,
        ),
        stat(
            "Loss alarms in a day",
            f"sum(increase(heliograph:flow_loss_alarms:sum{{{FLOWS}}}[1d]))",
            "Times that records were found lost, or others on a target, within the last day.",
            steps=_NONE_IS_GOOD,
        ),
        stat(
            "Partitions stopped",
            f"sum(heliograph:flow_partitions_stopped:sum{{{FLOWS}}})",
            "Partitions that do not go on until somebody decides. The flow's dashboard has the kinds.",
            steps=_NONE_IS_GOOD,
        ),
        stat(
            "Groups not ready",
            f"sum(heliograph:groups:sum{{{FLOWS}}}) - sum(heliograph:groups_ready:sum{{{FLOWS}}})",
            "Consumer groups that could not go on at the target now: skipped, or with an old checkpoint.",
            steps=((None, GREEN), (1, ORANGE)),
        ),
        stat(
            "Processes down",
            'sum(up{job=~"heliograph.*"} == bool 0)',
            "Mirrors and workers that Prometheus cannot scrape.",
            steps=_NONE_IS_GOOD,
        ),
        stat(
            "Alerts firing",
            'count(ALERTS{alertname=~"Heliograph.*",alertstate="firing"}) or vector(0)',
            "Alerts of heliograph that fire; the table below has them.",
            steps=_NONE_IS_GOOD,
        ),
    ]


def _flows() -> list[Panel]:
    return [
        row("Flows"),
        table(
            "Flows",
            ("source", "target"),
            [
                Column("state", f"heliograph:flow_state:code{{{FLOWS}}}", mapped=STATES),
                Column(
                    "records/s",
                    f"sum by (source, target) (rate(heliograph_flow_records_total{{{FLOWS}}}[$__rate_interval]))",
                    "cps",
                ),
                Column(
                    "bytes/s",
                    f"sum by (source, target) (rate(heliograph_flow_bytes_total{{{FLOWS}}}[$__rate_interval]))",
                    "Bps",
                ),
                Column("lag", f"heliograph:flow_lag_records:sum{{{FLOWS}}}"),
                Column("lag in time", f"heliograph:flow_lag_seconds:max{{{FLOWS}}}", "s", _RPO),
                Column("RPO", f"heliograph:flow_rpo_seconds:max{{{FLOWS}}}", "s", _RPO),
                Column(
                    "latency p99", f"heliograph:replication_latency_seconds:p99_5m{{{FLOWS}}}", "s"
                ),
                Column(
                    "stopped",
                    f"heliograph:flow_partitions_stopped:sum{{{FLOWS}}}",
                    steps=_NONE_IS_GOOD,
                ),
                Column(
                    "ready to fail over", f"heliograph:failover_ready{{{FLOWS}}}", mapped=YES_NO
                ),
                Column(
                    "since last drill",
                    f"time() - heliograph:last_drill_timestamp_seconds:max{{{FLOWS}}}",
                    "s",
                    _MONTH,
                ),
                Column(
                    "last drill", f"heliograph:last_drill_ok:newest{{{FLOWS}}}", mapped=WENT_WELL
                ),
            ],
            "A flow in each line. Its names lead to its dashboard. Nothing under a drill means that there was none.",
            links={"source": _FLOW_PAGE, "target": _FLOW_PAGE},
        ),
        timeline(
            "States",
            Query(f"heliograph:flow_state:code{{{FLOWS}}}", NAME),
            "The state of each flow over time.",
            STATES,
        ),
    ]


def _history() -> list[Panel]:
    return [
        row("Over time"),
        series(
            "Records copied",
            Query(
                f"sum by (source, target) (rate(heliograph_flow_records_total{{{FLOWS}}}[$__rate_interval]))",
                NAME,
            ),
            "Records that the target acknowledges, by flow.",
            "cps",
        ),
        series(
            "Bytes copied",
            Query(
                f"sum by (source, target) (rate(heliograph_flow_bytes_total{{{FLOWS}}}[$__rate_interval]))",
                NAME,
            ),
            "Bytes that the target acknowledges, as they are stored, by flow.",
            "Bps",
        ),
        series(
            "RPO",
            [
                Query(f"max by (source, target) (heliograph_flow_rpo_seconds{{{FLOWS}}})", NAME),
                THRESHOLD,
            ],
            "Seconds of records that a loss of the source would cost, and the threshold of the alert.",
            "s",
        ),
        series(
            "Lag",
            Query(f"sum by (source, target) (heliograph_flow_lag_records{{{FLOWS}}})", NAME),
            "Offsets of the source that are not on the target yet, by flow.",
        ),
        series(
            "Replication latency, p99",
            Query(
                "histogram_quantile(0.99, sum by (source, target, le) "
                f"(rate(heliograph_replication_latency_seconds_bucket{{{FLOWS}}}[$__rate_interval])))",
                NAME,
            ),
            "Time from a record's timestamp to the target's acknowledgement that 99 % of the records stay below.",
            "s",
        ),
        series(
            "Restarts in a quarter of an hour",
            Query(
                f"sum by (source, target) (increase(heliograph_flow_restarts_total{{{FLOWS}}}[15m]))",
                NAME,
            ),
            "How often flows, or slices of them, were started again after a failure.",
        ),
    ]


def _alerts() -> list[Panel]:
    keys = ("alertname", "severity", "alertstate", "source", "target", "instance")
    by = ", ".join(keys)
    return [
        row("Alerts"),
        table(
            "Alerts pending and firing",
            keys,
            [Column("number", f'sum by ({by}) (ALERTS{{alertname=~"Heliograph.*"}})')],
            "Alerts of heliograph; docs/alerts.md says what each means and what to do. Empty if all is well.",
        ),
    ]
