"""Topics of our own on clusters that do not allow everything."""

import signal
import uuid
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from heliograph.errors import ClusterUnreachable, KafkaFault
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.table import Table
from tests.clusters import start_live_cluster
from tests.counting import endpoint
from tests.guarded import GuardedCluster

pytestmark = pytest.mark.broker


def test_a_table_that_is_there_needs_no_right_to_make_one(guarded: GuardedCluster) -> None:
    name = guarded.create_topic(name=f"table-{uuid.uuid4().hex}")
    guarded.allow_only(ResourceType.TOPIC, name, AclOperation.DESCRIBE)
    with closing(Cluster(endpoint(guarded))) as cluster:
        Table(cluster, name).ensure(1, 1)


def test_a_table_that_may_not_be_made_is_told_by_name(guarded: GuardedCluster) -> None:
    name = f"table-{uuid.uuid4().hex}"
    guarded.deny(ResourceType.TOPIC, name)
    with (
        closing(Cluster(endpoint(guarded))) as cluster,
        pytest.raises(KafkaFault, match=f"{name}.*TOPIC_AUTHORIZATION_FAILED"),
    ):
        Table(cluster, name).ensure(1, 1)


def test_a_table_that_is_made_is_compacted_and_made_once(guarded: GuardedCluster) -> None:
    name = f"table-{uuid.uuid4().hex}"
    with closing(Cluster(endpoint(guarded))) as cluster:
        Table(cluster, name).ensure(3, 1)
        Table(cluster, name).ensure(5, 1)
    assert guarded.partition_count(name) == 3


def test_a_cluster_that_does_not_answer_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heliograph.kafka.transport.REQUEST_TIMEOUT", timedelta(seconds=1))
    live = start_live_cluster("silent", tmp_path)
    try:
        with closing(Cluster(endpoint(live))) as cluster:
            cluster.describe(())
            live.cluster.kill(1, signal.SIGSTOP)
            with pytest.raises(ClusterUnreachable, match="silent: no broker answers"):
                Table(cluster, "never").ensure(1, 1, within=timedelta(seconds=2))
            live.cluster.kill(1, signal.SIGCONT)
    finally:
        live.cluster.wipe()
