"""Settings of a Connect worker for tests, and a real one as a process."""

import json
import os
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.error import URLError

from heliograph.config.connectors import WorkerConfig, load_worker
from heliograph.embedded.jars import PEER, obtain_jars
from heliograph.embedded.java import find_java
from heliograph.embedded.nodes import LOG4J, write_properties
from heliograph.embedded.ports import LOOPBACK, pick_port
from heliograph.embedded.processes import spawn, stop
from lab.clusters import LiveCluster, eventually, unique_name
from lab.peer import Peer

_PATIENCE = timedelta(seconds=20)
_MAIN = "org.apache.kafka.connect.cli.ConnectDistributed"
_JSON = "org.apache.kafka.connect.json.JsonConverter"


@dataclass(frozen=True, slots=True)
class RealConnect:
    """A running Connect worker; `peer` is its process."""

    peer: Peer
    url: str

    def ask(self, path: str, method: str = "GET", body: object = None) -> Any:
        sent = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, sent, headers, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def answers(self, path: str = "/connectors") -> Any:
        """Return what it answers, None while it does not."""
        assert self.peer.is_alive, self.peer.last_lines()
        try:
            return self.ask(path)
        except (URLError, OSError):
            return None


def worker_properties(
    live: LiveCluster, group: str | None = None, extra: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return a connect-distributed.properties for a one-broker cluster, with topics of its own."""
    group = group or unique_name()
    return {
        "bootstrap.servers": live.bootstrap,
        "group.id": group,
        "key.converter": _JSON,
        "value.converter": _JSON,
        **{f"{kind}.storage.topic": f"{group}-{kind}" for kind in ("offset", "config", "status")},
        **{f"{kind}.storage.replication.factor": "1" for kind in ("offset", "config", "status")},
        "session.timeout.ms": "6000",
        "heartbeat.interval.ms": "1000",
        **(extra or {}),
    }


def worker_config(folder: Path, properties: Mapping[str, str]) -> WorkerConfig:
    file = folder / "connect-distributed.properties"
    write_properties(file, properties)
    return load_worker(file)


@contextmanager
def open_real_connect(folder: Path, properties: Mapping[str, str]) -> Iterator[RealConnect]:
    """Start a real Connect worker without waiting for it, and stop it in the end."""
    java = find_java()
    jars = obtain_jars(PEER, java)
    folder.mkdir(parents=True, exist_ok=True)
    port = pick_port()
    file, log4j, log = folder / "worker.properties", folder / "log4j2.properties", folder / "log"
    url = f"http://{LOOPBACK}:{port}"
    own = {"listeners": url, "plugin.discovery": "service_load"}
    write_properties(file, {**properties, **own, "rest.advertised.host.name": LOOPBACK})
    log4j.write_text(LOG4J)
    flags = ["-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", f"-Dlog4j2.configurationFile={log4j}"]
    environment = {**os.environ, "CLASSPATH": jars.classpath}
    process = spawn([str(java.command), *flags, _MAIN, str(file)], environment, log)
    try:
        yield RealConnect(Peer(process, file, log), url)
    finally:
        stop([process], _PATIENCE)


def wait_until_it_answers(connect: RealConnect) -> None:
    eventually(lambda: connect.answers() is not None, within=120, describe=connect.peer.last_lines)
