from collections import Counter
from collections.abc import Generator, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.copying.packing import Packer, RecordTooLarge, pass_batch, reencode
from heliograph.copying.slot import Slot
from heliograph.kafka.lane import Outgoing
from heliograph.wire.record_batch import (
    APPEND_TIME,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAX_SEQUENCE,
    is_lone,
    next_sequence,
    read_header,
)
from heliograph.wire.records import RawRecord, encode_body
from heliograph.wire.unpack import unpack
from tests.unit.copying.lanes import Batches, make_slot

CODECS = range(5)
GZIP, LZ4 = 1, 3
bodies = st.builds(
    encode_body,
    st.none() | st.binary(max_size=8),
    st.none() | st.binary(max_size=300),
    st.lists(st.tuples(st.binary(max_size=4), st.none() | st.binary(max_size=4)), max_size=2),
)
batch_lists = st.lists(
    st.tuples(st.lists(bodies, min_size=1, max_size=40), st.sampled_from(CODECS)), max_size=12
)


def slot_of(limit: int = 1 << 20, sequence: int = 0) -> Slot:
    return make_slot(limit, sequence)


def joined(outgoing: Outgoing) -> memoryview:
    return memoryview(outgoing.header + bytes(outgoing.payload))


def pack(slot: Slot, batches: Iterable[bytes], merge_bytes: int = 1 << 16) -> list[Outgoing]:
    packer = Packer(slot, merge_bytes, Counter())
    sent: list[Outgoing] = []
    for batch in batches:
        view = memoryview(batch)
        sent += packer.add(view, read_header(view, 0))
    return [*sent, *packer.flush()]


def seen(records: Iterable[RawRecord]) -> list[tuple[int, int, bytes]]:
    return [(record.timestamp, record.attributes, record.body) for record in records]


def check_sent(sent: list[Outgoing], records: list[RawRecord], sequence: int, limit: int) -> None:
    """What a consumer decodes is what was given; sequences follow each other; nothing is too large."""
    decoded: list[RawRecord] = []
    for outgoing in sent:
        batch = joined(outgoing)
        header = read_header(batch, 0)
        assert len(batch) <= limit
        assert (header.producer_id, header.producer_epoch) == (9, 1)
        assert (header.base_sequence, header.records) == (sequence, outgoing.count)
        assert not header.has_holes
        sequence = next_sequence(sequence, outgoing.count)
        found = unpack(batch)
        assert outgoing.max_timestamp == header.max_timestamp == max(r.timestamp for r in found)
        decoded += found
        assert outgoing.upstream == records[len(decoded) - 1].offset + 1
    assert seen(decoded) == seen(records)


@given(
    batch_lists,
    st.sampled_from([0, MAX_SEQUENCE - 3]),
    st.sampled_from([1, 500, 1 << 16]),
    st.sampled_from([600, 4000, 1 << 20]),
)
def test_what_is_packed_is_what_was_read(
    given_: list[tuple[list[bytes], int]], sequence: int, merge_bytes: int, limit: int
) -> None:
    source = Batches()
    written = [source.write(contents, codec) for contents, codec in given_]

    sent = pack(slot_of(limit, sequence), [batch for batch, _ in written], merge_bytes)

    check_sent(sent, [record for _, records in written for record in records], sequence, limit)


@given(st.lists(bodies, min_size=1, max_size=60), st.sampled_from(CODECS), st.integers(400, 5000))
def test_what_is_encoded_again_is_what_was_there(
    contents: list[bytes], codec: int, limit: int
) -> None:
    source = Batches()
    _, records = source.write(contents)

    sent = list(reencode(slot_of(limit), records, codec, source.offset))

    check_sent(sent, records, 0, limit)
    assert {read_header(outgoing.header, 0).codec for outgoing in sent} == {codec}


def test_a_passed_batch_keeps_its_payload_and_moves_the_sequence() -> None:
    slot = slot_of(sequence=5)
    batch, _ = Batches(500).write([b"\1\1\0"] * 3, LZ4)
    view = memoryview(batch)

    sent = pass_batch(slot, read_header(view, 0), view[HEADER_SIZE:])

    assert bytes(sent.payload) == batch[HEADER_SIZE:]
    assert (sent.count, sent.upstream, slot.sequence) == (3, 503, 8)


def test_small_batches_become_one() -> None:
    source = Batches()
    written = [source.write([encode_body(b"k", b"%d" % i)])[0] for i in range(100)]

    (sent,) = pack(slot_of(), written)

    assert (sent.count, sent.upstream) == (100, 600)


lone_batches = st.lists(
    st.tuples(
        st.lists(bodies, min_size=1, max_size=2),
        st.sampled_from([0, 0, 0, LZ4]),
        st.integers(0, 20_000),
    ),
    max_size=30,
)


def pack_in_rows(slot: Slot, chunk: memoryview, merge_bytes: int) -> list[Outgoing]:
    """Pack as the writer does: batches of one record in rows, others one by one."""
    packer = Packer(slot, merge_bytes, Counter())
    sent: list[Outgoing] = []

    def add(at: int) -> Generator[Outgoing, None, int]:
        header = read_header(chunk, at)
        if is_lone(header):
            after = yield from packer.add_lone(chunk, at, len(chunk))
            if after > at:
                return after
        end = at + LOG_OVERHEAD + header.length
        yield from packer.add(chunk[at:end], header)
        return end

    at = 0
    while at < len(chunk):
        at = drain(add(at), sent)
    return [*sent, *packer.flush()]


