"""A crash, and then records leave either side before the restart: what was copied is found all the same."""

import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition as RdPartition
from confluent_kafka.admin import ResourceType

from heliograph.client import MirrorClient
from heliograph.client import TopicPartition as Partition
from lab.clusters import LiveCluster, Outgoing, eventually
from lab.compacted import alter_config
from lab.mirrors import Mirror, flow_properties, unique_alias
from lab.processes import freeze, send_to_all, tree, workers

pytestmark = [pytest.mark.fault, pytest.mark.timeout(600)]

# Nothing is saved after the start, so all that is copied is tail.
_UNSAVED = {"B.offset.flush.interval.ms": "3600000", "emit.checkpoints.interval.seconds": "3600"}
_STRANGERS = "are not those of the source"


class Scene:
    """A topic, and a mirror of it that saves nothing while it runs."""

    def __init__(self, source: LiveCluster, target: LiveCluster, folder: Path) -> None:
        self.source, self.target = source, target
        self.alias = unique_alias()
        self.folder = folder
        self.topic = ""
        self.mirror: Mirror | None = None

    def open(self, config: dict[str, str] | None = None, **extra: str) -> Mirror:
        self.topic = self.source.create_topic(config=config)
        properties = flow_properties(
            (self.alias, self.source.bootstrap), ("B", self.target.bootstrap), self.topic
        )
        settings = {key.replace("_", "."): value for key, value in extra.items()}
        self.mirror = Mirror(self.folder, {**properties, **_UNSAVED, **settings})
        return self.mirror

    @property
    def remote(self) -> str:
        return f"{self.alias}.{self.topic}"

    def values(self) -> list[bytes | None]:
        return [record.value for record in self.target.consume(self.remote)]

    def await_end(self, records: int) -> None:
        assert self.mirror is not None
        tail = self.mirror.tail
        eventually(lambda: sum(self.target.end_offsets(self.remote)) >= records, 120, tail)

    def crash(self) -> None:
        assert self.mirror is not None
        send_to_all(tree(self.mirror.pid), signal.SIGKILL)
        self.mirror.wait()

    def delete(self, before: int) -> None:
        cut = RdPartition(self.topic, 0, before)
        for deleted in self.source.admin.delete_records([cut]).values():
            deleted.result(timeout=30)


@pytest.fixture
def scene(source: LiveCluster, target: LiveCluster, tmp_path: Path) -> Iterator[Scene]:
    made = Scene(source, target, tmp_path / "mirror")
    yield made
    if made.mirror is not None and made.mirror.is_alive:
        made.crash()


def test_a_tail_that_was_compacted_is_not_copied_again(scene: Scene) -> None:
    compacting = {"min.compaction.lag.ms": "0", "max.compaction.lag.ms": "1000"}
    config = {
        "cleanup.policy": "compact",
        "segment.bytes": str(1 << 20),
        "min.cleanable.dirty.ratio": "0.01",
        "min.compaction.lag.ms": str(3_600_000),
    }
    mirror = scene.open(config)
    count, keys = 6000, 500
    scene.source.produce(
        scene.topic,
        [Outgoing(b"%06d" % n + bytes(1000), key=b"%d" % (n % keys)) for n in range(count)],
    )
    mirror.start()
    scene.await_end(count)
    scene.crash()
    for cluster, topic in ((scene.source, scene.topic), (scene.target, scene.remote)):
        alter_config(cluster, ResourceType.BROKER, "1", {"log.cleaner.backoff.ms": "200"})
        alter_config(cluster, ResourceType.TOPIC, topic, compacting)
    eventually(lambda: len(scene.values()) < count / 2, 120)
    eventually(lambda: len(scene.source.consume(scene.topic)) < count / 2, 120)
    left = len(scene.values())

    with mirror:
        scene.source.produce(scene.topic, [Outgoing(b"new %d" % n, key=b"new") for n in range(10)])
        eventually(lambda: scene.values()[-1:] == [b"new 9"], 120, mirror.tail)
        repeated = [v for v, n in Counter(scene.values()).items() if n > 1]
        assert repeated == []
        assert len(scene.values()) <= left + 10
        assert mirror.lines(_STRANGERS) == []
        assert mirror.lines("LOSS") == []


