"""Clusters in a ring, in a chain and in pairs: everything arrives once, nothing goes round, the way is told right."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from heliograph.client import MirrorClient, TopicPartition, translate_offsets
from lab.clusters import LiveCluster, Outgoing, eventually, start_live_cluster
from lab.mirrors import Mirror, assert_copied, mesh_properties
from lab.places import read_places
from tests.contract.brokers import commit, in_transactions
from tests.java_client import read_with_java, read_with_python

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(240)]

IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
STARTING = 90
EVERY_SECOND = {
    f"{job}.interval.seconds": "1"
    for job in ("emit.heartbeats", "emit.checkpoints", "refresh.groups")
}


@dataclass(frozen=True)
class Clusters:
    """Three clusters that nobody else uses; each topology begins with empty ones."""

    by_alias: dict[str, LiveCluster]

    def __getitem__(self, alias: str) -> LiveCluster:
        return self.by_alias[alias]

    def mirror(
        self, folder: Path, flows: Mapping[str, str], extra: Mapping[str, str] | None = None
    ) -> Mirror:
        """Return one process that runs all `flows`; only their clusters are in its file."""
        named = sorted({alias for flow in flows for alias in flow.split("->")})
        bootstraps = {alias: self[alias].bootstrap for alias in named}
        properties = mesh_properties(bootstraps, flows)
        return Mirror(folder, {**properties, **EVERY_SECOND, **(extra or {})})

    def shown(self, alias: str) -> set[str]:
        """Return the topics of a cluster but those that the mirror and Kafka keep for themselves."""
        return {
            topic
            for topic in self[alias].topics()
            if not topic.startswith("__") and not topic.endswith(".internal")
        }

    def empty(self) -> None:
        for alias, live in self.by_alias.items():
            shown = [topic for topic in live.topics() if not topic.startswith("__")]
            for deleted in live.admin.delete_topics(shown).values() if shown else ():
                deleted.result(timeout=30)
            eventually(lambda: not self.shown(alias))  # noqa: B023 - called at once


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clusters]:
    started: dict[str, LiveCluster] = {}
    try:
        for alias in "ABC":
            started[alias] = start_live_cluster(alias, tmp_path_factory.mktemp(alias))
        yield Clusters(started)
    finally:
        for live in started.values():
            live.cluster.wipe()


@pytest.fixture
def clusters(three: Clusters) -> Clusters:
    three.empty()
    return three


def write(live: LiveCluster, topic: str) -> None:
    """Make a topic of a hundred records that say where they were written."""
    live.create_topic(2, name=topic)
    records = [b"%s %d" % (live.name.encode(), number) for number in range(100)]
    live.produce(topic, [Outgoing(r, partition=n % 2) for n, r in enumerate(records)])


def await_topics(
    clusters: Clusters, mirror: Mirror, expected: Mapping[str, set[str]], within: float = STARTING
) -> None:
    """Wait until every cluster shows all that it should; more than that is a loop."""
    for alias, topics in expected.items():
        eventually(
            lambda: topics <= clusters.shown(alias),  # noqa: B023 - called at once
            within,
            lambda: f"{alias} lacks {topics - clusters.shown(alias)}\n{mirror.tail()}",  # noqa: B023
        )
    assert {alias: clusters.shown(alias) for alias in expected} == dict(expected)


def test_a_ring_brings_every_record_everywhere_once(clusters: Clusters, tmp_path: Path) -> None:
    ring = {"A": ("C", "B"), "B": ("A", "C"), "C": ("B", "A")}  # the nearest upstream, and its own

    def expected(*names: str) -> dict[str, set[str]]:
        """Return what each cluster shows if topics of these names were made on all."""
        return {
            alias: {
                topic
                for name in names
                for topic in (name, f"{near}.{name}", f"{near}.{far}.{name}")
            }
            for alias, (near, far) in ring.items()
        }

    for alias in ring:
        write(clusters[alias], "first")
    with clusters.mirror(tmp_path, {"A->B": ".*", "B->C": ".*", "C->A": ".*"}) as mirror:
        await_topics(clusters, mirror, expected("heartbeats", "first"))
        for alias, (near, far) in ring.items():
            for origin, copy in ((near, f"{near}.first"), (far, f"{near}.{far}.first")):
                assert_copied(
                    clusters[origin], "first", clusters[alias], copy, mirror, within=STARTING
                )
        # When these have come all the way, every flow has looked again at what the first ones became.
        for alias in ring:
            write(clusters[alias], "second")
        await_topics(clusters, mirror, expected("heartbeats", "first", "second"))
        for alias in ring:
            assert len(clusters[alias].consume("first")) == 100


def test_a_chain_is_told_as_it_is_to_java_too(clusters: Clusters, tmp_path: Path) -> None:
    a, b, c = clusters["A"], clusters["B"], clusters["C"]
    topic, near, far = "chained", "A.chained", "B.A.chained"
    a.create_topic(name=topic)
    a.produce(topic, [b"%d" % number for number in range(100)])
    in_transactions(a, topic, ["keep", "drop", "keep"])
    shown = {
        "A": {"heartbeats", topic},
        "B": {"heartbeats", "A.heartbeats", near},
        "C": {"heartbeats", "B.heartbeats", "B.A.heartbeats", far},
    }
    with clusters.mirror(tmp_path, {"A->B": ".*", "B->C": ".*"}) as mirror:
        await_topics(clusters, mirror, shown)
        assert_copied(a, topic, c, far, mirror, within=STARTING)
        with MirrorClient(c.bootstrap) as client:
            assert client.upstream_clusters() == {"A", "B"}
            assert client.replication_hops("B") == 1
            assert client.replication_hops("A") == 2
            assert client.replication_hops("C") == -1
            assert client.remote_topics() == shown["C"] - {"heartbeats"}
            assert client.remote_topics("B") == shown["C"] - {"heartbeats"}
            assert client.remote_topics("A") == set()

        # Groups of A amid a transaction, amid an aborted one, at the end; and groups of B.
        for group, position in (("amid", 105), ("aborted", 115), ("end", a.end_offsets(topic)[0])):
            check_group(group, position, (a, topic), ("A", b, near))
        for group, position in (("amid", 105), ("aborted", 115), ("end", b.end_offsets(near)[0])):
            check_group(group, position, (b, near), ("B", c, far))
        for alias, live in (("A", b), ("B", c)):
            ours = read_with_python(live.bootstrap, alias, "aborted")
            assert read_with_java(live.bootstrap, alias, "aborted") == ours


def check_group(
    group: str, position: int, here: tuple[LiveCluster, str], there: tuple[str, LiveCluster, str]
) -> None:
    """Commit a position, and see that the group goes on with the same record on the target."""
    source, topic = here
    alias, target, remote = there
    commit(source, group, topic, {0: position})
    (places,) = read_places(source, topic, target, remote)
    told = eventually(lambda: translate_offsets(target.bootstrap, alias, group))
    ((partition, place),) = told.items()
    assert partition == TopicPartition(remote, 0)
    assert places.are_the_same(position, place.offset)


@pytest.mark.parametrize("policy", ["default", "identity"])
def test_two_clusters_mirror_each_other(clusters: Clusters, policy: str, tmp_path: Path) -> None:
    a, b = clusters["A"], clusters["B"]
    identity = policy == "identity"
    flows = {"A->B": "a.*", "B->A": "b.*"} if identity else {"A->B": ".*", "B->A": ".*"}
    extra = {"replication.policy.class": IDENTITY} if identity else {}

    def remote(topic: str) -> str:
        return topic if identity else f"{topic[0].upper()}.{topic}"

    def shown(*numbers: int) -> dict[str, set[str]]:
        """Return what either cluster shows if topics a1 and b1 are made, and so on."""
        on_a = {topic for n in numbers for topic in (f"a{n}", remote(f"b{n}"))}
        on_b = {topic for n in numbers for topic in (f"b{n}", remote(f"a{n}"))}
        return {
            "A": {"heartbeats", "B.heartbeats"} | on_a,
            "B": {"heartbeats", "A.heartbeats"} | on_b,
        }

    with clusters.mirror(tmp_path, flows, extra) as mirror:
        write(a, "a1")
        write(b, "b1")
        await_topics(clusters, mirror, shown(1))
        assert_copied(a, "a1", b, remote("a1"), mirror, within=STARTING)
        assert_copied(b, "b1", a, remote("b1"), mirror, within=STARTING)

        # When these have come, both flows have looked again at what the first ones became.
        write(a, "a2")
        write(b, "b2")
        await_topics(clusters, mirror, shown(1, 2))
        for live, topic in ((a, "a1"), (b, remote("a1")), (b, "b1"), (a, remote("b1"))):
            assert len(live.consume(topic)) == 100
        for live in (a, b):
            with MirrorClient(live.bootstrap, naming=IDENTITY if identity else None) as client:
                other = "B" if live is a else "A"
                assert client.upstream_clusters() == {other}
                assert client.replication_hops(other) == 1
