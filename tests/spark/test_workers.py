"""Workers of one group as processes: they share connectors, and one that is killed is replaced."""

import json
import os
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
from lab.clusters import LiveCluster, Outgoing, eventually, unique_name
from lab.load import SteadyLoad, account
from lab.mirrors import Mirror, assert_copied, unique_alias
from tests.workers import worker_properties

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(600)]

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


def connector(
    kind: str, alias: str, source: LiveCluster, target: LiveCluster, topics: str
) -> dict[str, object]:
    """Return one of the three connectors from a cluster of that alias to B."""
    return {
        "connector.class": f"org.apache.kafka.connect.mirror.Mirror{kind}Connector",
        "source.cluster.alias": alias,
        "source.cluster.bootstrap.servers": source.bootstrap,
        "target.cluster.alias": "B",
        "target.cluster.bootstrap.servers": target.bootstrap,
        "topics": topics,
        "heartbeats.replication.enabled": False,
        **{f"{what}replication.factor": 1 for what in ("", "offset-syncs.topic.")},
        **{f"{what}.topic.replication.factor": 1 for what in ("checkpoints", "heartbeats")},
        "refresh.topics.interval.seconds": 1,
    }


def values_of(live: LiveCluster, topic: str) -> list[bytes | None]:
    """Return the values of a topic's records; none where there is no such topic yet."""
    return [r.value for r in live.consume(topic)] if live.partition_count(topic) else []


def copies_arrive(
    target: LiveCluster, remote: str, expected: list[bytes], worker: OwnWorker
) -> None:
    """Wait until a topic has these records, in any order, and no others."""
    wanted = sorted(expected)
    eventually(
        lambda: sorted(v or b"" for v in values_of(target, remote)) == wanted,
        60,
        lambda: f"{remote} has {len(values_of(target, remote))} of {len(wanted)}\n{worker.tail()}",
    )


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
        config = connector(kind, alias, source, target, topic) | {
            "sync.topic.configs.enabled": False,
            "tasks.max": 2,
        }
        workers[0].ask(f"/connectors/{name}/config", "PUT", config)
    for name in names.values():
        # Any worker answers for all, as soon as it has read what the others say.
        for worker in workers:
            eventually(lambda w=worker, name=name: running(w, name), 120, worker.tail)  # type: ignore[misc]
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
        eventually(lambda: left.lines("Spark is up"), 240, left.tail)  # it stands by
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
    assert pause < 30, f"with a load of {os.getloadavg()} on {os.cpu_count()} cores"
    for name in names.values():
        eventually(lambda name=name: running(left, name), 60, left.tail)  # type: ignore[misc]
        left.ask(f"/connectors/{name}", "DELETE")
    assert left.ask("/connectors") == []


def test_offsets_set_by_hand_and_reset_copy_again_exactly_what_they_say(
    source: LiveCluster, target: LiveCluster, tmp_path: Path
) -> None:
    rewound, forgotten = source.create_topic(2), source.create_topic(2)
    numbers = [b"%d" % n for n in range(20)]
    for topic in (rewound, forgotten):
        source.produce(topic, [Outgoing(v, partition=n % 2) for n, v in enumerate(numbers)])
    alias = unique_alias()
    there = {topic: f"{alias}.{topic}" for topic in (rewound, forgotten)}
    names = {kind: unique_name() for kind in KINDS}
    with OwnWorker(tmp_path, worker_properties(target)) as worker:
        eventually(lambda: worker.ask("/") is not None, 60, worker.tail)
        for kind, name in names.items():
            config = connector(kind, alias, source, target, f"{rewound},{forgotten}")
            worker.ask(f"/connectors/{name}/config", "PUT", config)
        for remote in there.values():
            copies_arrive(target, remote, numbers, worker)

        name = names["Source"]
        stop_connector(worker, name)
        offsets = worker.ask(f"/connectors/{name}/offsets")["offsets"]
        assert [entry["offset"] for entry in offsets] == [{"offset": 9}] * 4
        changed = [
            {**entry, "offset": {"offset": 0} if entry["partition"]["topic"] == rewound else None}
            for entry in offsets
        ]
        worker.ask(f"/connectors/{name}/offsets", "PATCH", {"offsets": changed})
        told = worker.ask(f"/connectors/{name}/offsets")["offsets"]
        assert {entry["partition"]["topic"] for entry in told} == {rewound}
        assert [entry["offset"] for entry in told] == [{"offset": 0}] * 2
        worker.ask(f"/connectors/{name}/resume", "PUT")
        # An offset of 0 says that the first record of a partition is done.
        copies_arrive(target, there[rewound], numbers + numbers[2:], worker)
        copies_arrive(target, there[forgotten], numbers * 2, worker)

        for name in names.values():
            stop_connector(worker, name)
            worker.ask(f"/connectors/{name}/offsets", "DELETE")
            assert worker.ask(f"/connectors/{name}/offsets") == {"offsets": []}
            worker.ask(f"/connectors/{name}/resume", "PUT")
        copies_arrive(target, there[rewound], numbers * 2 + numbers[2:], worker)
        copies_arrive(target, there[forgotten], numbers * 3, worker)
        for name in names.values():
            eventually(lambda name=name: running(worker, name), 60, worker.tail)  # type: ignore[misc]


def stop_connector(worker: OwnWorker, name: str) -> None:
    worker.ask(f"/connectors/{name}/stop", "PUT")

    def has_stopped() -> bool:
        status = worker.ask(f"/connectors/{name}/status")
        return bool(status["connector"]["state"] == "STOPPED" and not status["tasks"])

    eventually(has_stopped, 60, worker.tail)


def test_workers_restarted_one_by_one_go_on_with_late_topics_and_a_changed_setting(
    source: LiveCluster, target: LiveCluster, workers: tuple[OwnWorker, OwnWorker]
) -> None:
    prefix = unique_name()
    topics = [source.create_topic(2, name=f"{prefix}.first")]
    numbers = [b"%d" % n for n in range(50)]
    alias, name = unique_alias(), unique_name()
    # Of the target's alias nothing becomes the name of a topic, so that it may have any characters.
    config = connector("Source", alias, source, target, f"{prefix}.*") | {
        "target.cluster.alias": "B /?é->",
        "offset-syncs.topic.location": "target",
    }
    workers[0].ask(f"/connectors/{name}/config", "PUT", config)

    def produce_and_check() -> None:
        for topic in topics:
            source.produce(topic, numbers)
        for topic in topics:
            expected = [v or b"" for v in values_of(source, topic)]
            copies_arrive(target, f"{alias}.{topic}", expected, workers[0])

    produce_and_check()
    for restarted, other in (workers, workers[::-1]):
        restarted.stop()
        topics.append(source.create_topic(2, name=f"{prefix}.{len(topics)}-late"))
        produce_and_check()
        changed = config | {"producer.override.linger.ms": str(len(topics))}
        other.ask(f"/connectors/{name}/config", "PUT", changed)
        restarted.start()
        eventually(lambda w=restarted: w.ask("/") is not None, 60, restarted.tail)  # type: ignore[misc]
        produce_and_check()
        for worker in workers:
            eventually(
                lambda w=worker, c=changed: all(  # type: ignore[misc]
                    task["config"]["producer.override.linger.ms"]
                    == c["producer.override.linger.ms"]
                    for task in w.ask(f"/connectors/{name}/tasks")
                ),
                30,
                worker.tail,
            )


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
