import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.copying.slot import ForeignRecords, Slot, open_slot
from heliograph.kafka.tail import Tail, TailBatch, body_digest
from heliograph.wire.record_batch import MAX_SEQUENCE
from heliograph.wire.records import RawRecord
from tests.unit.dataplane.lanes import make_share

ONE, TWO = TailBatch(3, 100, 1), TailBatch(2, 100, 2)


def records(*bodies: bytes) -> list[RawRecord]:
    return [RawRecord(500 + i, 0, 0, body) for i, body in enumerate(bodies)]


def with_bodies(*bodies: bytes) -> Slot:
    slot = open_slot(make_share(), None)
    slot.bodies.extend((40 + i, body_digest(r)) for i, r in enumerate(records(*bodies)))
    return slot


@given(st.lists(st.integers(1, 1 << 20), max_size=10), st.integers(0, MAX_SEQUENCE))
def test_sequences_follow_each_other(counts: list[int], first: int) -> None:
    slot = open_slot(make_share(sequence=first), None)

    taken = [slot.take_sequence(count) for count in counts]

    assert taken == [(first + sum(counts[:i])) % (1 << 31) for i in range(len(counts))]


def test_nothing_read_is_stored_while_something_is_on_the_way() -> None:
    slot = open_slot(make_share(), None)
    slot.read_to, slot.pending = 600, 1

    slot.advance()
    assert slot.upstream == 500

    slot.pending = 0
    slot.advance()
    assert slot.upstream == 600


def test_a_position_does_not_move_inside_a_tail() -> None:
    slot = open_slot(make_share(), Tail(45, [(40, ONE), (43, TWO)]))
    slot.read_to = 503

    assert slot.skip_twin(ONE, 500)
    slot.advance()
    assert (slot.upstream, slot.downstream, slot.behind) == (500, 40, True)

    slot.read_to = 505
    assert slot.skip_twin(TWO, 503)
    slot.advance()
    assert (slot.upstream, slot.downstream, slot.behind) == (505, 45, False)
    assert slot.runs == [(500, 40, 5)]


def test_only_the_exact_next_batch_of_the_tail_is_a_twin() -> None:
    slot = open_slot(make_share(), Tail(45, [(40, ONE), (43, TWO)]))

    assert not slot.skip_twin(TWO, 503)
    assert slot.skip_twin(ONE, 500)
    assert slot.skip_twin(TWO, 503)
    assert not slot.skip_twin(TWO, 503)


def test_records_of_the_tail_are_skipped_and_the_rest_is_not() -> None:
    slot = with_bodies(b"a", b"b")

    assert slot.skip_bodies(records(b"a", b"b", b"c")) == 2
    assert not slot.behind
    assert slot.skip_bodies(records(b"d")) == 0
    assert slot.runs == [(500, 40, 2)]


def test_other_records_in_the_tail_are_foreign() -> None:
    slot = with_bodies(b"a", b"x")

    with pytest.raises(ForeignRecords, match=r"A.t-0.*differ at upstream offset 501"):
        slot.skip_bodies(records(b"a", b"b"))


def test_a_tail_with_deleted_offsets_is_not_compared() -> None:
    slot = open_slot(make_share(), Tail(45, [], missing=5))

    assert (slot.missing, slot.behind) == (5, False)


def test_a_tail_without_records_is_passed_at_once() -> None:
    share = make_share()
    slot = open_slot(share, Tail(share.position.downstream + 1))

    slot.advance()

    assert slot.downstream == share.position.downstream + 1


def test_runs_break_where_one_side_has_a_gap() -> None:
    slot = open_slot(make_share(), None)
    for upstream, downstream, count in [(500, 40, 3), (503, 43, 1), (505, 44, 2), (507, 47, 1)]:
        slot.ran(upstream, downstream, count)
    assert slot.runs == [(500, 40, 4), (505, 44, 2), (507, 47, 1)]


def test_bodies_of_a_tail_are_asked_for_in_windows_to_its_end() -> None:
    tail = Tail(end=100, batches=[(40, TailBatch(10, 200, 1)), (50, TailBatch(50, 900, 2))])
    slot = open_slot(make_share(), tail)
    slot.leave_batches()
    windows = []
    while slot.unread is not None:
        assert slot.behind
        windows.append(slot.take_window(25))
    assert windows == [(40, 65), (65, 90), (90, 100)]
    assert not slot.behind
