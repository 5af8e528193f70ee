from hypothesis import given
from hypothesis import strategies as st

from heliograph.model import TopicPartition
from heliograph.policy.balance import balance

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
