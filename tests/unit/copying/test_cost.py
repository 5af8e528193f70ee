"""What the hot path costs, in calls and bytes: figures that do not depend on the machine's mood."""

import tracemalloc
from collections import Counter
from collections.abc import Callable

import pytest

from heliograph.copying.packing import Packer
from heliograph.copying.sections import ChunkSection
from heliograph.kafka.fetch import Response
from heliograph.kafka.lane import Outgoing
from heliograph.wire.lease_messages import Report, SlotWritten, encode_message
from heliograph.wire.record_batch import find_batches, last_batch, read_header
from heliograph.wire.records import encode_body
from lab.counting import count_calls
from tests.unit.copying.lanes import Batches, make_share, make_slot
from tests.unit.copying.readers import answer_of, reader_of, response_of, section
from tests.unit.copying.targets import Scene, slow_target

LONE = 5000
LARGE = 64


def peak_bytes(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.fixture(scope="module")
def lone() -> memoryview:
    source = Batches()
    body = encode_body(None, b"x" * 160)
    return memoryview(b"".join(source.write([body])[0] for _ in range(LONE)))


@pytest.fixture(scope="module")
def large() -> memoryview:
    source = Batches()
    bodies = [encode_body(None, b"x" * 160)] * 380
    return memoryview(b"".join(source.write(bodies)[0] for _ in range(LARGE)))


def merge_lone(chunk: memoryview) -> list[Outgoing]:
    packer = Packer(make_slot(), 1 << 20, Counter())
    return [*packer.add_lone(chunk, 0, len(chunk)), *packer.flush()]


def pass_large(chunk: memoryview) -> list[Outgoing]:
    packer = Packer(make_slot(), 1 << 20, Counter())
    sent: list[Outgoing] = []
    for start, size in find_batches(chunk, 0, len(chunk)):
        view = chunk[start : start + size]
        sent += packer.add(view, read_header(view, 0))
    return sent


def test_a_reader_makes_one_call_for_each_batch(lone: memoryview) -> None:
    assert count_calls(lambda: last_batch(lone, 0, len(lone))) < 1.01 * LONE


def test_a_section_costs_a_reader_the_same_however_many_large_batches_it_has() -> None:
    source = Batches()
    body = encode_body(None, b"x" * 160)
    one = [source.write([body] * 100)[0]]
    reader = reader_of(200)
    few, many = response_of(one, 100), response_of(one, 200)

    once = count_calls(lambda: reader._index(few))
    twice = count_calls(lambda: reader._index(many))

    assert once < 40 * 100
    assert twice < 2.1 * once
    assert len(reader._index(many)[0]) == 200


def test_a_quiet_partition_costs_a_reader_next_to_nothing() -> None:
    reader = reader_of(100)
    nothing = answer_of(*(section(slot) for slot in range(100)))
    reader._index(nothing)

    assert count_calls(lambda: reader._index(nothing)) < 4 * 100


def test_a_reader_keeps_nothing_of_a_response(large: memoryview) -> None:
    reader = reader_of(1)
    response = Response(large, [section(0, 0, len(large))])
    assert peak_bytes(lambda: reader._index(response)) < len(large) / 50


def test_a_record_of_its_own_costs_a_writer_few_calls(lone: memoryview) -> None:
    assert sum(sent.count for sent in merge_lone(lone)) == LONE
    # Its header, its beginning, its CRC, and three lengths.
    assert count_calls(lambda: merge_lone(lone)) < 6.1 * LONE


def test_a_batch_that_passes_costs_few_calls_and_no_copy(large: memoryview) -> None:
    assert count_calls(lambda: pass_large(large)) < 32 * LARGE
    assert peak_bytes(lambda: pass_large(large)) < len(large) / 50


def write_all(chunk: memoryview) -> Scene:
    scene = Scene()
    scene.take([make_share()])
    scene.writer.write(chunk, ChunkSection(0, 0, len(chunk), 1_000_000))
    return scene


def test_a_writer_adds_few_calls_to_those_of_its_packer(
    lone: memoryview, large: memoryview, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow_target(monkeypatch)
    assert write_all(large).writer.slots[0].pending == LARGE

    # The beginning and the CRC of each batch, its transaction, and what takes it to the producer.
    more = count_calls(lambda: write_all(large)) - count_calls(lambda: pass_large(large))
    assert more < 12 * LARGE
    more = count_calls(lambda: write_all(lone)) - count_calls(lambda: merge_lone(lone))
    assert more < 0.1 * LONE
    assert peak_bytes(lambda: write_all(large)) < len(large) / 25


def test_lone_records_between_others_keep_no_more_than_themselves() -> None:
    source = Batches()
    body = encode_body(None, b"x")
    batches = [source.write([body] * count)[0] for _ in range(1000) for count in (1, 17)]
    chunk = memoryview(b"".join(batches))

    def pack() -> list[Outgoing]:
        packer = Packer(make_slot(), 1 << 20, Counter())
        sent: list[Outgoing] = []
        for start, size in find_batches(chunk, 0, len(chunk)):
            view = chunk[start : start + size]
            if size < 100:
                sent += packer.add_lone(chunk, start, start + size)
            else:
                sent += packer.add(view, read_header(view, 0))
        return sent

    assert len(pack()) == 2000
    assert peak_bytes(pack) < 10 * len(chunk)


def test_a_report_does_not_grow_with_the_records_of_a_partition() -> None:
    def report(records: int) -> Report:
        runs = ((5_000_000, 4_000_000, records),)
        row = SlotWritten(1, 5_000_000, 4_000_000, 77, records, 10 * records, runs, -1, None)
        return Report(written=(row,) * 20)

    small, large = encode_message(report(1)), encode_message(report(1_000_000))

    assert len(large) - len(small) < 20 * 25
    assert count_calls(lambda: encode_message(report(1_000_000))) < 30