@pytest.mark.parametrize("on_loss", ["stop", "continue"])
def test_a_source_that_deleted_what_was_copied_lost_nothing(scene: Scene, on_loss: str) -> None:
    mirror = scene.open(on_loss=on_loss)
    scene.source.produce(scene.topic, [b"%d" % n for n in range(1000)])
    mirror.start()
    scene.await_end(1000)
    scene.crash()
    scene.delete(700)

    with mirror:
        scene.source.produce(scene.topic, [b"%d" % n for n in range(1000, 1010)])
        eventually(lambda: len(scene.values()) >= 1010, 120, mirror.tail)
        assert scene.values() == [b"%d" % n for n in range(1010)]
        assert mirror.lines("LOSS") == []
        assert mirror.lines("stopped at") == []
        mirror.stop()
    with MirrorClient(scene.target.bootstrap) as client:
        runs = client.run_maps(scene.alias)[Partition(scene.topic, 0)]
    for number, record in enumerate(scene.target.consume(scene.remote)):
        place = runs.downstream_of(number)
        if number < 700:
            assert place is None or place == record.offset, (
                "no group skips what only the target has"
            )
        else:
            assert place == record.offset


def test_a_source_that_deleted_more_lost_just_what_was_not_copied(scene: Scene) -> None:
    mirror = scene.open(on_loss="continue")
    scene.source.produce(scene.topic, [b"%d" % n for n in range(1000)])
    mirror.start()
    scene.await_end(1000)
    scene.crash()
    scene.source.produce(scene.topic, [b"%d" % n for n in range(1000, 1100)])
    scene.delete(1050)

    with mirror:
        eventually(lambda: len(scene.values()) >= 1050, 120, mirror.tail)
        assert scene.values() == [b"%d" % n for n in (*range(1000), *range(1050, 1100))]
        (told,) = mirror.lines("LOSS")
        assert "deleted offsets 1000 to 1049 (50)" in told


def test_a_loss_while_the_target_is_away_and_a_crash_do_not_wedge_a_partition(
    scene: Scene,
) -> None:
    mirror = scene.open(on_loss="continue")
    scene.source.produce(scene.topic, [b"%d" % n for n in range(100)])
    broker = list(scene.target.cluster.pids.values())
    with mirror:
        scene.await_end(100)
        freeze(broker)
        try:
            scene.source.produce(scene.topic, [b"%d" % n for n in range(100, 200)])
            scene.delete(150)
            send_to_all(workers(mirror.pid), signal.SIGKILL)
        finally:
            send_to_all(broker, signal.SIGCONT)
        scene.source.produce(scene.topic, [b"%d" % n for n in range(200, 300)])
        eventually(lambda: b"299" in scene.values(), 120, mirror.tail)
        values = [int(value or b"") for value in scene.values()]
        assert values == sorted(set(values)), "nothing is repeated, and all is in order"
        assert {*range(100), *range(150, 300)} <= set(values)


def test_positions_before_a_crash_are_translated_after_it(scene: Scene) -> None:
    """What lies behind the last saved run is found from the tail; no position of it leads too far."""
    mirror = scene.open()
    scene.source.produce(
        scene.topic, [b"%d" % n for n in range(300)], linger_ms=0, batch_num_messages=3
    )
    mirror.start()
    scene.await_end(300)
    scene.crash()

    mirror.start()
    with MirrorClient(scene.target.bootstrap) as client:
        scene.source.produce(scene.topic, [b"%d" % n for n in range(300, 310)])
        scene.await_end(311)
        mirror.stop()
        runs = client.run_maps(scene.alias)[Partition(scene.topic, 0)]
        records = scene.target.consume(scene.remote)
        assert [runs.downstream_of(n) for n in range(310)] == [r.offset for r in records]
