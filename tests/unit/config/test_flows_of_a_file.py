"""What an mm2.properties as a whole makes of its flows, as MirrorMaker 2's driver would."""

from pathlib import Path

import pytest

from heliograph.config.fields import CONNECTORS, Part
from heliograph.config.mirror import MirrorConfig, load_mirror
from heliograph.config.precedence import connector_props, worker_props
from heliograph.config.settings import BARE_KEYS, fields_of
from heliograph.errors import ConfigError
from heliograph.model import Flow
from heliograph.policy.filters import NameFilter

THREE = (
    "clusters=a,b,c\na.bootstrap.servers=h:1\nb.bootstrap.servers=h:2\nc.bootstrap.servers=h:3\n"
)
ONE_FLOW = "clusters=A,B\nA.bootstrap.servers=h:1\nB.bootstrap.servers=h:2\nA->B.enabled=true\n"
AB = Flow("A", "B")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "mm2.properties"


def load(file: Path, text: str, **environment: str) -> MirrorConfig:
    file.write_text(text)
    return load_mirror(file, environment)


def pairs(config: MirrorConfig) -> list[str]:
    return sorted(str(flow.flow) for flow in (*config.flows, *config.heartbeat_flows))


def test_three_clusters_are_six_pairs_that_mirror_or_beat(file: Path) -> None:
    found = load(file, THREE + "a->b.enabled=true")
    assert pairs(found) == ["a->b", "a->c", "b->a", "b->c", "c->a", "c->b"]


def test_without_heartbeats_and_flows_there_is_nothing_to_run(file: Path) -> None:
    with pytest.raises(ConfigError, match="no flow is enabled"):
        load(file, THREE + "emit.heartbeats.enabled=false")


def test_a_pair_that_neither_mirrors_nor_beats_is_left_out(file: Path) -> None:
    found = load(
        file,
        THREE + "b->c.enabled=true\n"
        "a->b.emit.heartbeats.enabled=false\na->c.emit.heartbeats.enabled=false",
    )
    assert pairs(found) == ["b->a", "b->c", "c->a", "c->b"]


def test_without_heartbeats_only_enabled_pairs_are_left(file: Path) -> None:
    found = load(
        file,
        THREE + "emit.heartbeats.enabled=false\n"
        "a->b.enabled=true\na->c.enabled=true\nb->c.enabled=true\nb->a.enabled=false",
    )
    assert pairs(found) == ["a->b", "a->c", "b->c"]


def test_a_pair_may_beat_alone_where_heartbeats_are_off(file: Path) -> None:
    found = load(
        file,
        THREE + "emit.heartbeats.enabled=false\n"
        "a->b.enabled=true\na->c.enabled=true\nc->a.emit.heartbeats.enabled=true",
    )
    assert [str(flow.flow) for flow in found.heartbeat_flows] == ["c->a"]
    assert pairs(found) == ["a->b", "a->c", "c->a"]


def test_switched_off_heartbeats_are_not_emitted(file: Path) -> None:
    flow = load(file, ONE_FLOW + "A->B.emit.heartbeats.enabled=false").flows[0]
    assert not flow.heartbeats.emits


@pytest.mark.parametrize(
    ("text", "emits"),
    [
        ("", True),
        ("A->B.emit.checkpoints.enabled=false", False),
        ("A->B.emit.offset-syncs.enabled=false", False),
        ("A->B.emit.checkpoints.interval.seconds=-1", False),
    ],
)
def test_checkpoints_and_groups_stop_with_what_they_need(
    file: Path, text: str, emits: bool
) -> None:
    found = load(file, ONE_FLOW + "sync.group.offsets.enabled=true\n" + text)
    (flow,) = found.flows
    assert (flow.emits_checkpoints, flow.syncs_groups) == (emits, emits)


def test_groups_are_chosen_by_the_lists_of_the_file(file: Path) -> None:
    checkpoints = load(file, ONE_FLOW + "groups=group1").flows[0].checkpoints
    groups = NameFilter(checkpoints.groups, checkpoints.groups_exclude)
    assert groups.accepts("group1")
    assert not groups.accepts("group2")


def test_topics_are_chosen_by_the_lists_of_the_flow(file: Path) -> None:
    text = ONE_FLOW + "topics=x\nA->B.topics=topic-.*, other\nA->B.topics.exclude=topic-3"
    flow = load(file, text).flows[0]
    topics = NameFilter(flow.mirroring.topics, flow.mirroring.topics_exclude)
    assert [t for t in ("topic-1", "topic-2", "topic-3", "other", "x") if topics.accepts(t)] == [
        "topic-1",
        "topic-2",
        "other",
    ]


def test_an_empty_list_of_topics_copies_nothing(file: Path) -> None:
    flow = load(file, ONE_FLOW + "A->B.topics=").flows[0]
    topics = NameFilter(flow.mirroring.topics, flow.mirroring.topics_exclude)
    assert not any(topics.accepts(topic) for topic in ("topic1", "topic2", ""))


@pytest.mark.parametrize(
    "key",
    [
        "tasks.max",
        "topics",
        "groups",
        "config.properties.exclude",
        "metric.reporters",
        "topic.filter.class",
        "replication.policy.separator",
    ],
)
def test_a_bare_key_that_a_connector_declares_reaches_it(key: str) -> None:
    for part in CONNECTORS:
        assert connector_props({key: "x"}, AB, part)[key] == "x"


