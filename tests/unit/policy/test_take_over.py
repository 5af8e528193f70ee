"""Where a predecessor's copies end, by comparing them with the source."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.model import Position
from heliograph.policy.take_over import Digest, TailMatch

AT = 1_700_000_000_000


def some(
    bodies: Sequence[int], first: int = 0, step: int = 1, stamps: Sequence[int] | None = None
) -> list[Digest]:
    """Return records with these bodies, each a millisecond of its own by its body."""
    return [
        Digest(first + step * n, stamps[n] if stamps else AT + body, body)
        for n, body in enumerate(bodies)
    ]


def compare(source: list[Digest], copies: list[Digest], window: int = 1000) -> TailMatch:
    """Feed a match as its reader does: copies first, and of the source what they wait for."""
    match = TailMatch(Position(source[0].offset, copies[0].offset))
    while True:
        fed = False
        if match.lacks_copies and copies:
            match.add_copies(copies[:window])
            copies, fed = copies[window:], True
        if not match.lacks_copies and match.lacks_source and source:
            match.add_source(source[:window])
            source, fed = source[window:], True
            if not source:
                match.end_source()
        if not fed:
            match.end()
            return match


def test_the_source_goes_on_after_the_last_record_that_has_a_copy() -> None:
    match = compare(some([10, 11, 12, 13], 100), some([10, 11, 12], 7))
    assert match.trouble is None
    assert match.front == 103
    assert match.runs == [(100, 7, 3)]


def test_gaps_on_either_side_make_runs() -> None:
    source = [*some([1, 2], 0), *some([3, 4, 5], 3)]
    copies = [*some([1], 50), *some([2, 3, 4], 60)]
    match = compare(source, copies)
    assert (match.trouble, match.front) == (None, 5)
    assert match.runs == [(0, 50, 1), (1, 60, 1), (3, 61, 2)]


@given(
    length=st.integers(1, 200),
    copied=st.integers(1, 200),
    window=st.integers(1, 60),
    step=st.integers(1, 3),
)
def test_windows_of_any_size_find_the_same_end(
    length: int, copied: int, window: int, step: int
) -> None:
    copied = min(length, copied)
    source = some(range(length), 1000, step)
    match = compare(source, some(range(copied), 30), window)
    assert (match.trouble, match.front) == (None, source[copied - 1].offset + 1)


@given(data=st.data(), length=st.integers(2, 60), window=st.integers(1, 30))
def test_copies_that_begin_again_never_take_the_end_back(
    data: st.DataObject, length: int, window: int
) -> None:
    """A predecessor was restarted some times, each time from a record that it had come to before."""
    bodies: list[int] = []
    front = end = 0
    for _ in range(data.draw(st.integers(1, 5))):
        begin = data.draw(st.integers(0, min(end, length - 1)))
        end = data.draw(st.integers(begin + 1, length))
        bodies += range(begin, end)
        front = max(front, end)
    match = compare(some(range(length)), some(bodies, 5), window)
    assert (match.trouble, match.front) == (None, front)


def test_records_with_several_places_have_no_runs() -> None:
    match = compare(some([1, 2, 3, 4]), some([1, 2, 1, 2, 3]))
    assert (match.trouble, match.front, match.runs) == (None, 3, [])


def test_somebody_elses_record_is_told_with_both_offsets() -> None:
    match = compare(some([1, 2, 3], 10), some([1, 99, 2], 20))
    assert match.trouble == "remote offset 21 is no copy of upstream offset 11"


def test_copies_beyond_the_source_are_told() -> None:
    match = compare(some([1, 2], 10), some([1, 2, 3], 20))
    assert match.trouble == "remote offset 22 is no copy of anything the source has"


def test_a_pair_that_is_not_true_is_told() -> None:
    assert compare(some([1, 2]), some([2, 3])).trouble is not None


def test_equal_bodies_are_told_apart_by_their_timestamps() -> None:
    source = some([7, 7, 7], stamps=[AT, AT + 1, AT + 2])
    twice = some([7, 7, 7], stamps=[AT, AT, AT + 1])
    match = compare(source, twice)
    assert (match.trouble, match.front) == (None, 2)


@pytest.mark.parametrize(("bodies", "front"), [([1, 2], 2), ([1, 2, 1, 2], None)])
def test_with_the_targets_own_timestamps_only_plain_copies_are_believed(
    bodies: list[int], front: int | None
) -> None:
    copies = some(bodies, stamps=range(len(bodies)))
    match = compare(some([1, 2, 3, 4]), copies)
    assert (match.front if match.trouble is None else None) == front
