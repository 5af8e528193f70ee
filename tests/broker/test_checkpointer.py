"""Checkpoints and group sync on real brokers, with run maps made by hand in place of Spark."""

import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import ResourceType

from heliograph.config.flow import FlowConfig
from heliograph.config.mirror import load_mirror
from heliograph.errors import KafkaFault
from heliograph.flows.checkpoint import Checkpointer
from heliograph.flows.group_sync import GroupSync
from heliograph.groups.admin import Committed, commit_offsets, fetch_committed
from heliograph.kafka.cluster import Cluster
from heliograph.model import Position, TopicPartition
from heliograph.saved.run_reader import RunReader
from heliograph.saved.runs import RunStore
from heliograph.tables.append import Appender
from heliograph.tables.table import Table, read_rows
from heliograph.wire.mirror_records import (
    Checkpoint,
    OffsetSync,
    decode_checkpoint,
    encode_checkpoint,
    encode_offset_sync,
)
from heliograph.wire.run_records import encode_segment_key
from lab.clusters import LiveCluster, eventually
from lab.mirrors import flow_properties, unique_alias
from tests.guarded import GuardedCluster

pytestmark = pytest.mark.broker


@dataclass
class Desk:
    """One flow's groups between two clusters; every topic and group is this test's own."""

    config: FlowConfig
    runs: RunStore
    checkpointer: Checkpointer
    group_sync: GroupSync
    source: Cluster
    target: Cluster
    prefix: str

    def partition(self, topic: str = "t", index: int = 0) -> TopicPartition:
        return TopicPartition(f"{self.prefix}.{topic}", index)

    def remote(self, topic: str = "t", index: int = 0) -> TopicPartition:
        alias = self.config.flow.source
        return TopicPartition(f"{alias}.{self.prefix}.{topic}", index)

    def group(self, name: str = "g") -> str:
        return f"{self.prefix}-{name}"

    def commit(self, offset: int, name: str = "g", topic: str = "t", metadata: str = "") -> None:
        offsets = {self.partition(topic): Committed(offset, metadata)}
        assert commit_offsets(self.source, self.group(name), offsets) == {}

    def on_target(self, name: str = "g") -> Mapping[TopicPartition, Committed]:
        return fetch_committed(self.target, [self.group(name)])[0][self.group(name)]

    def emit(self) -> list[str]:
        """Look for groups and write their checkpoints, as a schedule would; return what went wrong."""
        self.runs.save()
        return [*self.checkpointer.refresh_groups(), *self.checkpointer.emit()]

    def written(self) -> list[tuple[str, int, int]]:
        """Return what is in the checkpoints topic: (group, upstream, downstream)."""
        rows = read_rows(self.target, f"{self.config.flow.source}.checkpoints.internal")
        found = [decode_checkpoint(key, value) for key, value in rows]
        return [(c.group.removeprefix(self.prefix)[1:], c.upstream, c.downstream) for c in found]


@contextmanager
def sit_down(
    source: LiveCluster, target: LiveCluster, folder: Path, prefix: str, **extra: str
) -> Iterator[Desk]:
    alias = extra.pop("alias", None) or unique_alias()
    properties = flow_properties(
        (alias, source.bootstrap),
        ("B", target.bootstrap),
        rf"{prefix}\\..*",
        **{"sync_group_offsets_enabled": "true", "groups": f"{prefix}.*", **extra},
    )
    file = folder / "mm2.properties"
    file.write_text("".join(f"{key} = {value}\n" for key, value in properties.items()))
    config = load_mirror(file, {}).flows[0]
    here, there = Cluster(config.source_admin), Cluster(config.target_admin)
    with closing(here), closing(there):
        runs = RunStore(there, f"mm2-runs.{alias}.internal", 1)
        runs.load()
        with closing(Checkpointer(config, here, there)) as checkpointer:
            sync = GroupSync(config, checkpointer, there)
            yield Desk(config, runs, checkpointer, sync, here, there, prefix)


@pytest.fixture
def desk(source: LiveCluster, target: LiveCluster, tmp_path: Path) -> Iterator[Desk]:
    prefix = f"c{uuid.uuid4().hex[:8]}"
    for name in (f"{prefix}.t", f"{prefix}.u"):
        source.create_topic(name=name)
    with sit_down(source, target, tmp_path, prefix) as sat:
        target.create_topic(name=sat.remote().topic)
        yield sat


def test_a_checkpoint_has_the_exact_place_and_the_groups_metadata(desk: Desk) -> None:
    desk.runs.add(desk.partition(), [(0, 1, 100), (110, 101, 50)])
    desk.commit(42, metadata="half way")
    desk.commit(105, "in-a-gap")
    desk.commit(160, "at-the-end")
    assert desk.emit() == []
    assert sorted(desk.written()) == [
        ("at-the-end", 160, 151),
        ("g", 42, 43),
        ("in-a-gap", 105, 101),
    ]
    last = desk.checkpointer.last[desk.group()]
    assert last == {
        desk.remote(): Checkpoint(desk.group(), desk.remote(), 42, 43, "half way"),
    }


