"""Names as the file asks for them: of one's own in Python, of Java classes that do what ours do, of nobody."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from heliograph.client import MirrorClient, TopicPartition
from heliograph.policy.naming import NamingPolicy, naming_for
from lab.clusters import LiveCluster, Outgoing, eventually, unique_name
from lab.mirrors import Mirror, assert_copied, flow_properties, mesh_properties, unique_alias
from tests.contract.brokers import commit

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]

STARTING = 90
OWN = "house_names:Suffix"
HOUSE_NAMES = '''
from heliograph.policy.naming import DefaultNaming


class Suffix(DefaultNaming):
    """Topic t of cluster A is t.from.A."""

    def format_remote_topic(self, source_alias, topic):
        return f"{topic}.from.{source_alias}"

    def topic_source(self, topic):
        upstream, found, source = topic.rpartition(".from.")
        return source if found else None

    def upstream_topic(self, topic):
        upstream, found, source = topic.rpartition(".from.")
        return upstream if found else None
'''


@dataclass
class Rig:
    """One process: `a` and `b` mirror each other under a naming of their own, `aws` and `strimzi` keep names."""

    source: LiveCluster
    target: LiveCluster
    a: str
    b: str
    naming: NamingPolicy
    mirror: Mirror

    def write(self, live: LiveCluster, prefix: str = "own") -> str:
        topic = live.create_topic(2, name=f"{prefix}.{unique_name()}")
        live.produce(topic, [Outgoing(b"%d" % n, partition=n % 2) for n in range(100)])
        return topic


@pytest.fixture(scope="module")
def house_names(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a module of the user's."""
    folder = tmp_path_factory.mktemp("house")
    folder.joinpath("house_names.py").write_text(HOUSE_NAMES)
    return folder


@pytest.fixture(scope="module")
def rig(
    source: LiveCluster,
    target: LiveCluster,
    house_names: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Rig]:
    a, b = unique_alias("A"), unique_alias("B")
    clusters = {
        a: source.bootstrap,
        b: target.bootstrap,
        "aws": source.bootstrap,
        "strimzi": source.bootstrap,
    }
    flows = {
        f"{a}->{b}": r"own\\..*",
        f"{b}->{a}": r"own\\..*",
        f"aws->{b}": r"aws\\..*",
        f"strimzi->{b}": r"strimzi\\..*",
    }
    properties = {
        **mesh_properties(clusters, flows),
        "replication.policy.class": OWN,
        f"aws->{b}.replication.policy.class": "com.amazonaws.kafka.samples.CustomMM2ReplicationPolicy",
        f"strimzi->{b}.replication.policy.class": "io.strimzi.kafka.connect.mirror.IdentityReplicationPolicy",
        "emit.heartbeats.interval.seconds": "1",
        "emit.checkpoints.interval.seconds": "1",
        "refresh.groups.interval.seconds": "1",
    }
    python_path = {"PYTHONPATH": f"src:{house_names}"}
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(str(house_names))
        naming = naming_for(OWN, ".", internal_separator_enabled=True, source_alias=None)
    with Mirror(tmp_path_factory.mktemp("mirror"), properties, python_path) as mirror:
        yield Rig(source, target, a, b, naming, mirror)


@pytest.mark.long
def test_a_naming_of_one_s_own_holds_for_topics_heartbeats_and_checkpoints(rig: Rig) -> None:
    here, there = rig.write(rig.source), rig.write(rig.target)
    remote = f"{here}.from.{rig.a}"
    assert_copied(rig.source, here, rig.target, remote, rig.mirror, within=STARTING)
    back = f"{there}.from.{rig.b}"
    assert_copied(rig.target, there, rig.source, back, rig.mirror, within=STARTING)
    group = unique_name()
    commit(rig.source, group, here, {0: 10, 1: 20})
    heartbeats = f"heartbeats.from.{rig.a}"
    with MirrorClient(rig.target.bootstrap, naming=rig.naming) as client:
        offsets = eventually(lambda: client.remote_consumer_offsets(group, rig.a), STARTING)

        assert set(offsets) == {TopicPartition(remote, 0), TopicPartition(remote, 1)}
        assert client.replication_hops(rig.a) == 1
        assert heartbeats in client.heartbeat_topics()
        assert {remote, heartbeats} <= client.remote_topics(rig.a)
    eventually(lambda: rig.target.consume(heartbeats), STARTING, rig.mirror.tail)

    # When these have come, both flows have looked again at what the first ones became.
    for topic, live, other, alias in (
        (rig.write(rig.source), rig.source, rig.target, rig.a),
        (rig.write(rig.target), rig.target, rig.source, rig.b),
    ):
        assert_copied(live, topic, other, f"{topic}.from.{alias}", rig.mirror)
    for live in (rig.source, rig.target):
        twice = {topic for topic in live.topics() if topic.count(".from.") > 1}
        assert not twice
    assert len(rig.source.consume(here)) == len(rig.target.consume(there)) == 100


@pytest.mark.parametrize("alias", ["aws", "strimzi"])
def test_java_classes_that_keep_names_are_known(rig: Rig, alias: str) -> None:
    topic = rig.write(rig.source, alias)

    assert_copied(rig.source, topic, rig.target, topic, rig.mirror, within=STARTING)


def test_a_class_that_cannot_be_used_is_told_and_nothing_starts(tmp_path: Path) -> None:
    told = {
        "com.example.OurReplicationPolicy": "written in Python as package.module:Class",
        "no_such_module:Names": "cannot be imported",
        "json:dumps": "cannot be made",
        "os:sep": "is no class",
    }
    for name, words in told.items():
        properties = flow_properties(("A", "localhost:1"), ("B", "localhost:2"), ".*")
        mirror = Mirror(
            tmp_path / name.partition(":")[0], {**properties, "replication.policy.class": name}
        )
        mirror.start()
        assert mirror.wait() == 2, mirror.tail()
        (line,) = mirror.text().splitlines()
        assert name in line
        assert words in line
