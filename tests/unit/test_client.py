import subprocess
import sys

import pytest

from heliograph.cli.translate import explain_absence, parse_place
from heliograph.client import (
    MirrorClient,
    OffsetAndMetadata,
    TopicPartition,
    client_endpoint,
    client_naming,
    latest_offsets,
)
from heliograph.errors import ConfigError, DeadlinePassed, NotMirrored
from heliograph.policy.naming import DefaultNaming, IdentityNaming
from heliograph.wire.mirror_records import Checkpoint, encode_checkpoint

ORDERS = TopicPartition("A.orders", 0)


def test_the_last_checkpoint_of_a_group_and_partition_counts() -> None:
    rows = [
        encode_checkpoint(Checkpoint("billing", ORDERS, 20, 15, "first")),
        encode_checkpoint(Checkpoint("audit", ORDERS, 3, 2)),
        encode_checkpoint(Checkpoint("billing", TopicPartition("A.orders", 1), 1, 1)),
        encode_checkpoint(Checkpoint("billing", ORDERS, 10, 8, "rewound")),
    ]
    assert latest_offsets(rows) == {
        "billing": {
            ORDERS: OffsetAndMetadata(8, "rewound"),
            TopicPartition("A.orders", 1): OffsetAndMetadata(1),
        },
        "audit": {ORDERS: OffsetAndMetadata(2)},
    }


def test_what_is_no_checkpoint_is_passed_over() -> None:
    key, value = encode_checkpoint(Checkpoint("billing", ORDERS, 20, 15))
    rows = [(b"", b""), (key, value), (key, b"short"), (b"\x00\x07foreign", value)]
    assert latest_offsets(rows) == {"billing": {ORDERS: OffsetAndMetadata(15)}}


def test_a_deleted_checkpoint_is_gone() -> None:
    key, value = encode_checkpoint(Checkpoint("billing", ORDERS, 20, 15))
    assert latest_offsets([(key, value), (key, None)]) == {}
    assert latest_offsets([(key, None), (key, value)]) == {
        "billing": {ORDERS: OffsetAndMetadata(15)}
    }


def test_client_properties_say_how_to_reach_a_cluster_and_may_differ_by_client() -> None:
    properties = {
        "bootstrap.servers": "one:9092,two:9093",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": 'x.PlainLoginModule required username="u" password="p";',
        "consumer.bootstrap.servers": "three:9094",
        "admin.security.protocol": "PLAINTEXT",
        "consumer.max.poll.records": "7",
    }
    admin = client_endpoint(properties, "admin.")
    assert (admin.bootstrap, admin.sasl) == ((("one", 9092), ("two", 9093)), None)
    consumer = client_endpoint(properties, "consumer.")
    assert consumer.bootstrap == (("three", 9094),)
    assert consumer.sasl is not None
    assert consumer.sasl.options == (("username", "u"), ("password", "p"))


def test_client_properties_say_how_topics_are_named() -> None:
    assert client_naming({}) == DefaultNaming()
    assert client_naming(
        {
            "replication.policy.separator": "__",
            "replication.policy.internal.topic.separator.enabled": "false",
        }
    ) == DefaultNaming(separator="__", internal_separator=False)
    identity = {
        "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
        "source.cluster.alias": "A",
    }
    assert client_naming(identity) == IdentityNaming("A")


def test_a_naming_is_an_object_or_a_class_name() -> None:
    own = DefaultNaming(separator="-")
    assert MirrorClient("localhost:9092").naming == DefaultNaming()
    assert MirrorClient("localhost:9092", naming=own).naming is own
    kept = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
    assert MirrorClient("localhost:9092", naming=kept).naming == IdentityNaming(None)
    properties = {"bootstrap.servers": "localhost:9092", "replication.policy.separator": "__"}
    assert MirrorClient.from_properties(properties, naming=own).naming is own
    assert MirrorClient.from_properties(properties).naming == DefaultNaming(separator="__")


@pytest.mark.parametrize(
    ("properties", "says"),
    [
        ({}, r"bootstrap\.servers is missing"),
        ({"bootstrap.servers": "host"}, "one has no port"),
        (
            {"bootstrap.servers": "h:1", "replication.policy.class": "com.acme.Ours"},
            "Java class cannot be loaded",
        ),
    ],
)
def test_wrong_properties_are_told(properties: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        MirrorClient.from_properties(properties)


def test_importing_the_client_brings_no_spark_along() -> None:
    code = "import sys, heliograph.client; sys.exit('pyspark' in sys.modules or 'typer' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(sys.path)})


def test_a_place_is_topic_partition_and_offset() -> None:
    assert parse_place("a.b-c:3:1234") == ("a.b-c", 3, 1234)
    for wrong in ("orders", "orders:1", ":1:2", "orders:x:2", "orders:1:-2", "orders:1:2:3"):
        with pytest.raises(ConfigError, match="TOPIC:PARTITION:OFFSET"):
            parse_place(wrong)


def test_a_group_without_checkpoint_is_told_of_at_most_five_others() -> None:
    assert "Nor has any other group" in explain_absence("g", "A", [])
    few = explain_absence("g", "A", ["b", "a"])
    assert few.startswith("group g of A has no checkpoint on this cluster.")
    assert few.endswith("Groups that have one: a, b.")
    assert explain_absence("g", "A", "fedcbag").endswith(": a, b, c, d, e and 2 more.")


def test_errors_say_what_to_do() -> None:
    assert "within 5 s. Give it more time" in str(
        DeadlinePassed("read A.checkpoints.internal", 5.0)
    )
    text = str(NotMirrored("A", "A.checkpoints.internal", ("B.checkpoints.internal",)))
    assert "no topic A.checkpoints.internal here, only B.checkpoints.internal" in text
    assert "and none like it" in str(NotMirrored("A", "A.checkpoints.internal", ()))
