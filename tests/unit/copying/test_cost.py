"""What the hot path costs, in calls and bytes: figures that do not depend on the machine's mood."""

import sys
import tracemalloc
from collections import Counter
from collections.abc import Callable
from types import FrameType

import pytest

from heliograph.copying.sections import ChunkSection, decode_row, encode_row
from heliograph.copying.packing import Packer
from heliograph.dataplane.ring import Borrower
from heliograph.copying.slot import open_slot
from heliograph.kafka.produce import Outgoing
from heliograph.wire.record_batch import find_batches, last_batch, read_header
from heliograph.wire.records import encode_body
from tests.unit.dataplane.lanes import Batches, make_share

LONE = 5000
LARGE = 64


def count_calls(work: Callable[[], object]) -> int:
    """Return how many functions were called, those in C too."""
    calls = 0

    def note(_frame: FrameType, event: str, _arg: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


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
    packer = Packer(open_slot(make_share(), None), 1 << 20, Counter())
    return [*packer.add_lone(chunk, 0, len(chunk)), *packer.flush()]


def pass_large(chunk: memoryview) -> list[Outgoing]:
    packer = Packer(open_slot(make_share(), None), 1 << 20, Counter())
    sent: list[Outgoing] = []
    for start, size in find_batches(chunk, 0, len(chunk)):
        view = chunk[start : start + size]
        sent += packer.add(view, read_header(view, 0))
    return sent


def test_a_reader_makes_one_call_for_each_batch(lone: memoryview) -> None:
    assert count_calls(lambda: last_batch(lone, 0, len(lone))) < 1.01 * LONE


def test_a_record_of_its_own_costs_a_writer_few_calls(lone: memoryview) -> None:
    assert sum(sent.count for sent in merge_lone(lone)) == LONE
    # Its header, its beginning, its CRC, and three lengths.
    assert count_calls(lambda: merge_lone(lone)) < 6.1 * LONE


def test_a_batch_that_passes_costs_few_calls_and_no_copy(large: memoryview) -> None:
    assert count_calls(lambda: pass_large(large)) < 32 * LARGE
    assert peak_bytes(lambda: pass_large(large)) < len(large) / 50


def test_lone_records_between_others_keep_no_more_than_themselves() -> None:
    source = Batches()
    body = encode_body(None, b"x")
    batches = [source.write([body] * count)[0] for _ in range(1000) for count in (1, 17)]
    chunk = memoryview(b"".join(batches))

    def pack() -> list[Outgoing]:
        packer = Packer(open_slot(make_share(), None), 1 << 20, Counter())
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


def test_a_row_does_not_grow_with_the_batches_of_a_partition() -> None:
    sections = [ChunkSection(slot, 0, 1 << 20, 500) for slot in range(20)]
    row = encode_row(sections, memoryview(b""))

    assert len(row) < 25 * len(sections)
    assert count_calls(lambda: decode_row(memoryview(row), Borrower())) < 6 * len(sections)
