"""What the users of seeds 003 and 004 type, against our workers: curl, jq and their own script."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from heliograph.config.properties import read_properties
from heliograph.embedded.ports import pick_port
from lab.clusters import LiveCluster, Outgoing, eventually
from lab.mirrors import Mirror, assert_copied

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[2]
SEEDS = ROOT / "tests/unit/config/seeds"
PARTITIONS = 5
LETTERS = ("cpc", "hbc", "msc")
# The tests' clusters have one broker, and others use them too.
HERE = {
    "replication.factor": "1",
    "offset-syncs.topic.replication.factor": "1",
    "checkpoints.topic.replication.factor": "1",
    "heartbeats.topic.replication.factor": "1",
    "heartbeats.replication.enabled": "false",
}


class SeedWorker(Mirror):
    """`heliograph worker` on the connect-distributed.properties of seed 004."""

    command = "worker"

    def __init__(self, folder: Path, target: LiveCluster) -> None:
        self.port = pick_port()
        written = read_properties(SEEDS / "004-connect-distributed.properties").entries
        here = {"bootstrap.servers": target.bootstrap, "rest.port": str(self.port)}
        super().__init__(folder, {**written, **here})

    @property
    def host(self) -> str:
        return f"localhost:{self.port}"


@pytest.fixture(scope="module")
def workers(
    target: LiveCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[SeedWorker, SeedWorker]]:
    for tool in ("curl", "jq"):
        assert shutil.which(tool), f"{tool} is missing: ./test installs it on Debian, as root"
    folder = tmp_path_factory.mktemp("workers")
    one, two = (SeedWorker(folder / name, target) for name in ("one", "two"))
    with ExitStack() as stack:
        for worker in (one, two):
            stack.enter_context(worker)
        for worker in (one, two):
            eventually(lambda worker=worker: is_healthy(worker), 60, worker.tail)  # type: ignore[misc]
        yield one, two


def is_healthy(worker: SeedWorker) -> bool:
    return shell(f"curl -s -f http://{worker.host}/health", check=False).returncode == 0


def shell(
    line: str, folder: Path | None = None, *, check: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run a line as a user types it."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "src"),
        "HELIOGRAPH": f"{folder}/heliograph",
    }
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", line],
        cwd=folder,
        env=environment,
        check=check,
        capture_output=True,
        text=True,
        timeout=100,
    )


def statuses(worker: SeedWorker, names: Iterable[str]) -> dict[str, set[str]]:
    """Return the states of connectors and of their tasks; one without tasks is not yet begun."""
    found = {}
    for name in names:
        status = json.loads(shell(f"curl -s {worker.host}/connectors/{name}/status").stdout)
        tasks = [task["state"] for task in status.get("tasks") or [{"state": "no tasks"}]]
        found[name] = {status.get("connector", status).get("state", "unknown"), *tasks}
    return found


def all_run(worker: SeedWorker, names: Iterable[str]) -> bool:
    return all(states == {"RUNNING"} for states in statuses(worker, names).values())


def wait_until_all_run(workers: tuple[SeedWorker, ...], names: Iterable[str]) -> None:
    """Whichever worker is asked."""
    for worker in workers:

        def describe(worker: SeedWorker = worker) -> str:
            return f"{worker.host} tells {statuses(worker, names)}\n{worker.tail()}"

        eventually(lambda worker=worker: all_run(worker, names), 150, describe)  # type: ignore[misc]


def stored_configs(worker: SeedWorker) -> Any:
    shown = shell(f"curl -s '{worker.host}/connectors?expand=info' | jq 'map_values(.info.config)'")
    return json.loads(shown.stdout)


class SeedFour(NamedTuple):
    """The folder of seed 004's user, with topic `test` on the source."""

    folder: Path
    names: tuple[str, ...]
    source: LiveCluster

    def produce(self) -> None:
        self.source.produce(
            "test",
            [Outgoing(b"%d" % n, key=b"%d" % n, partition=n % PARTITIONS) for n in range(100)],
        )


