import contextlib
import struct
import zlib
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.legacy_records import LegacyRecordBatch, LegacyRecordBatchBuilder

from heliograph.errors import CorruptRecord
from heliograph.wire.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD, compress
from heliograph.wire.legacy_records import split_messages
from heliograph.wire.records import decode_body

NOW = 1_700_000_000_000
LIMIT = 1 << 20
LOG_APPEND_TIME = 0x08

payloads = st.none() | st.binary(max_size=100)
Row = tuple[int, bytes | None, bytes | None]
rows: st.SearchStrategy[list[Row]] = st.lists(
    st.tuples(st.integers(0, NOW), payloads, payloads), min_size=1, max_size=8
)


def message(
    offset: int,
    magic: int,
    value: bytes | None,
    *,
    attributes: int = 0,
    timestamp: int = NOW,
    key: bytes | None = None,
) -> bytes:
    stamp = struct.pack(">q", timestamp) if magic else b""
    rest = struct.pack(">bb", magic, attributes) + stamp
    for data in (key, value):
        rest += struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data
    return struct.pack(">qiI", offset, len(rest) + 4, zlib.crc32(rest)) + rest


def inner_set(given_rows: Sequence[Row], magic: int, offsets: Sequence[int]) -> bytes:
    builder = LegacyRecordBatchBuilder(magic, 0, 1 << 30)
    for offset, (timestamp, key, value) in zip(offsets, given_rows, strict=True):
        builder.append(offset, timestamp, key, value)
    return bytes(builder.build())


@given(rows, st.sampled_from([0, 1]), st.integers(0, 1 << 40))
def test_plain_messages_of_kafka_python_are_read(
    given_rows: list[Row], magic: int, first: int
) -> None:
    offsets = range(first, first + len(given_rows))
    found = split_messages(inner_set(given_rows, magic, offsets), LIMIT)
    for record, offset, (timestamp, key, value) in zip(found, offsets, given_rows, strict=True):
        assert (record.offset, record.attributes) == (offset, 0)
        assert record.timestamp == (timestamp if magic else -1)
        assert decode_body(record.body) == (key, value, ())


@given(
    rows,
    st.sampled_from([0, 1]),
    st.sampled_from([GZIP, SNAPPY, LZ4]),
    st.integers(0, 1 << 40),
    st.sampled_from([0, LOG_APPEND_TIME]),
)
def test_wrapped_messages_are_read(
    given_rows: list[Row], magic: int, codec: int, first: int, time_type: int
) -> None:
    count = len(given_rows)
    absolute = range(first, first + count)
    inner = inner_set(given_rows, magic, range(count) if magic else absolute)
    wrapped = message(
        absolute[-1],
        magic,
        compress(codec, inner),
        attributes=codec | time_type,
        timestamp=NOW + 5,
    )
    found = split_messages(memoryview(wrapped), LIMIT)
    for record, offset, (timestamp, key, value) in zip(found, absolute, given_rows, strict=True):
        expected = (NOW + 5 if time_type else timestamp) if magic else -1
        assert (record.offset, record.timestamp) == (offset, expected)
        assert decode_body(record.body) == (key, value, ())


@given(rows, st.sampled_from([0, 1]), st.sampled_from([NONE, GZIP]))
def test_kafka_python_reads_the_same(given_rows: list[Row], magic: int, codec: int) -> None:
    count = len(given_rows)
    if codec:
        inner = inner_set(given_rows, magic, range(count) if magic else range(7, 7 + count))
        data = message(6 + count, magic, compress(codec, inner), attributes=codec)
    else:
        data = inner_set(given_rows[:1], magic, [7])
    oracle = [
        (record.offset, -1 if magic == 0 else record.timestamp, record.key, record.value)
        for record in LegacyRecordBatch(data, magic)
    ]
    found = [
        (record.offset, record.timestamp, *decode_body(record.body)[:2])
        for record in split_messages(data, LIMIT)
    ]
    assert found == oracle


def test_an_lz4_wrapper_of_magic_0_has_the_old_header_checksum() -> None:
    frame = bytearray(compress(LZ4, message(3, 0, b"x")))
    frame[6] ^= 0x55
    (record,) = split_messages(message(3, 0, bytes(frame), attributes=LZ4), LIMIT)
    assert decode_body(record.body).value == b"x"


def test_a_compacted_wrapper_keeps_its_holes() -> None:
    inner = message(2, 1, b"a") + message(5, 1, b"b")
    found = split_messages(message(105, 1, compress(GZIP, inner), attributes=GZIP), LIMIT)
    assert [record.offset for record in found] == [102, 105]


def test_plain_append_time_messages_carry_it_themselves() -> None:
    (record,) = split_messages(message(1, 1, b"a", attributes=LOG_APPEND_TIME), LIMIT)
    assert record.timestamp == NOW


GOOD = message(1, 1, b"abc", key=b"k")
WRAPPED_TWICE = compress(GZIP, message(0, 1, compress(GZIP, GOOD), attributes=GZIP))


@pytest.mark.parametrize(
    "data",
    [
        GOOD[:-1],
        GOOD[:10],
        GOOD + b"\0",
        GOOD[:-1] + b"!",
        message(1, 2, b"abc"),
        message(1, 1, b"abc", attributes=GZIP),
        message(1, 1, None, attributes=GZIP),
        message(1, 1, compress(GZIP, b""), attributes=GZIP),
        message(1, 1, compress(GZIP, message(0, 0, b"")), attributes=GZIP),
        message(1, 1, compress(ZSTD, message(0, 1, b"")), attributes=ZSTD),
        message(1, 1, WRAPPED_TWICE, attributes=GZIP),
        message(1, 1, compress(GZIP, message(0, 1, b"") + message(5, 1, b"")), attributes=GZIP),
        message(1, 1, compress(GZIP, message(0, 1, bytes(2 * LIMIT))), attributes=GZIP),
        struct.pack(">qiIbb", 1, 6, zlib.crc32(b"\0\0"), 0, 0),
    ],
)
def test_a_broken_message_is_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptRecord):
        split_messages(data, LIMIT)


@given(st.binary(max_size=80), st.integers(0, 1), st.integers(0, 15))
def test_any_bytes_are_read_or_corrupt(data: bytes, magic: int, attributes: int) -> None:
    with contextlib.suppress(CorruptRecord):
        split_messages(data, LIMIT)
    rest = struct.pack(">bb", magic, attributes) + data
    framed = struct.pack(">qiI", 3, len(rest) + 4, zlib.crc32(rest)) + rest
    with contextlib.suppress(CorruptRecord):
        split_messages(framed, LIMIT)
