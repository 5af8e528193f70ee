"""A real Kafka cluster on this machine: one to three brokers, each a process that outlives us.

A cluster is a folder: `cluster.json` says what it is, `broker-N/` holds a broker's server.properties,
server.log, process.json and, in logs/, its data. Data survives stop and start.
"""

import json
import shutil
import signal
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from pathlib import Path

from heliograph.embedded.jars import BROKER, lock, obtain_jars
from heliograph.embedded.java import find_java
from heliograph.embedded.nodes import (
    LOG4J,
    Node,
    format_logs,
    new_id,
    node_properties,
    write_properties,
)
from heliograph.embedded.places import data_folder
from heliograph.embedded.ports import LOOPBACK, is_free, pick_port
from heliograph.embedded.prepared import SMALL, STARTED, Runtime, prepare
from heliograph.embedded.processes import Process, spawn, stop
from heliograph.errors import ConfigError, Missing

MOST_BROKERS = 3
_START_LIMIT = timedelta(seconds=90)
_HIGHEST_PORT = 65_535
_STOP_PATIENCE = timedelta(seconds=20)
_LAST_LINES = 15
_POLL = 0.05
_LARGEST_LOG = 20 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Layout:
    """What `cluster.json` says."""

    cluster_id: str
    nodes: tuple[Node, ...]
    config: Mapping[str, str] = field(default_factory=dict)
    heap: str = "512m"
    collector: str = SMALL


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster that exists on disk, running or not."""

    name: str
    folder: Path
    layout: Layout

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{LOOPBACK}:{node.port}" for node in self.layout.nodes)

    @property
    def proxied_bootstrap(self) -> str:
        """The bootstrap servers of clients that connect through the proxy."""
        return ",".join(f"{LOOPBACK}:{node.proxy_port}" for node in self.layout.nodes)

    @property
    def proxy_routes(self) -> dict[int, int]:
        """The routes of a Proxy: where each of its ports leads to."""
        return {node.proxy_port: node.proxied_port for node in self.layout.nodes}

    @property
    def pids(self) -> dict[int, int]:
        """The running brokers: id to pid."""
        return {id_: process.pid for id_, process in self._processes().items()}

    @property
    def is_running(self) -> bool:
        return len(self.pids) == len(self.layout.nodes)

    def log(self, broker_id: int) -> Path:
        return self._home(broker_id) / "server.log"

    def start(self) -> None:
        """Start every broker that is not running, and wait until all of them serve."""
        running = self.pids
        positions: dict[int, int] = {}
        runtime = _runtime()
        try:
            for node in self.layout.nodes:
                if node.id not in running:
                    positions[node.id] = self._spawn(runtime, node)
            self._wait_until_serving(positions)
        except BaseException:  # also Ctrl-C: half a cluster is not left behind
            stop(
                [process for id_, process in self._processes().items() if id_ in positions],
                _STOP_PATIENCE,
            )
            raise

    def stop(self) -> None:
        """Stop all brokers; those that do not end within 20 seconds are killed."""
        stop(list(self._processes().values()), _STOP_PATIENCE)

    def stop_broker(self, broker_id: int) -> None:
        stop([self._processes()[broker_id]], _STOP_PATIENCE)

    def kill(self, broker_id: int, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal to one broker; do not wait for its effect."""
        self._processes()[broker_id].send(number)

    def start_broker(self, broker_id: int) -> None:
        """Start one broker that was stopped or killed, and wait until it serves."""
        if broker_id not in self._processes():
            position = self._spawn(_runtime(), self._node(broker_id))
            self._wait_until_serving({broker_id: position})

    def wipe(self) -> None:
        """Stop, and delete all that the cluster ever held."""
        self.stop()
        shutil.rmtree(self.folder)

    def _spawn(self, runtime: Runtime, node: Node) -> int:
        """Start a broker and return where in its log this start begins."""
        home = self._home(node.id)
        home.mkdir(parents=True, exist_ok=True)
        logs = home / "logs"
        format_logs(node, self.layout.cluster_id, logs, runtime.checkpoint)
        properties = home / "server.properties"
        write_properties(
            properties, node_properties(node, self.layout.nodes, logs, self.layout.config)
        )
        (home / "log4j2.properties").write_text(LOG4J)
        log = self.log(node.id)
        if log.exists() and log.stat().st_size > _LARGEST_LOG:
            log.rename(log.with_suffix(".old.log"))
        position = log.stat().st_size if log.exists() else 0
        process = spawn(
            runtime.command(properties, self.layout.heap, self.layout.collector),
            runtime.environment,
            log,
        )
        (home / "process.json").write_text(json.dumps(asdict(process)))
        return position

    def _wait_until_serving(self, positions: Mapping[int, int]) -> None:
        deadline = time.monotonic() + _START_LIMIT.total_seconds()
        waiting = dict(positions)
        while waiting:
            alive = self._processes()
            for id_, position in list(waiting.items()):
                if STARTED in self._log_since(id_, position):
                    del waiting[id_]
                elif id_ not in alive:
                    raise self._not_started(id_, position, "ended while starting")
            if waiting and time.monotonic() > deadline:
                id_, position = next(iter(waiting.items()))
                raise self._not_started(
                    id_, position, f"does not serve after {_START_LIMIT.seconds} s"
                )
            time.sleep(_POLL)

    def _not_started(self, broker_id: int, position: int, what: str) -> Missing:
        lines = self._log_since(broker_id, position).splitlines()[-_LAST_LINES:]
        return Missing(
            f"{self.name}: broker {broker_id} {what}. Its last lines ({self.log(broker_id)}):\n"
            + "\n".join(lines)
        )

    def _log_since(self, broker_id: int, position: int) -> str:
        with self.log(broker_id).open("rb") as log:
            log.seek(position)
            return log.read().decode(errors="replace")

    def _home(self, broker_id: int) -> Path:
        return self.folder / f"broker-{broker_id}"

    def _node(self, broker_id: int) -> Node:
        return next(node for node in self.layout.nodes if node.id == broker_id)

    def _processes(self) -> dict[int, Process]:
        found = {node.id: _read_process(self._home(node.id)) for node in self.layout.nodes}
        return {id_: process for id_, process in found.items() if process and process.is_alive()}


