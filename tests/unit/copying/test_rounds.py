"""What a predecessor stored is skipped, and nothing else: comparisons of tails, without brokers."""

from collections.abc import Iterable, Sequence
from typing import Any, cast
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.copying import comparison, rounds
from heliograph.copying.comparison import Comparison
from heliograph.copying.rounds import Met, Round, conclude, open_tail
from heliograph.errors import CorruptRecord, KafkaFault
from heliograph.kafka.cluster import Described, Topic
from heliograph.kafka.offsets import Offsets
from heliograph.kafka.tail import Tail, TailBatch, body_digest, fingerprint
from heliograph.model import Endpoint, Position, StopKind, TopicPartition
from heliograph.wire.fetch_response import Section
from heliograph.wire.lease_messages import Foreign, Share, Stopped
from heliograph.wire.record_batch import HEADER_SIZE, read_header
from heliograph.wire.records import RawRecord, encode_body
from tests.unit.copying.lanes import Batches, make_share

GZIP = 1
bodies = st.lists(
    st.binary(max_size=20).map(lambda v: encode_body(b"k", v)), min_size=1, max_size=6
)


def twin_of(batch: bytes) -> TailBatch:
    view = memoryview(batch)
    return fingerprint(read_header(view, 0), view[HEADER_SIZE:])


class Target:
    """A remote partition whose records are read in windows; holes are where markers are."""

    def __init__(self) -> None:
        self.digests: dict[int, int] = {}
        self.asked: list[tuple[int, int]] = []

    def hold(self, downstream: int, records: Sequence[RawRecord]) -> None:
        self.digests |= {downstream + i: body_digest(r) for i, r in enumerate(records)}

    def read(self, start: int, end: int) -> list[tuple[int, int]]:
        self.asked.append((start, end))
        return [(at, found) for at, found in sorted(self.digests.items()) if start <= at < end]


def compare(share: Share, end: int, *batches: tuple[int, TailBatch]) -> Comparison:
    found = open_tail(share, Tail(end, list(batches)))
    assert isinstance(found, Comparison)
    return found


def by_record(target: Target, end: int, records: Sequence[RawRecord]) -> Comparison:
    """Return a comparison with a tail of merged records, whose batches have no twin on the source."""
    target.hold(40, records)
    return compare(make_share(), end, (40, TailBatch(end - 40, 999, 0)))


def test_twins_are_skipped_by_the_batch_and_nothing_is_read_of_the_target() -> None:
    source, target = Batches(), Target()
    one, _ = source.write([b"\1\1\0"] * 3)
    two, _ = source.write([b"\1\1\0"] * 2)
    found = compare(make_share(), 45, (40, twin_of(one)), (43, twin_of(two)))

    found.meet(memoryview(one), target.read)
    halfway = found.is_over
    found.meet(memoryview(two), target.read)

    assert (halfway, found.is_over) == (False, True)
    assert (found.position().upstream, found.end, found.runs) == (505, 45, [(500, 40, 5)])
    assert target.asked == []


def test_only_the_exact_next_batch_of_the_tail_is_a_twin() -> None:
    source, target = Batches(), Target()
    one, first = source.write([encode_body(b"k", b"1")] * 3)
    two, second = source.write([encode_body(b"k", b"2")] * 2)
    target.hold(40, [*first, *second])
    found = compare(make_share(), 45, (40, TailBatch(3, 100, 1)), (43, twin_of(two)))

    found.meet(memoryview(one), target.read)
    assert target.asked == [(40, 45)], "from there on it is compared by the record"
    found.meet(memoryview(two), target.read)

    assert found.is_over
    assert found.runs == [(500, 40, 5)]


def test_records_of_the_tail_are_skipped_and_the_rest_is_not() -> None:
    target = Target()
    batch, records = Batches().write([encode_body(None, v) for v in (b"a", b"b", b"c")])
    found = by_record(target, 42, records[:2])

    found.meet(memoryview(batch), target.read)

    assert found.is_over
    assert (found.position().upstream, found.runs) == (502, [(500, 40, 2)])


def test_a_batch_that_begins_before_the_position_is_compared_from_there_on() -> None:
    target = Target()
    batch, records = Batches(497).write([encode_body(None, b"%d" % i) for i in range(6)])
    found = by_record(target, 42, records[3:5])

    found.meet(memoryview(batch), target.read)

    assert (found.is_over, found.position().upstream, found.runs) == (True, 502, [(500, 40, 2)])


