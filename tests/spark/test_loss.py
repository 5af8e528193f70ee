"""What the source lost before it was copied is told, and nobody goes on silently."""

from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from tests.clusters import LiveCluster, eventually
from tests.mirrors import Mirror, flow_properties, unique_alias

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]


def test_deleted_records_and_topics_made_anew_stop_until_told_to_continue(
    source: LiveCluster, target: LiveCluster, tmp_path: Path
) -> None:
    trimmed, anew = source.create_topic(), source.create_topic()
    alias = unique_alias()
    topics = f"{trimmed}, {anew}"
    properties = flow_properties((alias, source.bootstrap), ("B", target.bootstrap), topics)
    mirror = Mirror(tmp_path, properties)

    def copied(topic: str) -> list[bytes | None]:
        remote = f"{alias}.{topic}"
        if not target.partition_count(remote):
            return []
        return [record.value for record in target.consume(remote)]

    with mirror:
        for topic in (trimmed, anew):
            source.produce(topic, [b"%d" % n for n in range(5)])
            eventually(lambda: len(copied(topic)) == 5, 60, mirror.tail)  # noqa: B023 - called at once

    source.produce(trimmed, [b"%d" % n for n in range(5, 10)])
    for deleted in source.admin.delete_records([TopicPartition(trimmed, 0, 8)]).values():
        deleted.result(timeout=30)
    source.admin.delete_topics([anew])[anew].result(timeout=30)
    eventually(lambda: not source.partition_count(anew))
    source.create_topic(name=anew)
    source.produce(anew, [b"new %d" % n for n in range(10)])

    with mirror:
        told = eventually(
            lambda: mirror.lines(f"{trimmed}-0 stopped", "source deleted"), 60, mirror.tail
        )
        assert "deleted offsets 5 to 7 (3) before they were copied" in told[0]
        assert mirror.lines(f"{anew}-0 stopped", "made anew")
    assert len(copied(trimmed)) == len(copied(anew)) == 5

    mirror.write({**properties, "on.loss": "continue"})
    with mirror:
        eventually(lambda: copied(trimmed)[5:] == [b"8", b"9"], 60, mirror.tail)
        eventually(lambda: len(copied(anew)) == 15, 60, mirror.tail)
        assert mirror.lines(f"{trimmed}-0 LOSS", "goes on at 8")
    assert copied(anew)[5:] == [b"new %d" % n for n in range(10)]
