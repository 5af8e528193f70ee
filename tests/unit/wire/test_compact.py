import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.wire.compact import read_uvarint, write_uvarint

uint32s = st.integers(0, (1 << 32) - 1)


@given(uint32s, st.binary(max_size=4), st.binary(max_size=4))
def test_a_number_comes_back_from_between_others(number: int, before: bytes, after: bytes) -> None:
    written = write_uvarint(number)

    buffer = memoryview(before + written + after)

    assert read_uvarint(buffer, len(before)) == (number, len(before) + len(written))


@given(uint32s)
def test_a_number_takes_a_byte_for_seven_bits(number: int) -> None:
    assert len(write_uvarint(number)) == max(1, -(-number.bit_length() // 7))


@pytest.mark.parametrize(
    ("number", "written"),
    [
        (0, "00"),
        (127, "7f"),
        (128, "8001"),
        (300, "ac02"),
        (16_384, "808001"),
        ((1 << 32) - 1, "ffffffff0f"),
    ],
)
def test_numbers_are_written_as_the_protocol_says(number: int, written: str) -> None:
    assert write_uvarint(number).hex() == written


@given(uint32s, st.data())
def test_a_cut_number_is_an_index_error(number: int, data: st.DataObject) -> None:
    written = write_uvarint(number)
    cut = data.draw(st.integers(0, len(written) - 1))

    with pytest.raises(IndexError):
        read_uvarint(memoryview(written[:cut]), 0)


def test_a_number_without_end_is_an_index_error() -> None:
    with pytest.raises(IndexError):
        read_uvarint(memoryview(b"\x80" * 20), 0)
