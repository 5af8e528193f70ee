import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as oracle

from heliograph.errors import CorruptRecord
from heliograph.wire.primitives import decode_string, encode_string, murmur2, partition_for_key


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
