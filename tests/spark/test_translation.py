"""Every position of a topic has its place on the target, whatever happened to the mirror and to the records."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event, Thread

import pytest

from heliograph.client import MirrorClient, TopicPartition
from lab.clusters import LiveCluster, eventually, unique_name
from lab.compacted import create_compacted
from lab.mirrors import Mirror, flow_properties, unique_alias
from lab.places import Places, read_places
from tests.contract.brokers import commit, in_transactions

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

STARTING = 90


@dataclass
class Rig:
    """A mirror of some topics, and groups all over them: name to (topic, partition, position)."""

    source: LiveCluster
    target: LiveCluster
    alias: str
    mirror: Mirror
    topics: tuple[str, ...]
    groups: dict[str, tuple[str, int, int]] = field(default_factory=dict)

    def remote(self, topic: str) -> str:
        return f"{self.alias}.{topic}"

    def commit(self, topic: str, partition: int, *positions: int) -> None:
        for position in positions:
            group = f"{self.alias}-{len(self.groups)}"
            commit(self.source, group, topic, {partition: position})
            self.groups[group] = topic, partition, position

    def check(self) -> None:
        """Wait until all is copied and told; then no position of any topic and no group may be wrong."""
        places = {topic: self._await_copy(topic) for topic in self.topics}
        with MirrorClient(self.target.bootstrap) as client:

            def wrong() -> list[str]:
                return [
                    *_wrong_runs(client, self.alias, places),
                    *self._wrong_groups(client, places),
                ]

            eventually(lambda: not wrong(), STARTING, wrong)

    def _await_copy(self, topic: str) -> list[Places]:
        return eventually(
            lambda: read_places(self.source, topic, self.target, self.remote(topic)),
            STARTING,
            lambda: f"{topic} is not copied\n{self.mirror.tail()}",
        )

    def _wrong_groups(self, client: MirrorClient, places: dict[str, list[Places]]) -> Iterator[str]:
        told = client.remote_groups(self.alias) if self.groups else {}
        for group, (topic, index, position) in self.groups.items():
            at = told.get(group, {}).get(TopicPartition(self.remote(topic), index))
            if at is None or not places[topic][index].are_the_same(position, at.offset):
                yield f"{group} at {topic}-{index} {position} became {at}"


def _wrong_runs(client: MirrorClient, alias: str, places: dict[str, list[Places]]) -> Iterator[str]:
    maps = client.run_maps(alias)
    for topic, partitions in places.items():
        for index, its in enumerate(partitions):
            runs = maps.get(TopicPartition(topic, index))
            yield from ["no runs"] if runs is None else its.wrong(runs)


@pytest.fixture(scope="module")
def rig(source: LiveCluster, target: LiveCluster, tmp_path_factory: pytest.TempPathFactory) -> Rig:
    alias = unique_alias()
    compacted = create_compacted(source, f"translation.{unique_name()}")
    mixed = source.create_topic(name=f"translation.{unique_name()}")
    properties = flow_properties(
        (alias, source.bootstrap), ("B", target.bootstrap), f"{mixed}, {compacted}"
    )
    properties |= {
        "emit.checkpoints.interval.seconds": "1",
        "refresh.groups.interval.seconds": "1",
        "groups": f"{alias}.*",
    }
    mirror = Mirror(tmp_path_factory.mktemp("mirror"), properties)
    return Rig(source, target, alias, mirror, (mixed, compacted))


@contextmanager
def load(cluster: LiveCluster, topic: str) -> Iterator[None]:
    """Write many small batches, and transactions of which some are aborted, until after the block."""
    ended = Event()

    def write(turn: Callable[[], object]) -> None:
        left = 2  # some come when nobody copies any more
        while left:
            turn()
            left -= ended.is_set()

    def plain() -> None:
        records = [b"%d" % number for number in range(50)]
        cluster.produce(topic, records, linger_ms=0, batch_num_messages=2)

    def transactions() -> None:
        in_transactions(cluster, topic, ["drop", "keep"])

    writers = [Thread(target=write, args=[turn]) for turn in (plain, transactions)]
    for writer in writers:
        writer.start()
    try:
        yield
    finally:
        ended.set()
        for writer in writers:
            writer.join()


def test_every_position_is_exact_after_stops_and_crashes(rig: Rig) -> None:
    mixed, compacted = rig.topics
    source, mirror = rig.source, rig.mirror
    source.produce(mixed, [b"%d" % n for n in range(500)])
    in_transactions(source, mixed, ["keep", "drop", "drop", "keep", "drop"] * 4)
    end = source.end_offsets(mixed)[0]
    rig.commit(mixed, 0, 0, 1, 499, 505, 515, 640, end - 1, end)
    for index, its_end in enumerate(source.end_offsets(compacted)):
        rig.commit(compacted, index, 0, its_end // 3, its_end // 2, its_end)

    with mirror:
        rig.check()
        for end_it in (mirror.kill, mirror.stop, mirror.kill):
            with load(source, mixed):
                copying(rig)
                end_it()
            mirror.start()
            rig.commit(mixed, 0, source.end_offsets(mixed)[0])
            rig.check()
        mirror.stop()
        # Nobody wrote meanwhile: after the last record there is only what the mirror itself leaves.
        mirror.start()
        rig.check()


def copying(rig: Rig, records: int = 200) -> None:
    """Return when a running mirror has just copied that many more records."""
    remote = rig.remote(rig.topics[0])
    wanted = rig.target.end_offsets(remote)[0] + records
    eventually(lambda: rig.target.end_offsets(remote)[0] > wanted, STARTING, rig.mirror.tail)
