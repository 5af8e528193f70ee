"""`heliograph demo`: two real clusters, load on both, the mirror between them, and the proof."""

import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table

from heliograph.admin.topics import await_topics, create_topic
from heliograph.cli.edgar import EdgarProducer
from heliograph.cli.logs import set_up_logs
from heliograph.config.mirror import MirrorConfig, load_mirror
from heliograph.connect.supervisor import Supervisor, dedicated_connectors
from heliograph.embedded.cluster import start_cluster
from heliograph.errors import MirrorError
from heliograph.kafka.cluster import Cluster
from heliograph.observe.flow_status import FlowStatus, State
from heliograph.spark.task_pool import TaskPool
from heliograph.verify.flow import verify_flow
from heliograph.verify.report import Report
from heliograph.web.app import make_app
from heliograph.web.server import Server

_CATCH_UP = 60.0
_SETTINGS = """\
clusters = ClusterA, ClusterB
ClusterA.bootstrap.servers = {A}
ClusterB.bootstrap.servers = {B}
ClusterA->ClusterB.enabled = true
ClusterB->ClusterA.enabled = true
topics = NginxServerLogs, TomcatServerLogs
replication.factor = 1
offset.storage.replication.factor = 1
offset-syncs.topic.replication.factor = 1
checkpoints.topic.replication.factor = 1
sync.topic.acls.enabled = false
emit.heartbeats.enabled = false
refresh.topics.interval.seconds = 5
"""
_LOGS = {"ClusterA": ("NginxServerLogs", 15), "ClusterB": ("TomcatServerLogs", 10)}


def demo(
    seconds: Annotated[int, typer.Option(min=5, help="How long to produce.")] = 60,
    rate: Annotated[int, typer.Option(min=1, help="Records a second, on each side.")] = 2000,
    headless: Annotated[bool, typer.Option(help="Plain lines instead of a live table.")] = False,
) -> None:
    """Show two clusters mirroring each other through Spark, and prove that every record arrived."""
    set_up_logs("WARNING")
    console = Console(highlight=False, soft_wrap=True)
    live = console.is_terminal and not headless
    signal.signal(signal.SIGTERM, _interrupt)
    with ExitStack() as cleanup:
        folder = Path(tempfile.mkdtemp(prefix="heliograph-demo-"))
        cleanup.callback(shutil.rmtree, folder, ignore_errors=True)
        config = _start_clusters(console, folder, cleanup)
        supervisor = Supervisor(dedicated_connectors(config.flows))
        cleanup.callback(supervisor.stop)
        console.print("Starting the mirror (Spark takes some seconds) ...")
        supervisor.start()
        server = Server(make_app(supervisor, read_only=True, shelf=folder))
        server.start()
        cleanup.callback(server.stop)
        console.print(f"Look at it at {server.url} while it runs.")
        producers = [
            EdgarProducer(flow.source, *_LOGS[flow.flow.source], rate) for flow in config.flows
        ]
        _wait(supervisor, lambda s: all(f.state is State.RUNNING and f.tasks for f in s), 120)
        console.print(
            f"Producing {rate} records a second on either side for {seconds} s: "
            "NginxServerLogs on ClusterA (15 partitions), TomcatServerLogs on ClusterB (10)."
        )
        for producer in producers:
            producer.start()
        _watch(console, supervisor, seconds, live)
        produced = [producer.stop() for producer in producers]
        console.print("Producing ended; waiting until all of it is on the other side ...")
        _wait(supervisor, lambda s: sum(f.records for f in s) >= sum(produced), _CATCH_UP)
        latencies = {f.flow: f.latency_ms for f in supervisor.flows()}
        supervisor.stop_flows()
        console.print("Verifying record by record (a Spark job that reads both sides) ...")
        pool = TaskPool(supervisor.engine.context())
        reports = {
            str(flow.flow): verify_flow(flow, complete=True, pool=pool) for flow in config.flows
        }
        good = _summarise(console, reports, dict(zip(reports, produced, strict=True)), latencies)
    sys.exit(0 if good else 1)


