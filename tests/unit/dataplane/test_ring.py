import os
import signal
import subprocess
import sys

import pytest

from heliograph.copying.sections import ChunkSection, decode_row, encode_row
from heliograph.dataplane.ring import BUFFERS, Borrower, Reference, Ring, RingLost
from heliograph.errors import CorruptRecord

SIZE = 1 << 20


def fill(ring: Ring, content: bytes) -> Reference:
    room = ring.room(len(content))
    assert room is not None
    view = room[: len(content)]
    view[:] = content
    reference = ring.lend(view)
    assert reference is not None
    return reference


def test_what_is_lent_is_seen_and_comes_back_with_the_last_slice_of_it() -> None:
    ring, borrower = Ring(SIZE), Borrower()
    content = os.urandom(SIZE)

    chunk = borrower.open(fill(ring, content).encode())
    part = chunk[100:200]

    assert chunk.tobytes() == content
    assert not ring.is_idle()
    del chunk
    assert not ring.is_idle()
    assert part.tobytes() == content[100:200]
    del part
    assert ring.is_idle()
    ring.close()


def test_a_ring_is_full_until_something_comes_back() -> None:
    ring, borrower = Ring(SIZE), Borrower()
    chunks = [borrower.open(fill(ring, bytes([i]) * SIZE).encode()) for i in range(BUFFERS)]

    assert ring.is_full()
    assert ring.room(SIZE) is None
    del chunks[1]

    assert not ring.is_full()
    again = borrower.open(fill(ring, b"9" * SIZE).encode())
    assert [bytes(c[:1]) for c in chunks] == [bytes([i]) for i in range(BUFFERS) if i != 1]
    assert bytes(again[:1]) == b"9"
    ring.close()


def test_what_comes_back_between_offer_and_loan_changes_nothing() -> None:
    ring, borrower = Ring(SIZE), Borrower()
    first = borrower.open(fill(ring, b"1" * SIZE).encode())
    room = ring.room(SIZE)
    assert room is not None
    room[:] = b"2" * ring.room(SIZE).nbytes  # type: ignore[union-attr]

    del first
    reference = ring.lend(room[:SIZE])

    assert reference is not None
    assert borrower.open(reference.encode()).tobytes() == b"2" * SIZE
    ring.close()


def test_a_writer_knows_that_more_is_coming() -> None:
    ring, borrower = Ring(SIZE), Borrower()
    assert not borrower.more_is_coming()
    first, second = fill(ring, b"1"), fill(ring, b"2")

    chunk = borrower.open(first.encode())
    assert borrower.more_is_coming()
    also = borrower.open(second.encode())

    assert not borrower.more_is_coming()
    assert (bytes(chunk), bytes(also)) == (b"1", b"2")
    ring.close()


def test_what_only_a_circle_of_objects_keeps_comes_back() -> None:
    ring, borrower = Ring(SIZE), Borrower()
    circle: list[object] = [borrower.open(fill(ring, b"1").encode())]
    circle.append(circle)
    del circle

    borrower.collect()

    assert ring.is_idle()
    ring.close()


def test_what_is_too_large_or_somebody_else_s_is_not_lent() -> None:
    ring = Ring(SIZE)

    assert ring.room(SIZE + 1) is None
    assert ring.lend(memoryview(bytearray(SIZE))) is None
    ring.close()


def test_a_row_refers_to_its_chunk() -> None:
    ring = Ring(SIZE)
    sections = [ChunkSection(3, 10, 20, 99, ((1, 2),))]

    row = encode_row(sections, fill(ring, b"c" * SIZE), is_last=True)
    found = decode_row(memoryview(row), Borrower())

    assert found.sections == sections
    assert found.is_last
    assert found.chunk is not None
    assert found.chunk.tobytes() == b"c" * SIZE
    del found
    assert ring.is_idle()
    ring.close()


def test_a_row_that_does_not_say_where_its_chunk_is_is_refused() -> None:
    ring = Ring(SIZE)
    row = encode_row([], fill(ring, b"c" * SIZE))

    with pytest.raises(CorruptRecord, match="where its chunk is"):
        decode_row(memoryview(row)[:-1], Borrower())
    ring.close()


_READER = """
import sys
from heliograph.dataplane.ring import Ring
ring = Ring(1 << 20)
room = ring.room(1 << 20)
room[:] = b"r" * len(room)
print(ring.lend(room).encode().hex(), flush=True)
sys.stdin.read()
print(ring.is_idle(), flush=True)
"""


@pytest.fixture
def reader() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _READER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": "src"},
    )


def test_another_process_reads_what_one_received(reader: subprocess.Popen[str]) -> None:
    assert reader.stdout is not None
    chunk = Borrower().open(bytes.fromhex(reader.stdout.readline()))

    assert chunk[-5:].tobytes() == b"rrrrr"
    del chunk

    told, _ = reader.communicate()
    assert told == "True\n"


def test_a_chunk_outlives_its_reader_once_mapped_and_is_lost_before(
    reader: subprocess.Popen[str],
) -> None:
    assert reader.stdout is not None
    reference = bytes.fromhex(reader.stdout.readline())
    chunk = Borrower().open(reference)

    reader.send_signal(signal.SIGKILL)
    reader.communicate()

    assert chunk[:2].tobytes() == b"rr"
    with pytest.raises(RingLost):
        Borrower().open(reference)


def test_another_ring_under_the_same_number_is_not_taken_for_it() -> None:
    ring = Ring(SIZE)
    reference = fill(ring, b"c" * SIZE)

    with pytest.raises(RingLost):
        Borrower().open(reference._replace(mark=bytes(16)).encode())
    ring.close()