def test_only_what_goes_on_is_written_again_and_a_rewound_group(desk: Desk) -> None:
    desk.runs.add(desk.partition(), [(0, 0, 100)])
    for offset in (10, 10, 60, 5, 5, 7):
        desk.commit(offset)
        desk.emit()
    assert [upstream for _, upstream, _ in desk.written()] == [10, 60, 5, 7]


def test_a_group_ahead_of_the_mirror_is_told_where_the_mirror_ends(desk: Desk) -> None:
    desk.commit(80)
    desk.runs.add(desk.partition(), [(0, 0, 50)])
    desk.emit()
    desk.runs.add(desk.partition(), [(50, 50, 100)])
    desk.emit()
    assert desk.written() == [("g", 80, 50), ("g", 80, 80)]


def test_nothing_is_said_of_partitions_of_which_nothing_was_copied(desk: Desk) -> None:
    desk.commit(0)
    desk.commit(7, topic="u")
    desk.runs.add(desk.partition("u"), [(0, 0, 10)])
    desk.emit()
    assert desk.written() == [("g", 7, 7)]


def test_a_restart_goes_on_from_what_is_in_the_topic(
    desk: Desk, source: LiveCluster, target: LiveCluster, tmp_path: Path
) -> None:
    desk.runs.add(desk.partition(), [(0, 0, 100)])
    desk.commit(60)
    desk.emit()
    # The runs were not saved: a worse translation than before is not written over the better one.
    alias = desk.config.flow.source
    with sit_down(source, target, tmp_path, desk.prefix, alias=alias) as again:
        again.runs.add(again.partition(), [(0, 0, 40)])
        again.emit()
        assert again.written() == [("g", 60, 60)]
        again.runs.add(again.partition(), [(40, 40, 100)])
        again.commit(90)
        again.emit()
        assert again.written() == [("g", 60, 60), ("g", 90, 90)]


def test_runs_survive_a_restart_and_are_read_as_they_are_written(
    desk: Desk, source: LiveCluster, target: LiveCluster, tmp_path: Path
) -> None:
    alias = desk.config.flow.source
    reader = RunReader(desk.target, f"mm2-runs.{alias}.internal")
    for n in range(2000):
        desk.runs.add(desk.partition(), [(n * 11, n * 10, 10)])
        if n % 700 == 0:
            desk.runs.save()
            assert list(reader.refresh()) == []
            assert reader.end(desk.partition()) == n * 11 + 10
    desk.runs.save()
    with sit_down(source, target, tmp_path, desk.prefix, alias=alias) as again:
        again.runs.prune({again.partition(): 1600 * 11})
        again.runs.add(again.partition(), [(2000 * 11, 2000 * 10, 10)])
        again.runs.save()
        fresh = RunReader(again.target, f"mm2-runs.{alias}.internal")
        for following in (reader, fresh):
            following.refresh()
            for n in (1600, 1999, 2000):
                assert following.downstream_of(again.partition(), n * 11 + 5) == n * 10 + 5
            assert following.downstream_of(again.partition(), 0) is None


def test_foreign_bytes_in_the_runs_topic_are_told_and_mended(
    desk: Desk, source: LiveCluster, target: LiveCluster, tmp_path: Path
) -> None:
    alias = desk.config.flow.source
    topic = f"mm2-runs.{alias}.internal"
    desk.runs.add(desk.partition(), [(0, 0, 100)])
    desk.runs.add(desk.partition("u"), [(0, 0, 100)])
    desk.commit(40)
    desk.commit(50, "other", topic="u")
    desk.runs.save()
    broken = encode_segment_key(desk.partition(), 200), b"what is this"
    Appender(desk.target, topic).append({0: [broken, (b"no key", b"of ours")]})
    (told,) = desk.emit()
    assert str(desk.partition()) in told
    assert desk.written() == [("other", 50, 50)]
    with sit_down(source, target, tmp_path, desk.prefix, alias=alias) as again:
        again.runs.mend(again.partition(), Position(300, 290))
        again.runs.add(again.partition(), [(300, 290, 10)])
        again.commit(305)
        assert again.emit() == []
        assert again.written() == [("other", 50, 50), ("g", 305, 295)]


def test_what_a_mirrormaker_copied_before_is_translated_from_its_offset_syncs(desk: Desk) -> None:
    topic = "mm2-offset-syncs.B.internal"
    Table(desk.source, topic).ensure(1, 1)
    syncs = [OffsetSync(desk.partition(), n, n + 5) for n in (0, 100, 200)]
    Appender(desk.source, topic).append({0: [encode_offset_sync(sync) for sync in syncs]})
    desk.runs.detach(desk.partition(), Position(250, 260))
    desk.runs.add(desk.partition(), [(250, 261, 50)])
    desk.commit(100, "at-a-sync")
    desk.commit(230, "past-a-sync")
    desk.commit(270, "ours")
    assert desk.emit() == []
    assert sorted(desk.written()) == [
        ("at-a-sync", 100, 105),
        ("ours", 270, 281),
        ("past-a-sync", 230, 206),
    ]


