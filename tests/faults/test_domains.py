"""What befalls one broker or one partition stays there: the others are copied at their full rate."""

import json
import signal
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from heliograph.driving.ownership import group_id, group_of
from heliograph.embedded.ports import LOOPBACK
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.transactions import find_coordinator
from heliograph.model import Endpoint, TopicPartition
from heliograph.wire.connect_records import encode_source_key
from heliograph.wire.primitives import partition_for_key
from lab.clusters import LiveCluster, Outgoing, eventually
from lab.commands import run_command
from lab.load import SteadyLoad, account
from lab.mirrors import Mirror, flow_properties, unique_alias
from lab.processes import send_to_all, tree, workers
from lab.proxy import Proxy
from tests.contract.brokers import commit

pytestmark = [pytest.mark.fault, pytest.mark.timeout(900)]

PARTITIONS = 24  # so that some have nothing to do with any one broker
NEW = 9
CLEAN = {"lost": 0, "repeated": 0, "out of order": 0}
WATCHED = 20
RATE = 3000
COPIES = dict.fromkeys(
    [
        "replication.factor",
        "offset.storage.replication.factor",
        "checkpoints.topic.replication.factor",
        "heartbeats.topic.replication.factor",
    ],
    "3",
)


class Lines:
    """The mirror's way to each broker of a cluster, which can be made to swallow all packets."""

    def __init__(self, cluster: LiveCluster) -> None:
        self._nodes = {node.id: node for node in cluster.cluster.layout.nodes}
        self._open: dict[int, ExitStack] = {}
        for node in self._nodes:
            self.good(node)

    def good(self, node: int) -> None:
        self._close(node)
        found = self._nodes[node]
        self._open[node].enter_context(Proxy({found.proxy_port: found.proxied_port}))

    def swallow(self, node: int) -> None:
        """Answer no packet of a new connection, and end those that are there."""
        self._close(node)
        self._open[node].enter_context(swallowing(self._nodes[node].proxy_port))

    def close(self) -> None:
        for stack in self._open.values():
            stack.close()

    def _close(self, node: int) -> None:
        self._open.pop(node, ExitStack()).close()
        self._open[node] = ExitStack()


@contextmanager
def swallowing(port: int) -> Iterator[None]:
    """Have a port whose queue of connections is full: Linux drops the packets of further ones."""
    with ExitStack() as at_end:
        listener = at_end.enter_context(socket.socket())
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((LOOPBACK, port))
        listener.listen(0)
        for _ in range(4):
            filler = at_end.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex((LOOPBACK, port))
        yield


class Scene:
    """A mirror to three brokers, over a line to each."""

    def __init__(self, source: LiveCluster, target: LiveCluster, folder: Path) -> None:
        self.source, self.target = source, target
        self.alias = unique_alias()
        self.topic = source.create_topic(PARTITIONS)
        self.lines = Lines(target)
        self.mirror = Mirror(folder, self.properties())

    def properties(self) -> dict[str, str]:
        properties = flow_properties(
            (self.alias, self.source.bootstrap),
            ("B", self.target.cluster.proxied_bootstrap),
            f"{self.topic}.*",
            tasks_max="2",
        )
        return {**properties, **COPIES}

    @property
    def remote(self) -> str:
        return f"{self.alias}.{self.topic}"

    def leaders(self, topic: str) -> dict[int, int]:
        found = self.target.metadata().topics[topic].partitions
        return {index: partition.leader for index, partition in found.items()}

    @property
    def flow_id(self) -> str:
        return f"heliograph-MirrorSourceConnector-{self.alias}->B"

    def coordinator(self, remote: TopicPartition | None = None) -> int:
        """Return the broker that keeps the identity of a remote partition's writers, or of the flow itself."""
        host, port = self.target.bootstrap.split(",")[0].split(":")
        name = self.flow_id if remote is None else group_id(self.flow_id, group_of(remote))
        with closing(Cluster(Endpoint("B", ((host, int(port)),)))) as cluster:
            return find_coordinator(cluster, name)

    def keeper_of(self, source: TopicPartition) -> int:
        """Return the leader of the partition where a position is saved."""
        key = encode_source_key("MirrorSourceConnector", self.alias, source.topic, source.index)
        leaders = self.leaders(f"mm2-offsets.{self.alias}.internal")
        return leaders[partition_for_key(key, len(leaders))]

    def await_copied(self, partitions: set[int], records: int = 100) -> None:
        before = eventually(lambda: ends_of(self.target, self.remote), 60)
        wanted = {p: before.get(p, 0) + records for p in partitions}
        eventually(lambda: has(self.target, self.remote, wanted), 120, self.mirror.tail)


