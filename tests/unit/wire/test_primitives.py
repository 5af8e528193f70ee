import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as oracle
from kafka.record.util import encode_varint as oracle_varint

from heliograph.errors import CorruptRecord
from heliograph.wire.primitives import (
    decode_string,
    decode_varint,
    encode_string,
    encode_varint,
    murmur2,
    partition_for_key,
)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=50))
def test_strings_survive_the_wire(text: str) -> None:
    data = encode_string(text)
    assert decode_string(b"xx" + data + b"yy", 2) == (text, 2 + len(data))


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x00\x05abc", b"\xff\xff", b"\x00\x01\xff"])
def test_a_broken_string_is_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptRecord):
        decode_string(data, 0)


def test_a_string_over_the_limit_is_refused() -> None:
    assert len(encode_string("x" * 32767)) == 32769
    with pytest.raises(ValueError, match="32767"):
        encode_string("x" * 32768)


@given(st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-70000, 70000))
def test_varints_survive_and_agree_with_kafka_python(number: int) -> None:
    expected = bytearray()
    oracle_varint(number, expected.append)
    data = encode_varint(number)
    assert data == expected
    assert decode_varint(b"x" + data + b"y", 1, bits=64) == (number, 1 + len(data))


@given(st.integers(-(1 << 31), (1 << 31) - 1))
def test_a_number_of_32_bits_is_read_as_such(number: int) -> None:
    assert decode_varint(encode_varint(number), 0, bits=32)[0] == number


@pytest.mark.parametrize(
    ("data", "bits"),
    [("", 32), ("ff", 32), ("ffffffffff00", 32), ("ffffffff1f", 32), ("ff" * 10 + "00", 64)],
)
def test_a_number_cut_or_too_large_is_corrupt(data: str, bits: int) -> None:
    with pytest.raises(CorruptRecord):
        decode_varint(bytes.fromhex(data), 0, bits=bits)


def test_a_number_beyond_64_bits_wraps_as_in_java() -> None:
    assert encode_varint(1 << 63) == encode_varint(-(1 << 63))


@given(st.binary(max_size=12))
def test_any_bytes_are_a_number_or_corrupt(data: bytes) -> None:
    with contextlib.suppress(CorruptRecord):
        assert -(1 << 63) <= decode_varint(data, 0, bits=64)[0] < 1 << 63


@given(st.binary(max_size=80))
def test_murmur2_agrees_with_kafka_python(key: bytes) -> None:
    assert murmur2(key) == oracle(key)


def test_murmur2_agrees_with_java() -> None:
    # Vectors of Kafka's own test of its hash, as signed 32-bit numbers.
    vectors = {
        b"21": -973932308,
        b"foobar": -790332482,
        b"a-little-bit-long-string": -985981536,
        b"a-little-bit-longer-string": -1486304829,
        b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
        b"abc": 479470107,
    }
    for key, expected in vectors.items():
        assert murmur2(key) == expected & 0xFFFFFFFF


@given(st.binary(max_size=80), st.integers(1, 1000))
def test_a_key_lands_in_an_existing_partition(key: bytes, partitions: int) -> None:
    assert 0 <= partition_for_key(key, partitions) < partitions
