"""What either side lost is told, and nobody goes on silently."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from heliograph.client import MirrorClient, translate_offsets
from heliograph.client import TopicPartition as Partition
from lab.clusters import LiveCluster, eventually
from lab.mirrors import Mirror, flow_properties, unique_alias
from lab.places import Places, read_places
from tests.contract.brokers import commit

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

STARTING = 90  # Spark takes its time to start on a busy machine


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


MADE_ANEW = "was deleted on the target and made anew; it lacks all before upstream offset 50"


@dataclass
class Remotes:
    """A mirror of topics with 50 records each, whose copies are deleted, and two groups on each."""

    source: LiveCluster
    target: LiveCluster
    alias: str
    mirror: Mirror

    def remote(self, topic: str) -> str:
        return f"{self.alias}.{topic}"

    def write(self, topic: str, count: int = 30) -> None:
        self.source.produce(topic, [b"%d" % n for n in range(count)])

    def commit(self, group: str, topic: str, position: int) -> None:
        commit(self.source, f"{self.alias}-{group}", topic, {0: position})

    def delete(self, topic: str) -> None:
        remote = self.remote(topic)
        self.target.admin.delete_topics([remote])[remote].result(timeout=30)

    def await_copy(self, topic: str, copied_from: int = 0) -> Places:
        """Return when the remote topic holds what was written from there on, once and no more."""
        (places,) = eventually(
            lambda: read_places(self.source, topic, self.target, self.remote(topic), copied_from),
            STARTING,
            self.mirror.tail,
        )
        return places

    def await_stop(self, topic: str) -> None:
        told = eventually(
            lambda: self.mirror.lines(f"{topic}-0 stopped", "on.loss"), STARTING, self.mirror.tail
        )
        assert f"{self.remote(topic)} {MADE_ANEW}" in told[-1]
        assert "set on.loss=continue to go on at upstream offset 50" in told[-1]
        eventually(lambda: self.target.partition_count(self.remote(topic)) == 1)

    def place(self, group: str, topic: str) -> int:
        told = translate_offsets(self.target.bootstrap, self.alias, f"{self.alias}-{group}")
        found = told.get(Partition(self.remote(topic), 0))
        return -1 if found is None else found.offset

    def check_translation(self, topic: str, places: Places) -> None:
        """Both groups and all positions of a topic lead to where the new remote topic has their records."""
        with MirrorClient(self.target.bootstrap) as client:

            def wrong() -> list[str]:
                runs = client.run_maps(self.alias).get(Partition(topic, 0))
                return ["no runs"] if runs is None else places.wrong(runs)

            eventually(lambda: not wrong(), 30, wrong)
        for group, position in (("before", 20), ("after", 60)):
            eventually(
                lambda: places.are_the_same(position, self.place(group, topic)),  # noqa: B023 - called at once
                30,
                lambda: f"{group} is at {self.place(group, topic)}",  # noqa: B023
            )


def test_a_deleted_remote_topic_is_told_and_begins_anew_only_if_asked_to(
    source: LiveCluster, target: LiveCluster, tmp_path: Path
) -> None:
    running, stopped, later, kept = topics = [source.create_topic() for _ in range(4)]
    alias = unique_alias()
    names = ", ".join(topics)
    properties = {
        **flow_properties((alias, source.bootstrap), ("B", target.bootstrap), names),
        "emit.checkpoints.interval.seconds": "1",
        "refresh.groups.interval.seconds": "1",
        "groups": f"{alias}-.*",
    }
    mirror = Mirror(tmp_path, properties)
    rig = Remotes(source, target, alias, mirror)
    for topic in topics:
        rig.write(topic, 50)
        rig.commit("before", topic, 20)
    with mirror:
        for topic in topics:
            rig.await_copy(topic)
            eventually(lambda: rig.place("before", topic) > 0, STARTING)  # noqa: B023 - called at once
        rig.delete(running)
        rig.await_stop(running)
        rig.write(running)  # the old reader may still take these, and the old writer store them
        rig.write(kept)
        rig.await_copy(kept)
    rig.delete(stopped)
    rig.write(stopped)

    with mirror:
        rig.await_stop(stopped)
        rig.write(kept)
        rig.await_copy(kept)
        assert len(mirror.lines(f"{running}-0 stopped", MADE_ANEW)) == 2
        assert target.consume(rig.remote(stopped)) == []

    mirror.write({**properties, "on.loss": "continue"})
    with mirror:
        anew = {topic: rig.await_copy(topic, copied_from=50) for topic in (running, stopped)}
        rig.delete(later)
        rig.write(later)  # the writer has these in hand when the new topic comes
        anew[later] = rig.await_copy(later, copied_from=50)
        for topic, places in anew.items():
            assert mirror.lines(f"{topic}-0 LOSS", MADE_ANEW, "goes on at 50")
            rig.commit("after", topic, 60)
            rig.check_translation(topic, places)
        rig.write(kept)
        rig.await_copy(kept)
        for topic in anew:
            rig.await_copy(topic, copied_from=50)
