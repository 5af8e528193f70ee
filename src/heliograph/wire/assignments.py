"""The assignment of a consumer group member, as clients of the classic protocol write it.

    version INT16, topics [ topic STRING, partitions [ INT32 ] ], then what a client adds

A client may write anything there, so every length is checked.
"""

import struct

from heliograph.errors import CorruptRecord
from heliograph.model import TopicPartition
from heliograph.wire.primitives import decode_string, excerpt

_I32 = struct.Struct(">i")
_VERSION_SIZE = 2
_TOPIC_SIZE = 6  # with an empty name and no partition


def decode_assignment(data: bytes) -> list[TopicPartition]:
    """Return the partitions of a member; one that waits for its first assignment has none."""
    if not data:
        return []
    found: list[TopicPartition] = []
    try:
        topics, at = _count(data, _VERSION_SIZE, _TOPIC_SIZE)
        for _ in range(topics):
            topic, at = decode_string(data, at)
            indexes, at = _count(data, at, _I32.size)
            found += [
                TopicPartition(topic, index)
                for (index,) in _I32.iter_unpack(data[at : at + indexes * _I32.size])
            ]
            at += indexes * _I32.size
    except struct.error as exc:
        raise CorruptRecord(f"bytes {excerpt(data)} are no assignment.") from exc
    return found


def _count(data: bytes, at: int, size: int) -> tuple[int, int]:
    (count,) = _I32.unpack_from(data, at)
    end = at + _I32.size
    if not 0 <= count * size <= len(data) - end:
        raise CorruptRecord(f"an assignment claims {count} items in {len(data) - end} bytes.")
    return count, end