def ends_of(live: LiveCluster, topic: str) -> dict[int, int]:
    """Return where the partitions of a topic end; nothing while that is not known."""
    try:
        return dict(enumerate(live.end_offsets(topic)))
    except (KafkaException, TimeoutError):
        return {}  # librdkafka asks a broker that is gone for a while


def has(live: LiveCluster, topic: str, wanted: Mapping[int, int]) -> bool:
    """Whether partitions have reached some offsets."""
    ends = ends_of(live, topic)
    return all(ends.get(partition, -1) >= offset for partition, offset in wanted.items())


@pytest.fixture
def scene(source: LiveCluster, three: LiveCluster, tmp_path: Path) -> Iterator[Scene]:
    made = Scene(source, three, tmp_path / "mirror")
    yield made
    if made.mirror.is_alive:
        send_to_all(tree(made.mirror.pid), signal.SIGKILL)
        made.mirror.wait()
    made.lines.close()
    three.cluster.start()


def await_created(scene: Scene) -> dict[int, int]:
    eventually(
        lambda: scene.target.partition_count(scene.remote) == PARTITIONS, 90, scene.mirror.tail
    )
    return scene.leaders(scene.remote)


def lag(scene: Scene, load: SteadyLoad, partitions: set[int]) -> float:
    """Return how many seconds of the load some partitions are behind."""
    produced = load.produced * len(partitions) / PARTITIONS
    ends = ends_of(scene.target, scene.remote)
    if not partitions <= ends.keys():
        return float("inf")  # not known yet
    return (produced - sum(ends[p] for p in partitions)) / (RATE * len(partitions) / PARTITIONS)


def test_a_broker_that_the_mirror_alone_cannot_reach_holds_up_its_own_partitions_alone(
    scene: Scene,
) -> None:
    with SteadyLoad(scene.source, scene.topic, PARTITIONS, rate=RATE) as load:
        scene.mirror.start()
        leaders = await_created(scene)
        eventually(lambda: lag(scene, load, set(leaders)) < 1, 120, scene.mirror.tail)
        away = leaders[0]
        others = {p for p, leader in leaders.items() if leader != away}
        assert others
        scene.lines.swallow(away)
        until = time.monotonic() + WATCHED
        eventually(lambda: time.monotonic() > until, WATCHED + 10)
        # Other tests may take the machine for a while; who copies less than is produced never gets there.
        eventually(lambda: lag(scene, load, others) < 0.05 * WATCHED, 60, scene.mirror.tail)
        assert lag(scene, load, {p for p in leaders if p not in others}) > WATCHED - 1

        new = scene.source.create_topic(NEW, name=f"{scene.topic}.new")
        scene.source.produce(
            new, [Outgoing(b"%d" % n, partition=n % NEW) for n in range(100 * NEW)]
        )
        made = f"{scene.alias}.{new}"
        eventually(lambda: scene.target.partition_count(made) == NEW, 30, scene.mirror.tail)
        # A position is saved before its partition begins: where that row's broker is away, the partition waits, too.
        reachable = [
            p
            for p, leader in scene.leaders(made).items()
            if away not in (leader, scene.keeper_of(TopicPartition(new, p)))
        ]
        eventually(
            lambda: has(scene.target, made, dict.fromkeys(reachable, 100)), 60, scene.mirror.tail
        )

        scene.lines.good(away)
        scene.await_copied(set(leaders))
        produced = load.stop()
        eventually(
            lambda: len(scene.target.consume(scene.remote)) >= produced, 90, scene.mirror.tail
        )
        eventually(lambda: len(scene.target.consume(made)) == 100 * NEW, 90, scene.mirror.tail)
    scene.mirror.stop()
    assert account(scene.target, scene.remote, produced, PARTITIONS) == CLEAN


