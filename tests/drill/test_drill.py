"""Rehearsals of a fail-over on live clusters: what they measure, and that they touch nothing."""

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as RdPartition

from heliograph.config.flow import FlowConfig
from heliograph.config.mirror import load_mirror
from heliograph.drill.rehearsal import run_drill
from heliograph.drill.report import Step
from heliograph.drill.steps import Silence
from heliograph.embedded.ports import pick_port
from heliograph.groups.admin import fetch_committed, list_groups
from heliograph.kafka.cluster import Cluster
from heliograph.model import Endpoint
from lab.clusters import LiveCluster, Outgoing, eventually
from lab.load import SteadyLoad
from lab.mirrors import Mirror, assert_copied, flow_properties, unique_alias

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(400)]

PARTITIONS = 3
RECORDS = 300


@dataclass(frozen=True, slots=True)
class Scene:
    """A topic that is copied whole by a mirror that has stopped, and groups that have read some of it."""

    source: LiveCluster
    target: LiveCluster
    topic: str
    remote: str
    mirror: Mirror
    flow: str

    def group(self, *offsets: int) -> str:
        """Return a new group that has committed these offsets on the source, by partition."""
        name = f"group-{uuid.uuid4().hex[:8]}"
        commit_as(self.source, name, self.topic, dict(enumerate(offsets)))
        return name

    @property
    def config(self) -> FlowConfig:
        return next(f for f in load_mirror(self.mirror.file).flows if str(f.flow) == self.flow)

    def drill(self, groups: str, *more: str) -> tuple[int, dict[str, Any]]:
        """Return the exit code and the report of the command."""
        done = run_command(
            *(str(self.mirror.file), "--flow", self.flow, "--groups", groups, "--json"),
            *("--report", str(self.mirror.file.parent / "reports"), *more),
        )
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout)