def test_a_bare_key_that_no_connector_declares_reaches_none() -> None:
    props = {"abc.def": "x", "clusters": "A,B", "offset.storage.topic": "x", "client.id": "x"}
    for part in CONNECTORS:
        assert not props.keys() & connector_props(props, AB, part).keys()


def test_a_key_of_a_flow_reaches_its_connectors_alone() -> None:
    props = {"A->B.tasks.max": "42", "B->A.tasks.max": "9"}
    for part in CONNECTORS:
        assert connector_props(props, AB, part)["tasks.max"] == "42"
        assert "tasks.max" not in connector_props(props, Flow("A", "C"), part)


def test_the_keys_of_all_connectors_may_be_bare() -> None:
    assert {"topics", "groups", "emit.heartbeats.enabled"} <= BARE_KEYS


def test_what_a_task_is_told_is_no_key_of_a_connector() -> None:
    for part in CONNECTORS:
        assert not [field for field in fields_of(part) if field.name.startswith("task.")]


def test_the_security_of_a_cluster_reaches_every_client_of_its_worker() -> None:
    props = {"B.security.protocol": "SSL", "B.producer.security.protocol": "PLAINTEXT"}
    props |= {"B.offset.storage.replication.factor": "7", "status.storage.replication.factor": "8"}
    found = worker_props(props, AB)
    assert found["security.protocol"] == found["consumer.security.protocol"] == "SSL"
    assert found["producer.security.protocol"] == "PLAINTEXT"
    assert found["offset.storage.replication.factor"] == "7"
    assert found["status.storage.replication.factor"] == "8"


@pytest.mark.parametrize("key", ["security.protocol", "A.security.protocol"])
def test_an_unknown_security_protocol_is_named_with_its_key(file: Path, key: str) -> None:
    with pytest.raises(ConfigError, match=rf"{key}=abc: one of PLAINTEXT, SSL"):
        load(file, ONE_FLOW + f"{key}=abc")


def test_a_security_protocol_is_written_in_any_case(file: Path) -> None:
    assert load(file, ONE_FLOW + "security.protocol=sSl").flows[0].source.tls is not None


def test_secrets_are_looked_up_for_use_and_not_for_keeping(file: Path) -> None:
    text = (
        ONE_FLOW + "config.providers=env\nA->B.topics=${env:NAME}\nB.ssl.key.password=${env:PASS}"
    )
    found = load(file, text, NAME="orders", PASS="hunter2")
    flow = found.flows[0]
    assert flow.mirroring.topics == ("orders",)
    assert flow.worker["ssl.key.password"] == "hunter2"
    assert flow.worker["config.providers"] == "env"
    kept = connector_props(found.written.entries, AB, Part.SOURCE)
    assert kept["topics"] == "${env:NAME}"
    assert kept["target.cluster.ssl.key.password"] == "${env:PASS}"


LEVELS = [
    ([], "read_committed"),
    (["A.consumer.isolation.level=read_uncommitted"], "read_uncommitted"),
    (["A->B.consumer.isolation.level=read_uncommitted"], "read_uncommitted"),
    (
        [
            "A->B.consumer.isolation.level=read_uncommitted",
            "A->B.source.consumer.isolation.level=read_committed",
        ],
        "read_committed",
    ),
    (
        [
            "A->B.consumer.isolation.level=read_committed",
            "A.consumer.isolation.level=read_uncommitted",
        ],
        "read_uncommitted",
    ),
]


@pytest.mark.parametrize(("lines", "level"), LEVELS)
def test_the_more_exact_isolation_level_counts(file: Path, lines: list[str], level: str) -> None:
    assert load(file, ONE_FLOW + "\n".join(lines)).flows[0].reading.isolation_level == level


@pytest.mark.parametrize(
    ("support", "level", "refused"),
    [
        ("required", "read_committed", False),
        ("required", "read_uncommitted", True),
        ("requested", "read_uncommitted", False),
    ],
)
def test_exactly_once_is_required_of_committed_records_only(
    file: Path, support: str, level: str, refused: bool
) -> None:
    text = f"A->B.exactly.once.support={support}\nA.consumer.isolation.level={level}"
    if refused:
        with pytest.raises(ConfigError, match=r"because exactly\.once\.support=required"):
            load(file, ONE_FLOW + text)
    else:
        assert load(file, ONE_FLOW + text).flows[0].reading.isolation_level == level


def test_another_mistake_is_told_where_exactly_once_is_right(file: Path) -> None:
    text = "A->B.exactly.once.support=required\nA->B.tasks.max=none"
    with pytest.raises(ConfigError, match=r"A->B\.tasks\.max=none: a whole number"):
        load(file, ONE_FLOW + text)


@pytest.mark.parametrize(
    ("location", "cluster", "client_id"),
    [
        ("", "A", "mine|A->B|MirrorSourceConnector|offset-syncs-source-producer"),
        ("source", "A", "mine|A->B|MirrorSourceConnector|offset-syncs-source-producer"),
        ("target", "B", "other|A->B|MirrorSourceConnector|offset-syncs-target-producer"),
    ],
)
def test_offset_syncs_go_where_they_are_kept_with_that_cluster_s_producer(
    file: Path, location: str, cluster: str, client_id: str
) -> None:
    text = ONE_FLOW + "A.producer.client.id=mine\nB.producer.client.id=other\n"
    if location:
        text += f"offset-syncs.topic.location={location}"
    end = load(file, text).flows[0].offset_syncs
    assert (end.cluster, end.client_id) == (cluster, client_id)
    assert str(end) == ("h:1" if cluster == "A" else "h:2")
