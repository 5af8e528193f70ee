"""Seed 003's migration, both ways of naming: the consumer first, the producer later, 0 lost, 0 repeated."""

import json
import re
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

from lab.clusters import LiveCluster, eventually, unique_name
from lab.commands import run_command, start_command
from lab.mirrors import Mirror, flow_properties, unique_alias

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]

AMAZONS = "com.amazonaws.kafka.samples.CustomMM2ReplicationPolicy"
KEYS = 12
PATIENCE = 180


class Numbering(threading.Thread):
    """A producer that numbers its records, about 300 a second, until it is stopped."""

    def __init__(self, cluster: LiveCluster, topic: str, first: int) -> None:
        super().__init__(daemon=True)
        self._producer = Producer(cluster.client(enable_idempotence=True))
        self._topic = topic
        self._stopping = threading.Event()
        self._failed: list[object] = []
        self.next = first

    def run(self) -> None:
        while not self._stopping.wait(0.02):
            for _ in range(6):
                self._producer.produce(
                    self._topic,
                    str(self.next).encode(),
                    str(self.next % KEYS).encode(),
                    on_delivery=self._note,
                )
                self.next += 1
            self._producer.poll(0)

    def stop(self) -> int:
        """Return the next number, once all before it are acknowledged."""
        self._stopping.set()
        self.join()
        assert self._producer.flush(30) == 0
        assert not self._failed
        return self.next

    def _note(self, error: object, _message: Any) -> None:
        if error is not None:
            self._failed.append(error)


class Reading(threading.Thread):
    """A consumer that notes what it reads, and commits synchronously before it ends."""

    def __init__(self, cluster: LiveCluster, group: str, pattern: str, into: list[int]) -> None:
        super().__init__(daemon=True)
        self._settings = cluster.client(
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            topic_metadata_refresh_interval_ms=500,
            isolation_level="read_committed",
        )
        self._pattern = pattern
        self._into = into
        self._stopping = threading.Event()
        self._uncommitted = False
        self.failed: list[object] = []

    def run(self) -> None:
        with closing(Consumer(self._settings)) as consumer:
            # A topic that comes up later takes all partitions away and gives them back.
            consumer.subscribe([self._pattern], on_revoke=self._commit)
            while not self._stopping.is_set():
                for message in consumer.consume(200, timeout=0.1):
                    if message.error() is not None:
                        self.failed.append(message.error())
                        continue
                    self._into.append(int(message.value()))
                    self._uncommitted = True
            self._commit(consumer)

    def _commit(self, consumer: Consumer, _partitions: object = None) -> None:
        if self._uncommitted:
            self._uncommitted = False
            try:
                consumer.commit(asynchronous=False)
            except KafkaException as exc:
                self.failed.append(exc)

    def stop(self) -> None:
        self._stopping.set()
        self.join()
        assert not self.failed


def wait_for(numbers: list[int], count: int, describe: Callable[[], object]) -> None:
    eventually(lambda: len(numbers) >= count, PATIENCE, describe)


def plan_of(file: Path) -> dict[str, Any]:
    done = run_command("plan", str(file), "--json")
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def group_in(plan: dict[str, Any], group: str) -> dict[str, Any]:
    found: dict[str, Any] = next(
        g for flow in plan["flows"] for g in flow["groups"] if g["group"] == group
    )
    return found


@pytest.mark.parametrize("policy", [None, AMAZONS], ids=["default", "custom"])
def test_a_migration_loses_and_repeats_nothing(
    source: LiveCluster, target: LiveCluster, tmp_path: Path, policy: str | None
) -> None:
    alias, there = unique_alias("msksource"), unique_alias("mskdest")
    topic = source.create_topic(3, name=f"{unique_name()}")
    remote = topic if policy else f"{alias}.{topic}"
    group = f"{topic}-group"
    # As the seed has it: the pattern takes the topic by either of its names.
    pattern = rf"^({re.escape(alias)}\.)?{re.escape(topic)}$"
    naming = {"replication_policy_class": policy} if policy else {}
    properties = flow_properties(
        (alias, source.bootstrap),
        (there, target.bootstrap),
        topic,
        groups=group,
        emit_checkpoints_interval_seconds="1",
        refresh_groups_interval_seconds="1",
        **naming,
    )
    numbers: list[int] = []
    producer = Numbering(source, topic, 0)
    producer.start()
    on_source = Reading(source, group, pattern, numbers)
    on_source.start()
    mirror = Mirror(tmp_path, properties)
    with mirror:
        eventually(lambda: sum(target.end_offsets(remote)) > 500, PATIENCE, mirror.tail)
        wait_for(numbers, 1000, mirror.tail)
        file = tmp_path / "consumer.properties_sync_dest"
        file.write_text(f"bootstrap.servers={target.bootstrap}\n")
        asked = ["-cgi", group, "-src", alias, "-pfp", str(file)]
        asked += ["-rpc", policy] if policy else []
        with start_command("group-offset-sync", *asked, "-int", "1") as syncing:
            on_source.stop()

            def is_checkpointed() -> bool:
                found = group_in(plan_of(mirror.file), group)
                return bool(found["partitions"]) and not found["checkpoints"] + found["ahead"]

            eventually(is_checkpointed, PATIENCE, mirror.tail)
            syncing.terminate()
            _, told = syncing.communicate(timeout=30)
            assert syncing.returncode == 0, told
        done = run_command("group-offset-sync", *asked, "--once")
        assert done.returncode == 0, done.stderr

        moved_at = len(numbers)
        on_target = Reading(target, group, pattern, numbers)
        on_target.start()
        wait_for(numbers, moved_at + 1000, mirror.tail)

        left = producer.stop()
        wait_for(numbers, left, mirror.tail)
        if policy is None:
            target.create_topic(3, name=topic)
        producer = Numbering(target, topic, left)
        producer.start()
        wait_for(numbers, left + 500, mirror.tail)
    total = producer.stop()
    wait_for(numbers, total, lambda: (len(numbers), total))
    on_target.stop()

    assert len(numbers) == total, f"{len(numbers) - len(set(numbers))} repeated"
    assert sorted(numbers) == list(range(total)), "some are lost"
    for key in range(KEYS):
        its = [number for number in numbers if number % KEYS == key]
        assert its == sorted(its), f"key {key} is out of order"
