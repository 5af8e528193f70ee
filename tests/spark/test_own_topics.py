"""Somebody deletes the topics that a mirror keeps its own state in, while nothing is copied."""

from pathlib import Path

import pytest

from tests.clusters import LiveCluster, Outgoing, eventually
from tests.contract.brokers import commit
from tests.mirrors import Mirror, flow_properties, unique_alias

pytestmark = pytest.mark.spark

PARTITIONS = 3
STARTING = 60


def delete(cluster: LiveCluster, names: list[str]) -> None:
    for deleted in cluster.admin.delete_topics(names).values():
        deleted.result(timeout=30)
    eventually(lambda: cluster.topics().isdisjoint(names))


@pytest.mark.parametrize("once", ["idempotent", "transactions"])
def test_own_topics_that_are_deleted_are_made_again_whole_though_nothing_is_copied(
    source: LiveCluster, target: LiveCluster, tmp_path: Path, once: str
) -> None:
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
        offset_flush_interval_ms="1000",
        groups=group,
        **({"exactly_once_source_support": "enabled"} if once == "transactions" else {}),
    )

    with Mirror(tmp_path, properties) as mirror:

        def held(cluster: LiveCluster, name: str) -> set[bytes | None]:
            if not cluster.partition_count(name):
                return set()
            return {r.key for r in cluster.consume(name) if r.value is not None}

        def copied() -> list[bytes]:
            if not target.partition_count(remote):
                return []
            return sorted(r.value or b"" for r in target.consume(remote))

        eventually(lambda: len(copied()) == 30, STARTING, mirror.tail)
        kept = {(c, n): c for c, names in own.items() for n in names if n != "heartbeats"}
        for cluster, name in kept:
            eventually(lambda: held(cluster, name), 30, mirror.tail)  # noqa: B023 - called at once
        eventually(lambda: len(held(target, saved[0])) == PARTITIONS, 30, mirror.tail)
        before = {(c, n): held(c, n) for c, n in kept}

        for cluster, names in own.items():
            delete(cluster, names)

        for (cluster, name), keys in before.items():
            eventually(lambda: keys <= held(cluster, name), 60, mirror.tail)  # noqa: B023 - called at once
            assert mirror.lines(f"{name} is gone and is made again")
        eventually(lambda: "heartbeats" in target.topics(), 30, mirror.tail)

        mirror.kill()
        source.produce(topic, [Outgoing(b"later", partition=0)])
        mirror.start()
        eventually(lambda: b"later" in copied(), STARTING, mirror.tail)
        assert copied() == sorted([b"later", *(b"%d" % i for i in range(30))])