def test_a_whole_twin_from_before_the_position_is_compared_by_the_record() -> None:
    target = Target()
    batch, records = Batches(498).write([encode_body(None, b"%d" % i) for i in range(4)])
    target.hold(40, records[2:])
    found = compare(make_share(), 44, (40, twin_of(batch)))

    found.meet(memoryview(batch), target.read)

    assert found.runs == [(500, 40, 2)]


def test_other_records_in_the_tail_are_foreign_and_what_follows_is_copied() -> None:
    target = Target()
    batch, _ = Batches().write([encode_body(None, b"a"), encode_body(None, b"b")])
    others = [RawRecord(0, 0, 0, encode_body(None, v)) for v in (b"a", b"x")]
    found = by_record(target, 42, others)

    found.meet(memoryview(batch), target.read)
    met = conclude(found)

    assert met.position == Position(501, 42)
    assert met.runs == ((500, 40, 1), (501, 42, 0))
    assert met.foreign is not None
    assert "A.t-0: 1 records after the last saved position are not those" in met.foreign.reason


def test_a_rotten_source_batch_is_corrupt_and_not_foreign() -> None:
    batch, records = Batches().write([encode_body(None, b"abc")])
    target = Target()
    found = by_record(target, 41, records)
    rotten = bytearray(batch)
    rotten[-2] ^= 1

    with pytest.raises(CorruptRecord):
        found.meet(memoryview(rotten), target.read)
    assert target.asked == []


def test_a_tail_whose_offsets_were_all_deleted_is_copied_again() -> None:
    share = make_share()

    found = open_tail(share, Tail(45, [], missing=5))

    assert isinstance(found, Met)
    assert found.position == Position(500, 45)
    assert isinstance(found.foreign, Foreign)
    assert "5 records after the last saved position were deleted" in found.foreign.reason


def test_a_tail_without_records_is_passed_at_once() -> None:
    assert open_tail(make_share(), Tail(41)) == Met(0, Position(500, 41), ((500, 41, 0),))


def test_a_target_that_ends_before_the_position_was_truncated() -> None:
    found = open_tail(make_share(), Tail(39))

    assert isinstance(found, Stopped)
    assert (found.kind, found.upstream) == (StopKind.TRUNCATED, 500)
    assert "ended at 40 and now ends at 39" in found.reason


def test_bodies_of_a_tail_are_read_in_windows_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "BODIES", 25)
    source, target = Batches(), Target()
    written = [source.write([encode_body(None, b"%d" % i)] * 20) for i in range(3)]
    found = by_record(target, 100, [r for _, records in written for r in records])

    for batch, _ in written:
        assert not found.is_over
        found.meet(memoryview(batch), target.read)

    assert target.asked == [(40, 65), (65, 90), (90, 100)]
    assert (found.is_over, found.runs) == (True, [(500, 40, 60)])


def test_a_window_that_holds_markers_alone_is_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "BODIES", 2)
    target = Target()
    batch, records = Batches().write([encode_body(None, b"%d" % i) for i in range(3)])
    target.hold(40, records[:1])
    target.hold(45, records[1:])
    found = compare(make_share(), 47, (40, TailBatch(3, 9, 9)))

    found.meet(memoryview(batch), target.read)

    assert found.is_over
    assert (found.position().upstream, found.runs) == (503, [(500, 40, 1), (501, 45, 2)])


@given(st.data(), st.lists(st.tuples(bodies, st.sampled_from([0, GZIP])), min_size=1, max_size=8))
def test_what_the_tail_holds_is_skipped_and_all_else_is_left(
    data: st.DataObject, given_: list[tuple[list[bytes], int]]
) -> None:
    """A predecessor passed some batches as they were, merged others, and died somewhere in between."""
    source, target = Batches(), Target()
    written = [source.write(contents, codec) for contents, codec in given_]
    stored = data.draw(st.integers(1, len(written)))
    tail: list[tuple[int, TailBatch]] = []
    downstream = 40
    expected: list[tuple[int, int, int]] = []
    for batch, records in written[:stored]:
        passed = data.draw(st.booleans())
        tail.append((downstream, twin_of(batch) if passed else TailBatch(len(records), 0, 0)))
        target.hold(downstream, records)
        expected.append((records[0].offset, downstream, len(records)))
        downstream += len(records) + data.draw(st.sampled_from([0, 0, 2]))  # markers
    found = compare(make_share(), downstream, *tail)

    met = 0
    while not found.is_over:
        found.meet(memoryview(written[met][0]), target.read)
        met += 1

    assert met == stored
    assert found.position().upstream == written[stored - 1][1][-1].offset + 1
    assert sum(count for _, _, count in found.runs) == sum(count for _, _, count in expected)
    placed = {up + i: down + i for up, down, count in expected for i in range(count)}
    assert {up + i: down + i for up, down, count in found.runs for i in range(count)} == placed