def test_a_remote_topic_made_anew_begins_anew(desk: Desk) -> None:
    desk.runs.add(desk.partition(), [(0, 0, 100)])
    desk.commit(60)
    desk.emit()
    desk.runs.clear(desk.partition())
    desk.runs.add(desk.partition(), [(50, 0, 50)])
    desk.emit()
    assert desk.written() == [("g", 60, 60), ("g", 60, 10)]


def test_foreign_bytes_in_the_checkpoints_topic_are_told_and_passed_over(desk: Desk) -> None:
    topic = f"{desk.config.flow.source}.checkpoints.internal"
    Table(desk.target, topic).ensure(1, 1)
    kept = Checkpoint(desk.group(), desk.remote(), 30, 30)
    Appender(desk.target, topic).append({0: [(b"what", b"ever"), encode_checkpoint(kept)]})
    desk.runs.add(desk.partition(), [(0, 0, 100)])
    desk.commit(30)
    (told,) = desk.emit()
    assert topic in told
    assert "1 records that are no checkpoints" in told
    assert desk.checkpointer.last == {desk.group(): {desk.remote(): kept}}
    desk.commit(31)
    desk.emit()
    assert desk.checkpointer.last[desk.group()][desk.remote()].downstream == 31


def test_an_absent_group_is_made_and_one_that_is_behind_is_moved(desk: Desk) -> None:
    desk.runs.add(desk.partition(), [(0, 0, 100)])
    desk.commit(40, metadata="note")
    desk.emit()
    assert list(desk.group_sync.sync()) == []
    assert desk.on_target() == {desk.remote(): Committed(40, "note")}
    desk.commit(60)
    desk.emit()
    desk.group_sync.sync()
    assert desk.on_target()[desk.remote()].offset == 60
    assert desk.group_sync.skipped == {}


def test_a_group_that_is_ahead_on_the_target_is_not_taken_back(desk: Desk) -> None:
    desk.runs.add(desk.partition(), [(0, 0, 100)])
    desk.commit(40)
    desk.emit()
    commit_offsets(desk.target, desk.group(), {desk.remote(): Committed(70, "")})
    desk.group_sync.sync()
    assert desk.on_target()[desk.remote()].offset == 70


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_in_use_on_the_target_is_left_alone_and_the_reason_kept(
    desk: Desk, target: LiveCluster, protocol: str
) -> None:
    topic = target.create_topic()
    desk.runs.add(desk.partition(), [(0, 0, 100)])
    desk.commit(40)
    desk.commit(50, "other")
    desk.emit()
    settings = target.client(group_id=desk.group(), **{"group.protocol": protocol})
    with closing(Consumer(settings)) as consumer:
        consumer.subscribe([topic])
        eventually(lambda: consumer.poll(0.1) is None and consumer.assignment(), 30)
        assert list(desk.group_sync.sync()) == []
        assert "in use on the target (state Stable)" in desk.group_sync.skipped[desk.group()]
        assert desk.on_target("other")[desk.remote()].offset == 50
    assert desk.remote() not in desk.on_target()


def test_a_forbidden_group_is_told_and_the_others_go_on(
    guarded: GuardedCluster, target: LiveCluster, tmp_path: Path
) -> None:
    guarded.create_topic(name="x.t")
    with sit_down(guarded, target, tmp_path, "x") as desk:
        desk.runs.add(desk.partition(), [(0, 0, 100)])
        desk.commit(10, "good")
        desk.commit(20, "bad")
        desk.emit()
        desk.commit(30, "good")
        guarded.deny(ResourceType.GROUP, desk.group("bad"))

        def told() -> list[str]:
            return list(desk.checkpointer.emit())

        (sentence,) = eventually(told)
        assert "1 groups cannot be read on the source (x-bad)" in sentence
        assert "may not use the group" in sentence
        assert ("good", 30, 30) in desk.written()


def test_a_checkpoints_topic_that_cannot_be_written_is_told_and_tried_again(
    source: LiveCluster, guarded: GuardedCluster, tmp_path: Path
) -> None:
    prefix = f"c{uuid.uuid4().hex[:8]}"
    source.create_topic(name=f"{prefix}.t")
    with sit_down(source, guarded, tmp_path, prefix, admin_timeout_ms="3000") as desk:
        desk.runs.add(desk.partition(), [(0, 0, 100)])
        desk.commit(10)
        desk.emit()
        topic = f"{desk.config.flow.source}.checkpoints.internal"
        guarded.deny(ResourceType.TOPIC, topic)
        desk.commit(20)
        with pytest.raises(KafkaFault, match="AUTHORIZATION"):
            desk.emit()
        assert desk.checkpointer.last[desk.group()][desk.remote()].downstream == 10


def test_a_thousand_groups_are_translated_within_one_interval(desk: Desk) -> None:
    desk.runs.add(desk.partition(), [(0, 0, 100_000)])
    desk.runs.save()
    for n in range(1000):
        desk.commit(n, f"{n:04}")
    desk.checkpointer.refresh_groups()
    started = time.monotonic()
    assert list(desk.checkpointer.emit()) == []
    took = time.monotonic() - started
    assert len(desk.written()) == 1000
    assert took < 60, "by then the next round is due; it takes a fraction of a second"
