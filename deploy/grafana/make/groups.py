"""Consumer groups, and whether a flow could be failed over now."""

from deploy.grafana.make.overview import FLOWS, NAME, THRESHOLD, source_and_target
from deploy.grafana.make.panels import (
    EQUAL,
    GREEN,
    ORANGE,
    RED,
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
    variable,
)

_GROUPS = f'{FLOWS},group=~"$group"'
_MM2 = "kafka_connect_mirror_mirrorcheckpointconnector_checkpoint_latency_ms"
_MONTH = ((None, GREEN), (30 * 86400, ORANGE))
_AGE = ((None, GREEN), (300, ORANGE))
_RPO = ((None, GREEN), (60, YELLOW), (600, RED))
_BY_GROUP = "by (source, target, group)"


def groups() -> Json:
    variables = [
        *source_and_target(),
        variable("group", "group", f"heliograph_checkpoint_age_seconds{{{FLOWS}}}"),
    ]
    return dashboard(
        "heliograph-groups",
        "heliograph: groups and failover readiness",
        "Could the groups go on at the target now, what would a loss cost, and when was that last rehearsed.",
        variables,
        [*_readiness(), *_groups(), *_audits()],
    )


def _readiness() -> list[Panel]:
    return [
        row("Failover readiness"),
        stat(
            "Flows ready to fail over",
            f"sum(heliograph:failover_ready{{{FLOWS}}})",
            "Flows that run, are within their RPO, have no stopped partition, and all of whose groups are ready.",
        ),
        stat(
            "Flows not ready",
            f"sum(heliograph:failover_ready{{{FLOWS}}} == bool 0)",
            "Flows that lack one of these; the table says which.",
            steps=((None, GREEN), (1, ORANGE)),
        ),
        stat(
            "Groups",
            f"sum(heliograph:groups:sum{{{FLOWS}}})",
            "Consumer groups that have checkpoints.",
        ),
        stat(
            "Groups ready",
            f"sum(heliograph:groups_ready:sum{{{FLOWS}}})",
            "Groups with a young checkpoint that nobody uses on the target.",
        ),
        stat(
            "Groups skipped",
            f"sum(heliograph:groups_skipped:sum{{{FLOWS}}})",
            "Groups that were not moved on the target the last time.",
            steps=((None, GREEN), (1, ORANGE)),
        ),
        stat(
            "Oldest checkpoints",
            f"max(heliograph:checkpoint_age_seconds:max{{{FLOWS}}})",
            "How long ago the groups' offsets were translated, in the flow where it is longest.",
            "s",
            _AGE,
        ),
        table(
            "Flows",
            ("source", "target"),
            [
                Column("ready", f"heliograph:failover_ready{{{FLOWS}}}", mapped=YES_NO),
                Column("RPO", f"heliograph:flow_rpo_seconds:max{{{FLOWS}}}", "s", _RPO),
                Column("groups", f"heliograph:groups:sum{{{FLOWS}}}"),
                Column("groups ready", f"heliograph:groups_ready:sum{{{FLOWS}}}"),
                Column(
                    "partitions stopped",
                    f"heliograph:flow_partitions_stopped:sum{{{FLOWS}}}",
                    steps=((None, GREEN), (1, RED)),
                ),
                Column(
                    "checkpoints' age",
                    f"heliograph:checkpoint_age_seconds:max{{{FLOWS}}}",
                    "s",
                    _AGE,
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
                Column(
                    "since last verify",
                    f"time() - heliograph:last_verify_timestamp_seconds:max{{{FLOWS}}}",
                    "s",
                ),
                Column("last verify", f"heliograph:last_verify_ok:newest{{{FLOWS}}}", mapped=EQUAL),
            ],
            "A flow in each line. Nothing under a drill or a verify means that there was none.",
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
            "Groups ready and not",
            [
                Query(f"sum(heliograph:groups_ready:sum{{{FLOWS}}})", "ready"),
                Query(
                    f"sum(heliograph:groups:sum{{{FLOWS}}}) - sum(heliograph:groups_ready:sum{{{FLOWS}}})",
                    "not ready",
                ),
            ],
            "Groups of all chosen flows.",
            stacked=True,
        ),
    ]


def _groups() -> list[Panel]:
    skipped = ("source", "target", "group", "reason")
    return [
        row("Groups"),
        table(
            "Groups",
            ("source", "target", "group"),
            [
                Column("ready", f"heliograph:group_ready{{{_GROUPS}}}", mapped=YES_NO),
                Column(
                    "checkpoint's age",
                    f"max {_BY_GROUP} (heliograph_checkpoint_age_seconds{{{_GROUPS}}})",
                    "s",
                    _AGE,
                ),
                Column("partitions", f"count {_BY_GROUP} ({_MM2}{{{_GROUPS}}})"),
            ],
            "Up to 500 groups have lines of their own; see heliograph_series_folded.",
            width=12,
            height=10,
        ),
        table(
            "Groups that are not moved on the target",
            skipped,
            [
                Column(
                    "skipped",
                    f"max by ({', '.join(skipped)}) (heliograph_group_skipped{{{_GROUPS}}})",
                )
            ],
            "Why each was left alone the last time. Empty where none was, or where sync.group.offsets.enabled is false.",
            width=12,
            height=10,
        ),
        series(
            "Checkpoint age",
            [
                Query(f"heliograph:checkpoint_age_seconds:max{{{FLOWS}}}", NAME),
                Query("heliograph:threshold_checkpoint_age_seconds", "threshold"),
            ],
            "How long ago groups' offsets were translated: all groups of a flow at once.",
            "s",
        ),
        series(
            "Groups skipped, by reason",
            Query(
                f"sum by (reason) (heliograph_groups_skipped{{{FLOWS}}}) or label_replace("
                f'0 * sum(heliograph_groups{{{FLOWS}}}), "reason", "none", "", "")',
                "{{reason}}",
            ),
            "Groups that were not moved on the target.",
        ),
        series(
            "Checkpoint latency",
            [
                Query(f"min({_MM2}_min{{{_GROUPS}}})", "min"),
                Query(f"avg({_MM2}_avg{{{_GROUPS}}})", "avg"),
                Query(f"max({_MM2}_max{{{_GROUPS}}})", "max"),
                Query(f"max({_MM2}{{{_GROUPS}}})", "last"),
            ],
            "MirrorCheckpointConnector's checkpoint-latency-ms: from reading the offsets to the acknowledged checkpoint.",
            "ms",
        ),
        series(
            "Chores of groups",
            Query(
                "max by (source, target, chore) (heliograph_chore_seconds"
                f'{{{FLOWS},chore=~"checkpoints|group.*"}})',
                f"{NAME} {{{{chore}}}}",
            ),
            "How long the last round of checkpoints, and of moving groups, took.",
            "s",
        ),
    ]


def _audits() -> list[Panel]:
    return [
        row("Drills and verifies"),
        stat(
            "Since the last drill",
            f"time() - heliograph:last_drill_timestamp_seconds:max{{{FLOWS}}}",
            "How long ago a fail-over was rehearsed.",
            "s",
            _MONTH,
            legend=NAME,
        ),
        stat(
            "Last drill",
            f"heliograph:last_drill_ok:newest{{{FLOWS}}}",
            "Whether every group would have gone on exactly.",
            mapped=WENT_WELL,
            legend=NAME,
        ),
        stat(
            "RPO of the last drill",
            f"max by (source, target) (heliograph_last_drill_rpo_seconds{{{FLOWS}}})",
            "What a loss of the source would have cost then.",
            "s",
            legend=NAME,
        ),
        stat(
            "RTO of the last drill",
            f"max by (source, target) (heliograph_last_drill_rto_seconds{{{FLOWS}}})",
            "How long it took until the last group had its first record.",
            "s",
            legend=NAME,
        ),
        stat(
            "Last verify",
            f"heliograph:last_verify_ok:newest{{{FLOWS}}}",
            "Whether both sides were the same, record by record.",
            mapped=EQUAL,
            legend=NAME,
        ),
        stat(
            "Records of the last verify",
            f"max by (source, target) (heliograph_last_verify_records{{{FLOWS}}})",
            "How many records it compared.",
            legend=NAME,
        ),
    ]
