"""The two systems that are compared, each started as an operator starts it, from the same mm2.properties."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from heliograph.embedded.nodes import write_properties
from heliograph.embedded.processes import Process, spawn, stop
from lab.clusters import LiveCluster
from lab.peer import mirror_properties, start_peer

SYSTEMS = ("mm2", "heliograph")
ABLATIONS = {"bare": "heliograph without Spark"}
HEAP = "1g"
_SOURCES = Path(__file__).parents[1] / "src"
_PATIENCE = timedelta(seconds=40)

# What someone who tunes MirrorMaker 2 for throughput sets; heliograph is told the same and needs none of it.
_PRODUCER = {
    "batch.size": "262144",
    "linger.ms": "20",
    "buffer.memory": "67108864",
    "max.request.size": "4194304",
}
_CONSUMER = {
    "fetch.min.bytes": "1",
    "max.partition.fetch.bytes": "4194304",
    "max.poll.records": "5000",
    "receive.buffer.bytes": "1048576",
}


@dataclass(frozen=True, slots=True)
class Running:
    """A system at work; `log` has all that it says. `beside` are processes of it that are not its own."""

    system: str
    process: Process
    log: Path
    beside: tuple[int, ...] = ()

    def stop(self) -> None:
        stop([self.process], _PATIENCE)

    def last_lines(self, count: int = 25) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-count:])


def flow_properties(
    source: LiveCluster,
    target: LiveCluster,
    tag: str,
    topics: str,
    *,
    compression: str = "none",
    for_throughput: bool = True,
    tasks: int = 2,
    consumer: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return a flow under aliases of its own, so that every topic it writes is fresh: `s<tag>.<topic>`."""
    from_, to = f"s{tag}", f"t{tag}"
    clients = {f"{to}.producer.compression.type": compression}
    if for_throughput:
        clients |= {f"{to}.producer.{key}": value for key, value in _PRODUCER.items()}
        clients |= {f"{from_}.consumer.{key}": value for key, value in _CONSUMER.items()}
    clients |= {f"{from_}.consumer.{key}": value for key, value in (consumer or {}).items()}
    return mirror_properties(
        (from_, source.bootstrap),
        (to, target.bootstrap),
        {
            f"{from_}->{to}.topics": topics,
            f"{to}->{from_}.enabled": "false",
            # Else MirrorMaker 2 runs a second herder, for the heartbeats of the other direction.
            "emit.heartbeats.enabled": "false",
            "tasks.max": str(tasks),
            "sync.topic.acls.enabled": "false",
            f"{to}.plugin.discovery": "service_load",
            **clients,
        },
    )


def throughput_settings(tasks: int = 2) -> dict[str, str]:
    """Return what both are told for a catch-up; the compression is that of the source's batches."""
    return {
        "tasks.max": str(tasks),
        "producer.compression.type": "(the source's)",
        **{f"producer.{key}": value for key, value in _PRODUCER.items()},
        **{f"consumer.{key}": value for key, value in _CONSUMER.items()},
    }


def start(system: str, folder: Path, properties: dict[str, str]) -> Running:
    """Start a system and return at once."""
    if system == "mm2":
        peer = start_peer(folder, properties, heap=HEAP, wait=False)
        return Running(system, peer.process, peer.log)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "mm2.properties"
    write_properties(file, properties)
    log = folder / "heliograph.log"
    log.unlink(missing_ok=True)
    module = ["bench.bare"] if system in ABLATIONS else ["heliograph", "run"]
    command = [sys.executable, "-m", *module, str(file)]
    environment = {**os.environ, "PYTHONPATH": f"{_SOURCES}{os.pathsep}{_SOURCES.parent}"}
    return Running(system, spawn(command, environment, log), log)
