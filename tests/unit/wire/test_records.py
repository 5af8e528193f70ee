import contextlib
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from heliograph.errors import CorruptRecord
from heliograph.wire.records import (
    Header,
    RawRecord,
    RecordsBuilder,
    decode_body,
    encode_body,
    join_records,
    split_records,
)

NOW = 1_700_000_000_000
HEADER_SIZE = 61

payloads = st.none() | st.binary(max_size=200)
header_lists = st.lists(st.tuples(st.binary(max_size=12), payloads), max_size=4)
bodies = st.builds(encode_body, payloads, payloads, header_lists)
timestamps = st.just(-1) | st.integers(NOW - 20_000, NOW + 20_000) | st.integers(-1, (1 << 63) - 1)
records = st.builds(
    RawRecord, st.just(0), timestamps, st.sampled_from([0, 0, 0, 7]), bodies | st.binary(max_size=9)
)


def numbered(given: Sequence[RawRecord], first: int = 0) -> list[RawRecord]:
    return [record._replace(offset=first + i) for i, record in enumerate(given)]


Row = tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]
rows: st.SearchStrategy[list[Row]] = st.lists(
    st.tuples(
        st.integers(1, 300),  # offsets step by this much, so there are holes
        st.integers(0, NOW + 20_000),
        payloads,
        payloads,
        st.lists(st.tuples(st.text("aé☃", max_size=4), payloads), max_size=3),
    ),
    min_size=1,
    max_size=12,
)


def build(given: Sequence[Row]) -> tuple[bytes, list[int]]:
    builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 1 << 30)
    offset = -1
    offsets: list[int] = []
    for step, timestamp, key, value, headers in given:
        offset += step if offsets else 1
        offsets.append(offset)
        builder.append(offset, timestamp, key, value, headers)
    return bytes(builder.build()), offsets


@given(rows, st.integers(0, 1 << 40))
def test_batches_of_kafka_python_are_split_right(given_rows: list[Row], first: int) -> None:
    batch, offsets = build(given_rows)
    found = split_records(
        memoryview(batch)[HEADER_SIZE:], len(given_rows), first, given_rows[0][1], None
    )
    for record, offset, (_, timestamp, key, value, headers) in zip(
        found, offsets, given_rows, strict=True
    ):
        assert record.offset == first + offset
        assert (record.timestamp, record.attributes) == (timestamp, 0)
        named = tuple((name.encode(), content) for name, content in headers)
        assert decode_body(record.body) == (key, value, named)
        assert encode_body(key, value, named) == record.body


@given(rows)
def test_joined_records_are_what_kafka_python_would_write(given_rows: list[Row]) -> None:
    batch, _ = build(given_rows)
    found = split_records(batch[HEADER_SIZE:], len(given_rows), 0, given_rows[0][1], None)
    payload, base, highest = join_records(found)
    dense, _ = build([(1, *row[1:]) for row in given_rows])
    oracle = DefaultRecordBatch(dense)
    assert payload == dense[HEADER_SIZE:]
    assert (base, highest) == (oracle.first_timestamp, oracle.max_timestamp)


@given(st.lists(records, min_size=1, max_size=20), st.integers(0, 1 << 40))
def test_split_undoes_join(given_records: list[RawRecord], first: int) -> None:
    expected = numbered(given_records, first)
    payload, base, highest = join_records(expected)
    assert base == expected[0].timestamp
    assert highest == max(record.timestamp for record in expected)
    assert split_records(payload, len(expected), first, base, None) == expected


@given(st.lists(st.lists(records, min_size=1, max_size=4), max_size=20), st.booleans())
def test_merged_batches_hold_the_records_of_all(
    batches: list[list[RawRecord]], as_views: bool
) -> None:
    builder = RecordsBuilder()
    for batch in batches:
        payload, base, _ = join_records(batch)
        builder.add_batch(memoryview(payload) if as_views else payload, len(batch), 5, base)
    expected = numbered([record for batch in batches for record in batch])
    merged = builder.finish()
    assert (builder.count, builder.size) == (len(expected), len(merged))
    assert split_records(merged, len(expected), 0, builder.base_timestamp, None) == expected
    assert builder.max_timestamp == max((record.timestamp for record in expected), default=-1)


