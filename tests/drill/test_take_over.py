"""A real MirrorMaker 2 is replaced under load, stopped or killed, and takes its flow back: each record once."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from heliograph.model import TopicPartition
from heliograph.wire.connect_records import decode_source_key
from heliograph.wire.mirror_records import decode_checkpoint
from lab.clusters import LiveCluster, Outgoing, eventually, unique_name
from lab.load import SteadyLoad, account
from lab.mirrors import Mirror, flow_properties, unique_alias
from lab.peer import Peer, start_peer
from tests.contract.brokers import commit
from tests.spark.test_workers import OwnWorker, connector
from tests.workers import open_real_connect, wait_until_it_answers, worker_properties

pytestmark = [
    pytest.mark.spark,
    pytest.mark.peer,
    pytest.mark.long,
    pytest.mark.timeout(400),
]

PARTITIONS = 4
CLEAN = {"lost": 0, "repeated": 0, "out of order": 0}
ONCE = {
    "config.storage.replication.factor": "1",
    "status.storage.replication.factor": "1",
    "emit.checkpoints.interval.seconds": "1",
    "refresh.groups.interval.seconds": "1",
}


class Scene:
    """A topic under load, and one properties file for whoever mirrors it."""

    def __init__(self, source: LiveCluster, target: LiveCluster, folder: Path) -> None:
        self.source, self.target, self.folder = source, target, folder
        self.topic = source.create_topic(PARTITIONS)
        self.alias, self.to = unique_alias(), unique_alias("B")
        self.remote = f"{self.alias}.{self.topic}"
        self.properties = {
            **flow_properties(
                (self.alias, source.bootstrap), (self.to, target.bootstrap), self.topic
            ),
            **ONCE,
            "tasks.max": "2",
        }
        self.mirror = Mirror(folder / "heliograph", self.properties)
        self.peers: list[Peer] = []

    def start_peer(self, extra: Mapping[str, str] | None = None) -> Peer:
        folder = self.folder / f"mm2-{len(self.peers)}"
        peer = start_peer(folder, {**self.properties, **(extra or {})}, heap="512m")
        self.peers.append(peer)
        return peer

    def copied(self) -> int:
        return sum(self.target.end_offsets(self.remote))

    def wait_for_progress(self, records: int, by: Mirror | Peer) -> None:
        before = self.copied()
        tail = by.tail if isinstance(by, Mirror) else by.last_lines
        eventually(lambda: self.copied() > before + records, within=90, describe=tail)

    def wait_for_all(self, produced: int, by: Mirror | Peer) -> None:
        tail = by.tail if isinstance(by, Mirror) else by.last_lines
        eventually(lambda: self.count() >= produced, within=90, describe=tail)

    def count(self) -> int:
        if self.copied() == 0:
            return 0
        return len(self.target.consume(self.remote))

    def account(self, produced: int) -> dict[str, int]:
        return account(self.target, self.remote, produced, PARTITIONS)

    def end(self) -> None:
        if self.mirror.is_alive:
            self.mirror.kill()
        for peer in self.peers:
            peer.stop()


@pytest.fixture
def scene(source: LiveCluster, target: LiveCluster, tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(source, target, tmp_path)
    try:
        yield scene
    finally:
        scene.end()


def test_a_stopped_mirrormaker_hands_over_and_takes_back(scene: Scene) -> None:
    group = unique_name()
    with SteadyLoad(scene.source, scene.topic, PARTITIONS) as load:
        peer = scene.start_peer()
        scene.wait_for_progress(5000, peer)
        peer.stop()
        with scene.mirror as mirror:
            scene.wait_for_progress(10_000, mirror)
            assert mirror.lines("takes over from MirrorMaker 2")
            # A group of the source is looked after from here on, exactly.
            end = scene.source.end_offsets(scene.topic)[0]
            commit(scene.source, group, scene.topic, {0: end - 100})
            expected = value_at(scene.source, scene.topic, end - 100)

            def is_exact() -> bool:
                # While the copy is behind the group, its place is the end of the copy.
                place = checkpoint_of(scene, group)
                return place is not None and value_at(scene.target, scene.remote, place) == expected

            eventually(is_exact, 60, mirror.tail)
        peer = scene.start_peer()
        scene.wait_for_progress(10_000, peer)
        produced = load.stop()
        scene.wait_for_all(produced, peer)
    assert scene.account(produced) == CLEAN


@pytest.mark.parametrize("saves", [True, False], ids=["between two saves", "before its first save"])
def test_a_killed_mirrormaker_is_replaced_at_the_very_next_record(
    scene: Scene, *, saves: bool
) -> None:
    flush = {f"{scene.to}.offset.flush.interval.ms": "3000" if saves else "600000"}
    with SteadyLoad(scene.source, scene.topic, PARTITIONS) as load:
        peer = scene.start_peer(flush)
        scene.wait_for_progress(5000, peer)
        if saves:
            eventually(lambda: saved_positions(scene), 60, peer.last_lines)
            scene.wait_for_progress(3000, peer)
        else:
            assert not saved_positions(scene)
        peer.kill()
        with scene.mirror as mirror:
            scene.wait_for_progress(10_000, mirror)
            assert mirror.lines("takes over from MirrorMaker 2")
        # And the other way: it goes on from positions that are ours, and is killed again.
        peer = scene.start_peer(flush)
        scene.wait_for_progress(16_000, peer)
        peer.kill()
        with scene.mirror as mirror:
            scene.wait_for_progress(10_000, mirror)
            produced = load.stop()
            scene.wait_for_all(produced, mirror)
    assert scene.account(produced) == CLEAN
    assert not mirror.lines("somebody else writes")


def test_a_mirrormaker_that_still_runs_is_waited_for(scene: Scene) -> None:
    with SteadyLoad(scene.source, scene.topic, PARTITIONS) as load:
        peer = scene.start_peer()
        scene.wait_for_progress(5000, peer)
        with scene.mirror as mirror:
            eventually(lambda: mirror.lines("still runs MirrorSourceConnector"), 60, mirror.tail)
            scene.wait_for_progress(5000, peer)
            peer.stop()
            eventually(lambda: mirror.lines("takes over from MirrorMaker 2"), 60, mirror.tail)
            scene.wait_for_progress(5000, mirror)
            produced = load.stop()
            scene.wait_for_all(produced, mirror)
    assert scene.account(produced) == CLEAN


@pytest.mark.parametrize("killed", [False, True], ids=["stopped", "killed"])
def test_a_connect_cluster_hands_over_and_takes_back(scene: Scene, *, killed: bool) -> None:
    target, name = scene.target, unique_name()
    properties = worker_properties(target, extra={"offset.flush.interval.ms": "3000"})
    raw = "org.apache.kafka.connect.converters.ByteArrayConverter"
    config = connector("Source", scene.alias, scene.source, target, scene.topic) | {
        "key.converter": raw,
        "value.converter": raw,
    }
    with SteadyLoad(scene.source, scene.topic, PARTITIONS) as load:
        with open_real_connect(scene.folder / "connect", properties) as connect:
            wait_until_it_answers(connect)
            connect.ask(f"/connectors/{name}/config", "PUT", config)
            scene.wait_for_progress(16_000, connect.peer)
            if killed:
                connect.peer.kill()
        with OwnWorker(scene.folder / "worker", properties) as worker:
            scene.wait_for_progress(10_000, worker)
            assert worker.lines("takes over from MirrorMaker 2")
        with open_real_connect(scene.folder / "back", properties) as connect:
            scene.wait_for_progress(10_000, connect.peer)
            produced = load.stop()
            scene.wait_for_all(produced, connect.peer)
    assert scene.account(produced) == CLEAN


def test_a_file_that_does_not_match_copies_nothing_and_says_why(scene: Scene) -> None:
    def write(first: int, count: int = 400) -> None:
        numbers = range(first, first + count)
        scene.source.produce(
            scene.topic, [Outgoing(b"%012d" % n, partition=n % PARTITIONS) for n in numbers]
        )

    write(0)
    peer = scene.start_peer()
    scene.wait_for_all(400, peer)
    peer.stop()
    write(400)
    wrong_alias = unique_alias("X")
    text = {key: value.replace(scene.alias, wrong_alias) for key, value in scene.properties.items()}
    renamed = {key.replace(scene.alias, wrong_alias): value for key, value in text.items()}
    with Mirror(scene.folder / "alias", renamed) as mirror:
        told = eventually(
            lambda: mirror.lines(f"{scene.topic}-0 stopped", f"as {scene.alias}"), 60, mirror.tail
        )
        assert "set on.loss=continue" in told[0]
        eventually(lambda: mirror.lines("copies topics=1"), 30, mirror.tail)
    assert target_count(scene, f"{wrong_alias}.{scene.topic}") == 0

    syncs = f"mm2-offset-syncs.{scene.to}.internal"
    scene.source.admin.delete_topics([syncs])[syncs].result(timeout=30)
    elsewhere = {**scene.properties, f"{scene.to}.offset.storage.topic": unique_name()}
    with Mirror(scene.folder / "offsets", elsewhere) as mirror:
        told = eventually(
            lambda: mirror.lines(f"{scene.topic}-0 stopped", "holds 100 records"), 60, mirror.tail
        )
        assert "copying it would repeat what is there" in told[0]
    assert scene.count() == 400

    with scene.mirror as mirror:
        scene.wait_for_all(800, mirror)
        assert mirror.lines("up to 100 records may be repeated", "no offset sync")
    assert scene.account(800) == CLEAN


def target_count(scene: Scene, topic: str) -> int:
    return len(scene.target.consume(topic)) if scene.target.partition_count(topic) else 0


def saved_positions(scene: Scene) -> set[TopicPartition]:
    """Return the partitions of which MirrorMaker 2 has saved a position."""
    rows = scene.target.consume(f"mm2-offsets.{scene.alias}.internal")
    keys = [decode_source_key(row.key) for row in rows]
    return {key.partition for key in keys if key is not None}


def checkpoint_of(scene: Scene, group: str) -> int | None:
    """Return where the newest checkpoint of partition 0 puts a group."""
    topic = f"{scene.alias}.checkpoints.internal"
    if not scene.target.partition_count(topic):
        return None
    written = [decode_checkpoint(row.key, row.value) for row in scene.target.consume(topic)]
    return next((c.downstream for c in reversed(written) if c.group == group), None)


def value_at(live: LiveCluster, topic: str, offset: int) -> bytes | None:
    """Return the first record of partition 0 at or after an offset."""
    found = (r.value for r in live.consume(topic) if r.partition == 0 and r.offset >= offset)
    return next(found, None)
