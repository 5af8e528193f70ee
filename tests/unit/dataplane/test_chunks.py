import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from heliograph.dataplane.chunks import (
    SCHEMA,
    TICK,
    ChunkSection,
    chunk_row,
    decode_index,
    encode_index,
    open_row,
)
from heliograph.dataplane.ring import Borrower

int31s = st.integers(0, (1 << 31) - 1)
int63s = st.integers(0, (1 << 63) - 1)
transactions = st.lists(st.tuples(int63s, int63s), max_size=5).map(tuple)
sections = st.builds(ChunkSection, int31s, int31s, int31s, int63s, transactions)


@given(st.lists(sections, max_size=6))
def test_an_index_comes_back(given_: list[ChunkSection]) -> None:
    assert list(decode_index(encode_index(given_))) == given_


@given(st.binary(max_size=200), st.integers(0, 20))
def test_a_row_gives_index_and_chunk_back(content: bytes, cut: int) -> None:
    view = memoryview(content)[cut:]
    index = encode_index([ChunkSection(1, 0, 2, 3)])

    found, chunk = open_row(chunk_row(index, view), Borrower())

    assert found == index
    assert chunk is not None
    assert chunk.tobytes() == bytes(view)


def test_a_row_shares_the_memory_of_the_response() -> None:
    response = bytearray(b"before the chunk and after")
    row = chunk_row(encode_index([ChunkSection(0, 0, 1, 1)]), memoryview(response)[7:16])

    response[7:10] = b"THE"

    _, chunk = open_row(row, Borrower())
    assert chunk is not None
    assert chunk.tobytes() == b"THE chunk"


def test_a_row_survives_arrow_s_stream_format() -> None:
    index = encode_index([ChunkSection(4, 0, 3, 6)])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA) as stream:
        for batch in (chunk_row(index, memoryview(b"xyz")), TICK):
            stream.write_batch(batch)

    row, tick = pa.ipc.open_stream(sink.getvalue())

    found, chunk = open_row(row, Borrower())
    assert found == index
    assert chunk is not None
    assert chunk.tobytes() == b"xyz"
    assert open_row(tick, Borrower()) == (b"", None)
