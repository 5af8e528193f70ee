"""Somebody deletes the topics that a mirror keeps its own state in."""

from pathlib import Path

import pytest

from lab.clusters import LiveCluster, Outgoing, eventually
from lab.load import SteadyLoad
from lab.mirrors import Mirror, flow_properties, unique_alias
from tests.contract.brokers import commit

pytestmark = pytest.mark.spark

PARTITIONS = 3
STARTING = 60


def delete(cluster: LiveCluster, names: list[str]) -> None:
    for deleted in cluster.admin.delete_topics(names).values():
        deleted.result(timeout=30)
    eventually(lambda: cluster.topics().isdisjoint(names))


def held(cluster: LiveCluster, name: str) -> set[bytes | None]:
    """Return the keys that have a value."""
    if not cluster.partition_count(name):
        return set()
    return {key for key, value in {r.key: r.value for r in cluster.consume(name)}.items() if value}


def values(cluster: LiveCluster, name: str) -> list[bytes]:
    if not cluster.partition_count(name):
        return []
    return sorted(r.value or b"" for r in cluster.consume(name))


@pytest.mark.parametrize(("support", "rate"), [("disabled", 0), ("enabled", 0), ("enabled", 200)])
def test_own_topics_that_are_deleted_are_made_again_whole(
    source: LiveCluster, target: LiveCluster, tmp_path: Path, support: str, rate: int
) -> None:
    """One partition is quiet meanwhile, or all are; a start after a crash finds what it needs."""
    a, b, group = unique_alias("A"), unique_alias("B"), unique_alias("g")
    topic = source.create_topic(PARTITIONS)
    remote = f"{a}.{topic}"
    source.produce(topic, [Outgoing(b"%d" % i, partition=i % PARTITIONS) for i in range(30)])
    commit(source, group, topic, {0: 4})
    saved = [f"mm2-offsets.{a}.internal", f"mm2-runs.{a}.internal"]
    own = {
        target: [*saved, f"{a}.checkpoints.internal", "heartbeats"],
        source: [f"mm2-offset-syncs.{b}.internal"],
    }
    properties = flow_properties(
        (a, source.bootstrap),
        (b, target.bootstrap),
        topic,
        emit_checkpoints_interval_seconds="1",
        groups=group,
    )
    properties[f"{b}.offset.flush.interval.ms"] = "1000"
    properties[f"{b}.exactly.once.source.support"] = support

    load = SteadyLoad(source, topic, PARTITIONS - 1, rate=rate)
    with Mirror(tmp_path, properties) as mirror, load:
        kept = {(c, n): c for c, names in own.items() for n in names if n != "heartbeats"}
        for cluster, name in kept:
            eventually(lambda: held(cluster, name), STARTING, mirror.tail)  # noqa: B023 - called at once
        eventually(lambda: len(held(target, saved[0])) == PARTITIONS, 30, mirror.tail)
        before = {(c, n): held(c, n) for c, n in kept}

        for cluster, names in own.items():
            delete(cluster, names)

        for (cluster, name), keys in before.items():
            eventually(lambda: keys <= held(cluster, name), 60, mirror.tail)  # noqa: B023 - called at once
        for name in saved:
            assert mirror.lines(f"{name} is gone and is made again")
        eventually(lambda: "heartbeats" in target.topics(), 60, mirror.tail)

        mirror.kill()
        mirror.start()
        load.stop()
        source.produce(topic, [Outgoing(b"later", partition=PARTITIONS - 1)])
        expected = values(source, topic)
        eventually(lambda: len(values(target, remote)) >= len(expected), STARTING, mirror.tail)
        assert values(target, remote) == expected
