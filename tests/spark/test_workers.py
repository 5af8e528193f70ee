"""Workers of one group as processes: they share connectors, and one that is killed is replaced."""

import json
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError

import pytest
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME

from heliograph.embedded.ports import LOOPBACK, pick_port
from tests.clusters import LiveCluster, eventually, unique_name
from tests.load import SteadyLoad, account
from tests.mirrors import Mirror, assert_copied, unique_alias
from tests.workers import worker_properties

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(300)]

KINDS = ("Source", "Checkpoint", "Heartbeat")
PARTITIONS = 4


class OwnWorker(Mirror):
    """`heliograph worker` on a file."""

    command = "worker"

    def __init__(
        self, folder: Path, properties: dict[str, str], connectors: Sequence[str] = ()
    ) -> None:
        self.address = f"{LOOPBACK}:{pick_port()}"
        given = {**properties, "listeners": f"http://{self.address}"}
        super().__init__(folder, given, arguments=connectors)

    def ask(self, path: str, method: str = "GET", body: object = None) -> Any:
        """Return what it answers; None while it does not, or has nothing there."""
        sent = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        url = f"http://{self.address}{path}"
        request = urllib.request.Request(url, sent, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                text = answer.read()
        except HTTPError as exc:
            if exc.code == 404:
                return None
            raise AssertionError(f"{method} {path}: {exc.code} {exc.read().decode()}") from exc
        except (URLError, OSError):
            return None
        return json.loads(text) if text else None


@pytest.fixture
def workers(target: LiveCluster, tmp_path: Path) -> Iterator[tuple[OwnWorker, OwnWorker]]:
    session = {"session.timeout.ms": "10000", "heartbeat.interval.ms": "3000"}  # Connect's defaults
    properties = worker_properties(target, extra=session)
    one, two = (OwnWorker(tmp_path / name, properties) for name in ("one", "two"))
    with ExitStack() as stack:
        for worker in (one, two):
            worker.start()
            stack.callback(stop_if_alive, worker)
        for worker in (one, two):
            eventually(lambda worker=worker: worker.ask("/") is not None, 60, worker.tail)  # type: ignore[misc]
        yield one, two


def stop_if_alive(worker: OwnWorker) -> None:
    if worker.is_alive:
        worker.stop()


def running(worker: OwnWorker, name: str) -> bool:
    status = worker.ask(f"/connectors/{name}/status")
    states = (
        [status["connector"]["state"], *(t["state"] for t in status["tasks"])] if status else []
    )
    return len(states) > 1 and set(states) == {"RUNNING"}


def longest_pause(target: LiveCluster, remote: str) -> tuple[float, float]:
    """Return the longest time in which a partition got no record, in seconds, and when it began.

    By the clock of the target's broker: the topic has LogAppendTime.
    """
    arrivals: dict[int, list[int]] = {}
    for record in target.consume(remote):
        kind, stamp = record.timestamp
        assert kind == TIMESTAMP_LOG_APPEND_TIME
        arrivals.setdefault(record.partition, []).append(stamp)
    assert len(arrivals) == PARTITIONS
    pauses = [(b - a, a) for stamps in arrivals.values() for a, b in pairwise(sorted(stamps))]
    longest, began = max(pauses)
    return longest / 1000, began / 1000


def test_the_connectors_of_a_killed_worker_go_on_elsewhere_without_loss_or_repeats(
    source: LiveCluster,
    target: LiveCluster,
    workers: tuple[OwnWorker, OwnWorker],
    record_property: Callable[[str, object], None],
) -> None:
    topic = source.create_topic(PARTITIONS)
    alias = unique_alias()
    remote = target.create_topic(
        PARTITIONS, {"message.timestamp.type": "LogAppendTime"}, name=f"{alias}.{topic}"
    )
    names = {kind: unique_name() for kind in KINDS}
    for kind, name in names.items():
        config = {
            "connector.class": f"org.apache.kafka.connect.mirror.Mirror{kind}Connector",
            "source.cluster.alias": alias,
            "source.cluster.bootstrap.servers": source.bootstrap,
            "target.cluster.alias": "B",
            "target.cluster.bootstrap.servers": target.bootstrap,
            "topics": topic,
            "heartbeats.replication.enabled": False,
            "sync.topic.configs.enabled": False,
            **{f"{what}replication.factor": 1 for what in ("", "offset-syncs.topic.")},
            **{f"{what}.topic.replication.factor": 1 for what in ("checkpoints", "heartbeats")},
            "tasks.max": 2,
        }
        workers[0].ask(f"/connectors/{name}/config", "PUT", config)
    for name in names.values():
        # Any worker answers for all.
        eventually(lambda name=name: running(workers[1], name), 120, workers[0].tail)  # type: ignore[misc]
    owners = {
        workers[0].ask(f"/connectors/{name}/status")["connector"]["worker_id"]
        for name in names.values()
    }
    assert owners == {worker.address for worker in workers}

    with SteadyLoad(source, topic, PARTITIONS) as load:
        eventually(lambda: sum(target.end_offsets(remote)) > 2000, 60, workers[0].tail)
        owner = workers[0].ask(f"/connectors/{names['Source']}/status")["connector"]["worker_id"]
        killed = next(worker for worker in workers if worker.address == owner)
        left = next(worker for worker in workers if worker is not killed)
        killed.kill()
        at = time.time()
        before = sum(target.end_offsets(remote))
        eventually(lambda: sum(target.end_offsets(remote)) > before + 5000, 90, left.tail)
        produced = load.stop()
    eventually(lambda: sum(target.end_offsets(remote)) >= produced, 60, left.tail)
    eventually(lambda: account(target, remote, produced, PARTITIONS)["lost"] == 0, 60, left.tail)

    assert account(target, remote, produced, PARTITIONS) == {
        "lost": 0,
        "repeated": 0,
        "out of order": 0,
    }
    pause, began = longest_pause(target, remote)
    record_property("pause_seconds", pause)
    print(f"nothing came for {pause:.1f} s, beginning {began - at:+.1f} s from the kill")  # noqa: T201
    assert abs(began - at) < 5, "the longest pause is not that of the kill"
    assert pause < 30
    for name in names.values():
        eventually(lambda name=name: running(left, name), 60, left.tail)  # type: ignore[misc]
        left.ask(f"/connectors/{name}", "DELETE")
    assert left.ask("/connectors") == []


def test_a_standalone_worker_takes_connectors_from_files_and_keeps_its_positions_in_one(
    source: LiveCluster, target: LiveCluster, tmp_path: Path
) -> None:
    topic = source.create_topic(2)
    alias = unique_alias()
    connector = tmp_path / "mirror.properties"
    written = {
        "name": "standalone",
        "connector.class": "MirrorSourceConnector",
        "source.cluster.alias": alias,
        "source.cluster.bootstrap.servers": source.bootstrap,
        "target.cluster.alias": "B",
        "target.cluster.bootstrap.servers": target.bootstrap,
        "topics": topic,
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "heartbeats.replication.enabled": "false",
    }
    connector.write_text("".join(f"{key}={value}\n" for key, value in written.items()))
    positions = tmp_path / "connect.offsets"
    properties = {
        "bootstrap.servers": target.bootstrap,
        "offset.storage.file.filename": str(positions),
        "offset.storage.replication.factor": "1",
    }
    worker = OwnWorker(tmp_path / "worker", properties, [str(connector)])
    for round_ in range(2):
        with worker:
            source.produce(topic, [b"%d" % n for n in range(100)])
            assert_copied(source, topic, target, f"{alias}.{topic}", worker, within=120)
            offsets = eventually(lambda: worker.ask("/connectors/standalone/offsets")["offsets"])
            assert len(offsets) == 2
            assert worker.ask("/connectors") == ["standalone"]
        assert positions.read_text().count(alias) == 2, round_
    assert f"mm2-offsets.{alias}.internal" not in target.topics()
