"""What is created once from the broker's jars so that a cluster starts quickly.

`bootstrap.checkpoint` is what `kafka-storage format` writes; it is the same for every cluster of a version.
The class archive (Java's class data sharing) halves a broker's start; it belongs to one Java and one set of
jars. A broker that starts and stops once writes it; if that fails, an empty file says not to try again.
"""

import hashlib
import os
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from heliograph.embedded.jars import Jars, lock
from heliograph.embedded.java import Java
from heliograph.embedded.nodes import (
    LOG4J,
    Node,
    format_logs,
    new_id,
    node_properties,
    write_properties,
)
from heliograph.embedded.ports import pick_port
from heliograph.embedded.progress import open_progress
from heliograph.errors import Missing

STARTED = "Kafka Server started"
SMALL = "-XX:+UseSerialGC"
# What Kafka's own script sets, for shorter broker pauses; G1 needs its own threads and memory.
PROMPT = "-XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:InitiatingHeapOccupancyPercent=35"
_CHECKPOINT = "bootstrap.checkpoint"
_LIMIT = timedelta(minutes=2)


@dataclass(frozen=True, slots=True)
class Runtime:
    """All that a broker process is started from."""

    java: Java
    jars: Jars
    checkpoint: bytes
    archive: Path

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "CLASSPATH": self.jars.classpath}

    def command(self, properties: Path, heap: str, collector: str) -> list[str]:
        """Return the broker's command line; log4j2.properties is next to server.properties."""
        sharing = [f"-XX:SharedArchiveFile={self.archive}"] if self.archive.stat().st_size else []
        flags = _broker_flags(properties, heap, collector)
        return [str(self.java.command), *sharing, *flags, str(properties)]


def prepare(java: Java, jars: Jars) -> Runtime:
    """Return what brokers start from; the first call creates what is missing (about 8 seconds)."""
    checkpoint = jars.folder / _CHECKPOINT
    named = hashlib.sha256(f"{java.home} {java.version}".encode()).hexdigest()[:12]
    archive = jars.folder / f"broker-{named}.jsa"
    with lock(jars.folder / "prepare.lock"):
        if not (checkpoint.exists() and archive.exists()):
            with open_progress("Preparing Kafka, once") as report:
                report(0, 2, "feature levels")
                _make_checkpoint(java, jars, checkpoint)
                report(1, 2, "class archive")
                _make_archive(java, jars, checkpoint.read_bytes(), archive)
                report(2, 2, "done")
    return Runtime(java, jars, checkpoint.read_bytes(), archive)


def _broker_flags(properties: Path, heap: str, collector: str) -> list[str]:
    log4j = properties.with_name("log4j2.properties")
    logging = f"-Dlog4j2.configurationFile={log4j}"
    return [f"-Xmx{heap}", *collector.split(), logging, "kafka.Kafka"]


def _make_checkpoint(java: Java, jars: Jars, checkpoint: Path) -> None:
    with tempfile.TemporaryDirectory(dir=jars.folder) as work:
        node = Node(1, 9092, 9093)
        properties = Path(work) / "server.properties"
        logs = Path(work) / "logs"
        write_properties(properties, node_properties(node, [node], logs, {}))
        tool = [str(java.command), "-XX:TieredStopAtLevel=1", "kafka.tools.StorageTool", "format"]
        formatted = subprocess.run(
            [*tool, "-t", new_id(), "-c", str(properties)],
            env={**os.environ, "CLASSPATH": jars.classpath},
            capture_output=True,
            text=True,
            check=False,
            timeout=_LIMIT.total_seconds(),
        )
        if formatted.returncode != 0:
            raise Missing(f"Kafka could not format a folder: {formatted.stderr[-2000:]}")
        (logs / _CHECKPOINT).rename(checkpoint)


def _make_archive(java: Java, jars: Jars, checkpoint: bytes, archive: Path) -> None:
    with tempfile.TemporaryDirectory(dir=jars.folder) as work:
        node = Node(1, pick_port(), pick_port())
        properties = Path(work) / "server.properties"
        logs = Path(work) / "logs"
        format_logs(node, new_id(), logs, checkpoint)
        write_properties(properties, node_properties(node, [node], logs, {}))
        properties.with_name("log4j2.properties").write_text(LOG4J)
        made = Path(work) / "made.jsa"
        _start_and_stop(
            [
                java.command,
                f"-XX:ArchiveClassesAtExit={made}",
                *_broker_flags(properties, "256m", SMALL),
                properties,
            ],
            {**os.environ, "CLASSPATH": jars.classpath},
        )
        made.touch()
        made.rename(archive)


def _start_and_stop(command: list[Path | str], environment: dict[str, str]) -> None:
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as broker:
        assert broker.stdout is not None
        for line in broker.stdout:
            if STARTED in line:
                broker.send_signal(signal.SIGTERM)
