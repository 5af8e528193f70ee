"""What the kafka room promises, on real brokers: order, fencing, tails, tables, topics by id."""

import signal
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from kafka.errors import for_code

from heliograph.admin.configs import topic_configs
from heliograph.errors import ClusterUnreachable, FlowFenced, KafkaFault
from heliograph.kafka import fencing, transactions
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.fencing import fence
from heliograph.kafka.fetch import Fetcher, FetchLimits, Subject
from heliograph.kafka.lane import Lane, Outgoing, Refused, Stored
from heliograph.kafka.offsets import EARLIEST, LATEST, list_offsets
from heliograph.kafka.produce import Producer
from heliograph.kafka.scan import scan
from heliograph.kafka.tail import read_bodies, read_tails
from heliograph.model import Endpoint, ProducerIdentity, TopicPartition
from heliograph.net import faults
from heliograph.tables.table import Table
from heliograph.wire.record_batch import build_header
from heliograph.wire.records import RecordsBuilder, decode_body, encode_body
from heliograph.wire.unpack import unpack
from lab.clusters import LiveCluster, eventually, start_live_cluster
from lab.processes import freeze

pytestmark = pytest.mark.broker


def endpoint(live: LiveCluster) -> Endpoint:
    servers = [address.rsplit(":", 1) for address in live.bootstrap.split(",")]
    return Endpoint(live.name, tuple((host, int(port)) for host, port in servers))


@pytest.fixture
def cluster(target: LiveCluster) -> Iterator[Cluster]:
    with closing(Cluster(endpoint(target))) as cluster:
        yield cluster


class Writer:
    """A producer on one partition that notes what became of its batches."""

    def __init__(self, cluster: Cluster, partition: TopicPartition, identity: ProducerIdentity):
        self.stored: list[Stored] = []
        self.refused: list[Refused] = []
        self._identity = identity
        self._sequence = 0
        self.producer = Producer(
            cluster,
            "flow",
            [Lane(0, partition)],
            on_stored=self.stored.append,
            on_refused=self.refused.append,
        )

    def offer(self, *values: bytes) -> None:
        builder = RecordsBuilder()
        for value in values:
            builder.add(1_700_000_000_000, 0, encode_body(None, value))
        payload = builder.finish()
        header = build_header(
            payload,
            attributes=0,
            count=len(values),
            base_timestamp=builder.base_timestamp,
            max_timestamp=builder.max_timestamp,
            identity=self._identity,
            sequence=self._sequence,
        )
        self._sequence += len(values)
        self.producer.offer(0, Outgoing(header, payload, len(values), 0, 0))

    def drain(self) -> None:
        def pumped() -> bool:
            self.producer.pump(0.1)
            return self.producer.idle

        eventually(pumped, within=60, describe=lambda: self.producer.trouble)


def test_a_zombie_is_refused_after_its_successor_fenced(
    target: LiveCluster, cluster: Cluster
) -> None:
    partition = TopicPartition(target.create_topic(), 0)
    zombie = Writer(cluster, partition, fence(cluster, partition.topic, [partition]))
    zombie.offer(b"before")
    zombie.drain()

    successor = Writer(cluster, partition, fence(cluster, partition.topic, [partition]))
    zombie.offer(b"too late")
    with pytest.raises(FlowFenced, match="another process mirrors this flow"):
        zombie.drain()
    successor.offer(b"after")
    successor.drain()

    assert [record.value for record in target.consume(partition.topic)] == [b"before", b"after"]


def test_markers_are_there_when_fencing_returns(target: LiveCluster, cluster: Cluster) -> None:
    topic = target.create_topic(partitions=8)
    partitions = [TopicPartition(topic, index) for index in range(8)]

    fence(cluster, topic, partitions)

    assert min(list_offsets(cluster, partitions, LATEST).values()) >= 1


