"""Produce, version 8, as it is on the wire: batches are sent unchanged, plus a few bytes of our own.

request   transactional id, acks i16, timeout i32, topics [ name, [ partition i32, records ] ]
response  topics [ name, [ partition i32, error i16, base offset i64, append time i64, log start i64,
record errors [ index i32, words ], words ] ], throttle i32
"""

import struct
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from heliograph.model import TopicPartition

_TIMEOUT_MS = 30_000
_HEAD = struct.Struct(">hii")
_ENTRY = struct.Struct(">ii")
_ANSWER = struct.Struct(">ihqqq")
_I16 = struct.Struct(">h")
_I32 = struct.Struct(">i")
_ALL = -1

Part: TypeAlias = bytes | bytearray | memoryview
Entry: TypeAlias = tuple[TopicPartition, bytes, Part]


def encode_owner(transactional_id: str | None) -> bytes:
    """Return the beginning of every request: its transactional id, if there is one."""
    if transactional_id is None:
        return _I16.pack(-1)
    name = transactional_id.encode()
    return _I16.pack(len(name)) + name


def encode_produce(head: bytes, owner: bytes, entries: Sequence[Entry]) -> list[Part]:
    """Return a request in parts: each entry is a batch's partition, header and payload."""
    by_topic: dict[str, list[Entry]] = {}
    for entry in entries:
        by_topic.setdefault(entry[0].topic, []).append(entry)
    parts: list[Part] = [head + owner + _HEAD.pack(_ALL, _TIMEOUT_MS, len(by_topic))]
    for topic, members in by_topic.items():
        name = topic.encode()
        parts.append(_I16.pack(len(name)) + name + _I32.pack(len(members)))
        for partition, header, payload in members:
            size = len(header) + len(payload)
            parts += (_ENTRY.pack(partition.index, size) + header, payload)
    return parts


def decode_answers(frame: memoryview) -> Iterator[tuple[TopicPartition, int, int, str]]:
    """Yield partition, error, base offset and the broker's message, if any, from a v8 response."""
    (topics,) = _I32.unpack_from(frame, 4)
    at = 8
    for _ in range(topics):
        topic, at = _read_string(frame, at)
        (partitions,) = _I32.unpack_from(frame, at)
        at += 4
        for _ in range(partitions):
            index, error, base_offset, _, _ = _ANSWER.unpack_from(frame, at)
            (count,) = _I32.unpack_from(frame, at + _ANSWER.size)
            at += _ANSWER.size + 4
            words = []
            for _ in range(count):
                text, at = _read_string(frame, at + 4)
                words.append(text)
            text, at = _read_string(frame, at)
            yield (
                TopicPartition(topic, index),
                error,
                base_offset,
                "; ".join(filter(None, [text, *words])),
            )


def _read_string(frame: memoryview, at: int) -> tuple[str, int]:
    (length,) = _I16.unpack_from(frame, at)
    end = at + 2 + max(length, 0)
    return str(frame[at + 2 : end], "utf-8"), end
