"""Fetch, as it is on the wire. The response is parsed in place; no record is copied here.

Versions 12 (topics by name) and 13 (topics by id) differ in that one field only.

    request   replica i32, wait i32, min i32, max i32, isolation i8, session i32, epoch i32,
              topics [ name|id, [ partition i32, leader epoch i32, offset i64, fetched epoch i32,
              log start i64, max i32 ] ], forgotten [ name|id, [ i32 ] ], rack
    response  throttle i32, error i16, session i32, topics [ name|id, [ partition i32, error i16,
              high watermark i64, last stable i64, log start i64, aborted [ producer i64, first i64 ],
              preferred replica i32, records, tag 0: epoch i32, end i64 ] ]
"""

import struct
from typing import NamedTuple

from heliograph.wire.compact import read_uvarint

_STATUS = struct.Struct(">ihqqq")
_RESPONSE = struct.Struct(">ihi")
_PARTED = struct.Struct(">iq")
_ABORTED = struct.Struct(">qqb")
_DIVERGING_EPOCH = 0


class Section(NamedTuple):
    """What one fetch response says about one partition; the records lie in the response's buffer.

    `parted` is where the log diverged from the one that was read so far, -1 if it did not.
    """

    slot: int
    error: int
    high_watermark: int
    last_stable: int
    log_start: int
    aborted: tuple[tuple[int, int], ...]
    start: int
    end: int
    parted: int = -1


def decode_response(
    version: int, buffer: memoryview, slots: dict[tuple[bytes | str, int], int]
) -> tuple[int, int, list[Section]]:
    at = _skip_tags(buffer, 4)
    _, error, session_id = _RESPONSE.unpack_from(buffer, at)
    topics, at = read_uvarint(buffer, at + _RESPONSE.size)
    sections = []
    for _ in range(topics - 1):
        key: bytes | str
        if version >= 13:
            key, at = bytes(buffer[at : at + 16]), at + 16
        else:
            length, at = read_uvarint(buffer, at)
            end = at + max(length - 1, 0)
            key, at = str(buffer[at:end], "utf-8"), end
        partitions, at = read_uvarint(buffer, at)
        for _ in range(partitions - 1):
            section, at = _decode_partition(buffer, at, key, slots)
            sections.append(section)
        at = _skip_tags(buffer, at)
    return error, session_id, sections


def _decode_partition(
    buffer: memoryview, at: int, key: bytes | str, slots: dict[tuple[bytes | str, int], int]
) -> tuple[Section, int]:
    index, error, high_watermark, last_stable, log_start = _STATUS.unpack_from(buffer, at)
    count, at = read_uvarint(buffer, at + _STATUS.size)
    aborted = []
    for _ in range(count - 1):
        producer, first, tags = _ABORTED.unpack_from(buffer, at)
        at = at + _ABORTED.size if tags == 0 else _skip_tags(buffer, at + 16)
        aborted.append((producer, first))
    size, at = read_uvarint(buffer, at + 4)
    end = at + max(size - 1, 0)
    if end > buffer.nbytes:
        raise IndexError(end)
    parted, after = _read_parted(buffer, end)
    section = Section(
        slots.get((key, index), -1),
        error,
        high_watermark,
        last_stable,
        log_start,
        tuple(aborted),
        at,
        end,
        parted,
    )
    return section, after


def _read_parted(buffer: memoryview, at: int) -> tuple[int, int]:
    """Return the end offset in tag 0, or -1, and where the tags end."""
    count, at = read_uvarint(buffer, at)
    parted = -1
    for _ in range(count):
        tag, at = read_uvarint(buffer, at)
        size, at = read_uvarint(buffer, at)
        if tag == _DIVERGING_EPOCH:
            _, parted = _PARTED.unpack_from(buffer, at)
        at += size
    return parted, at


def _skip_tags(buffer: memoryview, at: int) -> int:
    count, at = read_uvarint(buffer, at)
    for _ in range(count):
        _, at = read_uvarint(buffer, at)
        size, at = read_uvarint(buffer, at)
        at += size
    return at