def test_a_tail_tells_what_lies_beyond_an_offset(target: LiveCluster, cluster: Cluster) -> None:
    partition = TopicPartition(target.create_topic(), 0)
    writer = Writer(cluster, partition, fence(cluster, partition.topic, [partition]))
    for values in ((b"a", b"b"), (b"c",)):
        writer.offer(*values)
    writer.drain()

    ends = list_offsets(cluster, [partition], LATEST)
    tail = read_tails(cluster, {partition: 3}, ends)[partition]
    whole = read_tails(cluster, {partition: 0}, ends)[partition]

    assert [seen.records for _, seen in tail.batches] == [1]
    assert [(at, seen.records) for at, seen in whole.batches] == [(1, 2), (3, 1)]
    assert (tail.end, tail.missing) == (4, 0)
    assert len(read_bodies(cluster, partition, 2, 4)) == 2


def test_batches_keep_their_order_while_the_broker_is_away(tmp_path: Path) -> None:
    live = start_live_cluster("away", tmp_path)
    try:
        partition = TopicPartition(live.create_topic(), 0)
        with closing(Cluster(endpoint(live))) as cluster:
            writer = Writer(cluster, partition, fence(cluster, "away", [partition]))
            # A coordinator that has just started may have a fence tried twice, which leaves two markers.
            began = list_offsets(cluster, [partition], LATEST)[partition]
            for number in range(200):
                writer.offer(b"%03d" % number)
                writer.producer.pump()
                if number == 100:
                    live.cluster.kill(1)
            eventually(lambda: 1 not in live.cluster.pids)
            live.cluster.start_broker(1)
            writer.drain()
        assert [stored.base_offset for stored in writer.stored] == list(range(began, began + 200))
        values = [record.value for record in live.consume(partition.topic)]
        assert values == [b"%03d" % number for number in range(200)]
    finally:
        live.cluster.wipe()


def test_a_batch_the_broker_refuses_is_told_with_the_reason(
    target: LiveCluster, cluster: Cluster
) -> None:
    partition = TopicPartition(target.create_topic(config={"max.message.bytes": "500"}), 0)
    writer = Writer(cluster, partition, fence(cluster, partition.topic, [partition]))
    writer.offer(b"small")
    writer.offer(b"x" * 2000)
    writer.drain()

    assert len(writer.stored) == 1
    assert (
        "larger than the max" in writer.refused[0].reason or "TOO_LARGE" in writer.refused[0].reason
    )


def test_a_topic_made_anew_is_not_fetched_under_its_old_id(
    target: LiveCluster, cluster: Cluster
) -> None:
    topic = target.create_topic()
    target.produce(topic, [b"old"])
    old = cluster.describe([topic])[topic].topic_id
    target.admin.delete_topics([topic])[topic].result(timeout=30)
    eventually(lambda: not target.partition_count(topic))
    target.create_topic(name=topic)
    target.produce(topic, [b"new"])
    fetcher = Fetcher(cluster, FetchLimits())
    fetcher.add([Subject(0, TopicPartition(topic, 0), old, 0)])

    def error() -> int:
        if fetcher.homeless:
            fetcher.place()
        fetcher.ask()
        responses = [fetcher.take(session) for session in fetcher.ready(5)]
        return next((s.error for r in responses if r for s in r.sections), 0)

    assert eventually(error) in faults.LOST_TOPIC
    fetcher.close()


def test_a_scan_says_where_its_start_was_deleted(source: LiveCluster) -> None:
    topic = source.create_topic()
    source.produce(topic, [b"%d" % i for i in range(10)])
    delete_before(source, topic, 4)
    partition = TopicPartition(topic, 0)
    gaps = []
    with closing(Cluster(endpoint(source))) as cluster:
        eventually(lambda: list_offsets(cluster, [partition], EARLIEST)[partition] == 4)
        scanned = scan(
            cluster,
            {partition: (0, 10)},
            committed_only=True,
            on_gap=lambda *gap: gaps.append(gap),
        )
        last = [decode_body(unpack(batch)[-1].body).value for _, batch in scanned][-1]

    assert gaps == [(partition, 0, 4)]
    assert last == b"9"


