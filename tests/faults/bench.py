"""The fault bench: two clusters of three brokers, a mirror that reaches both through proxies, a load and an account.

Load, watch and account reach the brokers directly: what is cut or delayed is the mirror's way alone.
"""

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from urllib.request import urlopen

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from heliograph.embedded.ports import LOOPBACK, pick_port
from heliograph.embedded.proxy import GOOD, Proxy
from tests.clusters import LiveCluster, eventually, unique_name
from tests.commands import run_command
from tests.load import SteadyLoad, account
from tests.mirrors import Mirror, flow_properties, unique_alias
from tests.processes import command_line, tree

PARTITIONS = 6
RATE = 2000
# What was under way when a process was killed may still arrive: a record that is newer by this many seconds
# tells that the mirror works again.
LATER = 1.5
STARTING = 240
CLEAN = {"lost": 0, "repeated": 0, "out of order": 0}

_LAGS = ("lag_records", "lag_seconds", "waiting", "partitions_stopped")
RESULTS = "HELIOGRAPH_FAULTS_OUT"
_COPIES = dict.fromkeys(
    (
        "replication.factor",
        "offset.storage.replication.factor",
        "offset-syncs.topic.replication.factor",
        "checkpoints.topic.replication.factor",
        "heartbeats.topic.replication.factor",
    ),
    "3",
)


def pause(seconds: float) -> None:
    """Let a fault last."""
    threading.Event().wait(seconds)


@dataclass(slots=True)
class Result:
    """What came of one fault; `recovery` and `stall` are seconds."""

    fault: str
    system: str = "heliograph"
    rate: int = RATE
    times: int = 0
    produced: int = 0
    lost: int = -1
    repeated: int = -1
    disorder: int = -1
    recovery: float = 0.0
    stall: float = 0.0

    def write(self) -> None:
        path = os.environ.get(RESULTS)
        if path:
            with Path(path).open("a") as out:
                out.write(json.dumps(asdict(self)) + "\n")


class Watch:
    """What a consumer of the remote topic sees of it: when the newest record was produced, and pauses."""

    def __init__(self, cluster: LiveCluster, remote: str, partitions: int) -> None:
        settings = cluster.client(
            group_id="watch",
            enable_auto_commit=False,
            isolation_level="read_committed",
            reconnect_backoff_max_ms=500,
            fetch_wait_max_ms=100,
            topic_metadata_refresh_interval_ms=2000,
        )
        self._consumer = Consumer(settings)
        self._consumer.assign(
            [TopicPartition(remote, p, OFFSET_BEGINNING) for p in range(partitions)]
        )
        self.newest = dict.fromkeys(range(partitions), -1)
        self.stamps = dict.fromkeys(range(partitions), 0.0)
        self._arrived = dict.fromkeys(range(partitions), time.monotonic())
        self.stall = 0.0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._consumer.close()

    def _run(self) -> None:
        while not self._stopping.is_set():
            for message in self._consumer.consume(1000, timeout=0.1):
                partition, value = message.partition(), message.value()
                if message.error() is None and partition is not None and value is not None:
                    self.newest[partition] = max(self.newest[partition], int(value))
                    self.stamps[partition] = message.timestamp()[1] / 1000
                    now = time.monotonic()
                    self.stall = max(self.stall, now - self._arrived[partition])
                    self._arrived[partition] = now


