import random
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heliograph.policy.sync_history import SyncHistory


def history_of(*syncs: tuple[int, int]) -> SyncHistory:
    history = SyncHistory()
    for upstream, downstream in syncs:
        history.add(upstream, downstream)
    return history


def upstream_offsets(history: SyncHistory) -> list[int]:
    """Return the distinct syncs that are kept, newest first."""
    return [sync.upstream for sync in dict.fromkeys(history._slots)]


def add_equal(history: SyncHistory, offsets: Iterable[int]) -> None:
    for offset in offsets:
        history.add(offset, offset)


def test_translation_is_exact_at_a_sync_and_stops_one_past_it() -> None:
    history = history_of((100, 200))
    assert history.downstream_of(150) == 201
    history.add(150, 251)
    assert history.downstream_of(150) == 251
    assert history.downstream_of(5) is None


def test_a_reset_of_the_remote_partition_is_followed() -> None:
    history = history_of((100, 200), (150, 251), (200, 10))
    assert history.downstream_of(200) == 10
    assert history.downstream_of(201) == 11


def test_a_reset_of_the_source_partition_forgets_what_was_before() -> None:
    history = history_of((100, 200), (150, 251), (20, 20))
    assert upstream_offsets(history) == [20]
    assert history.downstream_of(20) == 20
    assert history.downstream_of(19) is None


def test_nothing_is_told_of_a_partition_without_syncs() -> None:
    assert SyncHistory().downstream_of(5) is None


def test_what_is_too_old_is_not_told() -> None:
    assert history_of((100, 200)).downstream_of(99) is None


def test_the_history_of_the_first_read_is_kept() -> None:
    history = SyncHistory()
    add_equal(history, range(0, 1001, 10))
    assert upstream_offsets(history) == [1000, 990, 960, 900, 840, 720, 480, 0]
    add_equal(history, range(1000, 10001, 10))
    kept = [10000, 9990, 9960, 9900, 9840, 9600, 9120, 8640, 7680, 3840, 0]
    assert upstream_offsets(history) == kept
    assert [history.downstream_of(offset) for offset in (0, 1, 3840, 3841)] == [0, 1, 3840, 3841]


@pytest.mark.parametrize(
    ("offsets", "kept"),
    [
        (range(20), [19, 18, 16, 12, 8, 0]),
        (range(0, 10001, 100), [10000, 9900, 9800, 9600, 8800, 8000, 6400, 0]),
    ],
)
def test_older_syncs_are_kept_ever_further_apart(offsets: range, kept: list[int]) -> None:
    assert upstream_offsets(history_of(*((offset, offset) for offset in offsets))) == kept


def test_translation_may_go_back_as_syncs_expire() -> None:
    history = history_of((11, 4), (12, 5))
    assert history.downstream_of(13) == 6
    for upstream in range(13, 18):
        history.add(upstream, upstream - 7)
    assert upstream_offsets(history) == [17, 16, 15, 11]
    assert history.downstream_of(13) == 5


def test_syncs_of_equal_offsets_are_different_syncs() -> None:
    assert upstream_offsets(history_of((0, 0), (0, 0))) == [0, 0]


def assert_few_expire(first: int, steps: Iterable[int], most: int) -> None:
    """Add syncs at these distances and look at the invariants each time (C not of a repeated sync)."""
    history = history_of((first, first))
    newest, count = first, 1
    for step in steps:
        newest += step
        history.add(newest, newest)
        slots = [sync.upstream for sync in history._slots]
        assert slots[0] == newest
        assert slots[-1] == first
        if step > 0:
            assert_neighbours_are_well_spaced(history)
        assert count + 1 - len(upstream_offsets(history)) <= most
        count = len(upstream_offsets(history))


def assert_neighbours_are_well_spaced(history: SyncHistory) -> None:
    for i, (newer, older) in enumerate(zip(history._slots, history._slots[1:], strict=False)):
        if newer is not older:
            assert newer.upstream <= older.upstream + 2**i
            assert newer.upstream >= older.upstream + 2 ** max(i - 2, 0)


@settings(max_examples=60, deadline=None)
@given(first=st.integers(0, 29), bits=st.integers(1, 56))
def test_equally_spaced_syncs_expire_one_at_a_time(first: int, bits: int) -> None:
    assert_few_expire(first, [2**bits - 1] * 100, most=1)


@settings(max_examples=30, deadline=None)
@given(bits=st.integers(1, 53), seed=st.integers(0, 2**32))
def test_randomly_spaced_syncs_expire_few_at_a_time(bits: int, seed: int) -> None:
    chance = random.Random(seed)
    assert_few_expire(0, [chance.randrange(2**bits) for _ in range(200)], most=bits + 2)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_syncs_of_which_some_are_lost_expire_two_at_a_time_at_most(seed: int) -> None:
    chance = random.Random(seed)
    assert_few_expire(0, [chance.choice([100, 200]) for _ in range(300)], most=2)