def delete_before(live: LiveCluster, topic: str, offset: int) -> None:
    from confluent_kafka import TopicPartition as RdPartition  # noqa: PLC0415 - one name, two libraries

    (deleted,) = live.admin.delete_records([RdPartition(topic, 0, offset)]).values()
    deleted.result(timeout=30)


def test_a_table_keeps_the_last_value_of_each_key(target: LiveCluster, cluster: Cluster) -> None:
    table = Table(cluster, f"{target.create_topic()}.internal")
    table.ensure(partitions=5, replication_factor=1)
    table.write({b"%d" % i: b"first" for i in range(3000)})

    table.write({b"1": b"second", b"2": None})

    rows = table.read()
    assert (len(rows), rows[b"1"], rows.get(b"2")) == (2999, b"second", None)
    policy = topic_configs(cluster, [table.topic], ["cleanup.policy"])[table.topic]
    assert policy == {"cleanup.policy": "compact"}


def test_a_cluster_that_is_not_there_is_one_sentence() -> None:
    with (
        closing(Cluster(Endpoint("gone", (("127.0.0.1", 1),)))) as cluster,
        pytest.raises(ClusterUnreachable, match=r"gone: no broker answers at 127\.0\.0\.1:1 "),
    ):
        cluster.describe()


def test_every_error_code_of_the_client_library_has_a_name() -> None:
    for code in range(1, 130):
        fault = faults.fault_for("do it", code)
        assert isinstance(fault, KafkaFault)
        assert fault.retriable == bool(for_code(code).retriable)
        assert fault.error


def test_a_tail_that_was_deleted_whole_ends_the_scan(target: LiveCluster, cluster: Cluster) -> None:
    topic = target.create_topic()
    target.produce(topic, [b"%d" % i for i in range(5)])
    delete_before(target, topic, 5)
    partition = TopicPartition(topic, 0)
    eventually(lambda: list_offsets(cluster, [partition], EARLIEST)[partition] == 5)

    ends = list_offsets(cluster, [partition], LATEST)
    tail = read_tails(cluster, {partition: 0}, ends)[partition]

    assert (tail.batches, tail.missing, tail.end) == ([], 5, 5)


def test_a_frozen_broker_is_given_up_and_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heliograph.kafka.produce.REQUEST_TIMEOUT", timedelta(seconds=1))
    live = start_live_cluster("frozen", tmp_path)
    try:
        partition = TopicPartition(live.create_topic(), 0)
        with closing(Cluster(endpoint(live))) as cluster:
            writer = Writer(cluster, partition, fence(cluster, "frozen", [partition]))
            writer.offer(b"before")
            writer.drain()
            freeze([live.cluster.pids[1]])
            writer.offer(b"meanwhile")

            def given_up() -> bool:
                writer.producer.pump(0.1)
                return writer.producer.trouble is not None

            eventually(given_up)
            live.cluster.kill(1, signal.SIGCONT)
            writer.drain()
        assert [r.value for r in live.consume(partition.topic)] == [b"before", b"meanwhile"]
    finally:
        live.cluster.wipe()


def test_a_process_that_slept_while_fencing_does_not_outbid_its_successor(
    target: LiveCluster, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = TopicPartition(target.create_topic(), 0)
    flow = partition.topic
    abort = transactions.end_transaction

    def abort_then_sleep_through_a_succession(*args: Any, commit: bool) -> None:
        abort(*args, commit=commit)
        monkeypatch.undo()
        successor.append(fence(cluster, flow, [partition]))

    successor: list[ProducerIdentity] = []
    monkeypatch.setattr(fencing, "end_transaction", abort_then_sleep_through_a_succession)

    with pytest.raises(FlowFenced):
        fence(cluster, flow, [partition])

    writer = Writer(cluster, partition, successor[0])
    writer.offer(b"by the successor")
    writer.drain()
    assert len(writer.stored) == 1
