import pytest

from heliograph.config.fields import Part
from heliograph.config.precedence import cluster_props, connector_props, worker_props
from heliograph.model import Flow

AB = Flow("A", "B")


def test_a_cluster_beats_bare_and_a_client_beats_its_cluster() -> None:
    props = {
        "security.protocol": "SSL",
        "sasl.mechanism": "PLAIN",
        "A.sasl.mechanism": "SCRAM-SHA-256",
        "A.consumer.sasl.mechanism": "GSSAPI",
        "A.consumer.max.poll.records": "5",
        "B.sasl.mechanism": "X",
    }
    assert cluster_props(props, "A") == {
        "security.protocol": "SSL",
        "producer.security.protocol": "SSL",
        "consumer.security.protocol": "SSL",
        "admin.security.protocol": "SSL",
        "sasl.mechanism": "SCRAM-SHA-256",
        "producer.sasl.mechanism": "SCRAM-SHA-256",
        "consumer.sasl.mechanism": "GSSAPI",
        "admin.sasl.mechanism": "SCRAM-SHA-256",
        "consumer.max.poll.records": "5",
    }


WORKER = [
    ({"offset.flush.interval.ms": "1"}, "offset.flush.interval.ms", None),
    ({"B.offset.flush.interval.ms": "1"}, "offset.flush.interval.ms", "1"),
    ({"A.offset.flush.interval.ms": "1"}, "offset.flush.interval.ms", None),
    ({"A->B.offset.flush.interval.ms": "1"}, "offset.flush.interval.ms", None),
    ({}, "offset.storage.topic", "mm2-offsets.A.internal"),
    ({"replication.policy.separator": "_"}, "offset.storage.topic", "mm2-offsets.A.internal"),
    (
        {"B.offset.storage.topic": "b", "offset.storage.topic": "bare"},
        "offset.storage.topic",
        "bare",
    ),
    ({"B.offset.storage.topic": "b"}, "offset.storage.topic", "b"),
    ({}, "group.id", "A-mm2"),
    ({"group.id": "g"}, "group.id", "A-mm2"),
    ({}, "client.id", "A->B"),
    ({}, "value.converter", "org.apache.kafka.connect.converters.ByteArrayConverter"),
    ({"config.providers": "file"}, "config.providers", "file"),
    ({"B.producer.compression.type": "zstd"}, "producer.compression.type", "zstd"),
]


@pytest.mark.parametrize(("props", "key", "value"), WORKER)
def test_what_reaches_the_worker(props: dict[str, str], key: str, value: str | None) -> None:
    assert worker_props(props, AB).get(key) == value


CONNECTOR = [
    ({"topics": "bare"}, "topics", "bare"),
    ({"topics": "bare", "A->B.topics": "flow"}, "topics", "flow"),
    ({"topics": "bare", "B->A.topics": "other"}, "topics", "bare"),
    ({}, "name", "MirrorSourceConnector"),
    ({"A->B.name": "mine"}, "name", "mine"),
    ({}, "connector.class", "org.apache.kafka.connect.mirror.MirrorSourceConnector"),
    ({}, "enabled", "false"),
    ({"A->B.enabled": "true"}, "enabled", "true"),
    ({"A.bootstrap.servers": "a:1"}, "source.cluster.bootstrap.servers", "a:1"),
    ({"A.bootstrap.servers": "a:1"}, "source.consumer.bootstrap.servers", "a:1"),
    ({"B.bootstrap.servers": "b:1"}, "target.producer.bootstrap.servers", "b:1"),
    ({"A.consumer.isolation.level": "x"}, "source.consumer.isolation.level", "x"),
    ({"A.admin.timeout.ms": "1"}, "source.admin.timeout.ms", "1"),
    ({"A.admin.timeout.ms": "1"}, "admin.timeout.ms", None),
    ({"admin.timeout.ms": "1"}, "admin.timeout.ms", "1"),
    ({"consumer.poll.timeout.ms": "1"}, "consumer.poll.timeout.ms", "1"),
    ({"consumer.max.poll.records": "1"}, "consumer.max.poll.records", None),
    ({"source.consumer.isolation.level": "x"}, "source.consumer.isolation.level", None),
    ({"A->B.source.consumer.isolation.level": "x"}, "source.consumer.isolation.level", "x"),
    ({"use.defaults.from": "source"}, "use.defaults.from", None),
    ({"A->B.use.defaults.from": "source"}, "use.defaults.from", "source"),
    ({"exactly.once.support": "required"}, "exactly.once.support", None),
    ({"replication.policy.mine": "x"}, "replication.policy.mine", "x"),
    ({"config.providers.v.class": "x"}, "config.providers.v.class", "x"),
    ({"merge.max.bytes": "9"}, "merge.max.bytes", "9"),
    ({"merge.max.bytes": "9", "A->B.merge.max.bytes": "8"}, "merge.max.bytes", "8"),
    ({"topics.blacklist": "x"}, "topics.exclude", "x"),
    ({"topics.blacklist": "x", "topics.exclude": "y"}, "topics.exclude", "y"),
    ({"A->B.topics.blacklist": "x", "topics.exclude": "y"}, "topics.exclude", "y"),
    ({"A->B.groups.blacklist": "x"}, "groups.exclude", "x"),
    ({"config.properties.blacklist": "x"}, "config.properties.exclude", "x"),
    ({"ssl.protocol": "T"}, "ssl.protocol", "T"),
    ({"ssl.protocol": "T"}, "source.cluster.ssl.protocol", "T"),
]


@pytest.mark.parametrize(("props", "key", "value"), CONNECTOR)
def test_what_reaches_the_connector(props: dict[str, str], key: str, value: str | None) -> None:
    assert connector_props(props, AB, Part.SOURCE).get(key) == value


def test_each_connector_has_its_own_name() -> None:
    names = [connector_props({}, AB, part)["name"] for part in (Part.CHECKPOINT, Part.HEARTBEAT)]
    assert names == ["MirrorCheckpointConnector", "MirrorHeartbeatConnector"]
