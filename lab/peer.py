"""A real MirrorMaker 2, dedicated mode, as a process: the other implementation of all that is claimed here."""

import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from heliograph.embedded.jars import PEER, obtain_jars
from heliograph.embedded.java import find_java
from heliograph.embedded.nodes import LOG4J, write_properties
from heliograph.embedded.processes import Process, spawn, stop
from lab.clusters import eventually

_MAIN = "org.apache.kafka.connect.mirror.MirrorMaker"
_STARTED = "Kafka MirrorMaker started"
_PATIENCE = timedelta(seconds=30)
_INTERNAL_TOPICS = (
    "replication",
    "checkpoints.topic.replication",
    "heartbeats.topic.replication",
    "offset-syncs.topic.replication",
    "offset.storage.replication",
    "status.storage.replication",
    "config.storage.replication",
)


@dataclass(frozen=True, slots=True)
class Peer:
    """A MirrorMaker 2 process; `log` has all its output."""

    process: Process
    properties: Path
    log: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def is_alive(self) -> bool:
        return self.process.is_alive()

    def last_lines(self, count: int = 30) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-count:])

    def stop(self) -> None:
        """End it as an operator would; killed after 30 seconds."""
        stop([self.process], _PATIENCE)

    def kill(self) -> None:
        """End it at once, as a crash would."""
        self.process.send(signal.SIGKILL)
        eventually(lambda: not self.is_alive)


def mirror_properties(
    source: tuple[str, str], target: tuple[str, str], extra: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return an mm2.properties with one flow, for one-broker clusters; a cluster is (alias, bootstrap)."""
    (source_alias, source_bootstrap), (target_alias, target_bootstrap) = source, target
    return {
        "clusters": f"{source_alias},{target_alias}",
        f"{source_alias}.bootstrap.servers": source_bootstrap,
        f"{target_alias}.bootstrap.servers": target_bootstrap,
        f"{source_alias}->{target_alias}.enabled": "true",
        **{f"{topic}.factor": "1" for topic in _INTERNAL_TOPICS},
        **(extra or {}),
    }


def start_peer(
    folder: Path, properties: Mapping[str, str], *, heap: str = "1g", wait: bool = True
) -> Peer:
    """Start MirrorMaker 2 in a folder; with `wait`, return when its herders have started."""
    java = find_java()
    jars = obtain_jars(PEER, java)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "mm2.properties"
    write_properties(file, properties)
    log4j = folder / "log4j2.properties"
    log4j.write_text(LOG4J)
    log = folder / "mm2.log"
    log.unlink(missing_ok=True)
    # The flags of kafka-run-class.sh, with the heap of connect-mirror-maker.sh halved.
    command = [
        str(java.command),
        "-server",
        "-Xms256m",
        f"-Xmx{heap}",
        "-XX:+UseG1GC",
        "-XX:MaxGCPauseMillis=20",
        "-XX:InitiatingHeapOccupancyPercent=35",
        "-XX:+ExplicitGCInvokesConcurrent",
        "-Djava.awt.headless=true",
        f"-Dlog4j2.configurationFile={log4j}",
        _MAIN,
        str(file),
    ]
    peer = Peer(spawn(command, {**os.environ, "CLASSPATH": jars.classpath}, log), file, log)
    if wait:
        _wait_until_started(peer)
    return peer


def _wait_until_started(peer: Peer) -> None:
    def started() -> bool:
        assert peer.is_alive, f"MirrorMaker 2 ended while starting:\n{peer.last_lines()}"
        return _STARTED in peer.log.read_text(errors="replace")

    try:
        eventually(started, within=90, describe=peer.last_lines)
    except AssertionError:
        peer.stop()
        raise