@pytest.fixture(scope="module")
def four(
    source: LiveCluster,
    target: LiveCluster,
    workers: tuple[SeedWorker, SeedWorker],
    tmp_path_factory: pytest.TempPathFactory,
) -> SeedFour:
    source.create_topic(PARTITIONS, name="test")
    folder = tmp_path_factory.mktemp("seed-004")
    for letters in LETTERS:
        name = f"mm2-{letters}-source-0.json"
        write_connector(folder / "mm2" / name, SEEDS / f"004-{name}", source, target)
    script = (ROOT / "tests/seeds/mm2.sh").read_text()
    script = script.replace('TARGET_HOST="localhost:8083"', f'TARGET_HOST="{workers[0].host}"')
    (folder / "mm2.sh").write_text(script)
    return SeedFour(folder, tuple(f"mm2-{letters}-source-0" for letters in LETTERS), source)


def write_connector(
    file: Path, seed: Path, source: LiveCluster, target: LiveCluster, **changes: str
) -> None:
    config = {
        **json.loads(seed.read_text()),
        **{f"{side.name}.cluster.bootstrap.servers": side.bootstrap for side in (source, target)},
        **HERE,
        **changes,
    }
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(config, indent=2))


def test_the_script_of_seed_004_deploys_redeploys_and_undeploys(
    four: SeedFour, target: LiveCluster, workers: tuple[SeedWorker, SeedWorker]
) -> None:
    four.produce()
    deployed = shell("bash mm2.sh deploy source-0", four.folder)
    assert deployed.stdout.splitlines() == [
        "Deploying cluster source-0",
        "Deploying checkpoints connector",
        "Deploying heartbeats connector",
        "Deploying source connector",
    ]
    wait_until_all_run(workers, four.names)
    assert shell("bash mm2.sh status source-0", four.folder).stdout.splitlines() == [
        'Checkpoint connector: "RUNNING"',
        'Heartbeat connector: "RUNNING"',
        'Source connector: "RUNNING"',
    ]
    assert_copied(four.source, "test", target, "test", workers[0], within=60)
    assert target.partition_count("test") == PARTITIONS
    assert target.topics() >= {"heartbeats", "source-0.checkpoints.internal"}

    again = shell("bash mm2.sh deploy source-0", four.folder)
    assert again.stdout.count("connector already deployed") == 3

    redeployed = shell("bash mm2.sh redeploy source-0", four.folder)
    assert redeployed.stdout.count("connector undeployed") == 3
    assert redeployed.stdout.count("Deploying") == 3
    assert not re.search("WARN|ERROR", redeployed.stdout)
    wait_until_all_run(workers, four.names)
    four.produce()
    assert_copied(four.source, "test", target, "test", workers[0], within=60)

    undeployed = shell("bash mm2.sh undeploy source-0", four.folder)
    assert undeployed.stdout.splitlines() == [
        "Undeploying cluster source-0",
        "Checkpoints connector undeployed",
        "Heartbeats connector undeployed",
        "Source connector undeployed",
    ]
    eventually(lambda: stored_configs(workers[1]) == {}, 30, workers[1].tail)
    assert shell("bash mm2.sh undeploy source-0", four.folder).stdout.count("WARN:") == 3
    assert shell("bash mm2.sh status source-0", four.folder).stdout.count("null") == 3


