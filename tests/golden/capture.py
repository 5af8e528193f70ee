"""Captures what a real MirrorMaker 2 writes to its own topics, as one JSON file per topic beside this one.

    PYTHONPATH=src:. python tests/golden/capture.py

A file holds the command, the version, the mm2.properties, and the records with key and value in hex.
"""

import json
import tempfile
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as RdPartition

from heliograph.embedded.jars import KAFKA_VERSION
from lab.clusters import LiveCluster, Outgoing, Record, eventually, start_live_cluster
from lab.peer import mirror_properties, start_peer

HERE = Path(__file__).parent
COMMAND = "PYTHONPATH=src:. python tests/golden/capture.py"
TOPIC = "topic-1"
GROUP = "group-1"
PARTITIONS = 3
FLOW = {
    "A->B.topics": "topic-.*",
    "A->B.groups": "group-.*",
    "B->A.enabled": "false",
    "tasks.max": "2",
    "refresh.topics.interval.seconds": "5",
    "refresh.groups.interval.seconds": "2",
    "emit.checkpoints.interval.seconds": "1",
    "emit.heartbeats.interval.seconds": "1",
    "offset.flush.interval.ms": "1000",
}


def capture(folder: Path) -> None:
    source = start_live_cluster("A", folder)
    try:
        target = start_live_cluster("B", folder)
        try:
            _capture_between(source, target, folder / "mm2")
        finally:
            target.cluster.stop()
    finally:
        source.cluster.stop()


def _capture_between(source: LiveCluster, target: LiveCluster, folder: Path) -> None:
    source.create_topic(PARTITIONS, name=TOPIC)
    _produce(source, 10)
    _commit(source, {0: 4, 1: 10, 2: 0})
    flow = mirror_properties(("A", source.bootstrap), ("B", target.bootstrap), FLOW)
    peer = start_peer(folder, flow)
    try:
        _wait_for(target, 10 * PARTITIONS)
        _produce(source, 250)
        _wait_for(target, 260 * PARTITIONS)
        _commit(source, {0: 260, 1: 137, 2: 1})
        eventually(lambda: _groups_are_followed(target), within=60)
        eventually(lambda: len(target.consume("heartbeats")) >= 5)
    finally:
        peer.stop()
    keep = _Keeper(flow)
    keep(target, "mm2-offsets.A.internal")
    keep(source, "mm2-offset-syncs.B.internal")
    keep(target, "A.checkpoints.internal")
    keep(target, "heartbeats", most=5)
    keep(target, "mm2-configs.A.internal", wanted=_is_no_secret)
    keep(target, "mm2-status.A.internal", most=12)


class _Keeper:
    """Writes a topic's records to a file, without the ports of this run."""

    def __init__(self, flow: dict[str, str]) -> None:
        self.flow = {name: value for name, value in flow.items() if "bootstrap" not in name}

    def __call__(
        self,
        cluster: LiveCluster,
        topic: str,
        most: int = 40,
        wanted: Callable[[Record], bool] = lambda _: True,
    ) -> None:
        records = list(filter(wanted, cluster.consume(topic)))[:most]
        assert records, f"{cluster.name} has nothing in {topic}"
        content = {
            "command": COMMAND,
            "kafka": KAFKA_VERSION,
            "cluster": cluster.name,
            "topic": topic,
            "properties": self.flow,
            "records": list(_shown(records)),
        }
        file = HERE / f"{topic}.json"
        file.write_text(json.dumps(content, indent=1) + "\n")


def _shown(records: Iterable[Record]) -> Iterable[dict[str, int | str | None]]:
    for record in records:
        yield {
            "partition": record.partition,
            "offset": record.offset,
            "key": None if record.key is None else record.key.hex(),
            "value": None if record.value is None else record.value.hex(),
        }


def _is_no_secret(record: Record) -> bool:
    return not (record.key or b"").startswith(b"session-key")


def _produce(source: LiveCluster, each: int) -> None:
    records = [
        Outgoing(b"value %d" % n, b"key %d" % n, partition)
        for n in range(each)
        for partition in range(PARTITIONS)
    ]
    source.produce(TOPIC, records)


def _commit(source: LiveCluster, offsets: dict[int, int]) -> None:
    with closing(Consumer(source.client(group_id=GROUP, enable_auto_commit=False))) as consumer:
        positions = [
            RdPartition(TOPIC, index, offset, metadata=f"at {offset}")
            for index, offset in offsets.items()
        ]
        consumer.commit(offsets=positions, asynchronous=False)


def _wait_for(target: LiveCluster, records: int) -> None:
    remote = f"A.{TOPIC}"

    def count() -> int:
        return len(target.consume(remote)) if target.partition_count(remote) else 0

    eventually(lambda: count() >= records, within=90, describe=count)


def _groups_are_followed(target: LiveCluster) -> bool:
    """Tell whether a checkpoint of the second commit is there."""
    return any(
        b"at 260" in (record.value or b"") for record in target.consume("A.checkpoints.internal")
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="golden-") as work:
        capture(Path(work))
