"""Seed 004: logs of a remote data centre come to the central cluster, by three connectors in a Connect worker.

kafka-source  test  ->  kafka-target  test          two brokers each, `heliograph worker`
deploy/mm2.sh deploy, status, redeploy, undeploy source-0, with the seed's three JSON files
"""

import json
import subprocess
import sys
import textwrap
from contextlib import closing
from http.client import HTTPConnection

from demos.account import Account, Message
from demos.brokers import make_topic
from demos.stage import APPS, CONFIG, Stage, first_and_last, say_added

from heliograph.embedded.ports import pick_port
from heliograph.errors import MirrorError

TOPIC, PARTITIONS, BATCH = "test", 5, 100
KINDS = ("cpc", "hbc", "msc")
ADDED = {
    "offset-syncs.topic.replication.factor": "2",  # two brokers each, and 3 replicas unless told
    "checkpoints.topic.replication.factor": "2",
    "heartbeats.topic.replication.factor": "2",
}


def play(stage: Stage) -> list[Account]:
    source = stage.start_cluster("kafka-source", brokers=2).bootstrap
    target = stage.start_cluster("kafka-target", brokers=2).bootstrap
    with stage.step(f"make topic {TOPIC}, {PARTITIONS} partitions, 2 replicas, and write to it"):
        make_topic(source, TOPIC, PARTITIONS, 2)
        _write(stage, source, 0)
    port = pick_port()
    here = {"bootstrap.servers": target, "rest.port": str(port)}
    file = stage.write_properties("connect-distributed.properties", here, {})
    with stage.step(f"heliograph worker {file.name}"):
        worker = stage.start_command("worker", str(file))
        stage.wait(lambda: _answers(port), "the worker")
    _write_connectors(stage, source, target)
    script = _Script(stage, port)

    script.run("deploy", "--wait", "120")
    script.run("status")
    with stage.step(f"read {TOPIC} on kafka-target") as notes:
        first = _read(stage, target)
        notes.append(first_and_last(first))
    script.run("redeploy", "--wait", "120")
    with stage.step(f"write {BATCH} more, and read them on kafka-target") as notes:
        _write(stage, source, BATCH)
        second = [*_read(stage, target), *_read(stage, target, idle=True)]
        notes.append(first_and_last(second))
    script.run("undeploy")
    script.run("status", code=1)
    with stage.step("stop the worker"):
        stage.stop(worker)
    return [Account(2 * BATCH, {"kafka-target": [*first, *second]})]


class _Script:
    """deploy/mm2.sh, called as the seed calls its own."""

    def __init__(self, stage: Stage, port: int) -> None:
        self._stage = stage
        self._at = ("--url", f"http://localhost:{port}")
        # The script calls ../heliograph; here the same one as we are.
        self._heliograph = stage.folder / "heliograph"
        self._heliograph.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m heliograph "$@"\n')
        self._heliograph.chmod(0o755)

    def run(self, verb: str, *options: str, code: int = 0) -> None:
        """Run it in the folder that has mm2/, print what it says, and expect an exit code."""
        with self._stage.step(f"mm2.sh {verb} source-0"):
            done = subprocess.run(
                [str(APPS.parent / "deploy/mm2.sh"), verb, "source-0", *options, *self._at],
                cwd=self._stage.folder,
                env={**self._stage.environment, "HELIOGRAPH": str(self._heliograph)},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
        print(textwrap.indent(done.stdout, " " * 12), end="", flush=True)
        if done.returncode != code:
            raise MirrorError(f"mm2.sh {verb} ended with exit code {done.returncode}, not {code}.")


def _write_connectors(stage: Stage, source: str, target: str) -> None:
    """Write the seed's three files with our brokers, and what a cluster of two brokers needs."""
    (stage.folder / "mm2").mkdir()
    for kind in KINDS:
        name = f"mm2/mm2-{kind}-source-0.json"
        config = json.loads((CONFIG / name).read_text())
        brokers = {
            "source.cluster.bootstrap.servers": source,
            "target.cluster.bootstrap.servers": target,
        }
        (stage.folder / name).write_text(json.dumps({**config, **brokers, **ADDED}, indent=2))
    say_added("mm2/mm2-{cpc,hbc,msc}-source-0.json are the seed's with our ports in them", ADDED)


def _write(stage: Stage, bootstrap: str, first: int) -> None:
    where = ("--bootstrap-server", bootstrap, "--topic", TOPIC)
    numbers = ("--first", str(first), "--count", str(BATCH), "--interval", "0")
    stage.run_program("producer.py", *where, *numbers)


def _read(stage: Stage, bootstrap: str, *, idle: bool = False) -> list[Message]:
    """Read a batch; or whatever comes within some seconds, if anything."""
    end = ("--idle", "5") if idle else ("--count", str(BATCH))
    where = ("--bootstrap-a", bootstrap, "--topic", TOPIC, "--group", "graylog")
    return stage.run_program("consumer.py", *where, *end)


def _answers(port: int) -> bool:
    try:
        with closing(HTTPConnection("localhost", port, timeout=5)) as http:
            http.request("GET", "/health")
            return http.getresponse().status == 200
    except OSError:
        return False
