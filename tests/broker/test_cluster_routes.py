"""What the web page is told of clusters, asked over HTTP of a server that asks real brokers."""

import socket
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from heliograph.config.access import Entry, Role, hash_password, put_entry
from heliograph.config.flow import FlowConfig
from heliograph.config.listeners import parse_listen
from heliograph.config.mirror import load_mirror
from heliograph.errors import DeadlinePassed
from heliograph.flows.upkeep import GroupStatus
from heliograph.groups.admin import Committed, commit_offsets
from heliograph.kafka.cluster import Cluster
from heliograph.model import Endpoint, Position, TopicPartition
from heliograph.observe.flow_status import (
    FlowStatus,
    OpenTransactionStatus,
    PartitionStatus,
    status_at_rest,
)
from heliograph.observe.looking import PATIENCE
from heliograph.saved.runs import RunStore
from heliograph.tables.append import Appender
from heliograph.tables.table import Table
from heliograph.web.app import make_app
from heliograph.web.server import Server, make_server
from heliograph.wire.mirror_records import (
    Checkpoint,
    Heartbeat,
    OffsetSync,
    encode_checkpoint,
    encode_heartbeat,
    encode_offset_sync,
)
from lab.clusters import LiveCluster, Outgoing, eventually, unique_name
from lab.compacted import create_compacted
from lab.mirrors import flow_properties, unique_alias
from tests.fakes import InMemoryHerder

pytestmark = pytest.mark.broker


@dataclass
class Known(InMemoryHerder):
    """A process that has these flows, none of which runs."""

    configs: list[FlowConfig] = field(default_factory=list)
    copied: list[PartitionStatus] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def flows(self) -> list[FlowStatus]:
        return [status_at_rest(config) for config in self.configs]

    def sources(self) -> dict[str, FlowConfig]:
        return {f"of {config.flow}": config for config in self.configs}

    def partitions(self, flow: str) -> list[PartitionStatus]:
        return self.copied if flow == str(self.configs[0].flow) else []

    def groups(self, flow: str) -> list[GroupStatus]:  # noqa: ARG002
        return []


