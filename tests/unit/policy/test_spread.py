from hypothesis import given
from hypothesis import strategies as st

from heliograph.model import TopicPartition
from heliograph.policy.spread import Look, balance, narrow, place, respread

P = [TopicPartition("t", i) for i in range(12)]
loads_of = st.lists(st.floats(0, 1e9, allow_nan=False), min_size=12, max_size=12)


def weights(
    slices: list[tuple[TopicPartition, ...]], loads: dict[TopicPartition, float]
) -> list[float]:
    return [sum(loads[p] for p in members) for members in slices]


@given(loads_of, st.integers(1, 5))
def test_every_partition_stays_in_one_slice_and_the_heaviest_gets_lighter(
    given_: list[float], count: int
) -> None:
    loads = dict(zip(P, given_, strict=True))
    slices = [tuple(P[i::count]) for i in range(count)]

    planned = balance(slices, loads)

    if planned is not None:
        assert sorted(p for members in planned for p in members) == P
        assert all(planned)
        assert max(weights(planned, loads)) <= 0.8 * max(weights(slices, loads))


def test_the_others_leave_the_task_of_a_hot_partition() -> None:
    loads = dict.fromkeys(P, 10.0) | {P[0]: 100.0}

    planned = balance([tuple(P[:6]), tuple(P[6:])], loads)

    assert planned is not None
    assert weights(planned, loads) == [110.0, 100.0] or weights(planned, loads) == [100.0, 110.0]
    assert len(next(members for members in planned if P[0] in members)) <= 2


def test_what_is_even_stays_as_it_is() -> None:
    assert balance([tuple(P[:6]), tuple(P[6:])], dict.fromkeys(P, 5.0)) is None
    assert balance([tuple(P)], dict.fromkeys(P, 5.0)) is None
    assert balance([tuple(P[:6]), tuple(P[6:])], {}) is None


EVEN = dict.fromkeys(P, 5.0)
partitions = st.sets(st.sampled_from(P))


def look(busy: list[float], *, behind: bool = False, calm: bool = False) -> Look:
    return Look(EVEN, busy, [behind] * len(busy), calm)


@given(partitions, partitions, st.integers(1, 4))
def test_old_partitions_stay_where_they_are_and_new_ones_go_where_least_is_carried(
    old: set[TopicPartition], new: set[TopicPartition], count: int
) -> None:
    before = [tuple(p for p in sorted(old) if p.index % count == i) for i in range(count)]

    after = place(new, before, EVEN)

    assert sorted(p for members in after for p in members) == sorted(new)
    assert len(after) == count
    for held, now in zip(before, after, strict=True):
        assert set(held) & new <= set(now)
    grown = [len(now) for held, now in zip(before, after, strict=True) if set(now) - set(held)]
    assert not grown or max(grown) <= min(map(len, after)) + 1


def test_a_flow_begins_with_one_task() -> None:
    assert place(set(P), [], {}) == [tuple(P)]


def test_a_busy_task_shares_with_one_more_as_long_as_there_may_be_more() -> None:
    assert respread([tuple(P)], look([0.5]), 2) is None
    planned = respread([tuple(P)], look([0.9]), 2)
    assert planned is not None
    assert [len(members) for members in planned] == [6, 6]
    assert respread(planned, look([0.9, 0.9]), 2) is None


def test_a_task_that_falls_behind_shares_however_little_it_computes() -> None:
    planned = respread([tuple(P)], look([0.1], behind=True), 4)

    assert planned is not None
    assert [len(members) for members in planned] == [6, 6]


def test_a_partition_that_carries_all_is_not_moved_about() -> None:
    hot = Look({P[0]: 1e9}, [1.0], [True])

    assert respread([tuple(P)], hot, 4) is None


def test_a_task_is_taken_away_only_when_all_has_been_quiet_for_long() -> None:
    slices = [tuple(P[:6]), tuple(P[6:])]
    assert respread(slices, look([0.1, 0.1]), 2) is None
    assert respread(slices, look([0.2, 0.2], calm=True), 2) is None
    assert respread(slices, look([0.1, 0.1], calm=True), 2) == [tuple(P)]
    assert narrow([(P[0],), (P[1],), (P[2], P[3])], EVEN) == [(P[0], P[2]), (P[1], P[3])]
