import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.errors import CorruptRecord
from heliograph.model import TopicPartition
from heliograph.wire.mirror_records import (
    Checkpoint,
    Heartbeat,
    OffsetSync,
    decode_checkpoint,
    decode_heartbeat,
    decode_offset_sync,
    encode_checkpoint,
    encode_heartbeat,
    encode_offset_sync,
)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
longs = st.integers(-(1 << 63), (1 << 63) - 1)
partitions = st.builds(TopicPartition, texts, st.integers(0, (1 << 31) - 1))

SYNC = OffsetSync(TopicPartition("topic-1", 2), 3, 4)
SYNC_BYTES = ("0007746f7069632d3100000002", "00000000000000030000000000000004")
CHECKPOINT = Checkpoint("group-1", TopicPartition("topic-2", 3), 4, 5, "metadata-6")
CHECKPOINT_BYTES = (
    "000767726f75702d310007746f7069632d3200000003",
    "000000000000000000040000000000000005000a6d657461646174612d36",
)
HEARTBEAT = Heartbeat("source-1", "target-2", 1234567890)
HEARTBEAT_BYTES = ("0008736f757263652d3100087461726765742d32", "000000000000499602d2")


def both(pair: tuple[str, str]) -> tuple[bytes, bytes]:
    return bytes.fromhex(pair[0]), bytes.fromhex(pair[1])


def test_the_bytes_are_those_of_mirrormaker() -> None:
    assert encode_offset_sync(SYNC) == both(SYNC_BYTES)
    assert encode_checkpoint(CHECKPOINT) == both(CHECKPOINT_BYTES)
    assert encode_heartbeat(HEARTBEAT) == both(HEARTBEAT_BYTES)


def test_the_bytes_of_mirrormaker_are_read() -> None:
    assert decode_offset_sync(*both(SYNC_BYTES)) == SYNC
    assert decode_checkpoint(*both(CHECKPOINT_BYTES)) == CHECKPOINT
    assert decode_heartbeat(*both(HEARTBEAT_BYTES)) == HEARTBEAT


@given(st.builds(OffsetSync, partitions, longs, longs))
def test_offset_syncs_survive_the_wire(sync: OffsetSync) -> None:
    assert decode_offset_sync(*encode_offset_sync(sync)) == sync


@given(st.builds(Checkpoint, texts, partitions, longs, longs, texts))
def test_checkpoints_survive_the_wire(checkpoint: Checkpoint) -> None:
    assert decode_checkpoint(*encode_checkpoint(checkpoint)) == checkpoint


@given(st.builds(Heartbeat, texts, texts, longs))
def test_heartbeats_survive_the_wire(heartbeat: Heartbeat) -> None:
    assert decode_heartbeat(*encode_heartbeat(heartbeat)) == heartbeat


def test_bytes_after_the_last_field_and_other_versions_are_read_past() -> None:
    key, value = encode_checkpoint(CHECKPOINT)
    assert decode_checkpoint(key + b"x", b"\x00\x09" + value[2:] + b"x") == CHECKPOINT
    key, value = encode_offset_sync(SYNC)
    assert decode_offset_sync(key + b"x", value + b"x") == SYNC
    key, value = encode_heartbeat(HEARTBEAT)
    assert decode_heartbeat(key + b"x", b"\x00\x09" + value[2:] + b"x") == HEARTBEAT


@pytest.mark.parametrize(
    ("decode", "pair"),
    [
        (decode_offset_sync, both(SYNC_BYTES)),
        (decode_checkpoint, both(CHECKPOINT_BYTES)),
        (decode_heartbeat, both(HEARTBEAT_BYTES)),
    ],
)
def test_a_cut_or_missing_part_is_corrupt(decode, pair) -> None:  # type: ignore[no-untyped-def]  # three signatures
    key, value = pair
    for broken in [(key[:-1], value), (key, value[:-1]), (None, value), (key, None), (b"", b"")]:
        with pytest.raises(CorruptRecord, match="Check what else writes"):
            decode(*broken)


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_any_bytes_are_read_or_corrupt(key: bytes, value: bytes) -> None:
    for decode in (decode_offset_sync, decode_checkpoint, decode_heartbeat):
        with contextlib.suppress(CorruptRecord):
            decode(key, value)
