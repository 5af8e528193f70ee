from hypothesis import given
from hypothesis import strategies as st

from heliograph.model import TopicPartition
from heliograph.policy.offset_syncs import SyncQueue, SyncState
from heliograph.wire.mirror_records import OffsetSync

P0, P1, P2 = (TopicPartition("t", index) for index in range(3))

# MirrorMaker 2 keeps a flag that stays up until it is reset; the last column says whether it is.
VECTORS = [
    (0, 100, True, True),
    (2, 102, True, True),
    (3, 152, False, True),
    (4, 153, True, True),
    (5, 154, False, True),
    (6, 203, False, True),
    (7, 204, True, True),
    (2, 206, True, True),
    (3, 207, False, True),
    (4, 3, True, True),
    (5, 4, False, False),
    (7, 6, True, False),
    (7, 6, True, False),
    (8, 7, True, False),
    (10, 57, True, True),
    (11, 58, False, True),
]


def test_records_one_at_a_time_are_due_as_in_mirrormaker() -> None:
    state = SyncState(50)
    flag = False
    for upstream, downstream, expected, reset in VECTORS:
        due = state.note(upstream, downstream, 1)
        assert due in (None, (upstream, downstream))
        flag = flag or due is not None
        assert flag == expected, (upstream, downstream)
        flag = flag and not reset


def test_with_no_lag_allowed_each_record_is_due() -> None:
    state = SyncState(0)
    for upstream, downstream in [
        (0, 100),
        (2, 102),
        (3, 153),
        (4, 154),
        (5, 155),
        (6, 207),
        (2, 208),
    ]:
        assert state.note(upstream, downstream, 1) == (upstream, downstream)
        assert state.delayed is None


def test_a_run_with_no_lag_allowed_is_due_at_its_end() -> None:
    assert SyncState(0).note(5, 50, 1000) == (1004, 1049)


def test_inside_a_run_a_sync_is_due_each_lag_and_one_records() -> None:
    state = SyncState(50)
    noted = [(*run, state.note(*run), state.delayed) for run in [(0, 100, 51), (51, 151, 1)]]
    assert noted == [(0, 100, 51, (0, 100), (50, 150)), (51, 151, 1, (51, 151), None)]
    assert state.note(52, 152, 1000) == (51 + 51 * 19, 151 + 51 * 19)


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[int, int, int]]:
    runs = []
    upstream, downstream = draw(st.integers(0, 5)), draw(st.integers(0, 5))
    for _ in range(draw(st.integers(1, 8))):
        count = draw(st.integers(1, 40))
        runs.append((upstream, downstream, count))
        upstream = max(0, upstream + count + draw(st.sampled_from([0, 0, 0, 1, 3, -7])))
        downstream = max(0, downstream + count + draw(st.sampled_from([0, 0, 0, 1, 9, -30])))
    return runs


@given(histories(), st.integers(0, 20))
def test_a_run_is_due_what_the_last_of_its_records_would_be(
    runs: list[tuple[int, int, int]], lag_max: int
) -> None:
    whole, single = SyncState(lag_max), SyncState(lag_max)
    for upstream, downstream, count in runs:
        last = None
        for i in range(count):
            last = single.note(upstream + i, downstream + i, 1) or last
        assert whole.note(upstream, downstream, count) == last
        assert whole == single


def test_the_first_record_is_pending_and_the_next_within_the_lag_is_delayed() -> None:
    queue = SyncQueue(100)
    queue.note(P0, [(0, 1, 1)])
    assert queue.due() == [OffsetSync(P0, 0, 1)]
    queue.note(P0, [(1, 2, 1)])
    assert queue.due() == []


def test_a_flush_promotes_the_newest_delayed_pair_over_the_pending_one() -> None:
    queue = SyncQueue(100)
    queue.note(P0, [(0, 1, 1)])
    queue.note(P1, [(0, 1, 1)])
    queue.note(P0, [(1, 2, 1), (2, 3, 7)])
    queue.promote()
    assert queue.due() == [OffsetSync(P0, 0, 1), OffsetSync(P0, 8, 9), OffsetSync(P1, 0, 1)]
    queue.promote()
    assert queue.due() == []


def test_a_due_sync_replaces_the_delayed_one_of_its_partition() -> None:
    queue = SyncQueue(10)
    queue.note(P0, [(0, 0, 5)])
    queue.note(P0, [(5, 5, 7)])
    assert queue.due() == [OffsetSync(P0, 0, 0), OffsetSync(P0, 11, 11)]
    queue.promote()
    assert queue.due() == []


def test_pending_syncs_are_taken_once_and_the_longest_waiting_first() -> None:
    queue = SyncQueue(0)
    for partition in (P1, P0, P2, P1):
        queue.note(partition, [(0, 0, 3)])
    firsts = [OffsetSync(partition, 0, 0) for partition in (P1, P0, P2)]
    newest = [OffsetSync(partition, 2, 2) for partition in (P1, P0, P2)]
    assert queue.due() == firsts + newest
    assert queue.due() == []


def test_syncs_put_back_wait_first_and_a_partition_s_first_stays_beside_a_newer_one() -> None:
    queue = SyncQueue(0)
    queue.note(P0, [(0, 0, 1)])
    queue.note(P1, [(0, 0, 1)])
    unsent = queue.due()
    queue.note(P2, [(0, 0, 1)])
    queue.note(P0, [(1, 1, 1)])
    queue.put_back(unsent)
    assert queue.due() == [
        OffsetSync(P0, 0, 0),
        OffsetSync(P0, 1, 1),
        OffsetSync(P1, 0, 0),
        OffsetSync(P2, 0, 0),
    ]


def test_a_sync_put_back_after_a_newer_one_was_taken_is_dropped() -> None:
    queue = SyncQueue(0)
    queue.note(P0, [(0, 0, 1)])
    older = queue.due()
    queue.note(P0, [(1, 1, 1)])
    newer = queue.due()
    queue.put_back(older)
    assert queue.due() == []
    queue.put_back(newer)
    assert queue.due() == newer


def test_a_forgotten_partition_begins_anew() -> None:
    queue = SyncQueue(100)
    queue.note(P0, [(0, 0, 2)])
    unsent = queue.due()
    queue.forget(P0)
    queue.put_back(unsent)
    queue.promote()
    assert queue.due() == []
    queue.note(P0, [(2, 2, 1)])
    assert queue.due() == [OffsetSync(P0, 2, 2)]


def test_where_the_topic_is_gone_the_newest_sync_of_each_partition_waits_again() -> None:
    queue = SyncQueue(0)
    queue.recall(P0, 41, 17)
    queue.recall(P2, 5, 5)
    queue.note(P1, [(0, 0, 3)])
    queue.due()
    queue.note(P2, [(6, 6, 1)])
    queue.repeat()
    assert sorted(queue.due(), key=lambda sync: sync.partition) == [
        OffsetSync(P0, 41, 17),
        OffsetSync(P1, 2, 2),
        OffsetSync(P2, 6, 6),
    ]
