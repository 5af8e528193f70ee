"""What goes wrong is told in a sentence, stops as little as possible, and loses nothing."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from heliograph.embedded.ports import pick_port
from lab.clusters import LiveCluster, Outgoing, eventually, unique_name
from lab.mirrors import Mirror, assert_copied, flow_properties, unique_alias

pytestmark = pytest.mark.spark

STARTING = 90
GOOD = {
    "clusters": "A, B",
    "A.bootstrap.servers": "127.0.0.1:1",
    "B.bootstrap.servers": "127.0.0.1:2",
}


@pytest.mark.parametrize(
    ("wrong", "key"),
    [
        ({"A->C.enabled": "true"}, "A->C.enabled"),
        ({"A->A.enabled": "true"}, "A->A.enabled"),
        ({"A->B.enabled": "true", "A->B.topics": "good, ba(d"}, "A->B.topics"),
        ({"A->B.enabled": "true", "tasks.max": "many"}, "tasks.max"),
    ],
    ids=["unknown alias", "flow to itself", "regex", "number"],
)
def test_a_mistake_in_the_file_is_one_sentence_and_exit_code_2(
    tmp_path: Path, wrong: Mapping[str, str], key: str
) -> None:
    mirror = Mirror(tmp_path, {**GOOD, **wrong})
    line = len(GOOD) + list(wrong).index(key) + 1

    mirror.start()

    assert mirror.wait() == 2, mirror.text()
    (sentence,) = mirror.text().splitlines()
    assert f"{mirror.file}:{line}: {key}" in sentence


@dataclass
class Rig:
    """One live flow that keeps names, and beside it a flow from a cluster that is not there."""

    source: LiveCluster
    target: LiveCluster
    alias: str
    dead: str
    mirror: Mirror

    def create(self, partitions: int = 1) -> str:
        return self.source.create_topic(partitions, name=f"bad.{unique_name()}")

    def check(self, topic: str, within: float = 30) -> None:
        assert_copied(self.source, topic, self.target, topic, self.mirror, within=within)


@pytest.fixture(scope="module")
def rig(
    source: LiveCluster, target: LiveCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Rig]:
    alias, dead, b = unique_alias(), unique_alias("D"), unique_alias("B")
    port = pick_port()
    properties = {
        **flow_properties((alias, source.bootstrap), (b, target.bootstrap), r"bad\\..*"),
        "clusters": f"{alias}, {b}, {dead}",
        f"{dead}.bootstrap.servers": f"127.0.0.1:{port}",
        f"{dead}->{b}.enabled": "true",
        "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
    }
    with Mirror(tmp_path_factory.mktemp("mirror"), properties) as mirror:
        yield Rig(source, target, alias, dead, mirror)


def test_an_unreachable_cluster_is_told_and_the_other_flow_runs(rig: Rig) -> None:
    topic = rig.create()
    rig.source.produce(topic, [b"one", b"two"])

    rig.check(topic, within=STARTING)

    told = eventually(lambda: rig.mirror.lines(f"flow={rig.dead}->", "no broker answers"), 15)
    assert len(told) == 1
    assert rig.mirror.is_alive


def test_a_remote_topic_with_fewer_partitions_is_grown(rig: Rig) -> None:
    topic = f"bad.{unique_name()}"
    rig.target.create_topic(1, name=topic)
    rig.source.create_topic(4, name=topic)
    rig.source.produce(topic, [Outgoing(b"%d" % i, partition=i % 4) for i in range(40)])

    rig.check(topic)


def test_a_topic_deleted_while_it_is_copied_stops_alone(rig: Rig) -> None:
    topic, other = rig.create(2), rig.create()
    for name in (topic, other):
        rig.source.produce(name, [Outgoing(b"%d" % i, partition=0) for i in range(10)])
        rig.check(name)

    rig.source.admin.delete_topics([topic])[topic].result(timeout=30)
    rig.source.produce(other, [b"after"])

    rig.check(other)
    eventually(
        lambda: [
            line
            for line in rig.mirror.lines(topic)
            if any(word in line for word in ("deleted", "gone", "no longer", "UNKNOWN_TOPIC"))
        ],
        15,
        rig.mirror.tail,
    )
    rig.source.produce(other, [b"later"])
    rig.check(other)


def test_records_before_a_refused_one_are_copied(rig: Rig) -> None:
    topic = f"bad.{unique_name()}"
    rig.target.create_topic(1, {"max.message.bytes": "2000"}, name=topic)
    rig.source.create_topic(1, name=topic)
    rig.source.produce(topic, [b"before"])
    rig.source.produce(topic, [os.urandom(50_000)])

    eventually(lambda: rig.mirror.lines(f"{topic}-0 stopped"))

    eventually(lambda: values(rig.target, topic, 0) == [b"before"], 5)


def test_a_record_the_target_refuses_stops_its_partition_and_is_not_skipped(rig: Rig) -> None:
    topic, other = f"bad.{unique_name()}", rig.create()
    rig.target.create_topic(2, {"max.message.bytes": "2000"}, name=topic)
    rig.source.create_topic(2, name=topic)
    rig.source.produce(topic, [Outgoing(b"before", partition=0)])
    rig.source.produce(topic, [Outgoing(os.urandom(50_000), partition=0)])
    rig.source.produce(topic, [Outgoing(b"after", partition=0)])
    rig.source.produce(topic, [Outgoing(b"%d" % i, partition=1) for i in range(20)])

    told = eventually(
        lambda: rig.mirror.lines(f"{topic}-0 stopped", "the record at upstream offset 1"),
        30,
        rig.mirror.tail,
    )
    assert "the remote topic takes 2000" in told[0]
    rig.source.produce(topic, [Outgoing(b"more", partition=1)])
    rig.source.produce(other, [b"unharmed"])
    eventually(lambda: len(values(rig.target, topic, 1)) == 21)
    rig.check(other)
    assert values(rig.target, topic, 0) == [b"before"]

    raised = ConfigEntry("max.message.bytes", "100000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[raised])
    for altered in rig.target.admin.incremental_alter_configs([resource]).values():
        altered.result(timeout=30)
    rig.mirror.stop()
    rig.mirror.start()

    rig.check(topic, within=STARTING)


def values(cluster: LiveCluster, topic: str, partition: int) -> list[bytes | None]:
    return [record.value for record in cluster.consume(topic) if record.partition == partition]
