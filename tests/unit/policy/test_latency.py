import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.policy.latency import BOUNDS_MS, LatencyBuckets, Window, taken
from heliograph.wire.lease_messages import Taken

measured = st.lists(
    st.tuples(st.floats(-5, 100_000, allow_nan=False), st.integers(1, 50)), max_size=30
)


def filled(given_: list[tuple[float, int]]) -> LatencyBuckets:
    buckets = LatencyBuckets()
    for latency, records in given_:
        buckets.add(latency, records)
    return buckets


@given(measured, st.sampled_from([0.01, 0.5, 0.9, 0.99, 1.0]))
def test_a_quantile_is_the_bound_above_the_exact_one(
    given_: list[tuple[float, int]], fraction: float
) -> None:
    every = sorted(latency for latency, records in given_ for _ in range(records))

    found = filled(given_).quantile(fraction)

    if not every:
        assert found is None
        return
    exact = next(x for i, x in enumerate(every) if i + 1 >= fraction * len(every))
    assert found == min((b for b in BOUNDS_MS if b >= exact), default=BOUNDS_MS[-1])


@given(measured, measured)
def test_reports_of_two_tasks_add_up(
    left: list[tuple[float, int]], right: list[tuple[float, int]]
) -> None:
    total = filled(left)

    total.merge(filled(right).counts)

    assert total.counts == filled(left + right).counts


@given(measured)
def test_draining_takes_everything_once(given_: list[tuple[float, int]]) -> None:
    buckets = filled(given_)

    assert buckets.drain() == filled(given_).counts
    assert buckets.quantile(0.5) is None
    assert sum(buckets.drain()) == 0


@pytest.mark.parametrize(("latency", "bound"), [(0, 1), (1, 1), (1.5, 2), (60_000, 60_000)])
def test_a_bound_belongs_to_its_bucket(latency: float, bound: int) -> None:
    assert filled([(latency, 1)]).quantile(1) == bound


def test_what_two_reports_tell_adds_up() -> None:
    assert taken(4, 3) + taken(2) == Taken(2, 2, 4, 14, 4)


def test_a_window_tells_of_the_last_minute_and_keeps_the_last_value() -> None:
    window = Window()
    assert (window.last, window.sum(0)) == (None, None)
    window.add(0, taken(100))
    window.add(29, taken(10))
    window.add(40, taken(20))
    assert window.sum(50) == Taken(20, 10, 100, 130, 3)
    window.add(75, taken(30))
    assert window.sum(75) == Taken(30, 20, 30, 50, 2)
    assert window.sum(110) == taken(30)
    assert (window.last, window.sum(140)) == (30, None)
