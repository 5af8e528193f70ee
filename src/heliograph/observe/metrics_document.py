"""Prints docs/metrics.md: `python -m heliograph.observe.metrics_document > docs/metrics.md`."""

import sys

from heliograph.observe.metrics_catalog import FAMILIES, Metric

_HEAD = """# Metrics

Generated from `src/heliograph/observe/metrics_catalog.py`; `python -m heliograph.observe.metrics_document` prints it.

`heliograph run` and `heliograph worker` answer `GET /metrics` where their REST API listens, in Prometheus'
text format. A worker has the flows that it copies itself, and the groups of flows whose checkpoint connector
it runs: scrape them all. Where `rest.access.file` is set, a scrape needs the role `view`, with `basic_auth` or a
bearer token.

A scrape looks at what is known anyway; copying costs nothing more for it. Rates, ages and the RPO are computed from one
scrape to the next, so they are there from the second on, and no more exact than the time between two.

**Names.** Metrics of MirrorMaker 2 keep the names that the JMX exporter's rules of Strimzi give them (`lowercaseOutputName`,
`kafka.connect.mirror<type=MirrorSourceConnector, ...>`), gauges all, with the tags of the beans as labels:
`source` since Kafka 4.0, `target`, `topic` (the remote one), `partition`, `group`. In metrics of heliograph `topic`
is the source's name.

**Counters** never fall while a process runs: a flow that starts again after a failure, is paused or restarted, and a
partition whose topic was deleted and recreated continue from where they were. MM2's counts, which are gauges, begin at 0 then, as MM2's do.
A topic's counters are there as long as the topic is copied. Runs of chores begin at 0 with their connector.

**Lag in seconds** is how long the first offset that is not on the target has been on the source, computed from where the
partition ended at earlier scrapes; what lay there before the first scrape counts from then on, or from the timestamp
of the newest copied record where that is earlier. **RPO** is the same, and at least the time since the flow
was last seen RUNNING: without a look at the source nobody knows that nothing came.

**How many series.** Up to 2,000 partitions in all flows of a process have series of their own, 14 each at most. With
more, none has: MM2's metrics of a partition are then those of a topic, without the label `partition` (counts and
rates added, ages and latencies the worst), up to 2,000 topics, and beyond that only those of flows. Groups
likewise: up to 500 have their own, with a series per partition as long as these are no more than 2,000; with more,
`heliograph_flow_checkpoint_age_seconds` still shows how old checkpoints are. Reasons are at most 10 per flow.
`heliograph_series_folded` shows what was left out. A scraper changes the limits: `params: {partitions: ["5000"],
groups: ["1000"]}` in its configuration.

**Drills and verifies** are those whose reports, `drill-*.json` and `verify-*.json`, are in the folder that `--reports` names:
by default `drill-reports` of the directory that this process was started in, which is where `heliograph drill` keeps them.

**Process metrics** `process_*` and `python_*` are prometheus_client's own and cover the driver alone. Executors on a
Spark cluster are processes of other machines: Spark has their metrics.
"""


def document() -> str:
    """Return the page: a table for each family of metrics."""
    parts = [_HEAD]
    for title, metrics in FAMILIES:
        rows = "\n".join(map(_row, metrics))
        parts.append(
            f"## {title}\n\n| name | type | labels | meaning |\n|---|---|---|---|\n{rows}\n"
        )
    return "\n".join(parts)


def _row(metric: Metric) -> str:
    labels = ", ".join(metric.labels)
    return f"| `{metric.name}` | {metric.kind} | {labels} | {metric.help} |"


if __name__ == "__main__":
    sys.stdout.write(document())