@dataclass
class Bench:
    """All that a fault is done to."""

    source: LiveCluster
    target: LiveCluster
    to_source: Proxy
    to_target: Proxy
    folder: Path
    alias: str = field(default_factory=unique_alias)
    mirrors: int = 0
    topics: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.port = pick_port()
        self.mirror = self.new_mirror()

    @property
    def flow(self) -> str:
        return f"{self.alias}->B"

    def properties(self) -> dict[str, str]:
        return {
            **flow_properties(
                (self.alias, self.source.cluster.proxied_bootstrap),
                ("B", self.target.cluster.proxied_bootstrap),
                "fault\\\\..*",
                tasks_max="2",
            ),
            **_COPIES,
            "epoch.seconds": "45",
        }

    def new_mirror(
        self, environment: dict[str, str] | None = None, port: int | None = None, **more: str
    ) -> Mirror:
        """Return a mirror of the same flow, not started, in a folder of its own."""
        self.mirrors += 1
        return Mirror(
            self.folder / f"mirror-{self.mirrors}",
            {**self.properties(), **more},
            environment,
            ["--listen", f"{LOOPBACK}:{port or self.port}"],
        )

    def cluster(self, side: str) -> LiveCluster:
        return self.source if side == "source" else self.target

    def proxy(self, side: str) -> Proxy:
        return self.to_source if side == "source" else self.to_target

    def jvm(self) -> int:
        return next(p for p in tree(self.mirror.pid) if "SparkSubmit" in command_line(p))

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
                for name, topic in cluster.admin.list_topics(timeout=10).topics.items()
                for p in topic.partitions.values()
                if len(p.isrs) < len(p.replicas) or p.leader < 0
            ]

        eventually(lambda: not lacking(), 60, lacking)

    @contextmanager
    def under_load(self, fault: str) -> Iterator["Scene"]:
        """Run a block while a steady load is copied; on leaving, all must have arrived once and in order."""
        topic = self.create_topic(PARTITIONS)
        self.start_mirror()
        remote = self.remote(topic)
        eventually(lambda: self.target.partition_count(remote) == PARTITIONS, 60, self.mirror.tail)
        load = SteadyLoad(
            self.source,
            topic,
            PARTITIONS,
            RATE,
            linger_ms=50,
            reconnect_backoff_max_ms=500,
            queue_buffering_max_messages=1_000_000,
        )
        with load, closing(Watch(self.target, remote, PARTITIONS)) as watch:
            scene = Scene(self, topic, remote, load, watch, Result(fault))
            scene.await_recovery(STARTING)
            watch.stall = 0.0
            yield scene
            scene.settle()
        self.topics.append(topic)

    def start_mirror(self) -> None:
        """Return when the mirror runs; a load that begins before only slows Spark down."""
        if not self.mirror.is_alive:
            begun = len(self.mirror.lines("Spark is up")) if self.mirror.log.exists() else 0
            self.mirror.start()
            eventually(
                lambda: len(self.mirror.lines("Spark is up")) > begun, STARTING, self.mirror.tail
            )

    def verify(self) -> None:
        """All that every case produced is on the target: byte by byte, in order, by `heliograph verify`."""
        told = run_command(
            "verify", "--config", str(self.mirror.file), "--flow", self.flow, "--complete",
            "--topics", "|".join(self.topics), "--report", str(self.folder / "reports"),
            within=300,
        )  # fmt: skip
        assert told.returncode == 0, told.stdout + told.stderr

    def mend(self) -> None:
        """Make everything good again after a case that failed."""
        for side in ("source", "target"):
            self.proxy(side).set_line(GOOD)
            self.cluster(side).cluster.start()
        if self.mirror.is_alive:
            self.mirror.kill()
        self.mirror = self.new_mirror()


@dataclass
class Scene:
    """One case: its topic under load, and what is found out about it."""

    bench: Bench
    topic: str
    remote: str
    load: SteadyLoad
    watch: Watch
    result: Result

    def await_recovery(self, within: float = 60) -> float:
        """Return after how many seconds from now every partition had records that were produced later on."""
        began, newer_than = time.monotonic(), time.time() + LATER
        eventually(lambda: min(self.watch.stamps.values()) > newer_than, within, self.describe)
        return time.monotonic() - began

    def recover(self, within: float = 60) -> None:
        """Take the time that recovery takes from now on; a case of several faults keeps the longest."""
        self.result.recovery = max(self.result.recovery, self.await_recovery(within))
        self.result.times += 1

    def recover_restarting(self, within: float = 60) -> None:
        """As `recover`, with a service manager beside it that starts a mirror again that has ended."""
        over = threading.Event()

        def tend() -> None:
            while not over.wait(0.2):
                if not self.bench.mirror.is_alive:
                    self.bench.mirror.start()

        keeper = threading.Thread(target=tend, daemon=True)
        keeper.start()
        try:
            self.recover(within)
        finally:
            over.set()
            keeper.join()

    def describe(self) -> str:
        seen = {p: f"{time.time() - at:.1f} s" for p, at in self.watch.stamps.items()}
        lags = {name: self.bench.metric(f"heliograph_flow_{name}") for name in _LAGS}
        return f"a consumer is behind by {seen}; the mirror says {lags}\n{self.bench.mirror.tail()}"

    def settle(self) -> None:
        """End the load, wait for the last record, and account for all."""
        result = self.result
        result.stall = self.watch.stall
        result.produced = produced = self.load.stop()
        eventually(lambda: max(self.watch.newest.values()) == produced - 1, 60, self.describe)
        eventually(
            lambda: min(self.watch.newest.values()) >= produced - PARTITIONS, 30, self.describe
        )
        ours = account(self.bench.source, self.topic, produced, PARTITIONS)
        assert ours == CLEAN, f"the load itself: {ours}"
        found = account(self.bench.target, self.remote, produced, PARTITIONS)
        result.lost, result.repeated = found["lost"], found["repeated"]
        result.disorder = found["out of order"]
        result.write()
        assert found == CLEAN, self.bench.mirror.tail()


def in_turn(cluster: LiveCluster, act: Callable[[int], None]) -> None:
    for node in cluster.cluster.layout.nodes:
        act(node.id)
