from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.copying.sections import (
    ROWS_PER_BATCH,
    SCHEMA,
    TICKS,
    ChunkSection,
    Row,
    Rows,
    decode_row,
    encode_row,
    open_row,
)
from heliograph.dataplane.ring import Borrower
from heliograph.errors import CorruptRecord

int31s = st.integers(0, (1 << 31) - 1)
int63s = st.integers(0, (1 << 63) - 1)
transactions = st.lists(st.tuples(int63s, int63s), max_size=5).map(tuple)
sections = st.builds(ChunkSection, int31s, int31s, int31s, int63s, transactions)


@given(st.lists(sections, max_size=6), st.binary(max_size=200), st.booleans())
def test_a_row_comes_back(given_: list[ChunkSection], content: bytes, is_last: bool) -> None:
    row = encode_row(given_, memoryview(content), is_last=is_last)

    found = decode_row(memoryview(row), Borrower())

    assert list(found.sections) == given_
    assert found.chunk is not None
    assert found.chunk.tobytes() == content
    assert found.is_last == is_last


@given(st.lists(sections, min_size=1, max_size=3), st.data())
def test_a_row_that_is_cut_in_its_sections_is_refused(
    given_: list[ChunkSection], data: st.DataObject
) -> None:
    row = encode_row(given_, memoryview(b""))
    cut = data.draw(st.integers(1, len(row) - 1))

    with pytest.raises(CorruptRecord):
        decode_row(memoryview(row)[:cut], Borrower())


def test_rows_survive_arrow_s_stream_format() -> None:
    row = encode_row([ChunkSection(4, 0, 3, 6)], memoryview(b"xyz"))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA) as stream:
        stream.write_batch(Rows().batch(row, push=True))

    (batch,) = pa.ipc.open_stream(sink.getvalue())

    expected = Row([ChunkSection(4, 0, 3, 6)], memoryview(b"xyz"), is_last=False)
    assert open_row(batch, 0, Borrower()) == expected
    assert [open_row(batch, n, Borrower()).chunk for n in range(1, batch.num_rows)] == [None, None]


def hand_over(batches: Iterator[pa.RecordBatch]) -> Iterator[list[bytes]]:
    """Yield for each batch what Spark's JVM hands over then: pairs whose next row it has seen."""
    seen: list[bytes] = []
    for batch in batches:
        seen += batch.column(0).to_pylist()
        handed: list[bytes] = []
        while len(seen) > ROWS_PER_BATCH:
            handed += seen[:ROWS_PER_BATCH]
            del seen[:ROWS_PER_BATCH]
        yield handed


@given(st.lists(st.one_of(st.booleans(), st.none()), max_size=20))
def test_a_row_that_is_pushed_is_handed_over_at_once_and_none_is_lost(
    pushes: list[bool | None],
) -> None:
    """A push of None is a tick. The first thing that a reader sends may stay behind, if it is a tick."""
    rows = Rows()
    made = [f"{n}".encode() for n in range(len(pushes))]

    def batches() -> Iterator[pa.RecordBatch]:
        for row, push in zip(made, pushes, strict=True):
            yield TICKS if push is None else rows.batch(row, push=push)

    wanted: list[bytes] = []
    handed: list[bytes] = []
    for row, push, new in zip(made, pushes, hand_over(batches()), strict=True):
        wanted += [] if push is None else [row]
        handed += filter(None, new)
        assert handed == wanted[: len(handed)]
        if push is not False:
            assert handed == wanted
            assert new or row == made[0], "the writer is woken"


def test_a_row_that_is_pushed_as_the_one_before_has_one_tick() -> None:
    rows = Rows()
    sizes = [rows.batch(b"row", push=True).num_rows for _ in range(4)]
    assert sizes == [3, 2, 2, 2]
