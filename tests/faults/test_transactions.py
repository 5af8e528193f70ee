"""exactly.once.source.support=enabled: a remote topic with another writer, and kill -9 under load."""

import signal
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from heliograph.client import MirrorClient
from heliograph.client import TopicPartition as Partition
from lab.clusters import LiveCluster, Record, eventually
from lab.load import SteadyLoad, account
from lab.mirrors import Mirror, flow_properties, unique_alias
from lab.places import read_places
from lab.processes import send_to_all, tree, workers

PARTITIONS = 4
_IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
_STRANGER = b"stranger"

pytestmark = [pytest.mark.fault, pytest.mark.timeout(900)]


class Stranger:
    """Somebody else who writes to the remote topic all the while."""

    def __init__(self, cluster: LiveCluster, topic: str) -> None:
        self._producer = Producer(cluster.client(**{"enable.idempotence": True}))
        self._topic = topic
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.produced = 0

    def __enter__(self) -> "Stranger":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        assert self._producer.flush(30) == 0

    def _run(self) -> None:
        while not self._stopping.wait(0.005):
            place = self.produced % PARTITIONS
            self._producer.produce(self._topic, value=_STRANGER, partition=place)
            self._producer.poll(0)
            self.produced += 1


@pytest.fixture
def topic(source: LiveCluster, target: LiveCluster) -> str:
    name = source.create_topic(PARTITIONS)
    return target.create_topic(PARTITIONS, name=name)


@pytest.fixture
def mirror(
    source: LiveCluster, target: LiveCluster, topic: str, tmp_path: Path
) -> Iterator[Mirror]:
    made = Mirror(
        tmp_path / "mirror",
        {
            **flow_properties(
                (unique_alias(), source.bootstrap), ("B", target.bootstrap), topic, tasks_max="2"
            ),
            "replication.policy.class": _IDENTITY,
            "B.exactly.once.source.support": "enabled",
        },
    )
    yield made
    if made.is_alive:
        send_to_all(tree(made.pid), signal.SIGKILL)


def numbers(records: list[Record]) -> tuple[Counter[int], int]:
    """Return how often each number is there, and how many came after a higher one of their partition."""
    seen: Counter[int] = Counter()
    last = dict.fromkeys(range(PARTITIONS), -1)
    disorder = 0
    for record in records:
        if record.value not in (None, _STRANGER):
            number = int(record.value or b"")
            seen[number] += 1
            disorder += number <= last[record.partition]
            last[record.partition] = number
    return seen, disorder


def test_kills_beside_another_writer_lose_and_repeat_nothing(
    source: LiveCluster, target: LiveCluster, topic: str, mirror: Mirror
) -> None:
    def copied() -> int:
        return sum(numbers(target.consume(topic))[0].values())

    def progress(records: int = 500) -> None:
        before = copied()
        eventually(lambda: copied() > before + records, 180, mirror.tail)

    with Stranger(target, topic) as stranger, SteadyLoad(source, topic, PARTITIONS) as load:
        for turn in range(4):
            mirror.start()
            progress()
            if turn % 2:
                send_to_all(workers(mirror.pid)[:1], signal.SIGKILL)
                progress()
            send_to_all(tree(mirror.pid), signal.SIGKILL)
            mirror.wait()
        with mirror:
            progress()
            produced = load.stop()
            eventually(lambda: copied() >= produced, 180, mirror.tail)
    records = target.consume(topic)
    seen, disorder = numbers(records)
    assert seen == Counter(range(produced))
    assert disorder == 0
    assert sum(record.value == _STRANGER for record in records) == stranger.produced
    assert not mirror.lines("ERROR")


KILLS = 20


def test_every_translated_offset_is_exact_after_kills(
    source: LiveCluster, target: LiveCluster, tmp_path: Path
) -> None:
    """Positions were committed twice a second and runs saved every five, so a crash left a hole that groups skipped."""
    topic, alias = source.create_topic(PARTITIONS), unique_alias()
    remote = f"{alias}.{topic}"
    mirror = Mirror(
        tmp_path / "mirror",
        {
            **flow_properties(
                (alias, source.bootstrap), ("B", target.bootstrap), topic, tasks_max="2"
            ),
            "B.exactly.once.source.support": "enabled",
        },
    )

    def progress(records: int) -> None:
        before = sum(target.end_offsets(remote))
        eventually(lambda: sum(target.end_offsets(remote)) > before + records, 180, mirror.tail)

    try:
        with SteadyLoad(source, topic, PARTITIONS, rate=1000) as load:
            mirror.start()
            for turn in range(KILLS):
                progress(300 + 137 * (turn % 7))
                if turn % 2:
                    send_to_all(workers(mirror.pid)[:1], signal.SIGKILL)
                else:
                    send_to_all(tree(mirror.pid), signal.SIGKILL)
                    mirror.wait()
                    mirror.start()
            progress(500)
            produced = load.stop()
            places = eventually(
                lambda: read_places(source, topic, target, remote), 180, mirror.tail
            )
        with MirrorClient(target.bootstrap) as client:

            def wrong() -> list[str]:
                maps = client.run_maps(alias)
                found = []
                for index, each in enumerate(places):
                    runs = maps.get(Partition(topic, index))
                    found += ["no runs"] if runs is None else each.wrong(runs)
                return found

            eventually(lambda: not wrong(), 60, wrong)
        mirror.stop()
    finally:
        if mirror.is_alive:
            send_to_all(tree(mirror.pid), signal.SIGKILL)
    assert account(target, remote, produced, PARTITIONS) == {
        "lost": 0,
        "repeated": 0,
        "out of order": 0,
    }
    assert not mirror.lines("lacks what")