def run_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "heliograph", "drill", *arguments],
        env={**os.environ, "PYTHONPATH": "src"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def commit_as(cluster: LiveCluster, group: str, topic: str, offsets: Mapping[int, int]) -> None:
    with closing(Consumer(cluster.client(group_id=group))) as consumer:
        places = [RdPartition(topic, index, offset) for index, offset in offsets.items()]
        consumer.commit(offsets=places, asynchronous=False)


def all_offsets(cluster: LiveCluster) -> tuple[dict[str, Any], dict[str, list[int]]]:
    """Return what every group has committed, and where every topic but Kafka's own ends."""
    host, _, port = cluster.bootstrap.partition(":")
    with closing(Cluster(Endpoint(cluster.name, ((host, int(port)),)))) as ours:
        committed, unread = fetch_committed(ours, list_groups(ours))
    assert not unread
    ends = {t: cluster.end_offsets(t) for t in cluster.topics() if not t.startswith("__")}
    return committed, ends


@pytest.fixture(scope="module")
def scene(
    source: LiveCluster, target: LiveCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scene]:
    alias, other = unique_alias("A"), unique_alias("B")
    topic = source.create_topic(PARTITIONS, name=f"drill-{uuid.uuid4().hex[:8]}")
    source.produce(
        topic,
        [Outgoing(b"%06d" % n, partition=n % PARTITIONS) for n in range(PARTITIONS * RECORDS)],
    )
    properties = flow_properties(
        (alias, source.bootstrap),
        (other, target.bootstrap),
        topic,
        emit_checkpoints_interval_seconds="1",
    )
    mirror = Mirror(tmp_path_factory.mktemp("drill"), properties)
    scene = Scene(source, target, topic, f"{alias}.{topic}", mirror, f"{alias}->{other}")
    checkpointed = scene.group(RECORDS // 2, 10, RECORDS)
    with mirror:
        assert_copied(source, topic, target, scene.remote, mirror, within=120)
        checkpoints = f"{alias}.checkpoints.internal"
        eventually(lambda: sum(target.end_offsets(checkpoints)) >= PARTITIONS, 60, mirror.tail)
    yield scene
    source.admin.delete_consumer_groups([checkpointed])[checkpointed].result(30)


def test_groups_go_on_exactly_and_nothing_of_production_changes(scene: Scene) -> None:
    busy = scene.group(0, 100, RECORDS - 1)
    done = scene.group(RECORDS, RECORDS, RECORDS)
    before = all_offsets(scene.source), all_offsets(scene.target)

    code, told = scene.drill(f"{busy}|{done}", "--records", "50")

    assert all_offsets(scene.source) == before[0]
    assert all_offsets(scene.target) == before[1]
    assert code == 0
    measured = told["measured"]
    assert (measured["groups"], measured["ready"]) == (2, 2)
    assert (measured["repeated"], measured["gaps"], measured["records_behind"]) == (0, 0, 0)
    assert measured["rpo_seconds"] == 0
    assert 0 < measured["rto_seconds"] <= told["seconds"]
    assert measured["read"] == 50 + 50 + 1
    words = {row[0]: row[-1] for row in told["tables"][0]["rows"]}
    assert words == {busy: "ready", done: "at the end: nothing to read"}


def test_a_group_that_is_ahead_on_the_target_would_leave_records_out_and_they_are_counted(
    scene: Scene,
) -> None:
    group = scene.group(10, 20, 30)
    # Offsets there are a little higher than here, because of the marker of the first fencing.
    first = scene.target.end_offsets(scene.remote)[0] - RECORDS
    commit_as(scene.target, group, scene.remote, {0: first + 17})
    code, told = scene.drill(group)
    assert code == 1
    assert (told["measured"]["gaps"], told["measured"]["repeated"]) == (7, 0)
    (wrong,) = told["tables"][1]["rows"]
    assert wrong[1:3] == [f"{scene.topic}-0", 10]
    assert "7 records would be left out" in told["verdict"]


def test_records_that_are_not_on_the_target_yet_are_the_rpo_and_no_gap(
    scene: Scene, source: LiveCluster
) -> None:
    group = scene.group(5, 5, 5)
    source.produce(scene.topic, [Outgoing(b"late %d" % n, partition=1) for n in range(7)])
    code, told = scene.drill(group)
    with scene.mirror:
        assert_copied(source, scene.topic, scene.target, scene.remote, scene.mirror, within=120)
    assert code == 0
    assert told["measured"]["records_behind"] == 7
    assert 0 < told["measured"]["rpo_seconds"] < 60
    assert told["measured"]["gaps"] == 0
    assert scene.drill(group)[1]["measured"]["records_behind"] == 0


def test_under_load_nothing_is_repeated_and_nothing_left_out(scene: Scene) -> None:
    group = scene.group(0, 1, 2)
    load = SteadyLoad(scene.source, scene.topic, PARTITIONS, rate=500)
    with scene.mirror, load:
        eventually(
            lambda: sum(scene.target.end_offsets(scene.remote)) > PARTITIONS * RECORDS + 1000,
            120,
            scene.mirror.tail,
        )
        moved = {index: end - 50 for index, end in enumerate(scene.source.end_offsets(scene.topic))}
        commit_as(scene.source, group, scene.topic, moved)
        for _ in range(3):
            code, told = scene.drill(group)
            assert code == 0, told["verdict"]
        load.stop()
        assert_copied(
            scene.source, scene.topic, scene.target, scene.remote, scene.mirror, within=60
        )


class Impatient(Silence):
    """Somebody who presses Ctrl-C at a certain step."""

    def __init__(self, cluster: LiveCluster, step: str) -> None:
        self._cluster = cluster
        self._step = step
        self.seen: set[str] = set()

    def began(self, name: str) -> None:
        if name == self._step:
            self.seen = set(all_offsets(self._cluster)[0])
            raise KeyboardInterrupt

    def ended(self, step: Step) -> None:
        """Say nothing."""


def test_the_forks_of_a_drill_that_is_interrupted_are_deleted(scene: Scene) -> None:
    group = scene.group(1, 2, 3)
    before = all_offsets(scene.target)
    watcher = Impatient(scene.target, "read on, and compare with the source")
    with pytest.raises(KeyboardInterrupt):
        run_drill(scene.config, group, 10, "interrupted", watcher)
    assert f"{group}.drill-interrupted" in watcher.seen
    assert all_offsets(scene.target) == before


def test_without_the_source_groups_go_on_from_their_checkpoints_and_nothing_is_proved(
    scene: Scene,
) -> None:
    alias = scene.flow.partition("->")[0]
    text = scene.mirror.file.read_text()
    gone = text.replace(scene.source.bootstrap, f"127.0.0.1:{pick_port()}")
    file = scene.mirror.file.with_name("gone.properties")
    file.write_text(gone)
    done = run_command(
        *(str(file), "--flow", scene.flow, "--json", "--report", str(file.parent / "reports"))
    )
    told = json.loads(done.stdout)
    assert done.returncode == 1
    measured = told["measured"]
    assert (measured["rpo_seconds"], measured["gaps"], measured["repeated"]) == (None, None, None)
    assert measured["ready"] == measured["groups"] >= 1
    assert "the source does not answer" in told["verdict"]
    assert any(f"{alias}: no broker answers" in note for note in told["notes"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "give FILE and --flow"),
        (["mm2.properties"], "give FILE and --flow"),
        (["mm2.properties", "--flow", "A->B", "--scenario", "wipe"], "give FILE and --flow"),
        (["nowhere.properties", "--flow", "A->B"], "nowhere.properties"),
    ],
)
def test_what_cannot_be_drilled_is_refused(arguments: list[str], words: str) -> None:
    done = run_command(*arguments)
    assert done.returncode == 2
    assert words in done.stderr


def test_a_group_that_is_not_there_is_refused(scene: Scene) -> None:
    done = run_command(str(scene.mirror.file), "--flow", scene.flow, "--groups", "nobody")
    assert done.returncode == 2
    assert "no group of" in done.stderr


def test_the_report_is_kept_as_a_page_and_as_json(scene: Scene, tmp_path: Path) -> None:
    group = scene.group(1, 1, 1)
    done = run_command(
        *(str(scene.mirror.file), "--flow", scene.flow, "--groups", group),
        *("--report", str(tmp_path / "kept")),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "go on exactly" in done.stdout
    page, plain = sorted((tmp_path / "kept").iterdir())
    assert group in page.read_text()
    assert json.loads(plain.read_text())["measured"]["ready"] == 1
