"""The run map as rows of a compacted topic: where records went, in runs that are whole on both sides.

    key     topic STRING, partition INT32, upstream INT64
    value   version INT16 = 0, flags INT8, downstream INT64, varint length,
            then per further run: varint upstream gap, varint downstream gap, varint length

A row is a segment: up to some hundred runs that follow one another, from the upstream offset of its
key on. A gap is what lies between the end of one run and the start of the next: markers, records that
compaction removed, records of aborted transactions. Flag 1 says that the segment is detached: what
was copied before it is unknown, because another writer copied it.
"""

import struct
from typing import NamedTuple

from heliograph.errors import CorruptRecord
from heliograph.model import TopicPartition
from heliograph.wire.primitives import (
    decode_string,
    decode_varint,
    encode_string,
    encode_varint,
    excerpt,
)

_KEY_TAIL = struct.Struct(">iq")
_VALUE_HEAD = struct.Struct(">hbq")
_VERSION = 0
_DETACHED = 1


class Run(NamedTuple):
    """`length` offsets from `upstream` on are stored from `downstream` on in the remote partition."""

    upstream: int
    downstream: int
    length: int

    @property
    def upstream_end(self) -> int:
        return self.upstream + self.length

    @property
    def downstream_end(self) -> int:
        return self.downstream + self.length


class Segment(NamedTuple):
    """Runs in order, at least one."""

    runs: tuple[Run, ...]
    detached: bool = False


def encode_segment_key(partition: TopicPartition, upstream: int) -> bytes:
    return encode_string(partition.topic) + _KEY_TAIL.pack(partition.index, upstream)


def decode_segment_key(key: bytes | None) -> tuple[TopicPartition, int]:
    """Return the partition of a segment, and the upstream offset that it begins with."""
    try:
        topic, at = decode_string(key or b"", 0)
        index, upstream = _KEY_TAIL.unpack_from(key or b"", at)
    except (struct.error, CorruptRecord) as exc:
        raise CorruptRecord(
            f"key {excerpt(key)} is not that of a run. Check what else writes to this topic."
        ) from exc
    return TopicPartition(topic, index), upstream


def encode_segment(segment: Segment) -> bytes:
    first, *rest = segment.runs
    out = [
        _VALUE_HEAD.pack(_VERSION, _DETACHED if segment.detached else 0, first.downstream),
        encode_varint(first.length),
    ]
    before = first
    for run in rest:
        out += (
            encode_varint(run.upstream - before.upstream_end),
            encode_varint(run.downstream - before.downstream_end),
            encode_varint(run.length),
        )
        before = run
    return b"".join(out)


def first_downstream(value: bytes) -> int:
    """Return where the first record of a segment went, without reading the rest."""
    try:
        version, _, downstream = _VALUE_HEAD.unpack_from(value)
    except struct.error as exc:
        raise _corrupt(value) from exc
    if version != _VERSION:
        raise _corrupt(value)
    return int(downstream)


def decode_segment(upstream: int, value: bytes) -> Segment:
    """Return the segment that begins at `upstream`."""
    downstream = first_downstream(value)
    flags = value[2]
    try:
        length, at = decode_varint(value, _VALUE_HEAD.size, bits=64)
        runs = [Run(upstream, downstream, length)]
        while at < len(value):
            up, at = decode_varint(value, at, bits=64)
            down, at = decode_varint(value, at, bits=64)
            length, at = decode_varint(value, at, bits=64)
            before = runs[-1]
            runs.append(Run(before.upstream_end + up, before.downstream_end + down, length))
    except CorruptRecord as exc:
        raise _corrupt(value) from exc
    return Segment(tuple(runs), bool(flags & _DETACHED))


def _corrupt(value: bytes) -> CorruptRecord:
    return CorruptRecord(f"value {excerpt(value)} is no run. Check what else writes to this topic.")