def test_a_task_that_dies_beside_a_broker_out_of_reach_costs_the_others_nothing(
    scene: Scene,
) -> None:
    """What must be fenced needs the coordinator of its group as well, so partitions wait whose group has it there."""
    with SteadyLoad(scene.source, scene.topic, PARTITIONS, rate=1000) as load:
        scene.mirror.start()
        leaders = await_created(scene)
        scene.await_copied(set(leaders))
        coordinators = {p: scene.coordinator(TopicPartition(scene.remote, p)) for p in leaders}
        # The broker out of reach is the one that costs the fewest.
        away = min(
            set(leaders.values()),
            key=lambda node: sum(node in (leaders[p], coordinators[p]) for p in leaders),
        )
        others = {p for p in leaders if away not in (leaders[p], coordinators[p])}
        assert others
        scene.lines.swallow(away)
        send_to_all(workers(scene.mirror.pid), signal.SIGKILL)
        scene.await_copied(others)
        scene.lines.good(away)
        scene.await_copied(set(leaders))
        scene.lines.swallow(away)
        scene.await_copied(others)
        scene.mirror.stop()  # exit code 0, in time
        scene.lines.good(away)
        scene.mirror.start()
        produced = load.stop()
        eventually(
            lambda: len(scene.target.consume(scene.remote)) >= produced, 90, scene.mirror.tail
        )
    scene.mirror.stop()
    assert account(scene.target, scene.remote, produced, PARTITIONS) == CLEAN


def test_a_mirror_that_starts_beside_a_broker_out_of_reach_copies_the_others(scene: Scene) -> None:
    """A flow itself needs two brokers: the coordinator of its identity, and the leader of its runs topic."""
    with SteadyLoad(scene.source, scene.topic, PARTITIONS, rate=1000) as load:
        scene.mirror.start()
        leaders = await_created(scene)
        scene.await_copied(set(leaders))
        scene.mirror.stop()
        own = scene.leaders(f"mm2-runs.{scene.alias}.internal")[0], scene.coordinator()
        away = next(node for node in (1, 2, 3) if node not in own)
        others = {
            p
            for p, leader in leaders.items()
            if away
            not in (
                leader,
                scene.coordinator(TopicPartition(scene.remote, p)),
                scene.keeper_of(TopicPartition(scene.topic, p)),
            )
        }
        assert others
        scene.lines.swallow(away)
        scene.mirror.start()
        scene.await_copied(others)
        assert scene.mirror.lines("waits", "its position cannot be read")
        scene.lines.good(away)
        scene.await_copied(set(leaders))
        produced = load.stop()
        eventually(
            lambda: len(scene.target.consume(scene.remote)) >= produced, 90, scene.mirror.tail
        )
    scene.mirror.stop()
    assert account(scene.target, scene.remote, produced, PARTITIONS) == CLEAN


def test_a_mirror_that_starts_where_a_partition_of_its_positions_has_no_leader_copies_the_others(
    scene: Scene,
) -> None:
    offsets = f"mm2-offsets.{scene.alias}.internal"
    scene.target.create_topic(25, {"cleanup.policy": "compact"}, name=offsets)
    runs = f"mm2-runs.{scene.alias}.internal"
    scene.target.create_topic(1, {"cleanup.policy": "compact"}, name=runs, replication=3)
    scene.source.produce(
        scene.topic, [Outgoing(b"%012d" % n, partition=n % PARTITIONS) for n in range(2400)]
    )
    scene.mirror.start()
    await_created(scene)
    eventually(lambda: len(scene.target.consume(scene.remote)) == 2400, 90, scene.mirror.tail)
    scene.mirror.stop()
    keepers = {p: scene.keeper_of(TopicPartition(scene.topic, p)) for p in range(PARTITIONS)}
    dead = keepers[0]
    scene.target.cluster.kill(dead, signal.SIGKILL)
    try:
        eventually(lambda: scene.target.partition_count(offsets) < 25, 60)
        scene.mirror.start()
        scene.source.produce(
            scene.topic,
            [Outgoing(b"%012d" % n, partition=n % PARTITIONS) for n in range(2400, 4800)],
        )
        others = {p for p, keeper in keepers.items() if keeper != dead}
        before = ends_of(scene.target, scene.remote)
        eventually(
            lambda: has(scene.target, scene.remote, dict.fromkeys(others, 200)),
            120,
            lambda: (before, ends_of(scene.target, scene.remote), scene.mirror.tail()),
        )
        waits = scene.mirror.lines("waits", "its position cannot be read")
        assert any("has no leader" in line for line in waits), scene.mirror.tail()
    finally:
        scene.target.cluster.start()
    eventually(lambda: len(scene.target.consume(scene.remote)) == 4800, 120, scene.mirror.tail)
    scene.mirror.stop()
    assert account(scene.target, scene.remote, 4800, PARTITIONS) == CLEAN


