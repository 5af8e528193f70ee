from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.copying.placing import PlacedLane, encode_stretch, key_of, place, stretches
from heliograph.copying.sections import ChunkSection
from heliograph.errors import CorruptRecord
from heliograph.kafka.lane import Outgoing
from heliograph.model import ProducerIdentity, TopicPartition
from heliograph.wire.primitives import partition_for_key
from heliograph.wire.record_batch import next_sequence, read_header
from heliograph.wire.records import RawRecord, decode_body, encode_body
from heliograph.wire.unpack import unpack
from tests.unit.copying.lanes import Batches

GZIP = 1
keys = (
    st.none() | st.sampled_from([b"", b"a", b"b", b"key-7", b"\xff" * 40]) | st.binary(max_size=9)
)
bodies = st.builds(encode_body, keys, st.binary(max_size=60))
batch_lists = st.lists(
    st.tuples(st.lists(bodies, min_size=1, max_size=30), st.sampled_from([0, GZIP])), max_size=8
)


def lanes_of(count: int, limit: int = 1 << 20) -> list[PlacedLane]:
    return [
        PlacedLane(TopicPartition("A.t", i), ProducerIdentity(9, 1), 10 * i, limit)
        for i in range(count)
    ]


def joined(batches: Iterable[bytes]) -> tuple[memoryview, ChunkSection]:
    chunk = b"".join(batches)
    return memoryview(chunk), ChunkSection(0, 0, len(chunk), 0)


def decoded(batch: Outgoing) -> list[RawRecord]:
    return unpack(memoryview(batch.header + bytes(batch.payload)))


@given(st.lists(bodies, max_size=60), st.integers(0, 20), st.integers(1, 13))
def test_every_record_is_placed_once_and_in_order(
    contents: list[bytes], source_index: int, count: int
) -> None:
    _, records = Batches().write(contents) if contents else (b"", [])

    placed = place(records, source_index, count)

    assert sorted(r.offset for its in placed.values() for r in its) == [r.offset for r in records]
    for index, its in placed.items():
        assert [r.offset for r in its] == sorted(r.offset for r in its)
        for record in its:
            key = decode_body(record.body).key
            assert index == (source_index % count if key is None else partition_for_key(key, count))


@given(keys, st.binary(max_size=40))
def test_a_key_is_found_without_decoding_the_rest(key: bytes | None, value: bytes) -> None:
    assert key_of(encode_body(key, value)) == key


def test_a_key_that_ends_early_is_corrupt() -> None:
    with pytest.raises(CorruptRecord, match="a key of 9 bytes where 1 are left"):
        key_of(b"\x12x")


@given(
    batch_lists, st.integers(0, 40), st.integers(0, 11), st.integers(1, 7), st.integers(300, 4000)
)
def test_what_is_placed_is_what_was_read_from_the_position_on(
    given_: list[tuple[list[bytes], int]], skipped: int, source_index: int, count: int, limit: int
) -> None:
    source = Batches()
    written = [source.write(contents, codec) for contents, codec in given_]
    expected = [r for _, records in written for r in records if r.offset >= 500 + skipped]
    chunk, section = joined(batch for batch, _ in written)
    lanes = lanes_of(count, limit)
    got: dict[int, list[bytes]] = {}
    sequences = {i: 10 * i for i in range(count)}

    for stretch in stretches(chunk, section, 500 + skipped, Counter()):
        batches, reason = encode_stretch(stretch, source_index, lanes)
        assert reason is None
        for index, batch in batches:
            header = read_header(batch.header, 0)
            assert header.base_sequence == sequences[index]
            assert header.codec == stretch.codec
            assert len(batch.header) + len(batch.payload) <= limit
            sequences[index] = next_sequence(sequences[index], batch.count)
            got.setdefault(index, []).extend(r.body for r in decoded(batch))

    placed = place(expected, source_index, count)
    assert got == {index: [r.body for r in its] for index, its in placed.items()}


def test_a_corrupt_batch_is_told_after_all_before_it() -> None:
    source = Batches()
    good, records = source.write([encode_body(b"k", b"v")])
    rotten = bytearray(source.write([encode_body(b"k", b"w")])[0])
    rotten[-1] ^= 1
    chunk, section = joined([good, bytes(rotten)])
    found = stretches(chunk, section, 0, Counter())

    assert next(found).records == records
    with pytest.raises(CorruptRecord):
        next(found)


@given(st.integers(0, 19), st.integers(1, 5))
def test_nothing_after_a_record_that_is_too_large_goes_anywhere(place_of: int, count: int) -> None:
    contents = [encode_body(b"key-%d" % i, b"v") for i in range(20)]
    contents[place_of] = encode_body(b"big", bytes(4000))
    batch, _ = Batches().write(contents)
    chunk, section = joined([batch])
    lanes = lanes_of(count, 2000)
    (stretch,) = stretches(chunk, section, 0, Counter())

    batches, reason = encode_stretch(stretch, 0, lanes)

    assert reason is not None
    assert reason.upstream == 500 + place_of
    went = [r.body for _, batch in batches for r in decoded(batch)]
    assert sorted(went) == sorted(contents[:place_of])
    counts = {i: sum(b.count for n, b in batches if n == i) for i in range(count)}
    assert [lane.sequence for lane in lanes] == [10 * i + counts[i] for i in range(count)]
