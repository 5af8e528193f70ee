"""The processes: mirrors, workers, their JVMs and Python tasks."""

from deploy.grafana.make.panels import (
    GREEN,
    ORANGE,
    RED,
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

_HERE = 'instance=~"$instance"'
_NAME = "{{instance}}"
_PART = "{{instance}} {{part}}"
_OURS = f"and on (job, instance) heliograph_build_info{{{_HERE}}}"


def workers() -> Json:
    return dashboard(
        "heliograph-workers",
        "heliograph: workers",
        "CPU, memory, Spark and chores of each process of heliograph.",
        [variable("instance", "instance", "heliograph_build_info")],
        [*_now(), *_use(), *_work(), *_scraping()],
    )


def _now() -> list[Panel]:
    return [
        row("Now"),
        stat(
            "Processes up",
            f'sum(up{{job=~"heliograph.*",{_HERE}}})',
            "Mirrors and workers that answer.",
        ),
        stat(
            "Processes down",
            f'sum(up{{job=~"heliograph.*",{_HERE}}} == bool 0)',
            "Mirrors and workers that Prometheus cannot scrape.",
            steps=((None, GREEN), (1, RED)),
        ),
        stat(
            "CPU",
            f"sum(rate(heliograph_process_cpu_seconds_total{{{_HERE}}}[$__rate_interval]))",
            "Cores that all parts of all processes use.",
        ),
        stat(
            "Memory",
            f"sum(heliograph_process_resident_memory_bytes{{{_HERE}}})",
            "Resident memory of all parts of all processes; what Python processes share counts for each.",
            "bytes",
        ),
        stat(
            "Youngest process",
            f"time() - max(process_start_time_seconds {_OURS})",
            "How long ago the last start of a process was.",
            "s",
        ),
        stat(
            "Starts in a day",
            f"sum(changes(process_start_time_seconds[1d]) {_OURS})",
            "How often processes were started again within the last day.",
            steps=((None, GREEN), (3, ORANGE)),
        ),
        table(
            "Processes",
            ("instance",),
            [
                Column(
                    "CPU", _sum("rate(heliograph_process_cpu_seconds_total{}[$__rate_interval])")
                ),
                Column("memory", _sum("heliograph_process_resident_memory_bytes{}"), "bytes"),
                Column("processes", _sum("heliograph_processes{}")),
                Column("flows", _count("heliograph_flow_state{}")),
                Column("running", _sum("heliograph_flow_state{}", 'state="RUNNING"')),
                Column(
                    "records/s",
                    _sum("rate(heliograph_flow_records_total{}[$__rate_interval])"),
                    "cps",
                ),
                Column(
                    "up since",
                    f"max by (instance) (1000 * process_start_time_seconds {_OURS})",
                    "dateTimeAsIso",
                ),
            ],
            "Which process does how much. A worker tells of the flows that it copies itself.",
            width=16,
        ),
        table(
            "Versions",
            ("instance", "version"),
            [Column("is", f"max by (instance, version) (heliograph_build_info{{{_HERE}}})")],
            "The version of heliograph that each process runs.",
            width=8,
        ),
    ]


def _sum(expr: str, more: str = "") -> str:
    chosen = f"{_HERE},{more}" if more else _HERE
    return f"sum by (instance) ({expr.replace('{}', f'{{{chosen}}}')})"


def _count(expr: str) -> str:
    chosen = f'{_HERE},state="RUNNING"'
    return f"count by (instance) ({expr.replace('{}', f'{{{chosen}}}')})"


def _use() -> list[Panel]:
    return [
        row("CPU and memory"),
        series(
            "CPU by part",
            Query(
                "sum by (instance, part) "
                f"(rate(heliograph_process_cpu_seconds_total{{{_HERE}}}[$__rate_interval]))",
                _PART,
            ),
            "Cores used by the driver, Spark's JVM and the Python processes of its tasks.",
            stacked=True,
        ),
        series(
            "Memory by part",
            Query(
                f"sum by (instance, part) (heliograph_process_resident_memory_bytes{{{_HERE}}})",
                _PART,
            ),
            "Resident memory; what Python processes share counts for each.",
            "bytes",
            stacked=True,
        ),
        series(
            "Processes by part",
            Query(f"sum by (instance, part) (heliograph_processes{{{_HERE}}})", _PART),
            "How many processes there are.",
        ),
        series(
            "Open files of drivers",
            [
                Query(f"process_open_fds {_OURS}", f"{_NAME} open"),
                Query(f"process_max_fds {_OURS}", f"{_NAME} at most"),
            ],
            "File descriptors of the drivers, and their limits.",
        ),
    ]


def _work() -> list[Panel]:
    flow = "{{source}}->{{target}}"
    return [
        row("Spark and chores"),
        series(
            "Tasks at work",
            Query(f"sum by (source, target) (heliograph_flow_tasks{{{_HERE}}})", flow),
            "Tasks of Spark that copy partitions now, at most tasks.max of each flow.",
        ),
        series(
            "Partitions handed over",
            Query(
                "60 * sum by (source, target) "
                f"(rate(heliograph_flow_handovers_total{{{_HERE}}}[$__rate_interval]))",
                flow,
            ),
            "How many a minute went from one task to another, for balance or because topics changed.",
        ),
        series(
            "Restarts of flows in a quarter of an hour",
            Query(
                f"sum by (source, target) (increase(heliograph_flow_restarts_total{{{_HERE}}}[15m]))",
                flow,
            ),
            "How often flows, or slices of them, were started again after a failure.",
        ),
        series(
            "Chores done",
            Query(
                "60 * sum by (source, target, chore) "
                f"(rate(heliograph_chore_runs_total{{{_HERE}}}[$__rate_interval]))",
                f"{flow} {{{{chore}}}}",
            ),
            "How often a minute.",
        ),
        series(
            "Chores at work",
            Query(
                f"max by (source, target, chore) (heliograph_chore_busy_seconds{{{_HERE}}})",
                f"{flow} {{{{chore}}}}",
            ),
            "For how long each has been at work now; one that does not end waits for a cluster.",
            "s",
            ((None, GREEN), (600, RED)),
        ),
    ]


def _scraping() -> list[Panel]:
    return [
        row("Scraping"),
        series(
            "Time of a scrape",
            [
                Query(f"scrape_duration_seconds {_OURS}", f"{_NAME} in all"),
                Query(
                    f"heliograph_metrics_snapshot_seconds{{{_HERE}}}", f"{_NAME} for the numbers"
                ),
            ],
            "How long a scrape takes as Prometheus sees it, and how long heliograph took for its numbers.",
            "s",
            width=8,
        ),
        series(
            "Samples of a scrape",
            Query(f"scrape_samples_scraped {_OURS}", _NAME),
            "How many series each process has.",
            width=8,
        ),
        series(
            "Series left out",
            Query(
                f"max by (instance, level) (heliograph_series_folded{{{_HERE}}})",
                f"{_NAME} {{{{level}}}}",
            ),
            "Partitions, topics and groups without series of their own, because there are too many.",
            width=8,
        ),
    ]
