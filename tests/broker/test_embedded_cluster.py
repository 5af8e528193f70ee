import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from heliograph.embedded.cluster import list_clusters, read_cluster, start_cluster
from heliograph.errors import ConfigError, Missing
from lab.clusters import LiveCluster, Outgoing, eventually

pytestmark = pytest.mark.broker


@pytest.fixture
def data_root(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    for cluster in list_clusters(tmp_path):
        cluster.wipe()


def test_a_record_comes_back_with_all_its_fields(source: LiveCluster) -> None:
    topic = source.create_topic(partitions=2)
    sent = Outgoing(
        b"v", key=b"k", partition=1, timestamp=1_700_000_000_123, headers=(("h", b"1"), ("h", None))
    )

    assert source.produce(topic, [sent, Outgoing(None, partition=1)]) == [(1, 0), (1, 1)]

    first, second = source.consume(topic)
    assert (first.partition, first.offset, first.timestamp) == (1, 0, (1, 1_700_000_000_123))
    assert (first.key, first.value, first.headers) == (b"k", b"v", sent.headers)
    assert second.value is None


def test_source_and_target_are_two_clusters(source: LiveCluster, target: LiveCluster) -> None:
    topic = source.create_topic()

    assert topic in source.topics()
    assert topic not in target.topics()


def test_records_survive_stop_and_start_at_the_same_address(data_root: Path) -> None:
    first = LiveCluster(start_cluster("kept", data_root=data_root))
    topic = first.create_topic()
    first.produce(topic, [b"one", b"two"])
    first.cluster.stop()
    assert first.cluster.pids == {}

    again = LiveCluster(start_cluster("kept", data_root=data_root))

    assert again.bootstrap == first.bootstrap
    assert [record.value for record in again.consume(topic)] == [b"one", b"two"]


def test_starting_a_running_cluster_leaves_it_as_it_is(data_root: Path) -> None:
    first = start_cluster("twice", data_root=data_root)

    assert start_cluster("twice", data_root=data_root).pids == first.pids
    with pytest.raises(ConfigError, match="already runs at"):
        start_cluster("twice", port=first.layout.nodes[0].port + 1, data_root=data_root)


def test_three_brokers_keep_serving_when_one_is_killed_and_comes_back(data_root: Path) -> None:
    live = LiveCluster(start_cluster("three", brokers=3, data_root=data_root))
    topic = live.create_topic(replication=3, config={"min.insync.replicas": "2"})
    before = live.cluster.pids

    live.cluster.kill(2, signal.SIGKILL)
    eventually(lambda: 2 not in live.cluster.pids)
    live.produce(topic, [b"while away"])
    live.cluster.start_broker(2)

    assert live.cluster.is_running
    assert live.cluster.pids[2] != before[2]
    assert [record.value for record in live.consume(topic)] == [b"while away"]


def test_a_port_in_use_is_named(data_root: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
        with pytest.raises(Missing, match=f"port {port} is in use"):
            start_cluster("late", port=port, data_root=data_root)
    assert list_clusters(data_root) == []


def test_a_broker_that_cannot_start_shows_its_own_last_lines(data_root: Path) -> None:
    with pytest.raises(Missing, match=r"broker 1 ended while starting[\s\S]*num\.io\.threads"):
        start_cluster("broken", data_root=data_root, config={"num.io.threads": "many"})


def test_a_recycled_pid_is_not_taken_for_a_broker(data_root: Path) -> None:
    cluster = start_cluster("stale", data_root=data_root)
    cluster.stop()
    (cluster.folder / "broker-1" / "process.json").write_text(
        json.dumps({"pid": os.getpid(), "started": "1"})
    )

    found = read_cluster("stale", data_root)

    assert found is not None
    assert found.pids == {}
    found.stop()