def drain(packing: Generator[Outgoing, None, int], sent: list[Outgoing]) -> int:
    """Note all that is packed, and return where it ended."""
    while True:
        try:
            sent.append(next(packing))
        except StopIteration as over:
            return int(over.value)


@given(lone_batches, st.sampled_from([1, 500, 1 << 16]), st.sampled_from([900, 1 << 20]))
def test_rows_of_lone_records_are_what_was_read(
    given_: list[tuple[list[bytes], int, int]], merge_bytes: int, limit: int
) -> None:
    source = Batches()
    written = [
        source.write(contents, codec, 1_700_000_000_000 - later)
        for contents, codec, later in given_
    ]
    chunk = memoryview(b"".join(batch for batch, _ in written))

    sent = pack_in_rows(slot_of(limit), chunk, merge_bytes)

    check_sent(sent, [record for _, records in written for record in records], 0, limit)
    offsets = [(f, n) for outgoing in sent for f, n in outgoing.spans]
    assert [o for f, n in offsets for o in range(f, f + n)] == [*range(500, source.offset)]


def test_thousands_of_lone_records_go_in_few_batches_and_a_flipped_bit_ends_the_row() -> None:
    source = Batches()
    written = [source.write([encode_body(b"k", b"x" * (i % 90))])[0] for i in range(9000)]
    chunk = bytearray(b"".join(written))
    intact = memoryview(bytes(chunk))

    sent = pack_in_rows(slot_of(), intact, 1 << 18)

    assert sum(s.count for s in sent) == 9000
    assert len(sent) < 8

    flipped = sum(map(len, written[:4000])) + 70
    chunk[flipped] ^= 1
    rows = Packer(slot_of(), 1 << 18, Counter()).add_lone(memoryview(chunk), 0, len(chunk))
    assert drain(rows, []) == flipped - 70


def test_thousands_of_tiny_records_in_pairs_and_a_lone_one_behind_them_are_packed() -> None:
    source = Batches()
    tiny = encode_body(None, b"7")
    written = [source.write([tiny, tiny])[0] for _ in range(4200)]
    written += [source.write([tiny])[0] for _ in range(3)]

    sent = pack_in_rows(slot_of(), memoryview(b"".join(written)), 1 << 18)

    assert sum(s.count for s in sent) == 8403


def test_a_lone_small_batch_is_passed_as_it_is() -> None:
    batch, _ = Batches().write([encode_body(b"k", b"v")], GZIP)

    (sent,) = pack(slot_of(), [batch])

    assert bytes(sent.payload) == batch[HEADER_SIZE:]


def test_batches_of_two_codecs_are_not_merged() -> None:
    source = Batches()
    written = [source.write([encode_body(b"k", b"v")], codec)[0] for codec in (0, 0, 1, 1, 0)]

    sent = pack(slot_of(), written)

    assert [(s.count, read_header(s.header, 0).codec) for s in sent] == [(2, 0), (2, 1), (1, 0)]


def test_a_record_that_fits_no_batch_is_named_with_sizes() -> None:
    source = Batches()
    contents = [encode_body(None, b"x" * size) for size in (10, 5000, 10)]
    _, records = source.write(contents)
    slot = slot_of(limit=1000)
    sent: list[Outgoing] = []

    with pytest.raises(RecordTooLarge, match=r"upstream offset 501 .* takes 1000") as caught:
        sent.extend(reencode(slot, records, 0, source.offset))

    assert caught.value.size > 5000


def test_nothing_to_encode_is_nothing_to_send() -> None:
    assert list(reencode(slot_of(), [], 0, 7)) == []


def test_small_batches_that_must_be_encoded_again_go_in_common() -> None:
    """A topic with LogAppendTime has a batch for each record of a producer that does not linger."""
    source = Batches()
    count = 1000
    batches = [
        source.write([encode_body(None, b"%d" % n)], attributes=APPEND_TIME)[0]
        for n in range(count)
    ]
    records = [record for batch in batches for record in unpack(memoryview(batch))]

    sent = pack(slot_of(), batches)

    assert len(sent) < count / 100
    check_sent(sent, records, 0, 1 << 20)
    spans = [span for outgoing in sent for span in outgoing.spans]
    assert [o + i for o, n in spans for i in range(n)] == [r.offset for r in records]


def test_one_that_must_be_encoded_again_is_not_passed_even_alone() -> None:
    batch, _ = Batches().write([encode_body(None, b"x")], attributes=APPEND_TIME)
    records = list(unpack(memoryview(batch)))

    sent = pack(slot_of(), [batch])

    check_sent(sent, records, 0, 1 << 20)
    assert not read_header(joined(sent[0]), 0).attributes & APPEND_TIME


def test_what_is_larger_than_the_target_takes_is_split_and_not_merged() -> None:
    source = Batches()
    batches = [source.write([encode_body(None, bytes(400))] * 4)[0] for _ in range(3)]
    records = [record for batch in batches for record in unpack(memoryview(batch))]

    check_sent(pack(slot_of(limit=1200), batches), records, 0, 1200)
