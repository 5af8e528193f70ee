from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from heliograph.errors import CorruptRecord
from heliograph.model import ProducerIdentity
from heliograph.wire.record_batch import (
    APPEND_TIME,
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    HEADER_SIZE,
    MAX_SEQUENCE,
    TRANSACTIONAL,
    BatchHeader,
    Extent,
    build_header,
    check_crc,
    find_batches,
    last_batch,
    next_offset_of,
    next_sequence,
    read_header,
    restamp,
)
from heliograph.wire.unpack import unpack

int16s = st.integers(0, (1 << 15) - 1)
int64s = st.integers(0, (1 << 63) - 1)
sequences = st.integers(0, MAX_SEQUENCE)
identities = st.builds(ProducerIdentity, int64s, int16s)
timestamps = st.lists(st.integers(0, 1 << 42), min_size=1, max_size=8)


def build(
    timestamps: Sequence[int],
    codec: int = 0,
    transactional: bool = False,
    identity: ProducerIdentity | None = None,
    sequence: int = -1,
) -> bytes:
    """Return a batch as kafka-python writes it."""
    who = identity or ProducerIdentity(-1, -1)
    builder = DefaultRecordBatchBuilder(
        2, codec, transactional, who.producer_id, who.epoch, sequence, 1 << 30
    )
    for number, timestamp in enumerate(timestamps):
        builder.append(number, timestamp, b"k%d" % number, b"v" * number, [("h", b"1")])
    return bytes(builder.build())


batches = st.builds(
    build, timestamps, st.sampled_from([0, 1]), st.booleans(), st.none() | identities, sequences
)


@given(timestamps, st.booleans(), identities, sequences)
def test_a_header_is_read_as_kafka_python_wrote_it(
    stamps: list[int], transactional: bool, identity: ProducerIdentity, sequence: int
) -> None:
    batch = build(stamps, 1, transactional, identity, sequence)

    header = read_header(batch, 0)

    assert header == BatchHeader(
        base_offset=0,
        length=len(batch) - 12,
        leader_epoch=header.leader_epoch,
        magic=2,
        crc=DefaultRecordBatch(batch).crc,
        attributes=DefaultRecordBatch(batch).attributes,
        last_offset_delta=len(stamps) - 1,
        base_timestamp=stamps[0],
        max_timestamp=max(stamps),
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        base_sequence=sequence,
        records=len(stamps),
    )
    assert header.codec == DefaultRecordBatch(batch).compression_type
    assert bool(header.attributes & TRANSACTIONAL) is transactional
    assert not header.has_holes
    assert header.next_offset == len(stamps)
    check_crc(memoryview(batch), Extent(0, len(batch)), header)


@given(timestamps, identities, sequences)
def test_a_built_header_is_read_by_kafka_python(
    stamps: list[int], identity: ProducerIdentity, sequence: int
) -> None:
    payload = build(stamps)[HEADER_SIZE:]

    header = build_header(
        payload,
        attributes=0,
        count=len(stamps),
        base_timestamp=stamps[0],
        max_timestamp=max(stamps),
        identity=identity,
        sequence=sequence,
    )

    assert len(header) == HEADER_SIZE
    oracle = DefaultRecordBatch(header + payload)
    assert oracle.validate_crc()
    assert (oracle.producer_id, oracle.producer_epoch, oracle.base_sequence) == (
        identity.producer_id,
        identity.epoch,
        sequence,
    )
    assert [record.timestamp for record in oracle] == stamps
    assert unpack(memoryview(header + payload)) == unpack(memoryview(build(stamps)))


@given(batches, identities, sequences, int64s, st.integers(0, 0x7F))
def test_restamping_keeps_all_but_place_sender_and_flags(
    batch: bytes, identity: ProducerIdentity, sequence: int, base_offset: int, attributes: int
) -> None:
    given_ = read_header(batch, 0)._replace(
        base_offset=base_offset, leader_epoch=9, attributes=attributes
    )
    payload = memoryview(batch)[HEADER_SIZE:]

    stamped = restamp(given_, payload, identity, sequence) + bytes(payload)

    header = read_header(stamped, 0)
    assert header == given_._replace(
        base_offset=0,
        leader_epoch=-1,
        crc=header.crc,
        attributes=attributes & CODEC_MASK,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        base_sequence=sequence,
    )
    assert not header.attributes & (APPEND_TIME | TRANSACTIONAL | CONTROL | DELETE_HORIZON)
    assert DefaultRecordBatch(stamped).validate_crc()


@given(batches, st.data())
def test_a_flipped_bit_is_found(batch: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(17, len(batch) - 1))
    bad = bytearray(batch)
    bad[at] ^= 1 << data.draw(st.integers(0, 7))
    view = memoryview(bytes(bad))

    with pytest.raises(CorruptRecord, match="upstream offset 0 does not match its CRC"):
        check_crc(view, Extent(0, len(view)), read_header(view, 0))
    with pytest.raises(CorruptRecord):
        unpack(view)


@given(batches, st.data())
def test_a_cut_batch_does_not_unpack(batch: bytes, data: st.DataObject) -> None:
    with pytest.raises(CorruptRecord):
        unpack(memoryview(batch)[: data.draw(st.integers(17, len(batch) - 1))])


@given(st.lists(batches, max_size=4), st.data())
def test_whole_batches_are_found_and_a_cut_one_is_left_out(
    given_: list[bytes], data: st.DataObject
) -> None:
    before = data.draw(st.integers(0, 20))
    cut = build([1, 2, 3])
    cut = cut[: data.draw(st.integers(0, len(cut) - 1))]
    buffer = bytes(before) + b"".join(given_) + cut

    found = list(find_batches(buffer, before, len(buffer)))

    assert [buffer[start : start + size] for start, size in found] == given_
    assert last_batch(buffer, before, len(buffer)) == (found[-1] if found else None)


@pytest.mark.parametrize("claimed", [-1, 0, 4, -(1 << 31)])
def test_a_batch_that_claims_an_impossible_size_is_corrupt(claimed: int) -> None:
    buffer = bytes(8) + claimed.to_bytes(4, "big", signed=True) + bytes(100)

    with pytest.raises(CorruptRecord):
        list(find_batches(buffer, 0, len(buffer)))
    with pytest.raises(CorruptRecord):
        last_batch(buffer, 0, len(buffer))


@pytest.mark.parametrize("magic", [0, 1])
def test_the_offset_after_an_old_message_is_one_past_its_own(magic: int) -> None:
    builder = LegacyRecordBatchBuilder(magic, 0, 1 << 20)
    builder.append(41, 1, b"k", b"v")

    assert next_offset_of(bytes(builder.build()), 0) == 42


def test_the_offset_after_a_batch_counts_its_holes() -> None:
    batch = bytearray(build([1, 2]))
    batch[0:8] = (1000).to_bytes(8, "big")
    batch[23:27] = (9).to_bytes(4, "big")

    assert next_offset_of(bytes(batch), 0) == 1010
    assert read_header(batch, 0).has_holes


@pytest.mark.parametrize(
    ("sequence", "count", "after"),
    [(0, 1, 1), (MAX_SEQUENCE, 1, 0), (MAX_SEQUENCE - 1, 5, 3), (7, 0, 7)],
)
def test_a_sequence_wraps_to_zero(sequence: int, count: int, after: int) -> None:
    assert next_sequence(sequence, count) == after
