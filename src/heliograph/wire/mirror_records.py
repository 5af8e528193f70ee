"""What MirrorMaker 2 keeps in its own topics, byte for byte; all numbers big-endian.

                 key                                        value
    offset sync  topic STRING, partition INT32              upstream INT64, downstream INT64
    checkpoint   group STRING, topic STRING, partition INT32  version INT16 = 0, upstream INT64,
                                                            downstream INT64, metadata STRING
    heartbeat    source STRING, target STRING               version INT16 = 0, timestamp INT64

STRING is an INT16 byte length, then UTF-8. As in Java, bytes after the last field are ignored, and
any version is read as 0. No record here has a null value: Java's readers fail on one.
"""

import struct
from dataclasses import dataclass

from heliograph.errors import CorruptRecord
from heliograph.model import TopicPartition
from heliograph.wire.primitives import decode_string, encode_string, excerpt

_I32 = struct.Struct(">i")
_OFFSETS = struct.Struct(">qq")
_VERSIONED_OFFSETS = struct.Struct(">hqq")
_VERSIONED_TIMESTAMP = struct.Struct(">hq")
_VERSION = 0


@dataclass(frozen=True, slots=True)
class OffsetSync:
    """The record at `upstream` of a source partition was written at `downstream`: that record, not the next."""

    partition: TopicPartition
    upstream: int
    downstream: int


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A group that committed `upstream` may continue at `downstream` of the remote partition."""

    group: str
    partition: TopicPartition
    upstream: int
    downstream: int
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Proof that something could be written to `target` on behalf of the flow at that time."""

    source: str
    target: str
    timestamp_ms: int


def encode_offset_sync(sync: OffsetSync) -> tuple[bytes, bytes]:
    return _encode_partition(sync.partition), _OFFSETS.pack(sync.upstream, sync.downstream)


def decode_offset_sync(key: bytes | None, value: bytes | None) -> OffsetSync:
    try:
        partition = _decode_partition(key or b"", 0)
        upstream, downstream = _OFFSETS.unpack_from(value or b"")
    except (struct.error, CorruptRecord) as exc:
        raise _corrupt("an offset sync", key, value) from exc
    return OffsetSync(partition, upstream, downstream)


def encode_checkpoint(checkpoint: Checkpoint) -> tuple[bytes, bytes]:
    key = encode_string(checkpoint.group) + _encode_partition(checkpoint.partition)
    offsets = _VERSIONED_OFFSETS.pack(_VERSION, checkpoint.upstream, checkpoint.downstream)
    return key, offsets + encode_string(checkpoint.metadata)


def decode_checkpoint(key: bytes | None, value: bytes | None) -> Checkpoint:
    key_bytes, value_bytes = key or b"", value or b""
    try:
        group, at = decode_string(key_bytes, 0)
        partition = _decode_partition(key_bytes, at)
        _, upstream, downstream = _VERSIONED_OFFSETS.unpack_from(value_bytes)
        metadata, _ = decode_string(value_bytes, _VERSIONED_OFFSETS.size)
    except (struct.error, CorruptRecord) as exc:
        raise _corrupt("a checkpoint", key, value) from exc
    return Checkpoint(group, partition, upstream, downstream, metadata)


def encode_heartbeat(heartbeat: Heartbeat) -> tuple[bytes, bytes]:
    key = encode_string(heartbeat.source) + encode_string(heartbeat.target)
    return key, _VERSIONED_TIMESTAMP.pack(_VERSION, heartbeat.timestamp_ms)


def decode_heartbeat(key: bytes | None, value: bytes | None) -> Heartbeat:
    key_bytes = key or b""
    try:
        source, at = decode_string(key_bytes, 0)
        target, _ = decode_string(key_bytes, at)
        _, timestamp_ms = _VERSIONED_TIMESTAMP.unpack_from(value or b"")
    except (struct.error, CorruptRecord) as exc:
        raise _corrupt("a heartbeat", key, value) from exc
    return Heartbeat(source, target, timestamp_ms)


def _encode_partition(partition: TopicPartition) -> bytes:
    return encode_string(partition.topic) + _I32.pack(partition.index)


def _decode_partition(data: bytes, at: int) -> TopicPartition:
    topic, at = decode_string(data, at)
    return TopicPartition(topic, *_I32.unpack_from(data, at))


def _corrupt(what: str, key: bytes | None, value: bytes | None) -> CorruptRecord:
    shown = f"{excerpt(key)} and value {excerpt(value)}"
    return CorruptRecord(f"key {shown} are not {what}. Check what else writes to this topic.")