def test_a_remote_partition_with_too_few_replicas_waits_alone(scene: Scene) -> None:
    fragile = scene.source.create_topic(3, name=f"{scene.topic}.fragile")
    remote = f"{scene.alias}.{fragile}"
    scene.target.create_topic(3, {"min.insync.replicas": "2"}, name=remote, replication=2)
    with SteadyLoad(scene.source, scene.topic, PARTITIONS, rate=1000) as load:
        scene.mirror.start()
        leaders = await_created(scene)
        scene.await_copied(set(leaders))
        scene.source.produce(fragile, [Outgoing(b"a", partition=p) for p in range(3)])
        eventually(lambda: len(scene.target.consume(remote)) == 3, 60, scene.mirror.tail)
        dead = scene.leaders(remote)[0]
        scene.target.cluster.kill(dead, signal.SIGKILL)
        scene.source.produce(fragile, [Outgoing(b"b", partition=p) for p in range(3)])
        send_to_all(workers(scene.mirror.pid), signal.SIGKILL)  # so that all must be fenced
        scene.await_copied(set(leaders))
        eventually(
            lambda: scene.mirror.lines("waits", "in sync", "min.insync.replicas is 2"),
            90,
            scene.mirror.tail,
        )
        scene.target.cluster.start()
        eventually(lambda: len(scene.target.consume(remote)) == 6, 120, scene.mirror.tail)
        produced = load.stop()
        eventually(
            lambda: len(scene.target.consume(scene.remote)) >= produced, 90, scene.mirror.tail
        )
    scene.mirror.stop()
    assert account(scene.target, scene.remote, produced, PARTITIONS) == CLEAN


def test_a_source_partition_without_a_leader_holds_up_neither_a_start_nor_the_others(
    three: LiveCluster, target: LiveCluster, tmp_path: Path
) -> None:
    topic = three.create_topic(3, replication=1)
    alias = unique_alias()
    remote = f"{alias}.{topic}"
    three.produce(topic, [Outgoing(b"%d" % n, partition=n % 3) for n in range(300)])
    leaders = {i: p.leader for i, p in three.metadata().topics[topic].partitions.items()}
    dead = leaders[0]
    alive = {p for p, leader in leaders.items() if leader != dead}
    mirror = Mirror(
        tmp_path, flow_properties((alias, three.bootstrap), ("B", target.bootstrap), topic)
    )
    three.cluster.kill(dead, signal.SIGKILL)
    try:
        with mirror:
            eventually(lambda: target.partition_count(remote) == 3, 90, mirror.tail)
            eventually(lambda: has(target, remote, dict.fromkeys(alive, 100)), 60, mirror.tail)
            three.cluster.start()
            eventually(lambda: len(target.consume(remote)) == 300, 90, mirror.tail)
    finally:
        three.cluster.start()


def test_a_fail_over_goes_on_where_one_remote_partition_has_no_leader(
    source: LiveCluster, three: LiveCluster, tmp_path: Path
) -> None:
    topic = source.create_topic(3)
    alias = unique_alias()
    remote = f"{alias}.{topic}"
    properties = flow_properties((alias, source.bootstrap), ("B", three.bootstrap), topic)
    properties |= {**COPIES, "emit.checkpoints.interval.seconds": "1", "groups": f"{alias}.*"}
    three.create_topic(3, name=remote, replication=1)
    source.produce(topic, [Outgoing(b"%d" % n, partition=n % 3) for n in range(300)])
    group = f"{alias}-group"
    commit(source, group, topic, {0: 50, 1: 60, 2: 70})
    mirror = Mirror(tmp_path, properties)
    with mirror:
        eventually(lambda: len(three.consume(remote)) == 300, 90, mirror.tail)
    found = three.metadata().topics[remote].partitions
    dead = found[0].leader
    three.cluster.kill(dead, signal.SIGKILL)
    try:
        eventually(lambda: three.partition_count(remote) < 3, 60)
        told = run_command(
            "failover", str(mirror.file), "--flow", f"{alias}->B", "--force", "--yes", "--json",
            within=180,
        )  # fmt: skip
        assert told.stdout, told.stderr
        report = json.loads(told.stdout)
        assert report["held"] is True, told.stderr
        assert report["moved"] == {group: 3}
        assert list(report["unfenced"]) == [f"{remote}-0"]
        assert "has no leader" in report["unfenced"][f"{remote}-0"]
    finally:
        three.cluster.start()
