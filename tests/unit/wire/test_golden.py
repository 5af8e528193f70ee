"""Bytes that a real MirrorMaker 2 wrote; tests/golden/capture.py says how."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from heliograph.wire.connect_records import (
    decode_source_key,
    decode_source_offset,
    encode_source_key,
    encode_source_offset,
)
from heliograph.wire.mirror_records import (
    decode_checkpoint,
    decode_heartbeat,
    decode_offset_sync,
    encode_checkpoint,
    encode_heartbeat,
    encode_offset_sync,
)

GOLDEN = Path(__file__).parents[2] / "golden"
T = TypeVar("T")


def read_golden(topic: str) -> list[tuple[bytes, bytes]]:
    records = json.loads((GOLDEN / f"{topic}.json").read_text())["records"]
    return [(bytes.fromhex(record["key"]), bytes.fromhex(record["value"])) for record in records]


@pytest.mark.parametrize(
    ("topic", "decode", "encode"),
    [
        ("mm2-offset-syncs.B.internal", decode_offset_sync, encode_offset_sync),
        ("A.checkpoints.internal", decode_checkpoint, encode_checkpoint),
        ("heartbeats", decode_heartbeat, encode_heartbeat),
    ],
)
def test_records_of_mirrormaker_are_written_as_it_writes_them(
    topic: str,
    decode: Callable[[bytes, bytes], T],
    encode: Callable[[T], tuple[bytes, bytes]],
) -> None:
    for key, value in read_golden(topic):
        assert encode(decode(key, value)) == (key, value)


def test_source_positions_of_mirrormaker_are_written_as_it_writes_them() -> None:
    seen = set()
    for key, value in read_golden("mm2-offsets.A.internal"):
        source, offset = decode_source_key(key), decode_source_offset(value)
        assert offset is not None
        assert offset.downstream is None
        assert encode_source_offset(offset) == value
        if source is not None:
            connector, cluster, partition = source
            assert encode_source_key(connector, cluster, partition.topic, partition.index) == key
            seen.add(str(partition))
        else:
            assert json.loads(key)[0] in ("MirrorCheckpointConnector", "MirrorHeartbeatConnector")
    assert seen == {"topic-1-0", "topic-1-1", "topic-1-2", "heartbeats-0"}


def test_the_last_sync_and_checkpoint_say_what_was_copied() -> None:
    syncs = [decode_offset_sync(*record) for record in read_golden("mm2-offset-syncs.B.internal")]
    last = {sync.partition.index: sync for sync in syncs if sync.partition.topic == "topic-1"}
    assert {index: sync.upstream for index, sync in last.items()} == dict.fromkeys(range(3), 259)
    assert all(sync.downstream == sync.upstream for sync in last.values())
    checkpoints = [decode_checkpoint(*record) for record in read_golden("A.checkpoints.internal")]
    committed = {checkpoint.partition.index: checkpoint.upstream for checkpoint in checkpoints}
    assert committed == {0: 260, 1: 137, 2: 1}
    assert all(checkpoint.downstream <= checkpoint.upstream for checkpoint in checkpoints)
