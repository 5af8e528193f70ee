"""What an application learns of a mirror, and that Kafka's own client learns the same from the same bytes."""

import json
import os
import re
import subprocess
import sys
import uuid
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path

import pytest

from heliograph import client as heliograph_client
from heliograph.client import MirrorClient, OffsetAndMetadata, TopicPartition
from heliograph.errors import ClusterUnreachable, DeadlinePassed, NotMirrored
from heliograph.policy.naming import DefaultNaming, NamingPolicy, naming_for, runs_topic
from heliograph.policy.runs import RunMap
from heliograph.wire.mirror_records import (
    Checkpoint,
    Heartbeat,
    encode_checkpoint,
    encode_heartbeat,
)
from heliograph.wire.run_records import encode_segment_key
from lab.clusters import LiveCluster, Outgoing
from tests.java_client import read_with_java, read_with_python

pytestmark = pytest.mark.broker

DEFAULT = DefaultNaming()
COMPACTED = {"cleanup.policy": "compact"}
IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"


EXAMPLES = re.compile(r"```python\n(.*?)```\n```text\n(.*?)```", re.DOTALL)


@pytest.fixture
def alias() -> str:
    """The name of a cluster that no other test mirrors from."""
    return f"A-{uuid.uuid4().hex[:8]}"


def write(live: LiveCluster, topic: str, rows: Iterable[tuple[bytes | None, bytes | None]]) -> None:
    if topic not in live.topics():
        live.create_topic(config=COMPACTED, name=topic)
    live.produce(topic, [Outgoing(value, key, partition=0) for key, value in rows])


def write_checkpoints(live: LiveCluster, alias: str, naming: NamingPolicy = DEFAULT) -> None:
    """Write what a mirror of `alias` would, for groups billing and audit, and what nobody should."""
    topic = naming.format_remote_topic(alias, "orders")
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 12)
    billing = encode_checkpoint(Checkpoint("billing", first, 100, 90, "höher"))
    write(
        live,
        naming.checkpoints_topic(alias),
        [
            encode_checkpoint(Checkpoint("billing", first, 200, 180, "before it was rewound")),
            encode_checkpoint(Checkpoint("audit", first, 7, 7)),
            (b"\x00\x03foreign", b"bytes"),
            encode_checkpoint(Checkpoint("billing", second, 2**40, 2**40 - 1)),
            billing,
            (billing[0], b"\x00\x00foreign"),
        ],
    )


def write_heartbeats(live: LiveCluster, *topics: str) -> None:
    for topic in topics:
        write(live, topic, [encode_heartbeat(Heartbeat("A", "B", 1234567890))])


def write_runs(live: LiveCluster, alias: str, partition: TopicPartition, runs: RunMap) -> None:
    rows = [(encode_segment_key(partition, up), row) for up, row in runs.take_changes().items()]
    write(live, runs_topic(DEFAULT, alias), rows)


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"replication.policy.separator": "__"},
        {
            "replication.policy.separator": "_",
            "replication.policy.internal.topic.separator.enabled": "false",
        },
        {"replication.policy.class": IDENTITY},
    ],
    ids=["default", "separator", "dots inside", "identity"],
)
def test_java_learns_the_same_as_we_do(
    target: LiveCluster, alias: str, properties: dict[str, str]
) -> None:
    separator = properties.get("replication.policy.separator", ".")
    beyond = f"Z-{uuid.uuid4().hex[:8]}"
    settings = {**properties, "source.cluster.alias": alias}
    naming = heliograph_client.client_naming(settings)
    write_checkpoints(target, alias, naming)
    beats = (
        f"{alias}{separator}heartbeats",
        f"{alias}{separator}{beyond}{separator}heartbeats",
    )
    write_heartbeats(target, "heartbeats", *beats)
    orders = target.create_topic(name=naming.format_remote_topic(alias, f"orders-{alias}"))

    ours = read_with_python(target.bootstrap, alias, "billing", settings)

    assert read_with_java(target.bootstrap, alias, "billing", settings) == ours
    assert {alias, beyond} <= set(ours["upstream_clusters"])
    assert (
        ours["replication_hops"] | {alias: 1, beyond: 2, "no-such-cluster": -1}
        == (ours["replication_hops"])
    )
    assert {"heartbeats", *beats} <= set(ours["heartbeat_topics"])
    assert naming.checkpoints_topic(alias) in ours["checkpoint_topics"]
    assert orders in ours["remote_topics_of_cluster"]
    remote = naming.format_remote_topic(alias, "orders")
    assert ours["offsets"] == [
        {"topic": remote, "partition": 0, "offset": 90, "metadata": "höher"},
        {"topic": remote, "partition": 12, "offset": 2**40 - 1, "metadata": ""},
    ]


