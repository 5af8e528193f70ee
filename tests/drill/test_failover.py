"""A primary that is killed under load: its groups go on on the target, and return, each record once."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from lab.clusters import LiveCluster, eventually, start_live_cluster
from lab.mirrors import Mirror, mesh_properties
from lab.processes import freeze, send_to_all, tree

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(600)]

TOPIC = "orders"
PARTITIONS = 6
GROUP = "billing"
HOLDS = "mm2-holds.A.internal"
IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"


class Load:
    """Numbered records at a steady rate; `acknowledged` are those the cluster has taken for good."""

    def __init__(self, cluster: LiveCluster, rate: int) -> None:
        settings = {"linger.ms": 5, "enable.idempotence": True, "message.timeout.ms": 3000}
        self._producer = Producer(cluster.client(**settings))
        self._rate = rate
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.acknowledged: set[bytes] = set()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> set[bytes]:
        self._stopping.set()
        self._thread.join()
        self._producer.flush(10)
        return self.acknowledged

    def _run(self) -> None:
        began, sent = time.monotonic(), 0
        while not self._stopping.wait(0.01):
            due = int((time.monotonic() - began) * self._rate)
            while sent < due:
                value = b"%010d" % sent
                self._producer.produce(
                    TOPIC, value, partition=sent % PARTITIONS, on_delivery=self._delivered
                )
                sent += 1
            self._producer.poll(0)

    def _delivered(self, error: object, message: Any) -> None:
        if error is None:
            self.acknowledged.add(message.value())


def read_as(
    group: str,
    cluster: LiveCluster,
    topics: list[str],
    most: int | None = None,
    on_first: Callable[[], None] = lambda: None,
) -> list[bytes]:
    """Read as one member of a group until nothing comes any more, commit what was read, and leave."""
    settings = cluster.client(
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="error",
        session_timeout_ms=6000,
        isolation_level="read_committed",
    )
    consumer = Consumer(settings | {"topic.metadata.refresh.interval.ms": 1000})
    consumer.subscribe(topics)
    values: list[bytes] = []
    quiet_since = time.monotonic()
    while time.monotonic() - quiet_since < (3 if values else 15):
        for message in consumer.consume(500, timeout=0.2):
            if message.error() is not None:
                raise KafkaException(message.error())
            if not values:
                on_first()
            values.append(message.value())
            quiet_since = time.monotonic()
        if most is not None and len(values) >= most:
            break
    if values:
        consumer.commit(asynchronous=False)
    consumer.close()
    return values


def commit_start(group: str, cluster: LiveCluster, topics: list[str]) -> None:
    """Let a group begin at the start of topics, as one does that was there before their first record."""
    consumer = Consumer(cluster.client(group_id=group, enable_auto_commit=False))
    places = [TopicPartition(t, p, 0) for t in topics for p in range(cluster.partition_count(t))]

    def committed() -> bool:
        with suppress(KafkaException):  # a new cluster is still making up its mind who keeps groups
            consumer.commit(offsets=places, asynchronous=False)
            return True
        return False

    eventually(committed)
    consumer.close()


def run(*arguments: str) -> tuple[int, Any, str]:
    """Run a command of heliograph; return its exit code, its JSON and what it said on stderr."""
    done = subprocess.run(
        [sys.executable, "-m", "heliograph", *arguments],
        env={**os.environ, "PYTHONPATH": "src"},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        timeout=200,
        check=False,
    )
    return done.returncode, json.loads(done.stdout or b"null"), done.stderr.decode()


@pytest.fixture
def sites(tmp_path: Path) -> Iterator[tuple[LiveCluster, LiveCluster]]:
    """Two clusters of the test's own, because one of them is killed."""
    clusters = [start_live_cluster(name, tmp_path / name) for name in ("A", "B")]
    try:
        yield clusters[0], clusters[1]
    finally:
        for cluster in clusters:
            cluster.cluster.wipe()


