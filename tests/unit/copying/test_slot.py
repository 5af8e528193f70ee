from hypothesis import given
from hypothesis import strategies as st

from heliograph.copying.slot import open_slot
from heliograph.model import Position
from heliograph.policy.latency import taken
from heliograph.wire.lease_messages import SlotWritten
from heliograph.wire.record_batch import MAX_SEQUENCE
from tests.unit.copying.lanes import make_share, make_slot


@given(st.lists(st.integers(1, 1 << 20), max_size=10), st.integers(0, MAX_SEQUENCE))
def test_sequences_follow_each_other(counts: list[int], first: int) -> None:
    slot = make_slot(sequence=first)

    taken_ = [slot.take_sequence(count) for count in counts]

    assert taken_ == [(first + sum(counts[:i])) % (1 << 31) for i in range(len(counts))]


def test_nothing_read_is_stored_while_something_is_on_the_way() -> None:
    slot = make_slot()
    slot.read_to, slot.pending = 600, 1

    slot.advance()
    assert slot.upstream == 500

    slot.pending = 0
    slot.advance()
    assert slot.upstream == 600


def test_a_slot_begins_where_its_tail_was_met() -> None:
    slot = open_slot(make_share(position=Position(500, 40)), Position(505, 45), 0)

    slot.advance()

    assert (slot.upstream, slot.downstream, slot.read_to) == (505, 45, 505)


def test_runs_break_where_one_side_has_a_gap() -> None:
    slot = make_slot()
    for upstream, downstream, count in [(500, 40, 3), (503, 43, 1), (505, 44, 2), (507, 47, 1)]:
        slot.ran(upstream, downstream, count)
    assert slot.runs == [(500, 40, 4), (505, 44, 2), (507, 47, 1)]


def test_a_report_tells_each_record_once_and_the_position_every_time() -> None:
    slot = make_slot(sequence=7)
    slot.records, slot.bytes = 3, 300
    slot.ran(500, 40, 3)
    slot.took(12.0, 2, 1000)
    slot.took(4.0, 1, 900)

    told = slot.report()

    both = taken(12.0, 2) + taken(4.0, 1)
    assert told == SlotWritten(0, 500, 40, 7, 3, 300, ((500, 40, 3),), 1000, both)
    assert slot.report() == SlotWritten(0, 500, 40, 7, 0, 0, (), 1000, None)
