"""A flow on a real Spark cluster: executors know of us only what the archive brings them."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.clusters import LiveCluster, eventually
from lab.load import SteadyLoad, account
from lab.mirrors import Mirror, flow_properties, mesh_properties, unique_alias
from lab.processes import is_alive, send_to_all
from lab.standalone import StandaloneSpark, python_of

pytestmark = [pytest.mark.spark, pytest.mark.cluster]

PARTITIONS = 4
SOURCE_TREE = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("archive") / "heliograph-env.tar.gz"
    subprocess.run(
        [sys.executable, "-m", "heliograph", "package", "--output", str(output)],
        check=True,
        cwd=SOURCE_TREE,
        env={**os.environ, "PYTHONPATH": "src"},
    )
    return output


@pytest.fixture
def spark(tmp_path: Path) -> Iterator[StandaloneSpark]:
    with StandaloneSpark(tmp_path / "spark", workers=2, cores=2) as cluster:
        yield cluster


class Scene:
    """A topic, and a mirror of it whose tasks run on a cluster."""

    def __init__(
        self,
        source: LiveCluster,
        target: LiveCluster,
        folder: Path,
        arguments: tuple[str, ...],
    ) -> None:
        self.target = target
        self.topic = source.create_topic(PARTITIONS)
        alias = unique_alias()
        self.remote = f"{alias}.{self.topic}"
        properties = flow_properties(
            (alias, source.bootstrap), ("B", target.bootstrap), self.topic, tasks_max="2"
        )
        self.mirror = Mirror(folder / "mirror", properties, arguments=arguments)

    def copied(self) -> int:
        return sum(self.target.end_offsets(self.remote))

    def wait_for_progress(self, spark: StandaloneSpark, records: int = 4000) -> None:
        before = self.copied() if self.target.partition_count(self.remote) else 0
        eventually(
            lambda: self.target.partition_count(self.remote) and self.copied() > before + records,
            within=150,
            describe=lambda: self.mirror.tail() + spark.logs(),
        )


def on(spark: StandaloneSpark, archive: Path | None = None) -> tuple[str, ...]:
    """Return the arguments that send a flow's tasks to a cluster."""
    keys = [f"spark.master={spark.master}", "spark.executor.memory=512m"]
    if archive is not None:
        keys.append(f"spark.archives={archive}#heliograph-env")
    return tuple(word for key in keys for word in ("--spark", key))


def test_killed_executor_and_killed_worker_lose_and_repeat_nothing(
    source: LiveCluster,
    target: LiveCluster,
    spark: StandaloneSpark,
    archive: Path,
    tmp_path: Path,
) -> None:
    scene = Scene(source, target, tmp_path, on(spark, archive))
    with scene.mirror, SteadyLoad(source, scene.topic, PARTITIONS, rate=1500) as load:
        scene.wait_for_progress(spark)
        victim = await_task(spark)
        assert_sees_only_the_archive(victim, tmp_path)
        scene.wait_for_progress(spark)

        pythons = python_of(victim)
        os.kill(victim, signal.SIGKILL)
        eventually(lambda: not any(map(is_alive, pythons)), describe=spark.logs)
        scene.wait_for_progress(spark)
        await_task(spark)

        spark.kill_worker(spark.workers()[0])
        scene.wait_for_progress(spark)
        await_task(spark)

        produced = load.stop()
        eventually(
            lambda: scene.copied() >= produced and len(target.consume(scene.remote)) >= produced,
            within=150,
            describe=scene.mirror.tail,
        )
    assert account(target, scene.remote, produced, PARTITIONS) == {
        "lost": 0,
        "repeated": 0,
        "out of order": 0,
    }


@pytest.mark.parametrize("hung", ["python", "executor"])
def test_a_task_given_to_an_executor_that_hangs_is_started_again(
    source: LiveCluster, target: LiveCluster, archive: Path, tmp_path: Path, hung: str
) -> None:
    with StandaloneSpark(tmp_path / "spark", workers=1, cores=2) as spark:
        scene = Scene(source, target, tmp_path, on(spark, archive))
        with scene.mirror, SteadyLoad(source, scene.topic, PARTITIONS, rate=500) as load:
            scene.wait_for_progress(spark, 1000)
            executor = await_task(spark)
            daemon, *forks = python_of(executor)
            stopped = daemon if hung == "python" else executor
            os.kill(stopped, signal.SIGSTOP)
            for pid in forks:
                os.kill(pid, signal.SIGKILL)

            try:
                scene.wait_for_progress(spark, 2000)
            finally:
                send_to_all([stopped], signal.SIGKILL)
            produced = load.stop()
            eventually(lambda: scene.copied() >= produced, within=150, describe=scene.mirror.tail)
    assert account(target, scene.remote, produced, PARTITIONS) == {
        "lost": 0,
        "repeated": 0,
        "out of order": 0,
    }


def test_too_few_cores_are_told(
    source: LiveCluster,
    target: LiveCluster,
    spark: StandaloneSpark,
    archive: Path,
    tmp_path: Path,
) -> None:
    alias = unique_alias()
    clusters, flows = {alias: source.bootstrap}, {}
    for number in range(5):
        there = f"{alias}to{number}"
        clusters[there] = target.bootstrap
        flows[f"{alias}->{there}"] = source.create_topic()
    properties = mesh_properties(clusters, flows, heartbeats_replication_enabled="false")
    mirror = Mirror(tmp_path / "mirror", properties, arguments=on(spark, archive))
    with mirror:
        eventually(
            lambda: mirror.lines("waits", "Spark has 4 cores for 5 tasks"),
            within=150,
            describe=lambda: mirror.tail() + spark.logs(),
        )


def test_executors_without_our_code_are_told(
    source: LiveCluster, target: LiveCluster, spark: StandaloneSpark, tmp_path: Path
) -> None:
    scene = Scene(source, target, tmp_path, on(spark))
    with scene.mirror:
        eventually(
            lambda: scene.mirror.lines("FAILED", "no heliograph", "heliograph package"),
            within=150,
            describe=lambda: scene.mirror.tail() + spark.logs(),
        )


def await_task(spark: StandaloneSpark) -> int:
    """Return an executor that has a task: a daemon, and a fork of it. A flow begins with one."""
    return eventually(
        lambda: next((e for e in spark.executors() if len(python_of(e)) > 1), 0),
        within=60,
        describe=lambda: f"{[(e, python_of(e)) for e in spark.executors()]}\n{spark.logs()}",
    )


def assert_sees_only_the_archive(executor: int, folder: Path) -> None:
    """Check what the Python of an executor was given to import from, and what native code it has loaded."""
    for pid in python_of(executor):
        environment = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
        path = (
            next(e for e in environment if e.startswith("PYTHONPATH=")).partition("=")[2].split(":")
        )
        assert not {str(SOURCE_TREE), str(SOURCE_TREE / "src")}.intersection(path)
        maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
        loaded = {line.split()[-1] for line in maps if "cramjam" in line or "pyarrow" in line}
        assert loaded
        assert all(file.startswith(str(folder)) for file in loaded), loaded