def test_many_and_large_records_merge_as_joined() -> None:
    given_records = numbered(
        [
            RawRecord(0, NOW + i % 30_000, 0, encode_body(b"k", b"v" * (20_000 if i == 7 else 60)))
            for i in range(9000)
        ]
    )
    builder = RecordsBuilder()
    for record in given_records:
        payload, base, _ = join_records([record])
        builder.add_batch(payload, 1, record.offset, base)
    assert builder.finish() == join_records(given_records)[0]
    assert builder.max_timestamp == NOW + 8999


def test_append_time_replaces_every_timestamp() -> None:
    payload, base, _ = join_records(
        [RawRecord(0, NOW + i, 0, encode_body(b"", b"")) for i in (0, 9)]
    )
    found = split_records(payload, 2, 40, base, append_time=NOW + 77)
    assert [(record.offset, record.timestamp) for record in found] == [
        (40, NOW + 77),
        (41, NOW + 77),
    ]


@given(payloads, payloads, header_lists)
def test_bodies_survive_the_wire(
    key: bytes | None, value: bytes | None, headers: list[Header]
) -> None:
    assert decode_body(encode_body(key, value, headers)) == (key, value, tuple(headers))


def test_headers_keep_duplicates_order_and_strange_names() -> None:
    headers: tuple[Header, ...] = ((b"a", b"1"), (b"\xff\xfe", None), (b"a", b"2"), (b"", b""))
    assert decode_body(encode_body(None, None, headers)).headers == headers


@pytest.mark.parametrize("count", [0, 1, 3, -1, 1 << 30])
def test_a_wrong_count_is_corrupt(count: int) -> None:
    payload, base, _ = join_records([RawRecord(0, NOW, 0, encode_body(None, b"x"))] * 2)
    with pytest.raises(CorruptRecord, match="upstream offset 12 "):
        split_records(payload, count, 12, base, None)
    with pytest.raises(CorruptRecord, match="upstream offset 12 "):
        RecordsBuilder().add_batch(payload, count, 12, base)


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        ("", "end inside a number"),
        ("80", "end inside a number"),
        ("ffffffffff01", "more than 32 bits"),
        ("0a000000", "claims 5 bytes where 3"),
        ("01000000", "claims -1 bytes"),
        ("00000000", "claims 0 bytes"),
        ("040000", "claims 2 bytes where 2|end inside a number"),
        ("02000000", "too early"),
        ("06000001", "offset delta -1 follows -1"),
        ("0600000000", "1 bytes are left"),
    ],
)
def test_a_broken_record_is_corrupt(payload: str, reason: str) -> None:
    with pytest.raises(CorruptRecord, match=reason):
        split_records(bytes.fromhex(payload), 1, 0, NOW, None)
    builder = RecordsBuilder()
    with pytest.raises(CorruptRecord, match=reason):
        builder.add_batch(bytes.fromhex(payload), 1, 0, NOW)
    assert (builder.count, builder.size) == (0, 0)


def test_offset_deltas_that_do_not_rise_are_corrupt() -> None:
    one, _, _ = join_records([RawRecord(0, NOW, 0, b"body")])
    with pytest.raises(CorruptRecord, match="offset delta 0 follows 0"):
        split_records(one + one, 2, 0, NOW, None)


@given(st.binary(max_size=60), st.integers(-2, 5))
def test_any_payload_is_read_or_corrupt(payload: bytes, count: int) -> None:
    with contextlib.suppress(CorruptRecord):
        split_records(payload, count, 0, NOW, None)
    with contextlib.suppress(CorruptRecord):
        RecordsBuilder().add_batch(memoryview(payload), count, 0, NOW)


@given(st.binary(max_size=60))
def test_any_body_is_read_or_corrupt(body: bytes) -> None:
    with contextlib.suppress(CorruptRecord):
        decode_body(body)


@pytest.mark.parametrize(
    "body", ["", "0100", "01010201", "01010203", "0101020101ff", "01010000", "0401", "010102020404"]
)
def test_a_broken_body_is_corrupt(body: str) -> None:
    with pytest.raises(CorruptRecord):
        decode_body(bytes.fromhex(body))