def test_our_script_has_the_same_effect_as_that_of_seed_004(
    four: SeedFour, target: LiveCluster, workers: tuple[SeedWorker, SeedWorker]
) -> None:
    shell("bash mm2.sh deploy source-0", four.folder)
    theirs = stored_configs(workers[0])
    shell("bash mm2.sh undeploy source-0", four.folder)
    assert stored_configs(workers[0]) == {}

    four.produce()
    ours = f"{ROOT}/deploy/mm2.sh"
    (four.folder / "heliograph").write_text(
        f'#!/bin/sh\nexec {sys.executable} -m heliograph "$@"\n'
    )
    (four.folder / "heliograph").chmod(0o755)
    at = f"--url http://{workers[0].host}"
    deployed = shell(f"{ours} deploy source-0 --wait 60 {at}", four.folder)
    assert deployed.stdout.count(": deployed") == 3
    assert stored_configs(workers[0]) == theirs
    assert shell("bash mm2.sh deploy source-0", four.folder).stdout.count("already deployed") == 3
    again = shell(f"{ours} deploy source-0 {at}", four.folder)
    assert again.stdout.count("left alone") == 3
    wait_until_all_run(workers, four.names)
    assert_copied(four.source, "test", target, "test", workers[0], within=60)

    shell(f"{ours} redeploy source-0 --wait 60 {at}", four.folder)
    wait_until_all_run(workers, four.names)
    shown = json.loads(shell(f"{ours} status source-0 --json {at}", four.folder).stdout)
    assert {row["name"]: row["state"] for row in shown} == dict.fromkeys(four.names, "RUNNING")
    assert shell(f"{ours} undeploy source-0 {at}", four.folder).stdout.count(": undeployed") == 3
    assert shell(f"{ours} status source-0 {at}", four.folder, check=False).returncode == 1


def test_the_commands_of_seed_003_work_the_mistaken_one_too(
    source: LiveCluster,
    target: LiveCluster,
    workers: tuple[SeedWorker, SeedWorker],
    tmp_path: Path,
) -> None:
    topic = source.create_topic(2)
    source.produce(topic, [b"%d" % n for n in range(50)])
    seed = SEEDS / "003-mm2-src.json"
    for name, kind in (("src", "Source"), ("chk", "Checkpoint"), ("hbt", "Heartbeat")):
        connector = f"org.apache.kafka.connect.mirror.Mirror{kind}Connector"
        own = {"connector.class": connector, **({"topics": topic} if name == "src" else {})}
        write_connector(tmp_path / f"mm2-{name}.json", seed, source, target, **own)

    def typed(line: str) -> Any:
        return json.loads(shell(line.replace("localhost:8083", workers[0].host), tmp_path).stdout)

    put = 'curl -X PUT -H "Content-Type: application/json" --data '
    source_put = f"{put}@mm2-src.json http://localhost:8083/connectors/mm2-src/config | jq ."
    checkpoint_put = f"{put}@mm2-chk.json http://localhost:8083/connectors/mm2-chk/config | jq ."
    answer = typed(source_put)
    assert (answer["name"], answer["type"]) == ("mm2-src", "source")
    assert answer["config"]["topics"] == topic
    eventually(lambda: all_run(workers[0], ["mm2-src"]), 60, workers[0].tail)
    status = typed("curl -s localhost:8083/connectors/mm2-src/status | jq .")
    assert status["connector"]["state"] == "RUNNING"

    typed(checkpoint_put)
    eventually(lambda: all_run(workers[0], ["mm2-chk"]), 60, workers[0].tail)
    assert typed("curl -s localhost:8083/connectors/mm2-chk/status | jq .")["tasks"]

    # The seed's step for heartbeats sends the checkpoint connector once more, and asks for one that is not there.
    answer = typed(checkpoint_put)
    assert answer["name"] == answer["config"]["name"] == "mm2-chk"
    missing = typed("curl -s localhost:8083/connectors/mm2-hbt/status | jq .")
    assert missing == {"error_code": 404, "message": "No status found for connector mm2-hbt"}
    typed(f"{put}@mm2-hbt.json http://localhost:8083/connectors/mm2-hbt/config | jq .")
    wait_until_all_run(workers, ["mm2-src", "mm2-chk", "mm2-hbt"])
    # CustomMM2ReplicationPolicy: topics keep their names.
    assert_copied(source, topic, target, topic, workers[0], within=60)
    for name in ("mm2-src", "mm2-chk", "mm2-hbt"):
        shell(f"curl -s -f -X DELETE http://{workers[1].host}/connectors/{name}")