def _start_clusters(console: Console, folder: Path, cleanup: ExitStack) -> MirrorConfig:
    """Start both clusters, make their topics, and write the file that the mirror reads."""
    bootstrap = {}
    for name in _LOGS:
        console.print(f"Starting {name}, a real Kafka broker ...")
        cluster = start_cluster(name, data_root=folder / "kafka")
        cleanup.callback(cluster.stop)
        bootstrap[name[-1]] = cluster.bootstrap
    file = folder / "mm2.properties"
    file.write_text(_SETTINGS.format_map(bootstrap))
    config = load_mirror(file)
    for flow in config.flows:
        with closing(Cluster(flow.source)) as source:
            topic, partitions = _LOGS[flow.flow.source]
            create_topic(source, topic, partitions, 1)
            await_topics(source, {topic: partitions})
    return config


def _watch(console: Console, supervisor: Supervisor, seconds: int, live: bool) -> None:
    """Show the flows while the load runs."""
    meter = _Meter()
    until = time.monotonic() + seconds
    if live:
        with Live(console=console, refresh_per_second=4) as screen:
            while time.monotonic() < until:
                screen.update(_table(supervisor.flows(), meter, until - time.monotonic()))
                time.sleep(0.5)
        return
    while time.monotonic() < until:
        time.sleep(min(5.0, max(until - time.monotonic(), 0.0)))
        for flow in supervisor.flows():
            rate = meter.rate(flow)
            p50, p99 = flow.latency_ms
            console.print(
                f"  {flow.flow} {flow.state.value}: {flow.records} records, {rate:.0f}/s, "
                f"lag {flow.lag}, latency p50 <= {p50} ms, p99 <= {p99} ms"
            )


class _Meter:
    """Turns growing totals into rates."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[float, int]] = {}

    def rate(self, flow: FlowStatus) -> float:
        now = time.monotonic()
        then, records = self._last.get(flow.flow, (now, flow.records))
        self._last[flow.flow] = now, flow.records
        return (flow.records - records) / (now - then) if now > then else 0.0


def _table(flows: list[FlowStatus], meter: _Meter, left: float) -> Table:
    table = Table(title=f"Mirroring, {left:.0f} s left")
    for column in (
        "flow",
        "state",
        "topics",
        "partitions",
        "records",
        "rec/s",
        "lag",
        "p50 ms",
        "p99 ms",
    ):
        table.add_column(column, justify="left" if column in ("flow", "state") else "right")
    for flow in flows:
        p50, p99 = flow.latency_ms
        table.add_row(
            flow.flow,
            flow.state.value,
            str(flow.topics),
            str(flow.partitions),
            f"{flow.records:,}",
            f"{meter.rate(flow):,.0f}",
            str(flow.lag),
            f"<= {p50}" if p50 else "-",
            f"<= {p99}" if p99 else "-",
        )
    return table


def _wait(
    supervisor: Supervisor, condition: Callable[[list[FlowStatus]], bool], within: float
) -> None:
    """Wait until the flows are as `condition` says; a flow that failed is told at once."""
    deadline = time.monotonic() + within
    while not condition(supervisor.flows()):
        failed = [f for f in supervisor.flows() if f.state is State.FAILED]
        if failed or time.monotonic() > deadline:
            states = "; ".join(
                f"{f.flow} {f.state.value} {f.reason or ''}" for f in supervisor.flows()
            )
            raise MirrorError(f"the demo did not get on within {within:.0f} s: {states}")
        time.sleep(0.25)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _summarise(
    console: Console,
    reports: dict[str, Report],
    produced: dict[str, int],
    latencies: dict[str, tuple[int | None, int | None]],
) -> bool:
    """Say what was proved; return whether all of it was."""
    console.print()
    for flow, report in reports.items():
        p50, p99 = latencies[flow]
        console.print(f"{flow}: {produced[flow]} records produced; {report.summary()}")
        console.print(f"  latency, record made to acknowledged: p50 <= {p50} ms, p99 <= {p99} ms")
    good = all(report.ok for report in reports.values())
    console.print(
        "Every record was verified: same key, value, headers, timestamp and order on both sides."
        if good
        else "NOT every record could be verified; see above."
    )
    return good
