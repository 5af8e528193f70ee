"""Records what a real Kafka Connect worker with the mirror connectors answers, in `answers.json` beside this.

    PYTHONPATH=src:. python tests/golden/connect/record.py

What differs from run to run (ports, ids, traces, times) is a word in braces, and Kafka's documentation of keys is
left out.
"""

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path

import httpx
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as RdPartition

from heliograph.embedded.jars import KAFKA_VERSION, PEER, obtain_jars
from heliograph.embedded.java import find_java
from heliograph.embedded.nodes import LOG4J, write_properties
from heliograph.embedded.ports import pick_port
from heliograph.embedded.processes import spawn, stop
from lab.clusters import LiveCluster, Outgoing, eventually, start_live_cluster
from tests.golden.connect.exchange import Exchange, Names, ask, ask_until
from tests.golden.connect.story import story

FILE = Path(__file__).parent / "answers.json"
PATIENCE = timedelta(seconds=30)
_MAIN = "org.apache.kafka.connect.cli.ConnectDistributed"


def record(folder: Path) -> list[Exchange]:
    with open_clusters(folder) as (source, target), open_connect(folder, target) as url:
        names = Names(source.bootstrap, target.bootstrap, url)
        # Jetty hangs up after an error, whatever it said about keeping the connection.
        limits = httpx.Limits(max_keepalive_connections=0)
        with httpx.Client(base_url=url, timeout=100, limits=limits) as client:
            return [
                ask_until(client, names, step, step.until)
                if step.until
                else ask(client, names, step)
                for step in story()
            ]


@contextmanager
def open_clusters(folder: Path) -> Iterator[tuple[LiveCluster, LiveCluster]]:
    """Two clusters as the story wants them."""
    source = start_live_cluster("A", folder)
    try:
        target = start_live_cluster("B", folder)
        try:
            source.create_topic(2, name="orders")
            source.produce(
                "orders", [Outgoing(b"%d" % n, b"%d" % n, p) for n in range(10) for p in range(2)]
            )
            with closing(Consumer(source.client(group_id="billing"))) as consumer:
                consumer.commit(offsets=[RdPartition("orders", 0, 4)], asynchronous=False)
            yield source, target
        finally:
            target.cluster.stop()
    finally:
        source.cluster.stop()


@contextmanager
def open_connect(folder: Path, target: LiveCluster) -> Iterator[str]:
    """A Connect worker at the target; yields its address."""
    java = find_java()
    jars = obtain_jars(PEER, java)
    port = pick_port()
    url = f"http://127.0.0.1:{port}"
    write_properties(folder / "connect-distributed.properties", worker_properties(target, url))
    (folder / "log4j2.properties").write_text(LOG4J)
    command = [
        str(java.command),
        "-Xmx512m",
        f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}",
        _MAIN,
        str(folder / "connect-distributed.properties"),
    ]
    log = folder / "connect.log"
    process = spawn(command, {**os.environ, "CLASSPATH": jars.classpath}, log)
    try:
        eventually(lambda: is_healthy(url), within=120, describe=lambda: log.read_text()[-3000:])
        yield url
    finally:
        stop([process], PATIENCE)


def worker_properties(target: LiveCluster, url: str) -> dict[str, str]:
    converter = "org.apache.kafka.connect.converters.ByteArrayConverter"
    return {
        "bootstrap.servers": target.bootstrap,
        "group.id": "connect-story",
        "listeners": url,
        "key.converter": converter,
        "value.converter": converter,
        "offset.flush.interval.ms": "1000",
        **{f"{what}.storage.topic": f"connect-{what}" for what in ("config", "offset", "status")},
        **{f"{what}.storage.replication.factor": "1" for what in ("config", "offset", "status")},
    }


def is_healthy(url: str) -> bool:
    try:
        return httpx.get(url + "/health").status_code == 200
    except httpx.TransportError:
        return False


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="connect-") as work:
        answers = record(Path(work))
    head = json.dumps(
        {
            "command": "PYTHONPATH=src:. python tests/golden/connect/record.py",
            "kafka": KAFKA_VERSION,
        }
    )
    lines = ",\n".join(json.dumps(answer.as_json(), ensure_ascii=False) for answer in answers)
    FILE.write_text(f'{head[:-1]}, "answers": [\n{lines}\n]}}\n')
