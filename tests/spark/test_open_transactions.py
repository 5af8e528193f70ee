"""A transaction left open on the source is named while the mirror waits for its end."""

import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import Producer

from heliograph.embedded.ports import LOOPBACK, pick_port
from lab.clusters import LiveCluster, eventually
from lab.mirrors import Mirror, flow_properties, unique_alias

pytestmark = pytest.mark.spark

STARTING = 90  # Spark takes its time to start on a busy machine
SECONDS = "heliograph_flow_open_transaction_seconds"


def test_an_open_transaction_is_named_with_its_producer_until_it_ends(
    source: LiveCluster, target: LiveCluster, tmp_path: Path
) -> None:
    topic, alias = source.create_topic(), unique_alias()
    flow, remote = f"{alias}->B", f"{alias}.{topic}"
    properties = flow_properties(
        (alias, source.bootstrap),
        ("B", target.bootstrap),
        topic,
        open_transaction_seconds="1",
    )
    listener = f"{LOOPBACK}:{pick_port()}"
    mirror = Mirror(tmp_path, properties, arguments=("--listen", listener))
    producer = Producer(
        source.client(transactional_id=f"open-{topic}", transaction_timeout_ms=600_000)
    )

    def get(path: str) -> Any:
        return httpx.get(f"http://{listener}/api/{path}", timeout=20).json()

    def partition() -> Any:
        (only,) = get(f"flows/{flow}/partitions")
        return only

    def named() -> Any:
        waits = partition()["open_transaction"]
        return waits if waits and waits["transactional_id"] else None

    def metric() -> float:
        page = httpx.get(f"http://{listener}/metrics", timeout=20).text
        (value,) = re.findall(rf'^{SECONDS}{{source="{alias}".*}} (.+)$', page, re.MULTILINE)
        return float(value)

    def copied() -> list[bytes | None]:
        if not target.partition_count(remote):
            return []
        return [record.value for record in target.consume(remote)]

    before, behind = (
        [b"%s %d" % (place, n) for n in range(10)] for place in (b"before", b"behind")
    )
    source.produce(topic, before)
    with mirror:
        eventually(lambda: copied() == before, STARTING, mirror.tail)
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce(topic, b"undecided")
        assert producer.flush(30) == 0
        source.produce(topic, behind)

        waits = eventually(named, 60, mirror.tail)
        assert waits["offset"] == partition()["upstream"] == 10
        assert waits["seconds"] >= 1
        assert waits["producer_id"] >= 0
        assert waits["transactional_id"] == f"open-{topic}"
        status = get(f"flows/{flow}")
        assert status["lag"] > 0
        (sentence,) = status["waiting"]
        assert f"producer_id={waits['producer_id']} transactional_id=open-{topic}" in sentence
        assert metric() >= 1
        shown = get(f"flows/{flow}/topics/{topic}?runs=false")["partitions"][0]["open_transaction"]
        assert shown["seconds"] >= waits["seconds"]
        (line,) = mirror.lines("WARNING", "transaction", topic)
        assert f"partition={topic}-0 offset=10" in line
        assert f"abort --topic {topic} --partition 0 --start-offset 10" in line
        assert copied() == before

        producer.abort_transaction(30)

        eventually(lambda: copied() == [*before, *behind], 30, mirror.tail)
        eventually(lambda: partition()["open_transaction"] is None, 30, mirror.tail)
        assert metric() == 0
        assert get(f"flows/{flow}")["waiting"] == []
        assert mirror.lines("WARNING", "transaction", topic) == [line]
