import random
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import closing
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.dataplane import writer
from heliograph.wire.lease_messages import Assignment, LaneShare, Limits, Share, decode_assignment
from heliograph.copying.sections import ChunkSection, Rows, encode_row
from heliograph.copying.lease import Lease
from heliograph.copying.placing import PlacedLane, encode_stretch, key_of, place, stretches
from heliograph.dataplane.placing_writer import PlacingWriter
from heliograph.errors import CorruptRecord
from heliograph.kafka.produce import Lane, Outgoing, Refused, Stored
from heliograph.model import Endpoint, Position, ProducerIdentity, TopicPartition
from heliograph.wire.primitives import partition_for_key
from heliograph.wire.record_batch import next_sequence, read_header
from heliograph.wire.records import RawRecord, decode_body, encode_body
from heliograph.wire.unpack import unpack
from tests.unit.dataplane.lanes import Batches

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


class SlowTarget:
    """A producer that stores when told to, lane by lane in order."""

    def __init__(self, _cluster: object, _flow: str, lanes: list[Lane], **hooks: Any) -> None:
        self.queues: dict[int, list[Outgoing]] = {lane.slot: [] for lane in lanes}
        self.stored: dict[int, list[RawRecord]] = {lane.slot: [] for lane in lanes}
        self.partitions = {lane.slot: lane.partition for lane in lanes}
        self.hooks = hooks
        self.trouble = None
        self.chance = random.Random(7)
        self.watched: Callable[[int], None] = self.store

    def offer(self, slot: int, batch: Outgoing) -> None:
        self.queues[slot].append(batch)

    @property
    def idle(self) -> bool:
        return not any(self.queues.values())

    unsent_bytes = 0

    def pump(self, _timeout: float) -> None:
        if waiting := [slot for slot, queue in self.queues.items() if queue]:
            self.watched(self.chance.choice(waiting))

    def store(self, slot: int) -> None:
        batch = self.queues[slot].pop(0)
        self.stored[slot] += decoded(batch)
        self.hooks["on_stored"](Stored(slot, batch, len(self.stored[slot])))

    def refuse(self, slot: int, *, may_pass: bool) -> None:
        batch = self.queues[slot][0]
        self.abandon(slot)
        self.hooks["on_refused"](Refused(slot, batch, "no", may_pass))

    def abandon(self, slot: int) -> None:
        self.queues[slot].clear()

    def close(self) -> None:
        pass


class Told:
    """A lease that remembers what the driver was told."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []

    def send(self, message: dict[str, Any]) -> None:
        self.messages.append(message)

    def poll(self) -> list[dict[str, Any]]:
        return []

    def all(self, kind: str) -> list[Any]:
        return [m[kind] for m in self.messages if kind in m]


def assignment(sources: int, count: int) -> Assignment:
    shares = tuple(
        Share(
            slot=i,
            source=TopicPartition("t", i),
            topic_id="id",
            remote=TopicPartition("A.t", i % count),
            position=Position(500, -1),
            identity=ProducerIdentity(9, 1),
            sequence=0,
            resume=False,
            max_message_bytes=1 << 20,
            spread=count,
        )
        for i in range(sources)
    )
    lanes = tuple(
        LaneShare(TopicPartition("A.t", i), ProducerIdentity(9, 1), 0, 1 << 20)
        for i in range(count)
    )
    limits = Limits(45, 4 << 20, 2 << 20, 5, 256 << 10, read_committed=True)
    there = Assignment("A->B", Endpoint("B", (("127.0.0.1", 1),)), limits, shares, lanes)
    return decode_assignment(there.encode())


@pytest.fixture(autouse=True)
def _slow_target(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "Producer", SlowTarget)


def one_row(section: ChunkSection, batch: bytes) -> pa.RecordBatch:
    return Rows().batch(encode_row([section], memoryview(batch)), push=False)


def open_writer(told: Told, sources: int = 3, count: int = 2) -> PlacingWriter:
    return PlacingWriter(cast("Lease", told), assignment(sources, count))


@given(st.lists(st.tuples(st.integers(0, 2), st.lists(bodies, min_size=1, max_size=9)), max_size=9))
def test_a_position_never_passes_a_record_that_is_not_stored(
    sections: list[tuple[int, list[bytes]]],
) -> None:
    told = Told()
    with closing(open_writer(told)) as placing:
        target = cast("SlowTarget", placing._producer)
        sources = [Batches() for _ in range(3)]
        sent: list[tuple[int, RawRecord]] = []
        rows = []
        for slot, contents in sections:
            batch, records = sources[slot].write(contents)
            sent += [(slot, r) for r in records]
            section = ChunkSection(slot, 0, len(batch), sources[slot].offset)
            rows.append(one_row(section, batch))

        def watched(lane: int) -> None:
            target.store(lane)
            left: dict[int, int] = {}
            for batch in (b for queue in target.queues.values() for b in queue):
                ticket = placing._tickets[batch]
                first = batch.spans[0][0]
                left[ticket.slot] = min(left.get(ticket.slot, first), first)
            for slot, offset in left.items():
                assert placing._slots[slot].upstream <= offset

        target.watched = watched

        placing.write(rows)

    stored = sorted(r.body for its in target.stored.values() for r in its)
    assert stored == sorted(r.body for _, r in sent)
    assert [placing._slots[i].upstream for i in range(3)] == [s.offset for s in sources]
    (done,) = told.all("done")
    totals = [len(target.stored[3 + i]) for i in range(2)]
    assert done["lanes"] == [["A.t", 0, totals[0]], ["A.t", 1, totals[1]]]


@pytest.mark.parametrize("may_pass", [True, False])
def test_a_lane_that_cannot_go_on_stops_every_partition_of_its_topic(may_pass: bool) -> None:
    told = Told()
    with closing(open_writer(told)) as placing:
        target = cast("SlowTarget", placing._producer)
        batch, _ = Batches().write([encode_body(b"key-%d" % i, b"v") for i in range(20)])
        section = ChunkSection(1, 0, len(batch), 520)
        placing._write_section(memoryview(batch), section)
        target.store(3)

        target.refuse(4, may_pass=may_pass)
        placing._write_section(memoryview(batch), section)
        placing.write([])

    kind = "refused" if may_pass else "refused-for-good"
    stops = told.all("stopped")
    assert sorted((s["slot"], s["upstream"], s["kind"]) for s in stops) == [
        (0, 500, kind),
        (1, 500, kind),
        (2, 500, kind),
    ]
    assert "A.t-1: the target answered: no" in stops[0]["reason"]
    assert target.idle
    assert told.all("done")[0]["lanes"] == []


def test_a_record_that_is_too_large_stops_its_partition_alone() -> None:
    told = Told()
    with closing(open_writer(told)) as placing:
        small = encode_body(b"a", b"v")
        batch, _ = Batches().write([small, encode_body(b"b", bytes(1 << 20)), small])
        placing.write([one_row(ChunkSection(0, 0, len(batch), 503), batch)])

    (stop,) = told.all("stopped")
    assert (stop["slot"], stop["upstream"], stop["kind"]) == (0, 501, "too-large")
    assert len(told.all("done")[0]["lanes"]) == 2
