"""What changes underneath a running mirror: each is told with its reason, counted, and handled as on.loss says."""

import os
import shutil
import subprocess
import sys
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from lab.clusters import LiveCluster, Outgoing, eventually, unique_name
from lab.faults.bench import STARTING, Bench, in_turn
from lab.mirrors import assert_copied
from lab.proxy import CUT, GOOD

pytestmark = [pytest.mark.fault, pytest.mark.timeout(600)]

ALARMS = "heliograph_loss_alarms_total"
STOPPED = "heliograph_flow_partitions_stopped"


@pytest.fixture
def running(bench: Bench) -> Bench:
    before = bench.mirror.file.read_text()
    bench.mirror.write({**bench.properties(), "sync.topic.configs.interval.seconds": "1"})
    if bench.mirror.is_alive and bench.mirror.file.read_text() != before:
        bench.mirror.stop()
    bench.start_mirror()
    return bench


def numbers(first: int, last: int) -> list[bytes]:
    return [b"%d" % n for n in range(first, last)]


def copied(bench: Bench, topic: str) -> list[bytes]:
    remote = bench.remote(topic)
    if not bench.target.partition_count(remote):
        return []
    return [record.value or b"" for record in bench.target.consume(remote)]


def await_copied(bench: Bench, topic: str, expected: list[bytes], within: float = 60) -> None:
    eventually(lambda: len(copied(bench, topic)) >= len(expected), within, bench.mirror.tail)
    assert copied(bench, topic) == expected


