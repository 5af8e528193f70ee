"""Topics of our own on clusters that do not allow everything."""

import signal
import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AclOperation, ResourceType

from heliograph.driving.ownership import Ownership
from heliograph.errors import ClusterUnreachable, FlowFenced, KafkaFault
from heliograph.kafka import produce as producers
from heliograph.kafka.cluster import Cluster, Topic
from heliograph.kafka.lane import Outgoing as Outgoing_
from heliograph.model import Position, TopicPartition
from heliograph.saved.runs import RunStore
from heliograph.tables.append import Appender
from heliograph.tables.table import Table
from lab.clusters import LiveCluster, Outgoing, eventually, start_live_cluster
from lab.counting import endpoint
from lab.processes import freeze
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


def test_a_table_that_was_deleted_is_noticed_also_where_another_has_made_it_again(
    target: LiveCluster,
) -> None:
    name = f"table-{uuid.uuid4().hex}"
    with closing(Cluster(endpoint(target))) as cluster:
        table = Table(cluster, name)
        assert table.ensure(1, 1)
        assert not table.ensure(1, 1)
        table.write({b"a": b"1"})
        target.admin.delete_topics([name])[name].result(timeout=30)
        eventually(lambda: name not in target.topics())
        Table(cluster, name).ensure(1, 1)
        assert table.ensure(1, 1)
        assert not table.ensure(1, 1)
        table.write({b"b": b"2"})
        assert table.read() == {b"b": b"2"}


def test_a_table_that_a_broker_does_not_know_for_a_moment_is_the_same(
    target: LiveCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"table-{uuid.uuid4().hex}"
    with closing(Cluster(endpoint(target))) as cluster:
        table = Table(cluster, name)
        table.ensure(1, 1)
        answers: Iterator[dict[str, Topic]] = iter([{}])
        ask = cluster.describe
        monkeypatch.setattr(cluster, "describe", lambda names: next(answers, ask(names)))
        assert not table.ensure(1, 1)
        assert next(answers, None) is None, "the broker that does not know it was asked"


def test_a_cluster_that_does_not_answer_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heliograph.net.transport.REQUEST_TIMEOUT", timedelta(seconds=1))
    live = start_live_cluster("silent", tmp_path)
    try:
        with closing(Cluster(endpoint(live))) as cluster:
            cluster.describe(())
            freeze([live.cluster.pids[1]])
            with pytest.raises(ClusterUnreachable, match="silent: no broker answers"):
                Table(cluster, "never").ensure(1, 1, within=timedelta(seconds=2))
            live.cluster.kill(1, signal.SIGCONT)
    finally:
        live.cluster.wipe()


def test_a_partition_that_took_no_rows_in_time_keeps_its_writer_waiting_only_now_and_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[int] = []
    offer = producers.Producer.offer

    def noted(producer: producers.Producer, slot: int, batch: Outgoing_) -> None:
        tries.append(slot)
        offer(producer, slot, batch)

    monkeypatch.setattr(producers.Producer, "offer", noted)
    live = start_live_cluster("stuck", tmp_path)
    soon, later = timedelta(seconds=2), timedelta(seconds=60)
    try:
        name = live.create_topic(2, name="rows")
        with closing(Cluster(endpoint(live))) as cluster:
            appender = Appender(cluster, name)
            appender.append({0: [(b"k", b"1")], 1: [(b"k", b"1")]})
            freeze([live.cluster.pids[1]])
            with pytest.raises(KafkaFault) as first:
                appender.append({1: [(b"k", b"2")]}, soon)
            tries.clear()

            with pytest.raises(KafkaFault) as second:
                appender.append({0: [(b"k", b"2")], 1: [(b"k", b"2")]}, soon)

            assert tries == [], "nothing of it was sent"
            assert str(second.value) == str(first.value)
            live.cluster.kill(1, signal.SIGCONT)
            appender.append({1: [(b"k", b"3")]}, later)
            appender.append({1: [(b"k", b"4")]}, soon)
        assert tries == [1, 1], "who has more patience is not refused, and then nobody is"
        assert Counter(r.value for r in live.consume(name))[b"4"] == 1
    finally:
        live.cluster.wipe()


def test_rows_behind_an_open_transaction_count(target: LiveCluster) -> None:
    """A reader that stopped at the last stable offset took an old position for the newest."""
    name = target.create_topic(name=f"table-{uuid.uuid4().hex}")
    writer = Producer(target.client(**{"transactional.id": uuid.uuid4().hex}))
    writer.init_transactions()
    writer.begin_transaction()
    writer.produce(name, key=b"a", value=b"in a transaction")
    writer.flush()
    target.produce(name, [Outgoing(b"behind it", key=b"b")])
    ending = threading.Timer(2.0, writer.abort_transaction)
    ending.start()
    with closing(Cluster(endpoint(target))) as cluster:
        assert Table(cluster, name).read() == {b"b": b"behind it"}
    ending.join()


def test_rows_of_an_author_that_was_succeeded_are_refused(target: LiveCluster) -> None:
    name = target.create_topic(name=f"table-{uuid.uuid4().hex}")
    places = [TopicPartition(name, 0)]
    flow = uuid.uuid4().hex
    with closing(Cluster(endpoint(target))) as cluster:
        asleep, successor = Ownership(flow), Ownership(flow)
        tables = []
        for ownership in (asleep, successor):
            ownership.open(cluster, None, places)
            table = Table(cluster, name)
            table.sign_as(ownership.author(cluster))
            tables.append(table)
        tables[1].write({b"a": b"new"})
        with pytest.raises(FlowFenced):
            tables[0].write({b"a": b"old"})
        assert Table(cluster, name).read() == {b"a": b"new"}
        tables[1].write({b"a": b"newer", b"b": b"too"})
        assert Table(cluster, name).read() == {b"a": b"newer", b"b": b"too"}


def test_rows_of_a_topic_that_is_gone_leave_the_runs_topic(target: LiveCluster) -> None:
    name = target.create_topic(name=f"runs-{uuid.uuid4().hex}")
    kept, gone = TopicPartition("kept", 0), TopicPartition("gone", 0)
    with closing(Cluster(endpoint(target))) as cluster:
        runs = RunStore(cluster, name, 1)
        runs.load()
        for partition in (kept, gone):
            runs.begin(partition, Position(0, 0))
            runs.add(partition, [(2 * n, 3 * n, 1) for n in range(1, 1200)])
        runs.save()
        assert len(Table(cluster, name).read()) > 4

        runs.drop({"gone"})
        runs.save()

        again = RunStore(cluster, name, 1)
        again.load()
        assert again.topics_known() == {"kept"}
        assert all(b"kept" in key for key in Table(cluster, name).read())