def test_a_group_continues_where_its_last_checkpoint_says(target: LiveCluster, alias: str) -> None:
    write_checkpoints(target, alias)
    orders = TopicPartition(f"{alias}.orders", 0)
    expected = {
        orders: OffsetAndMetadata(90, "höher"),
        TopicPartition(f"{alias}.orders", 12): OffsetAndMetadata(2**40 - 1),
    }
    for where in (target.bootstrap, {"bootstrap.servers": target.bootstrap}):
        assert heliograph_client.translate_offsets(where, alias, "billing") == expected
    with MirrorClient(target.bootstrap) as client:
        assert client.remote_consumer_offsets("audit", alias) == {orders: OffsetAndMetadata(7)}
        assert client.remote_consumer_offsets("nobody", alias) == {}
        assert set(client.remote_groups(alias)) == {"billing", "audit"}


def test_clusters_and_topics_can_be_asked_for_in_one_line(target: LiveCluster, alias: str) -> None:
    write_checkpoints(target, alias)
    write_heartbeats(target, f"{alias}.heartbeats")
    where = target.bootstrap
    assert alias in heliograph_client.upstream_clusters(where)
    assert heliograph_client.replication_hops(where, alias) == 1
    assert heliograph_client.replication_hops(where, "nobody") == -1
    assert f"{alias}.heartbeats" in heliograph_client.heartbeat_topics(where)
    assert f"{alias}.checkpoints.internal" in heliograph_client.checkpoint_topics(where)
    assert heliograph_client.remote_topics(where, alias) == {f"{alias}.heartbeats"}
    assert heliograph_client.remote_topics(where) >= {f"{alias}.heartbeats"}
    identity = naming_for(IDENTITY, ".", True, alias)
    orders = target.create_topic()
    assert orders in heliograph_client.remote_topics(where, alias, naming=identity)
    assert orders not in heliograph_client.remote_topics(where)


def test_an_answer_that_does_not_come_whole_in_time_is_none(
    target: LiveCluster, alias: str
) -> None:
    write_checkpoints(target, alias)
    with MirrorClient(target.bootstrap) as client:
        with pytest.raises(DeadlinePassed, match="within 0 s"):
            client.remote_consumer_offsets("billing", alias, within=timedelta(0))
        assert client.remote_consumer_offsets("billing", alias)


def test_a_cluster_that_is_not_mirrored_here_is_told(target: LiveCluster, alias: str) -> None:
    write_checkpoints(target, alias)
    with (
        MirrorClient(target.bootstrap) as client,
        pytest.raises(NotMirrored, match=rf"no topic B\.checkpoints\.internal here.*{alias}"),
    ):
        client.remote_consumer_offsets("billing", "B")


def test_no_broker_is_told_before_the_patience_is_over() -> None:
    client = MirrorClient("127.0.0.1:1", patience=timedelta(seconds=0.2))
    with client, pytest.raises(ClusterUnreachable):
        client.upstream_clusters()


def test_offsets_are_exact_in_both_directions(target: LiveCluster, alias: str) -> None:
    runs = RunMap()
    runs.add(0, 0, 100)
    runs.add(101, 100, 50)
    runs.detach(1000, 400)
    runs.add(1000, 400, 10)
    write_runs(target, alias, TopicPartition("orders", 3), runs)
    with MirrorClient(target.bootstrap) as client:

        def down(offset: int) -> int | None:
            return client.exact_offset("orders", 3, offset, remote_cluster=alias)

        def up(offset: int) -> int | None:
            return client.exact_offset("orders", 3, offset, remote_cluster=alias, upstream=True)

        assert [down(offset) for offset in (0, 99, 100, 101, 500, 1009)] == [
            *(0, 99, 100, 100),
            *(None, 409),
        ]
        assert [up(offset) for offset in (0, 100, 409, 200)] == [0, 101, 1009, None]
        assert client.exact_offset("orders", 4, 0, remote_cluster=alias) is None
        assert client.exact_offset("orders", 3, 0, remote_cluster="nobody") is None
        maps = client.run_maps(alias)
        assert list(maps) == [TopicPartition("orders", 3)]
        assert maps[TopicPartition("orders", 3)].downstream_of(120) == 119