def kill_with_a_tail(primary: LiveCluster, mirror: Mirror) -> float:
    """Kill the primary while the mirror lags, so that some records never leave it; return when."""
    processes = tree(mirror.pid)
    freeze(processes)
    time.sleep(0.5)
    for broker in primary.cluster.pids:
        primary.cluster.kill(broker)
    killed = time.monotonic()
    send_to_all(processes, signal.SIGCONT)
    return killed


def values(cluster: LiveCluster, topic: str) -> list[bytes]:
    return [record.value or b"" for record in cluster.consume(topic)]


def test_groups_fail_over_from_a_killed_primary_and_return_without_losing_or_repeating(
    sites: tuple[LiveCluster, LiveCluster], tmp_path: Path, record_property: Any
) -> None:
    a, b = sites
    remote = f"A.{TOPIC}"
    a.create_topic(PARTITIONS, name=TOPIC)
    b.create_topic(PARTITIONS, name=TOPIC)
    properties = mesh_properties(
        {"A": a.bootstrap, "B": b.bootstrap},
        {"A->B": TOPIC, "B->A": TOPIC},
        emit_checkpoints_interval_seconds="1",
        refresh_groups_interval_seconds="1",
        tasks_max="2",
    )
    mirror = Mirror(tmp_path / "mirror", properties, arguments=["--listen", "127.0.0.1:0"])
    file = str(mirror.file)
    with mirror:
        eventually(lambda: b.partition_count(remote) == PARTITIONS, 60, mirror.tail)
        eventually(lambda: a.partition_count(f"B.{TOPIC}") == PARTITIONS, 60, mirror.tail)
        commit_start(GROUP, a, [TOPIC, f"B.{TOPIC}"])
        load = Load(a, 5000)
        load.start()
        eventually(lambda: sum(b.end_offsets(remote)) > 1000, 180, mirror.tail)
        first = read_as(GROUP, a, [TOPIC, f"B.{TOPIC}"], most=10_000)
        time.sleep(4)  # a checkpoint interval or two
        code, _, words = run("failover", file, "--flow", "A->B", "--yes", "--json")
        assert code == 1
        assert "are not on B yet" in words or "still written to" in words

        killed = kill_with_a_tail(a, mirror)
        acknowledged = load.stop()
        code, plan, words = run("failover", file, "--flow", "A->B", "--yes", "--json")
        assert code == 0, words
        assert plan["moved"] == {GROUP: PARTITIONS}
        on_b = values(b, remote)
        commit_start(GROUP, b, [TOPIC])
        first_at: list[float] = []
        second = read_as(
            GROUP, b, [remote, TOPIC], on_first=lambda: first_at.append(time.monotonic())
        )
        record_property("rto_s", round(first_at[0] - killed, 1))
        print(f"RTO {first_at[0] - killed:.1f} s, failover {plan['seconds']} s")  # noqa: T201 - a figure
        assert Counter(first + second) == Counter(on_b), "read on A and then on B: each record once"

        written_on_b = [b"B%09d" % number for number in range(1000)]
        b.produce(TOPIC, written_on_b)
        third = read_as(GROUP, b, [remote, TOPIC])
        code, again, words = run("failover", file, "--flow", "A->B", "--yes", "--json")
        assert (code, [g["moved"] for g in again["groups"]]) == (0, [True]), words

        a.cluster.start()
        code, _, words = run("failback", file, "--flow", "A->B", "--yes", "--json")
        assert code == 1
        assert "--tail" in words
        lost = acknowledged - set(on_b)
        assert lost, "the mirror was stopped for half a second before the end"
        eventually(lambda: mirror.lines("flow=A->B", "PAUSED"), 30, mirror.tail)
        b.admin.delete_topics([HOLDS])[HOLDS].result(30)
        eventually(lambda: mirror.lines("flow=A->B", HOLDS, "written again"), 30, mirror.tail)
        eventually(lambda: b.partition_count(HOLDS) and len(values(b, HOLDS)) == 1, 30, mirror.tail)
        listed = tmp_path / "tail.jsonl"
        code, report, words = run(
            *("failback", file, "--flow", "A->B", "--tail", "replay"),
            *("--list", str(listed), "--yes", "--json"),
        )
        assert code == 0, words
        never_left = [json.loads(line) for line in listed.read_text().splitlines()]
        # What the primary had taken and not yet acknowledged when it died is there, too.
        assert lost <= {line["value"].encode() for line in never_left}
        assert report["lost"] == len(never_left) == len(values(a, TOPIC)) - len(on_b)
        record_property("lost", report["lost"])
        record_property("lost_ms", report["lost_ms"])

        fourth = read_as(GROUP, a, [TOPIC, f"B.{TOPIC}"])
        read = Counter(first + second + third + fourth)
        assert read == Counter(values(a, TOPIC) + written_on_b), "each record once, over all moves"
        eventually(lambda: len(values(b, remote)) == len(values(a, TOPIC)), 60, mirror.tail)
        assert Counter(values(b, remote)) == Counter(values(a, TOPIC))