class Leaderless:
    """A source without a leader."""

    endpoint = Endpoint("A", (("h", 1),))

    def describe_each(self, names: Iterable[str]) -> Described:
        topics = {name: Topic(name, UUID(int=1), (-1,), internal=False) for name in names}
        return Described(topics, {})


def test_a_tail_that_could_not_be_read_is_tried_again_while_another_is_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stuck, passing = make_share(slot=0), make_share(slot=1)
    asked: list[list[TopicPartition]] = []

    def find(_cluster: object, remotes: list[TopicPartition], _which: int) -> Offsets:
        asked.append(remotes)
        assert len(asked) < 10, "it is asked for again and again"
        if passing.remote in remotes and len(asked) == 1:
            fault = KafkaFault("list offsets", "NOT_LEADER_OR_FOLLOWER", retriable=True)
            return Offsets({stuck.remote: 45}, {passing.remote: fault})
        return Offsets(dict.fromkeys(remotes, 40), {})

    def read(_cluster: object, starts: Iterable[TopicPartition], _ends: object) -> Any:
        return {
            p: Tail(45, [(40, TailBatch(5, 999, 0))]) if p == stuck.remote else Tail(40)
            for p in starts
        }

    monkeypatch.setattr(rounds, "find_offsets", find)
    monkeypatch.setattr(rounds, "read_tails", read)
    monkeypatch.setattr(rounds, "_PAUSE", 0.0)
    found: list[int] = []
    steps = iter(range(1000))

    def wanted(shares: Iterable[Share]) -> list[Share]:
        assert next(steps) < 999, "the other one is compared for ever"
        return [] if found else list(shares)

    one = Round(cast("Any", Leaderless()), cast("Any", None), lambda _: None, committed_only=True)

    for slot, _ in one.run([stuck, passing], wanted):
        found.append(slot)

    assert found == [1]
    assert asked == [[stuck.remote, passing.remote], [passing.remote]]


def test_a_source_counts_as_read_to_its_end_only_after_a_hanging_follower_would_be_out_of_sync() -> (
    None
):
    # A new leader's high watermark lies before what was copied for up to 30 s: what the tail holds is not a stranger's yet.
    one = Round(cast("Any", Leaderless()), cast("Any", None), lambda _: None, committed_only=False)
    tail = compare(make_share(), 45, (40, TailBatch(5, 999, 0)))
    one._going[0], one._read_to[0] = tail, 500
    nothing_new = Section(0, 0, 500, 500, 0, (), 0, 0)
    held: Any = Target()
    held.digests = dict.fromkeys(range(40, 45), 1)
    one._bodies_of = lambda _found: held.read  # type: ignore[method-assign,assignment]  # asks no broker

    assert one._compare(tail, nothing_new, memoryview(b"")) is None
    began = one._at_end_since[0]
    assert list(one._find_ended({})) == []
    one._at_end_since[0] = began - 31
    assert one._compare(tail, nothing_new, memoryview(b"")) is None
    assert list(one._find_ended({})) == []
    one._at_end_since[0] = began - 36

    ((slot, outcome),) = one._find_ended({})

    assert slot == 0
    assert isinstance(outcome, Met)
    assert outcome.position == Position(500, 45)
    assert outcome.foreign is not None


def test_a_source_that_goes_on_is_not_at_its_end_any_more() -> None:
    one = Round(cast("Any", Leaderless()), cast("Any", None), lambda _: None, committed_only=False)
    tail = compare(make_share(), 45, (40, TailBatch(5, 999, 0)))
    one._going[0], one._read_to[0] = tail, 500
    one._compare(tail, Section(0, 0, 500, 500, 0, (), 0, 0), memoryview(b""))
    assert 0 in one._at_end_since

    one._move(0, 505)

    assert one._at_end_since == {}
