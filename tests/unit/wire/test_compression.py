import contextlib
import struct
import tracemalloc
import zlib

import cramjam
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.errors import CorruptRecord
from heliograph.wire.compression import (
    GZIP,
    LZ4,
    NONE,
    SNAPPY,
    ZSTD,
    compress,
    decompress,
    repair_lz4_header,
)

CODECS = [NONE, GZIP, SNAPPY, LZ4, ZSTD]
FRAMED = [GZIP, SNAPPY, LZ4, ZSTD]
TEXT = b"".join(b"line %d of a text that repeats itself. " % i for i in range(8000))


@given(st.sampled_from(CODECS), st.binary() | st.binary().map(lambda data: data * 5000))
def test_what_was_compressed_comes_back(codec: int, data: bytes) -> None:
    assert decompress(codec, memoryview(compress(codec, memoryview(data))), len(data)) == data


@pytest.mark.parametrize(("codec", "name"), [(GZIP, "gzip"), (LZ4, "lz4"), (ZSTD, "zstd")])
def test_another_library_reads_and_writes_the_same(codec: int, name: str) -> None:
    other = pa.Codec(name)
    assert bytes(other.decompress(compress(codec, TEXT), len(TEXT))) == TEXT
    assert decompress(codec, bytes(other.compress(TEXT)), len(TEXT)) == TEXT


@pytest.mark.parametrize("codec", CODECS)
def test_a_payload_over_the_limit_is_corrupt(codec: int) -> None:
    with pytest.raises(CorruptRecord, match=f"more than {len(TEXT) - 1} bytes"):
        decompress(codec, compress(codec, TEXT), len(TEXT) - 1)


@pytest.mark.parametrize("codec", FRAMED)
def test_a_bomb_does_not_take_memory(codec: int) -> None:
    bomb = compress(codec, bytes(64 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(CorruptRecord):
            decompress(codec, bomb, 1 << 20)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", FRAMED)
def test_a_truncated_payload_is_corrupt(codec: int) -> None:
    with pytest.raises(CorruptRecord):
        decompress(codec, compress(codec, TEXT)[:-3], 2 * len(TEXT))


@given(st.sampled_from(CODECS), st.binary(max_size=200))
def test_any_bytes_are_read_or_corrupt(codec: int, data: bytes) -> None:
    with contextlib.suppress(CorruptRecord):
        assert len(decompress(codec, data, 1000)) <= 1000


@given(st.sampled_from(FRAMED), st.data())
def test_a_flipped_byte_is_read_or_corrupt(codec: int, data: st.DataObject) -> None:
    broken = bytearray(compress(codec, TEXT[:300]))
    broken[data.draw(st.integers(0, len(broken) - 1))] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(CorruptRecord):
        decompress(codec, broken, 1000)


@pytest.mark.parametrize("codec", FRAMED)
def test_frames_in_a_row_are_one_payload(codec: int) -> None:
    twice = compress(codec, TEXT) + compress(codec, TEXT)
    assert decompress(codec, twice, 2 * len(TEXT)) == TEXT + TEXT
    with pytest.raises(CorruptRecord):
        decompress(codec, twice, 2 * len(TEXT) - 1)


def test_lz4_blocks_are_independent_as_java_demands() -> None:
    frame = compress(LZ4, TEXT)
    assert frame[:4].hex() == "04224d18"
    version, independent, dictionary = frame[4] >> 6, frame[4] & 0x20, frame[4] & 0x01
    assert (version, independent, dictionary) == (1, 0x20, 0)
    assert frame[5] >> 4 == 4  # blocks of 64 KiB


def test_snappy_is_written_in_the_blocks_of_snappy_java() -> None:
    data = compress(SNAPPY, TEXT)
    assert data[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    (length,) = struct.unpack_from(">i", data, 16)
    assert bytes(cramjam.snappy.decompress_raw(data[20 : 20 + length])) == TEXT[: 32 * 1024]


def test_raw_snappy_is_read_too() -> None:
    assert decompress(SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT)), len(TEXT)) == TEXT


def test_a_snappy_length_over_the_limit_is_refused_before_memory_is_taken() -> None:
    with pytest.raises(CorruptRecord, match="more than"):
        decompress(SNAPPY, b"\xff\xff\xff\xff\x0f" + b"x" * 20, 1 << 20)


def test_the_old_lz4_header_of_magic_0_is_repaired() -> None:
    for frame in (compress(LZ4, TEXT), bytes(pa.Codec("lz4").compress(TEXT))):
        at = 14 if frame[4] & 0x08 else 6
        old = frame[:at] + bytes([frame[at] ^ 0x55]) + frame[at + 1 :]
        with pytest.raises(CorruptRecord):
            decompress(LZ4, old, len(TEXT))
        assert repair_lz4_header(old) == frame


@pytest.mark.parametrize("data", [b"", b"\x04\x22\x4d\x18", b"\x04\x22\x4d\x18\x68\x40", b"x" * 20])
def test_a_missing_lz4_header_is_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptRecord):
        repair_lz4_header(data)


@pytest.mark.parametrize("codec", [-1, 5, 7])
def test_an_unknown_codec_is_corrupt(codec: int) -> None:
    with pytest.raises(CorruptRecord, match=f"codec {codec}"):
        decompress(codec, b"", 10)
    with pytest.raises(CorruptRecord):
        compress(codec, b"")


def test_gzip_is_a_plain_gzip_member() -> None:
    assert zlib.decompress(compress(GZIP, TEXT), 31) == TEXT