@pytest.mark.parametrize("action", ["replay", "quarantine", "drop"])
def test_under_one_name_the_flow_is_turned_round_at_the_exact_point(
    sites: tuple[LiveCluster, LiveCluster], tmp_path: Path, action: str
) -> None:
    a, b = sites
    a.create_topic(PARTITIONS, name=TOPIC)
    properties = mesh_properties(
        {"A": a.bootstrap, "B": b.bootstrap},
        {"A->B": TOPIC},
        emit_checkpoints_interval_seconds="1",
        refresh_groups_interval_seconds="1",
        replication_policy_class=IDENTITY,
    )
    mirror = Mirror(tmp_path / "mirror", properties, arguments=["--listen", "127.0.0.1:0"])
    file = str(mirror.file)
    with mirror:
        eventually(lambda: b.partition_count(TOPIC) == PARTITIONS, 60, mirror.tail)
        commit_start(GROUP, a, [TOPIC])
        load = Load(a, 1000)
        load.start()
        eventually(lambda: sum(b.end_offsets(TOPIC)) > 1000, 180, mirror.tail)
        first = read_as(GROUP, a, [TOPIC], most=2000)
        time.sleep(4)
        kill_with_a_tail(a, mirror)
        load.stop()
        code, _, words = run("failover", file, "--flow", "A->B", "--yes", "--json")
        assert code == 0, words
    copied = values(b, TOPIC)
    second = read_as(GROUP, b, [TOPIC])
    assert Counter(first + second) == Counter(copied)
    written_on_b = [b"B%09d" % number for number in range(500)]
    b.produce(TOPIC, written_on_b)
    third = read_as(GROUP, b, [TOPIC])

    a.cluster.start()
    before = values(a, TOPIC)
    tail = Counter(before) - Counter(copied)
    assert tail
    back = ("failback", file, "--flow", "A->B", "--tail", action, "--yes", "--json")
    code, report, words = run(*back, "--wait", "0")
    assert report["lost"] == tail.total(), words
    turned = Mirror(
        tmp_path / "turned", properties, arguments=["--flow", "B->A", "--listen", "127.0.0.1:0"]
    )
    with turned:
        replayed = tail.total() if action == "replay" else 0
        came = len(written_on_b) + replayed
        eventually(lambda: len(values(a, TOPIC)) == len(before) + came, 180, turned.tail)
        code, report, words = run(*back)
        assert code == 0, (words, turned.tail())
        fourth = read_as(GROUP, a, [TOPIC])
    read = Counter(first + second + third + fourth)
    expected = Counter(copied + written_on_b) + (tail if action == "replay" else Counter())
    assert read == expected
    if action == "quarantine":
        assert Counter(values(b, f"mm2-quarantine.{TOPIC}.internal")) == tail