def alter(cluster: LiveCluster, topic: str, **config: str) -> None:
    entries = [
        ConfigEntry(key.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for key, value in config.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    for altered in cluster.admin.incremental_alter_configs([resource]).values():
        altered.result(timeout=30)


def delete(cluster: LiveCluster, topic: str) -> None:
    cluster.admin.delete_topics([topic])[topic].result(timeout=30)
    eventually(lambda: not cluster.partition_count(topic))


def go_on(bench: Bench) -> None:
    """Start the mirror again under on.loss=continue, as its last word advised."""
    bench.mirror.stop()
    bench.mirror.write({**bench.properties(), "on.loss": "continue"})
    bench.start_mirror()


def test_a_source_topic_made_anew_under_the_mirror(running: Bench) -> None:
    topic = running.create_topic()
    running.source.produce(topic, numbers(0, 50))
    await_copied(running, topic, numbers(0, 50))
    before = running.metric(ALARMS, reason="made-anew")

    delete(running.source, topic)
    running.source.create_topic(name=topic, replication=3)
    running.source.produce(topic, numbers(100, 120))

    told = eventually(
        lambda: running.mirror.lines(f"{topic}-0 stopped", "made anew", "on.loss"),
        60,
        running.mirror.tail,
    )
    assert "was deleted on the source and made anew" in told[0]
    eventually(lambda: running.metric(ALARMS, reason="made-anew") == before + 1)
    assert copied(running, topic) == numbers(0, 50)
    go_on(running)
    await_copied(running, topic, [*numbers(0, 50), *numbers(100, 120)])
    assert running.mirror.lines(f"{topic}-0 LOSS", "goes on at 0")


@pytest.mark.parametrize("side", ["source", "target"])
def test_partitions_are_added(running: Bench, side: str) -> None:
    topic = running.create_topic()
    running.source.produce(topic, numbers(0, 10))
    await_copied(running, topic, numbers(0, 10))

    name = topic if side == "source" else running.remote(topic)
    grown = running.cluster(side).admin.create_partitions([NewPartitions(name, 3)])
    grown[name].result(timeout=30)

    eventually(lambda: running.target.partition_count(running.remote(topic)) == 3)
    eventually(lambda: running.cluster(side).partition_count(name) == 3)
    last = running.source.partition_count(topic) - 1
    running.source.produce(topic, [Outgoing(n, partition=last) for n in numbers(10, 20)])
    eventually(
        lambda: sorted(copied(running, topic), key=int) == numbers(0, 20), 60, running.mirror.tail
    )


def test_retention_overtakes_a_mirror_that_is_cut_off(running: Bench) -> None:
    topic = running.create_topic()
    running.source.produce(topic, numbers(0, 10))
    await_copied(running, topic, numbers(0, 10))
    before = running.metric(ALARMS, reason="loss")

    running.to_source.set_line(CUT)
    running.source.produce(topic, numbers(10, 100))
    for deleted in running.source.admin.delete_records([TopicPartition(topic, 0, 60)]).values():
        deleted.result(timeout=30)
    running.to_source.set_line(GOOD)

    told = eventually(
        lambda: running.mirror.lines(f"{topic}-0 stopped", "source deleted"),
        60,
        running.mirror.tail,
    )
    assert "deleted offsets 10 to 59 (50) before they were copied" in told[0]
    assert "on.loss=continue" in told[0]
    eventually(lambda: running.metric(ALARMS, reason="loss") == before + 1)
    assert running.metric(STOPPED, kind="loss") >= 1
    go_on(running)
    await_copied(running, topic, [*numbers(0, 10), *numbers(60, 100)])


def test_a_truncated_remote_topic_stops_its_partition(running: Bench) -> None:
    topic = running.create_topic()
    remote = running.remote(topic)
    running.source.produce(topic, numbers(0, 50))
    await_copied(running, topic, numbers(0, 50))
    before = running.metric(ALARMS, reason="target-truncated")

    cluster = running.target.cluster
    cluster.stop()
    in_turn(
        running.target,
        lambda broker: shutil.rmtree(cluster.folder / f"broker-{broker}" / "logs" / f"{remote}-0"),
    )
    cluster.start()
    running.source.produce(topic, numbers(50, 60))

    told = eventually(
        lambda: running.mirror.lines(f"{topic}-0 stopped", "ended at"), 90, running.mirror.tail
    )
    assert remote in told[0]
    eventually(lambda: running.metric(ALARMS, reason="target-truncated") == before + 1)
    running.mirror.stop()


def uncleanly_elected(bench: Bench, topic: str) -> None:
    """Bring a topic to a leader that lacks its records from 50 on."""
    brokers = bench.source.cluster
    bench.source.produce(topic, numbers(0, 50))
    await_copied(bench, topic, numbers(0, 50))
    brokers.kill(2)
    eventually(lambda: len(_partition(bench.source, topic).isrs) == 1, 60)
    bench.source.produce(topic, numbers(50, 100))
    await_copied(bench, topic, numbers(0, 100))
    bench.to_source.set_line(CUT)
    brokers.kill(1)
    brokers.start_broker(2)
    eventually(lambda: _partition(bench.source, topic).leader == 2, 60)


def _partition(cluster: LiveCluster, topic: str) -> Any:
    return cluster.metadata().topics[topic].partitions[0]


@pytest.mark.parametrize("grown", [10, 100], ids=["shorter", "longer"])
def test_an_unclean_election_is_told_also_where_the_log_has_grown_again(
    running: Bench, grown: int
) -> None:
    topic = f"fault.{unique_name()}"
    config = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
    new = NewTopic(topic, 1, replica_assignment=[[1, 2]], config=config)
    running.source.admin.create_topics([new])[topic].result(timeout=30)
    before = running.metric(ALARMS, reason="loss")

    uncleanly_elected(running, topic)
    running.source.produce(topic, numbers(1000, 1000 + grown))
    running.to_source.set_line(GOOD)
    running.source.cluster.start()

    told = eventually(
        lambda: running.mirror.lines(f"{topic}-0 stopped", "unclean election", "on.loss"),
        60,
        running.mirror.tail,
    )
    assert "100" in told[0]
    eventually(lambda: running.metric(ALARMS, reason="loss") == before + 1)
    assert copied(running, topic) == numbers(0, 100)
    running.await_in_sync("source")

    running.mirror.stop()  # whoever starts it again without a word is told again
    running.start_mirror()
    eventually(
        lambda: len(running.mirror.lines(f"{topic}-0 stopped", "unclean election")) > len(told),
        60,
        running.mirror.tail,
    )
    assert copied(running, topic) == numbers(0, 100)


def test_larger_records_than_the_target_takes_wait_until_its_limit_follows(running: Bench) -> None:
    topic = running.create_topic()
    running.source.produce(topic, [b"small"])
    await_copied(running, topic, [b"small"])
    large = os.urandom(1_500_000)

    alter(running.source, topic, max_message_bytes="3000000")
    running.source.produce(topic, [large], message_max_bytes=3_000_000)

    await_copied(running, topic, [b"small", large], within=120)


def test_timestamps_are_those_of_the_source_across_a_switch_of_their_type(running: Bench) -> None:
    topic = running.create_topic()
    old = 1_600_000_000_000
    for kind in ("CreateTime", "LogAppendTime", "CreateTime"):
        alter(running.source, topic, message_timestamp_type=kind)
        running.source.produce(topic, [Outgoing(kind.encode(), timestamp=old)])
    assert_copied(
        running.source,
        topic,
        running.target,
        running.remote(topic),
        running.mirror,
        timestamp_types=False,
        within=60,
    )


def test_a_target_that_insists_on_another_codec_has_the_same_records_once(running: Bench) -> None:
    topic = running.create_topic(compression_type="zstd")
    remote = running.remote(topic)
    running.source.produce(topic, numbers(0, 500), compression_codec="zstd", linger_ms=50)
    await_copied(running, topic, numbers(0, 500))

    running.mirror.stop()
    running.mirror.write({**running.properties(), "sync.topic.configs.enabled": "false"})
    alter(running.target, remote, compression_type="gzip")
    running.start_mirror()
    running.source.produce(topic, numbers(500, 1000), compression_codec="zstd", linger_ms=50)
    await_copied(running, topic, numbers(0, 1000))

    running.mirror.kill()  # what it wrote last is found by reading batches that the broker has made anew
    running.source.produce(topic, numbers(1000, 1500), compression_codec="zstd", linger_ms=50)
    running.start_mirror()
    await_copied(running, topic, numbers(0, 1500))


def test_compaction_while_it_is_read(running: Bench) -> None:
    topic = running.create_topic(
        cleanup_policy="compact",
        segment_ms="100",
        min_cleanable_dirty_ratio="0.01",
        max_compaction_lag_ms="100",
    )
    for turn in range(20):
        running.source.produce(
            topic, [Outgoing(b"%d %d" % (turn, n), key=b"%d" % n) for n in range(500)]
        )
    newest = {b"%d" % n: b"19 %d" % n for n in range(500)}

    def table() -> dict[bytes | None, bytes | None]:
        remote = running.remote(topic)
        if not running.target.partition_count(remote):
            return {}
        return {record.key: record.value for record in running.target.consume(remote)}

    eventually(lambda: table() == newest, 60, running.mirror.tail)
    assert not running.mirror.lines(f"{topic}-0", "stopped")


_DIES_INSIDE = """
import os, sys
from confluent_kafka import Producer
p = Producer({"bootstrap.servers": sys.argv[1], "transactional.id": "dies", "transaction.timeout.ms": 10000})
p.init_transactions(30)
p.begin_transaction()
for n in range(10):
    p.produce(sys.argv[2], b"never")
p.flush(30)
os._exit(9)
"""


def test_a_transaction_left_open_by_a_dead_producer_holds_up_only_what_is_behind_it(
    running: Bench,
) -> None:
    topic = running.create_topic()
    running.source.produce(topic, numbers(0, 10))
    await_copied(running, topic, numbers(0, 10))
    died = subprocess.run(
        [sys.executable, "-c", _DIES_INSIDE, running.source.bootstrap, topic], check=False
    )
    assert died.returncode == 9
    running.source.produce(topic, numbers(10, 20))
    assert copied(running, topic) == numbers(0, 10)

    await_copied(running, topic, numbers(0, 20), within=STARTING)  # the broker aborts it