def start_cluster(
    name: str,
    *,
    port: int | None = None,
    brokers: int | None = None,
    data_root: Path | None = None,
    config: Mapping[str, str] | None = None,
    heap: str | None = None,
    collector: str | None = None,
    proxied: bool = False,
) -> Cluster:
    """Start a cluster, created on first use, and return when every broker serves.

    With `port` the brokers listen on port, port+1, port+2. An argument that is None keeps its
    value from the cluster's creation: ports free at the time, one broker, no more config. A running cluster is
    left as it is. With `proxied` a new cluster's brokers have a second listener, for clients behind a Proxy.
    """
    folder = _folder(name, data_root)
    with lock(folder.with_name(f".{name}.lock")):
        known = read_cluster(name, data_root)
        if known and known.pids:
            _refuse_change(known, port, brokers)
            known.start()
            return known
        layout = _plan_layout(name, known.layout if known else None, port, brokers)
        if proxied and not known:
            layout = replace(layout, nodes=_with_proxies(layout.nodes))
        for node in layout.nodes:
            _refuse_taken(name, node.port)
        if config is not None:
            layout = replace(layout, config=dict(config))
        if heap is not None:
            layout = replace(layout, heap=heap)
        if collector is not None:
            layout = replace(layout, collector=collector)
        _runtime()  # before anything of the cluster exists: Java or the network may be missing
        folder.mkdir(exist_ok=True)
        (folder / "cluster.json").write_text(json.dumps(asdict(layout), indent=1))
        cluster = Cluster(name, folder, layout)
        cluster.start()
        return cluster


def read_cluster(name: str, data_root: Path | None = None) -> Cluster | None:
    """Return the cluster of that name, or None if there is none."""
    folder = _folder(name, data_root)
    try:
        written = json.loads((folder / "cluster.json").read_text())
    except FileNotFoundError:
        return None
    nodes = tuple(Node(**node) for node in written.pop("nodes"))
    return Cluster(name, folder, Layout(nodes=nodes, **written))


def list_clusters(data_root: Path | None = None) -> list[Cluster]:
    root = data_root or data_folder() / "clusters"
    names = sorted(file.parent.name for file in root.glob("*/cluster.json"))
    return [cluster for name in names if (cluster := read_cluster(name, root))]


def _folder(name: str, data_root: Path | None) -> Path:
    if (
        not name
        or not all(letter.isalnum() or letter in "-_." for letter in name)
        or name[0] in ".-"
    ):
        raise ConfigError(
            f"{name!r} is no name for a cluster: use letters, digits, dots, - and _ only."
        )
    return (data_root or data_folder() / "clusters") / name


def _plan_layout(name: str, known: Layout | None, port: int | None, brokers: int | None) -> Layout:
    if brokers is not None and not 1 <= brokers <= MOST_BROKERS:
        raise ConfigError(
            f"{name}: {brokers} brokers asked for, but a cluster here has 1 to {MOST_BROKERS}."
        )
    if port is not None and not 1 <= port <= _HIGHEST_PORT - MOST_BROKERS:
        raise ConfigError(f"{name}: {port} is no port for a broker: use 1024 to 65532.")
    if known and brokers not in (None, len(known.nodes)):
        raise ConfigError(
            f"{name}: has {len(known.nodes)} brokers, not {brokers}. Wipe it first to make it anew."
        )
    count = len(known.nodes) if known else brokers or 1
    ports = [node.port for node in known.nodes] if known else []
    if port is not None:
        ports = [port + index for index in range(count)]
    while len(ports) < count:
        ports.append(pick_port(taken=ports))
    controllers: list[int] = []
    while len(controllers) < count:
        controllers.append(pick_port(taken=[*ports, *controllers]))
    nodes = tuple(Node(index + 1, ports[index], controllers[index]) for index in range(count))
    return replace(known, nodes=nodes) if known else Layout(new_id(), nodes)


def _with_proxies(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    taken = [port for node in nodes for port in (node.port, node.controller_port)]
    for _ in range(2 * len(nodes)):
        taken.append(pick_port(taken))
    made = iter(taken[-2 * len(nodes) :])
    return tuple(replace(node, proxied_port=next(made), proxy_port=next(made)) for node in nodes)


def _refuse_change(cluster: Cluster, port: int | None, brokers: int | None) -> None:
    first = cluster.layout.nodes[0].port
    if port not in (None, first) or brokers not in (None, len(cluster.layout.nodes)):
        raise ConfigError(
            f"{cluster.name}: already runs at {cluster.bootstrap}. Stop it first to change its port."
        )


def _refuse_taken(name: str, port: int) -> None:
    if not is_free(port):
        raise Missing(
            f"{name}: port {port} is in use by another process. Stop that one or choose another port."
        )


def _runtime() -> Runtime:
    java = find_java()
    return prepare(java, obtain_jars(BROKER, java))


def _read_process(home: Path) -> Process | None:
    try:
        return Process(**json.loads((home / "process.json").read_text()))
    except FileNotFoundError:
        return None
