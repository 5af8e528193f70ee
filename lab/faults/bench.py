"""The fault bench: two clusters of three brokers, a mirror that reaches both through proxies, a load and an account.

Load, watch and account reach the brokers directly: only the mirror's connections are cut or delayed.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.request import urlopen

from heliograph.embedded.ports import LOOPBACK, pick_port
from lab.clusters import LiveCluster, eventually, start_live_cluster, unique_name
from lab.commands import run_command
from lab.faults.results import RATE, Result, Watch
from lab.faults.systems import Copier, Heliograph, MirrorMaker
from lab.load import SteadyLoad, account
from lab.mirrors import flow_properties, unique_alias
from lab.proxy import GOOD, Proxy
from lab.standalone import StandaloneSpark

SIDES = ("source", "target")
PARTITIONS = 6
# Records in transit when a process was killed may still arrive: a record that is newer by this many seconds
# shows that the mirror works again.
LATER = 1.5
STARTING = 240
CLEAN = {"lost": 0, "repeated": 0, "out of order": 0}
# How long recovery may take, and then the rest after the load. A Connect worker that its group lost for a moment
# waits for scheduled.rebalance.max.delay.ms before it gets its tasks again, 300 s by default.
_PATIENCE = {"heliograph": 60, "mm2": 360}

_THREE = {"min.insync.replicas": "2", "unclean.leader.election.enable": "false"}
_LAGS = ("lag_records", "lag_seconds", "waiting", "partitions_stopped")
_COPIES = {
    f"{topic}.replication.factor".removeprefix("."): "3"
    for topic in (
        "",
        "offset.storage",
        "status.storage",
        "config.storage",
        "offset-syncs.topic",
        "checkpoints.topic",
        "heartbeats.topic",
    )
}


class NotRecovered(AssertionError):
    """Records did not arrive again in the given time."""


def pause(seconds: float) -> None:
    """Let a fault last."""
    threading.Event().wait(seconds)


@contextmanager
def open_bench(folder: Path, system: str = "heliograph", rate: int = RATE) -> Iterator["Bench"]:
    """Start both clusters and their proxies; on leaving, all that the bench started is ended."""
    with ExitStack() as at_end:

        def start(name: str) -> LiveCluster:
            live = start_live_cluster(
                name, folder, brokers=3, config=_THREE, heap="320m", proxied=True
            )
            at_end.callback(live.cluster.wipe)
            return live

        source, target = start("source3"), start("target3")
        to_source = at_end.enter_context(Proxy(source.cluster.proxy_routes))
        to_target = at_end.enter_context(Proxy(target.cluster.proxy_routes))
        bench = Bench(source, target, to_source, to_target, folder, system, rate)
        at_end.callback(bench.end)
        yield bench


@dataclass
class Bench:
    """Everything that a fault can be injected into."""

    source: LiveCluster
    target: LiveCluster
    to_source: Proxy
    to_target: Proxy
    folder: Path
    system: str = "heliograph"
    rate: int = RATE
    say: Callable[[str], None] = print
    alias: str = field(default_factory=unique_alias)
    mirrors: int = 0
    topics: list[str] = field(default_factory=list)
    spark: StandaloneSpark | None = None
    scene: "Scene | None" = None

    def __post_init__(self) -> None:
        self.port = pick_port()
        self.copier: Copier = self.new_copier()

    @property
    def flow(self) -> str:
        return f"{self.alias}->B"

    @property
    def patience(self) -> float:
        return _PATIENCE[self.system]

    @property
    def mirror(self) -> Heliograph:
        """The copier, if it must be heliograph."""
        assert isinstance(self.copier, Heliograph), "only heliograph has this"
        return self.copier

    def properties(self) -> dict[str, str]:
        return {
            **flow_properties(
                (self.alias, self.source.cluster.proxied_bootstrap),
                ("B", self.target.cluster.proxied_bootstrap),
                "fault[.].*",
                tasks_max="2",
            ),
            **_COPIES,
        }

    def new_copier(self) -> Copier:
        """Return a system that continues the flow, not started, in a new folder."""
        if self.system == "heliograph":
            return self.new_mirror()
        self.mirrors += 1
        return MirrorMaker(self.folder / f"mm2-{self.mirrors}", self.properties())

    def new_mirror(
        self,
        environment: dict[str, str] | None = None,
        port: int | None = None,
        arguments: Sequence[str] = (),
    ) -> Heliograph:
        """Return a heliograph for the same flow, not started, in a new folder."""
        self.mirrors += 1
        return Heliograph(
            self.folder / f"mirror-{self.mirrors}",
            self.properties(),
            environment,
            ["--listen", f"{LOOPBACK}:{port or self.port}", *arguments],
        )

    @contextmanager
    def using(self, copier: Copier) -> Iterator[None]:
        """Let another copier run the flow for one case, and a new one of the usual kind after it."""
        if self.copier.is_alive:
            self.copier.stop()
        self.copier = copier
        try:
            yield
            if self.copier.is_alive:
                self.copier.stop()
        finally:
            self.end()
            self.copier = self.new_copier()

    def cluster(self, side: str) -> LiveCluster:
        return self.source if side == "source" else self.target

    def proxy(self, side: str) -> Proxy:
        return self.to_source if side == "source" else self.to_target

    def remote(self, topic: str) -> str:
        return f"{self.alias}.{topic}"

    def create_topic(self, partitions: int = 1, **config: str) -> str:
        """Create a topic that the mirror copies."""
        topic = f"fault.{unique_name()}"
        given = {key.replace("_", "."): value for key, value in config.items()}
        self.source.create_topic(partitions, given, name=topic, replication=3)
        return topic

    def metric(self, name: str, **labels: str) -> float:
        """Return the sum of a metric of this flow over all series that have these labels."""
        with closing(urlopen(f"http://{LOOPBACK}:{self.port}/metrics", timeout=10)) as answer:
            text = answer.read().decode()
        wanted = [f'{key}="{value}"' for key, value in labels.items()]
        return sum(
            float(line.rsplit(" ", 1)[1])
            for line in text.splitlines()
            if line.startswith(f"{name}{{") and all(label in line for label in wanted)
        )

    def await_in_sync(self, side: str) -> None:
        """Return when every replica of a cluster is in sync."""
        cluster = self.cluster(side)

        def lacking() -> list[str]:
            return [
                f"{name}-{p.id}"
                for name, topic in cluster.metadata().topics.items()
                for p in topic.partitions.values()
                if len(p.isrs) < len(p.replicas) or p.leader < 0
            ]

        eventually(lambda: not lacking(), 60, lacking)

    def do(self, fault: str, act: Callable[["Scene"], None]) -> Result:
        """Inject a fault while a steady load is copied, wait until all has arrived, and account for it."""
        topic = self.create_topic(PARTITIONS)
        self.start_mirror()
        remote = self.remote(topic)
        eventually(
            lambda: self.target.partition_count(remote) == PARTITIONS, STARTING, self.copier.tail
        )
        load = SteadyLoad(
            self.source,
            topic,
            PARTITIONS,
            self.rate,
            linger_ms=50,
            reconnect_backoff_max_ms=500,
            queue_buffering_max_messages=1_000_000,
        )
        with load, closing(Watch(self.target, remote, PARTITIONS)) as watch:
            result = Result(fault, self.system, self.rate)
            scene = self.scene = Scene(self, topic, remote, load, watch, result)
            try:
                scene.await_recovery(STARTING)
                watch.stall = 0.0
                scene.act(act)
                scene.settle()
            finally:
                self.scene = None
        self.topics.append(topic)
        return result

    def start_mirror(self) -> None:
        """Return when the mirror runs; a load that starts earlier only slows Spark down."""
        if not self.copier.is_alive:
            self.copier.start()
            self.copier.await_up(STARTING)

    def verify(self) -> str:
        """Return what `heliograph verify` says: all that was produced is there, byte by byte, in order."""
        told = run_command(
            "verify", "--config", str(self.mirror.file), "--flow", self.flow, "--complete",
            "--topics", "|".join(self.topics), "--report", str(self.folder / "reports"),
            within=300,
        )  # fmt: skip
        assert told.returncode == 0, told.stdout + told.stderr
        return told.stdout

    def heal(self) -> None:
        """Repair lines and brokers."""
        for side in SIDES:
            self.proxy(side).set_line(GOOD)
            cluster = self.cluster(side).cluster
            for broker in cluster.pids:
                cluster.kill(broker, signal.SIGCONT)
            cluster.start()

    def mend(self) -> None:
        """Repair everything after a case that failed."""
        self.heal()
        self.end()
        self.copier = self.new_copier()

    def end(self) -> None:
        if self.copier.is_alive:
            self.copier.kill()


@dataclass
class Scene:
    """One case: its topic under load, and what is learned about it."""

    bench: Bench
    topic: str
    remote: str
    load: SteadyLoad
    watch: Watch
    result: Result

    def act(self, fault: Callable[["Scene"], None]) -> None:
        """Inject the fault; if the mirror does not recover, the account covers what arrives after the repair."""
        try:
            fault(self)
        except NotRecovered as late:
            self.result.recovered = False
            self.say(str(late))
            self.bench.heal()

    def say(self, what: str) -> None:
        self.bench.say(what)

    def process(self, name: str) -> int:
        return self.bench.copier.process(name)

    def await_recovery(self, within: float) -> float:
        """Return how many seconds from now it takes until every partition has records produced later on."""
        began, newer_than = time.monotonic(), time.time() + LATER
        try:
            eventually(lambda: min(self.watch.stamps.values()) > newer_than, within, self.describe)
        except AssertionError as late:
            raise NotRecovered(str(late)) from None
        return time.monotonic() - began

    def recover(self, within: float = 0) -> None:
        """Measure how long recovery takes from now on; a case of several faults keeps the longest."""
        within = max(within, self.bench.patience)
        self.result.times += 1
        try:
            took = self.await_recovery(within)
        except NotRecovered:
            self.result.recovery = within
            raise
        self.say(f"records arrive again after {took:.1f} s")
        self.result.recovery = max(self.result.recovery, took)

    def recover_restarting(self, within: float = 0) -> None:
        """Do as `recover`, with a service manager that restarts a mirror that has ended."""
        over = threading.Event()

        def tend() -> None:
            while not over.wait(0.2):
                if not self.bench.copier.is_alive:
                    self.bench.copier.start()

        keeper = threading.Thread(target=tend, daemon=True)
        keeper.start()
        try:
            self.recover(within)
        finally:
            over.set()
            keeper.join()

    def describe(self) -> str:
        seen = {p: f"{time.time() - at:.1f} s" for p, at in self.watch.stamps.items()}
        told = f"a consumer is behind by {seen}"
        if self.bench.system == "heliograph":
            with suppress(OSError):
                lags = {name: self.bench.metric(f"heliograph_flow_{name}") for name in _LAGS}
                told += f"; the mirror says {lags}"
        return f"{told}\n{self.bench.copier.tail()}"

    def settle(self) -> None:
        """End the load, wait for the last record, and account for all."""
        result, patience = self.result, self.bench.patience
        result.stall, result.busy = self.watch.stall, os.getloadavg()[0]
        result.produced = produced = self.load.stop()
        self.say(f"{produced:,} records were produced; waiting for the last of them")
        try:
            eventually(
                lambda: min(self.watch.newest.values()) >= produced - PARTITIONS,
                patience,
                self.describe,
            )
        except AssertionError as late:
            result.remark = f"not all copied {patience:.0f} s after the last was produced"
            self.say(str(late))
        ours = account(self.bench.source, self.topic, produced, PARTITIONS)
        assert ours == CLEAN, f"the load itself: {ours}"
        found = account(self.bench.target, self.remote, produced, PARTITIONS)
        result.lost, result.repeated = found["lost"], found["repeated"]
        result.disorder = found["out of order"]


def in_turn(cluster: LiveCluster, act: Callable[[int], None]) -> None:
    for node in cluster.cluster.layout.nodes:
        act(node.id)