def test_runs_that_change_are_followed(target: LiveCluster, alias: str) -> None:
    runs, orders = RunMap(), TopicPartition("orders", 0)
    runs.add(0, 0, 10)
    runs.detach(100, 50)
    write_runs(target, alias, orders, runs)
    runs.cut(5)
    runs.add(5, 7, 3)
    write_runs(target, alias, orders, runs)
    with MirrorClient(target.bootstrap) as client:
        assert client.exact_offset("orders", 0, 6, remote_cluster=alias) == 8
        assert client.exact_offset("orders", 0, 100, remote_cluster=alias) == 10


def test_the_documented_lines_print_what_is_documented(
    target: LiveCluster, alias: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_checkpoints(target, alias)
    runs = RunMap()
    runs.add(0, 0, 100)
    runs.add(101, 100, 50)
    write_runs(target, alias, TopicPartition("orders", 0), runs)
    examples = EXAMPLES.findall(Path("docs/client.md").read_text())
    assert len(examples) == 3
    for code, printed in examples:
        there = code.replace("target:9092", target.bootstrap).replace('"A"', f'"{alias}"')
        exec(compile(there, "docs/client.md", "exec"), {})
        assert capsys.readouterr().out == printed.replace("A.", f"{alias}.")


def translate(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "heliograph", "translate-offsets", *arguments]
    environment = {**os.environ, "PYTHONPATH": "src"}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, env=environment
    )


@pytest.fixture
def asks(target: LiveCluster, alias: str) -> tuple[str, ...]:
    return ("--bootstrap-server", target.bootstrap, "--remote-cluster", alias)


def test_the_command_prints_a_table_or_json(
    target: LiveCluster, alias: str, asks: tuple[str, ...]
) -> None:
    write_checkpoints(target, alias)
    shown = translate(*asks, "--group", "billing")
    assert shown.returncode == 0, shown.stderr
    assert [line.split() for line in shown.stdout.splitlines()] == [
        ["topic", "partition", "offset", "metadata"],
        [f"{alias}.orders", "0", "90", "höher"],
        [f"{alias}.orders", "12", str(2**40 - 1)],
    ]
    as_json = translate(*asks, "--group", "billing", "--json")
    assert json.loads(as_json.stdout)[0] == {
        "topic": f"{alias}.orders",
        "partition": 0,
        "offset": 90,
        "metadata": "höher",
    }


def test_the_command_translates_one_offset_exactly(
    target: LiveCluster, alias: str, asks: tuple[str, ...]
) -> None:
    runs = RunMap()
    runs.add(10, 0, 5)
    write_runs(target, alias, TopicPartition("orders", 0), runs)
    assert translate(*asks, "--exact", "orders:0:12").stdout == f"{alias}.orders:0:2\n"
    back = translate(*asks, "--exact", "orders:0:2", "--upstream", "--json")
    assert json.loads(back.stdout) == {"topic": "orders", "partition": 0, "offset": 12}
    unknown = translate(*asks, "--exact", "payments:0:2")
    assert (unknown.returncode, unknown.stdout) == (1, "")
    assert "payments:0:2: no run map" in unknown.stderr


def test_the_command_says_why_there_is_no_answer(
    target: LiveCluster, alias: str, asks: tuple[str, ...], tmp_path: Path
) -> None:
    write_checkpoints(target, alias)
    absent = translate(*asks, "--group", "nobody")
    assert absent.returncode == 1
    assert "Groups that have one: audit, billing." in absent.stderr
    other = translate(*asks, "--group", "billing", "--separator", "__")
    assert other.returncode == 1
    assert f"no topic {alias}__checkpoints__internal here" in other.stderr
    assert translate(*asks).returncode == 2
    wrong = tmp_path / "client.properties"
    wrong.write_text("security.protocol=NONE\n")
    assert translate(*asks, "--group", "g", "--command-config", str(wrong)).returncode == 2
    away = ("--bootstrap-server", "127.0.0.1:1", "--remote-cluster", "A", "--within", "0.2")
    unreachable = translate(*away, "--group", "g")
    assert unreachable.returncode == 3
    assert "--bootstrap-server is right" in unreachable.stderr
