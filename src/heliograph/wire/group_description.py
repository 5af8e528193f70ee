"""The members of a group of the newer protocol (KIP-848): version 0 of ConsumerGroupDescribe, which is API 69.

    request   groups [ STRING ], with operations BOOLEAN
    response  throttled INT32, groups [ error INT16, message STRING?, group STRING, state STRING,
              epoch INT32, assigned INT32, assignor STRING, members [ member STRING, instance STRING?,
              rack STRING?, epoch INT32, client STRING, host STRING, topics [ STRING ], regex STRING?,
              assignment, target assignment ], operations INT32 ]
    assignment [ topic id UUID, topic STRING, partitions [ INT32 ] ]

Strings and arrays are compact: the length plus one as a varint; 0 is null. Every
structure ends with tagged fields, of which there are none yet.
"""

import struct
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from heliograph.errors import CorruptRecord
from heliograph.model import TopicPartition
from heliograph.wire.compact import read_uvarint, write_uvarint

API_KEY = 69
VERSION = 0

T = TypeVar("T")
_I16 = struct.Struct(">h")
_I32 = struct.Struct(">i")


class DescribedMember(NamedTuple):
    member_id: str
    client_id: str
    host: str
    partitions: tuple[TopicPartition, ...]


class DescribedGroup(NamedTuple):
    error: int
    group: str
    members: tuple[DescribedMember, ...]


def encode_request(group: str) -> bytes:
    """Return the body of a request for one group."""
    name = group.encode()
    return write_uvarint(2) + write_uvarint(len(name) + 1) + name + b"\0\0"


def decode_response(body: memoryview) -> list[DescribedGroup]:
    """Return the groups that a response describes."""
    reader = _Reader(body)
    try:
        reader.skip(_I32.size)
        return reader.array(_group)
    except (struct.error, IndexError, UnicodeDecodeError) as exc:
        raise CorruptRecord("a broker sent a description of a group that ends early") from exc


class _Reader:
    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._at = 0

    def skip(self, size: int) -> None:
        self._at += size

    def number(self, kind: struct.Struct) -> int:
        (found,) = kind.unpack_from(self._data, self._at)
        self._at += kind.size
        return int(found)

    def text(self) -> str:
        """Return a string; null is an empty one."""
        size, self._at = read_uvarint(self._data, self._at)
        begin, self._at = self._at, self._at + max(size - 1, 0)
        if self._at > len(self._data):
            raise IndexError(self._at)
        return str(self._data[begin : self._at], "utf-8")

    def array(self, item: Callable[["_Reader"], T]) -> list[T]:
        count, self._at = read_uvarint(self._data, self._at)
        return [item(self) for _ in range(count - 1)]

    def tags(self) -> None:
        count, self._at = read_uvarint(self._data, self._at)
        for _ in range(count):
            _, self._at = read_uvarint(self._data, self._at)
            size, self._at = read_uvarint(self._data, self._at)
            self._at += size


def _group(reader: _Reader) -> DescribedGroup:
    error = reader.number(_I16)
    reader.text()
    group = reader.text()
    reader.text()
    reader.skip(2 * _I32.size)
    reader.text()
    members = reader.array(_member)
    reader.skip(_I32.size)
    reader.tags()
    return DescribedGroup(error, group, tuple(members))


def _member(reader: _Reader) -> DescribedMember:
    member_id = reader.text()
    reader.text()
    reader.text()
    reader.skip(_I32.size)
    client_id, host = reader.text(), reader.text()
    reader.array(_Reader.text)
    reader.text()
    partitions = _assignment(reader)
    _assignment(reader)
    reader.tags()
    return DescribedMember(member_id, client_id, host, tuple(partitions))


def _assignment(reader: _Reader) -> list[TopicPartition]:
    topics = reader.array(_topic)
    reader.tags()
    return [partition for partitions in topics for partition in partitions]


def _topic(reader: _Reader) -> list[TopicPartition]:
    reader.skip(16)
    topic = reader.text()
    indexes = reader.array(lambda its: its.number(_I32))
    reader.tags()
    return [TopicPartition(topic, index) for index in indexes]