@dataclass
class Window:
    """A server over one flow, and a client of it."""

    known: Known
    http: httpx.Client

    @property
    def config(self) -> FlowConfig:
        return self.known.configs[0]

    @property
    def source(self) -> str:
        return self.config.flow.source

    @property
    def target(self) -> str:
        return self.config.flow.target

    @property
    def flow(self) -> str:
        return f"/api/flows/{self.config.flow}"

    def get(self, path: str, **query: Any) -> Any:
        answer = self.http.get(path, params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def refused(self, path: str, **query: Any) -> tuple[int, str]:
        answer = self.http.get(path, params=query)
        assert answer.json()["error_code"] == answer.status_code
        return answer.status_code, answer.json()["message"]

    def messages(self, alias: str, topic: str, **query: Any) -> Any:
        return self.get(f"/api/clusters/{alias}/messages", topic=topic, **query)


def flow_config(source: tuple[str, str], target: tuple[str, str], folder: Path) -> FlowConfig:
    file = folder / f"{uuid.uuid4().hex}.properties"
    properties = flow_properties(source, target, ".*")
    file.write_text("".join(f"{key} = {value}\n" for key, value in properties.items()))
    return load_mirror(file, {}).flows[0]


@pytest.fixture(scope="module")
def window(
    source: LiveCluster, target: LiveCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Window]:
    ends = (unique_alias(), source.bootstrap), (unique_alias("B"), target.bootstrap)
    config = flow_config(*ends, tmp_path_factory.mktemp("window"))
    known = Known(configs=[config])
    server = Server(make_app(known))
    server.start()
    with httpx.Client(base_url=server.url, timeout=30) as client:
        yield Window(known, client)
    server.stop()


@pytest.fixture
def topic() -> str:
    return unique_name()


def test_clusters_are_those_that_flows_name(window: Window, source: LiveCluster) -> None:
    told = {line["alias"]: line for line in window.get("/api/clusters")}
    assert set(told) == {window.source, window.target}
    assert told[window.source] == {
        "alias": window.source,
        "bootstrap_servers": source.bootstrap,
        "flows": [str(window.config.flow)],
    }
    status, message = window.refused("/api/clusters/nobody")
    assert status == 404
    assert "cluster nobody" in message


def test_a_cluster_tells_its_brokers_and_what_they_hold(
    window: Window, source: LiveCluster, topic: str
) -> None:
    source.create_topic(3, name=topic)
    told = window.get(f"/api/clusters/{window.source}")
    (broker,) = told["brokers"]
    host, port = source.bootstrap.split(":")
    assert (broker["host"], broker["port"]) == (host, int(port))
    assert broker["id"] == told["controller"] == 1
    assert broker["leaders"] == broker["replicas"] == told["partitions"] >= 3
    assert told["topics"] >= 1
    assert (told["under_replicated"], told["offline"]) == (0, 0)
    assert len(told["id"]) == 22


def test_topics_are_searched_and_paged_and_internal_ones_are_left_out(
    window: Window, source: LiveCluster
) -> None:
    prefix = f"Paged{uuid.uuid4().hex[:6]}"
    names = [f"{prefix}.{letter}" for letter in "abc"]
    for name in [*names, f"mm2-{prefix}.internal"]:
        source.create_topic(2, name=name)
    path = f"/api/clusters/{window.source}/topics"

    told = window.get(path, search=prefix.upper())
    assert told["total"] == 3
    assert [line["topic"] for line in told["topics"]] == names
    assert told["topics"][0] == {
        "topic": names[0],
        "partitions": 2,
        "replication_factor": 1,
        "under_replicated": 0,
        "internal": False,
    }
    page = window.get(path, search=prefix, offset=1, limit=1)
    assert (page["total"], [line["topic"] for line in page["topics"]]) == (3, [names[1]])
    every = window.get(path, search=prefix, internal=True)
    assert [line["internal"] for line in every["topics"]] == [False, False, False, True]
    assert window.refused(path, limit=501)[0] == 400
    assert window.refused(path, offset=-1)[0] == 400


def test_a_topic_tells_its_replicas_offsets_and_settings(
    window: Window, source: LiveCluster, topic: str
) -> None:
    source.create_topic(2, {"retention.ms": "123456"}, name=topic)
    source.produce(topic, [Outgoing(b"x", partition=1)] * 3)
    told = window.get(f"/api/clusters/{window.source}/topics/{topic}")
    assert told["topic"] == topic
    assert told["partitions"] == [
        {"partition": 0, "leader": 1, "replicas": [1], "isr": [1], "start": 0, "end": 0},
        {"partition": 1, "leader": 1, "replicas": [1], "isr": [1], "start": 0, "end": 3},
    ]
    configs = {entry["name"]: entry for entry in told["configs"]}
    assert configs["retention.ms"] == {"name": "retention.ms", "value": "123456", "default": False}
    assert configs["segment.bytes"]["default"]
    status, message = window.refused(f"/api/clusters/{window.source}/topics/{topic}-not")
    assert (status, topic in message) == (404, True)
    assert window.refused(f"/api/clusters/{window.source}/topics/<b>")[0] == 400


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_tells_who_is_in_it_and_how_far_it_is(
    window: Window, source: LiveCluster, topic: str, protocol: str
) -> None:
    source.create_topic(2, name=topic)
    source.produce(topic, [Outgoing(b"x", partition=0)] * 5)
    group = f"{topic}/<i>{protocol}"
    settings = source.client(
        group_id=group, group_protocol=protocol, client_id="me", enable_auto_commit=False
    )
    with closing(Consumer({**settings, "auto.offset.reset": "earliest"})) as consumer:
        consumer.subscribe([topic])
        eventually(lambda: consumer.poll(0.2))
        consumer.commit(asynchronous=False)
        path = f"/api/clusters/{window.source}/group"
        listed = window.get(f"{path}s", search=topic)
        assert listed["groups"] == [{"group": group, "state": "Stable", "type": protocol}]
        told = window.get(path, name=group)

    assert (told["group"], told["state"], told["type"]) == (group, "Stable", protocol)
    place = {"topic": topic, "partition": 0, "committed": 1, "end": 5, "lag": 4}
    assert place in told["offsets"]
    (member,) = told["members"]
    assert (member["client_id"], member["host"]) == ("me", "127.0.0.1")
    assert member["partitions"] == [f"{topic}-0", f"{topic}-1"]
    assert window.refused(path, name=f"{group}-not")[0] == 404


def test_a_group_without_members_is_told_by_what_it_committed(
    window: Window, source: LiveCluster, topic: str
) -> None:
    source.create_topic(name=topic)
    with closing(Cluster(window.config.source_admin)) as cluster:
        place = {TopicPartition(topic, 0): Committed(7, "")}
        assert commit_offsets(cluster, topic, place) == {}
    told = window.get(f"/api/clusters/{window.source}/group", name=topic)
    assert (told["state"], told["members"]) == ("Empty", [])
    (offset,) = told["offsets"]
    assert (offset["committed"], offset["end"], offset["lag"]) == (7, 0, 0)


def test_records_are_shown_as_they_are(window: Window, source: LiveCluster, topic: str) -> None:
    source.create_topic(name=topic)
    script = b"<script>alert(1)</script>"
    headers = (("trace", b"\xff\x00"), ("none", None), ("note", b"hi"))
    long_one = "é".encode() * 4000
    source.produce(
        topic,
        [
            Outgoing(script, key=b"k", timestamp=1_700_000_000_000, headers=headers),
            Outgoing(None, key=b"deleted"),
            Outgoing(b"\x00\x01"),
            Outgoing(b"x" + long_one),
            Outgoing(b"", headers=tuple((f"h{n}", b"") for n in range(60))),
        ],
    )
    answer = window.http.get(
        f"/api/clusters/{window.source}/messages", params={"topic": topic, "offset": 0}
    )
    assert answer.headers["content-type"] == "application/json"
    told = answer.json()
    assert [told[key] for key in ("topic", "partition", "start", "end", "next_offset")] == [
        topic,
        0,
        0,
        5,
        5,
    ]
    first, tombstone, binary, long, headed = told["records"]
    assert first["offset"] == 0
    assert first["timestamp_ms"] == 1_700_000_000_000
    assert first["key"] == {"text": "k", "encoding": "utf-8", "size": 1, "cut": False}
    assert first["value"]["text"] == script.decode()
    assert [header["name"] for header in first["headers"]] == ["trace", "none", "note"]
    assert first["headers"][0]["value"]["text"] == "ff00"
    assert first["headers"][1]["value"] is None
    assert (tombstone["value"], tombstone["key"]["text"]) == (None, "deleted")
    assert binary["value"] == {"text": "0001", "encoding": "hex", "size": 2, "cut": False}
    assert binary["key"] is None
    assert (long["value"]["size"], long["value"]["cut"]) == (8001, True)
    assert long["value"]["text"] == "x" + "é" * 2047
    assert (len(headed["headers"]), headed["header_count"]) == (50, 60)
    assert headed["value"]["text"] == ""
    assert all(record["decoded"] is None for record in told["records"])


def test_records_are_read_from_an_offset_a_time_or_the_end(
    window: Window, source: LiveCluster, topic: str
) -> None:
    source.create_topic(name=topic)
    for part in range(4):
        records = [
            Outgoing(b"%d" % n, timestamp=1_700_000_000_000 + n)
            for n in range(part * 50, part * 50 + 50)
        ]
        source.produce(topic, records, linger_ms=5)

    def offsets(**query: int) -> tuple[list[int], int]:
        told = window.messages(window.source, topic, **query)
        return [record["offset"] for record in told["records"]], told["next_offset"]

    assert offsets(offset=7, limit=3) == ([7, 8, 9], 10)
    assert offsets(offset=40, limit=20) == (list(range(40, 60)), 60)
    assert offsets(offset=199) == ([199], 200)
    assert offsets(offset=5000) == ([], 200)
    assert offsets(time_ms=1_700_000_000_000 + 120, limit=2) == ([120, 121], 122)
    assert offsets(time_ms=1_900_000_000_000) == ([], 200)
    assert offsets(last=3) == ([197, 198, 199], 200)
    assert offsets(last=120) == (list(range(80, 200)), 200)
    assert offsets(last=200, limit=10) == (list(range(190, 200)), 200)
    path = f"/api/clusters/{window.source}/messages"
    for query in ({}, {"offset": 1, "last": 1}, {"last": 0}, {"last": 201}, {"time_ms": -2}):
        assert window.refused(path, topic=topic, **query)[0] == 400, query
    assert window.refused(path, topic=topic, offset=0, partition=1)[0] == 404
    assert window.refused(path, topic=f"{topic}-not", offset=0)[0] == 404
    assert window.refused(path, topic="a b", offset=0)[0] == 400


def test_aborted_transactions_and_markers_are_not_shown(
    window: Window, source: LiveCluster, topic: str
) -> None:
    source.create_topic(name=topic)
    producer = Producer(source.client(transactional_id=topic))
    producer.init_transactions(30)
    for end in (producer.commit_transaction, producer.abort_transaction) * 2:
        producer.begin_transaction()
        for n in range(3):
            producer.produce(topic, f"{end.__name__} {n}".encode())
        producer.flush(30)
        end(30)
    told = window.messages(window.source, topic, offset=0)
    assert [record["offset"] for record in told["records"]] == [0, 1, 2, 8, 9, 10]
    assert (told["end"], told["next_offset"]) == (16, 16)
    told = window.messages(window.source, topic, last=4)
    assert [record["offset"] for record in told["records"]] == [2, 8, 9, 10]
    assert told["next_offset"] == 16


def test_large_records_are_shown_a_few_at_a_time_and_the_newest_are_the_last(
    window: Window, source: LiveCluster, topic: str
) -> None:
    source.create_topic(name=topic, config={"max.message.bytes": "2000000"})
    records = [bytes([65 + n]) * 900_000 for n in range(12)]
    source.produce(topic, records, message_max_bytes=2_000_000)
    told = window.messages(window.source, topic, offset=0)
    shown = [record["offset"] for record in told["records"]]
    assert shown == list(range(len(shown)))
    assert 3 <= len(shown) <= 5
    assert told["next_offset"] == len(shown)
    told = window.messages(window.source, topic, last=12)
    shown = [record["offset"] for record in told["records"]]
    assert shown == list(range(12 - len(shown), 12))
    assert 1 <= len(shown) <= 5
    assert told["records"][-1]["value"]["size"] == 900_000


def test_a_batch_that_holds_too_much_is_told_of_and_passed_over(
    window: Window, source: LiveCluster, topic: str
) -> None:
    source.create_topic(name=topic)
    many = {
        "linger.ms": 10_000,
        "batch.num.messages": 1_000_000,
        "batch.size": 100_000_000,
        "queue.buffering.max.messages": 1_000_000,
    }
    packed = {"compression.type": "gzip", "message.max.bytes": 100_000_000}
    source.produce(topic, [b""] * 100_001, **many, **packed)
    source.produce(topic, [bytes(9 << 20)], **packed)
    source.produce(topic, [b"behind them"])
    for query in ({"offset": 0}, {"last": 2}):
        told = window.messages(window.source, topic, **query)
        assert [record["offset"] for record in told["records"]] == [100_002]
        assert told["next_offset"] == 100_003
        assert any("claims 100001 records" in trouble for trouble in told["troubles"])
        assert any("before offset 100002 cannot be read" in t for t in told["troubles"])


def test_where_compaction_made_holes_the_next_records_are_shown(
    window: Window, source: LiveCluster, topic: str
) -> None:
    create_compacted(source, topic)
    seen = [record.offset for record in source.consume(topic) if record.partition == 0]
    told = window.messages(window.source, topic, offset=1, limit=200)
    assert [record["offset"] for record in told["records"]] == [at for at in seen if at >= 1]
    assert told["next_offset"] == told["end"]
    told = window.messages(window.source, topic, last=9)
    assert [record["offset"] for record in told["records"]] == seen[-9:]


def test_what_a_mirror_keeps_for_itself_is_decoded(window: Window) -> None:
    flow = window.config.flow
    partition = TopicPartition("orders", 3)
    rows = {
        f"mm2-offset-syncs.{flow.target}.internal": encode_offset_sync(OffsetSync(partition, 5, 6)),
    }
    target_rows = {
        f"{flow.source}.checkpoints.internal": encode_checkpoint(
            Checkpoint("g", partition, 7, 8, "meta")
        ),
        f"{flow.source}.heartbeats": encode_heartbeat(Heartbeat(flow.source, flow.target, 9)),
    }
    expected = {
        "offset-sync": {"topic": "orders", "partition": 3, "upstream": 5, "downstream": 6},
        "checkpoint": {
            "group": "g",
            "topic": "orders",
            "partition": 3,
            "upstream": 7,
            "downstream": 8,
            "metadata": "meta",
        },
        "heartbeat": {"source": flow.source, "target": flow.target, "timestamp_ms": 9},
    }
    found = {}
    for alias, endpoint, its in (
        (flow.source, window.config.source_admin, rows),
        (flow.target, window.config.target_admin, target_rows),
    ):
        for name, (key, value) in its.items():
            _append(endpoint, name, [(key, value), (b"?", b"nonsense"), (key, None)])
            *_, good, bad, gone = window.messages(alias, name, last=3)["records"]
            found[good["decoded"].pop("kind")] = good["decoded"]
            assert (bad["decoded"], bad["value"]["text"]) == (None, "nonsense")
            assert (gone["decoded"], gone["value"]) == (None, None)
    assert found == expected


def test_a_topic_of_a_flow_is_told_from_both_ends(
    window: Window, source: LiveCluster, target: LiveCluster, topic: str
) -> None:
    flow = window.config.flow
    remote = f"{flow.source}.{topic}"
    source.create_topic(2, {"retention.ms": "1000000"}, name=topic)
    target.create_topic(2, {"retention.ms": "2000000"}, name=remote)
    source.produce(topic, [Outgoing(b"x", partition=0)] * 9)
    target.produce(remote, [Outgoing(b"x", partition=0)] * 6)
    runs = [(0, 0, 2), (3, 2, 3), (7, 5, 1)]
    _save_runs(window.config, TopicPartition(topic, 0), runs)

    told = window.get(f"{window.flow}/topics/{topic}")
    assert (told["topic"], told["remote_topic"], told["troubles"]) == (topic, remote, [])
    assert told["partitions"][0] == {
        "partition": 0,
        "source_start": 0,
        "source_end": 9,
        "upstream": 8,
        "downstream": 6,
        "target_start": 0,
        "target_end": 6,
        "lag": 1,
        "stopped": None,
        "open_transaction": None,
        "runs": 3,
    }
    assert told["partitions"][1]["runs"] is None
    assert told["configs"] == [{"name": "retention.ms", "source": "1000000", "target": "2000000"}]
    listed = window.get(f"{window.flow}/topics/{topic}/runs")
    assert listed["total"] == 3
    assert [(r["upstream"], r["downstream"], r["length"]) for r in listed["runs"]] == runs[::-1]
    assert window.get(f"{window.flow}/topics/{topic}/runs", partition=1) == {"total": 0, "runs": []}
    asked = {"topic": topic, "partition": 0}
    assert window.get(f"{window.flow}/translate", **asked, offset=4) == {
        "remote_topic": remote,
        "partition": 0,
        "offset": 3,
    }
    assert (
        window.get(f"{window.flow}/translate", topic=topic, partition=1, offset=4)["offset"] is None
    )
    assert window.refused(f"{window.flow}/topics/{topic}-not")[0] == 404
    assert window.refused("/api/flows/X->Y/topics/t")[0] == 404

    drift = window.get(f"{window.flow}/drift")
    assert drift["topics"][topic] == told["configs"]
    assert drift["troubles"] == []
    resource = ConfigResource(
        ResourceType.TOPIC,
        remote,
        incremental_configs=[
            ConfigEntry("retention.ms", "1000000", incremental_operation=AlterConfigOpType.SET)
        ],
    )
    target.admin.incremental_alter_configs([resource])[resource].result(30)
    assert window.get(f"{window.flow}/drift") == drift, "it is kept for a minute"
    assert eventually(lambda: not window.get(f"{window.flow}/topics/{topic}")["configs"])


def test_topics_of_a_flow_are_searched_sorted_and_paged(window: Window) -> None:
    copied = PartitionStatus("orders", 0, "A.orders", 5, 5, 6, 1, 10, 100, None)
    window.known.copied = [
        replace(copied, open_transaction=OpenTransactionStatus(5, 40.0, 7, "billing")),
        replace(copied, partition=1, stopped="it is gone"),
        replace(copied, topic="users", remote_topic="A.users", records=500, lag=0),
        replace(copied, topic="Orders.v2", remote_topic="A.Orders.v2", lag=7, bytes=50),
    ]
    path = f"{window.flow}/topics"
    try:

        def names(**query: Any) -> list[str]:
            return [line["topic"] for line in window.get(path, **query)["topics"]]

        told = window.get(path, search="orders", sort="records")
        assert told["total"] == 2
        assert told["topics"][0] == {
            "topic": "orders",
            "remote_topic": "A.orders",
            "partitions": 2,
            "records": 20,
            "bytes": 200,
            "lag": 2,
            "stopped": 1,
            "open_transactions": 1,
        }
        assert names() == ["Orders.v2", "orders", "users"]
        assert names(sort="lag") == ["Orders.v2", "orders", "users"]
        assert names(sort="records") == ["users", "orders", "Orders.v2"]
        assert names(sort="bytes", offset=1, limit=1) == ["users"]
        assert window.refused(path, sort="colour")[0] == 400
    finally:
        window.known.copied = []


@pytest.fixture
def black_hole() -> Iterator[str]:
    """An address where connections are taken, and nothing ever said."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


def test_a_cluster_that_does_not_answer_is_told_soon(
    source: LiveCluster, tmp_path: Path, black_hole: str
) -> None:
    name = source.create_topic()
    silent = flow_config(("A", source.bootstrap), ("S", black_hole), tmp_path)
    dead = flow_config(("D", "127.0.0.1:1"), ("A", source.bootstrap), tmp_path)
    server = Server(make_app(Known(configs=[silent, dead])))
    server.start()
    try:
        with httpx.Client(base_url=server.url, timeout=30) as client:
            topic = f"/api/flows/A->S/topics/{name}"
            paths = {
                "/api/clusters/D": "D",
                "/api/clusters/S/messages?topic=t&last=1": "S",
                f"{topic}/runs": "S",
            }
            partial = topic, "/api/flows/A->S/drift"
            began = time.monotonic()
            with ThreadPoolExecutor(5) as pool:
                refused, told = pool.map(client.get, paths), pool.map(client.get, partial)
            assert time.monotonic() - began < 2 * PATIENCE.total_seconds(), "side by side"
            for alias, answer in zip(paths.values(), refused, strict=True):
                assert answer.status_code == 504, answer.text
                assert answer.json()["message"].startswith(f"{alias}: no broker answers")
            shown, drift = (answer.json() for answer in told)
            for answer in (shown, drift):
                (trouble,) = answer["troubles"]
                assert trouble.startswith("S: no broker answers")
            (partition,) = shown["partitions"]
            assert (partition["source_end"], partition["target_end"]) == (0, None)
    finally:
        server.stop()


def test_a_cluster_opened_for_a_while_raises_after_it(window: Window) -> None:
    within = timedelta(milliseconds=200)
    with closing(Cluster(window.config.source_admin, within)) as cluster:
        cluster.describe(())
        time.sleep(0.25)
        with pytest.raises(DeadlinePassed):
            cluster.describe(())


def test_records_are_not_for_who_may_only_view(window: Window, tmp_path: Path) -> None:
    file = tmp_path / "access"
    for name, role in (("vera", Role.VIEW), ("otto", Role.OPERATE)):
        put_entry(file, Entry(role, name, hash_password("a password of theirs")))
    app = make_app(window.known)
    server = make_server(app, parse_listen("127.0.0.1:0"), {"rest.access.file": str(file)})
    server.start()
    try:
        path = f"{server.url}/api/clusters/{window.source}/messages?topic=none&last=1"
        assert httpx.get(path, auth=("vera", "a password of theirs")).status_code == 403
        assert httpx.get(path, auth=("otto", "a password of theirs")).status_code == 404
        seen = httpx.get(f"{server.url}/api/clusters", auth=("vera", "a password of theirs"))
        assert seen.status_code == 200
    finally:
        server.stop()


def _append(endpoint: Endpoint, topic: str, rows: list[tuple[bytes, bytes | None]]) -> None:
    with closing(Cluster(endpoint)) as cluster, closing(Appender(cluster, topic)) as appender:
        Table(cluster, topic).ensure(1, 1)
        appender.append_by_key(rows, timedelta(seconds=30))


def _save_runs(
    config: FlowConfig, partition: TopicPartition, runs: list[tuple[int, int, int]]
) -> None:
    with closing(Cluster(config.target_admin)) as target:
        store = RunStore(target, f"mm2-runs.{config.flow.source}.internal", 1)
        store.load()
        store.begin(partition, Position(0, 0))
        store.add(partition, runs)
        store.save()
