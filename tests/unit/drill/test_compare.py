from hypothesis import given
from hypothesis import strategies as st

from heliograph.drill.compare import Difference, compare


def test_the_same_records_do_not_differ() -> None:
    assert compare("abc", "abc") == Difference(3, 0, 0)
    assert compare("", "") == Difference(0, 0, 0)


def test_a_reader_that_begins_late_leaves_records_out() -> None:
    assert compare("abcdef", "def") == Difference(same=3, lost=3, repeated=0)
    assert compare("abcdef", "") == Difference(same=0, lost=6, repeated=0)


def test_a_reader_that_begins_early_repeats_records() -> None:
    assert compare("def", "abcdef") == Difference(same=3, lost=0, repeated=3)


def test_records_of_the_same_body_are_counted_one_by_one() -> None:
    assert compare("aaaa", "aaa") == Difference(same=3, lost=1, repeated=0)


def test_a_record_lost_and_another_repeated_in_between_are_both_seen() -> None:
    assert compare("abcdefgh", "abdeefgh") == Difference(same=7, lost=1, repeated=1)


def test_a_record_that_changed_its_place_is_lost_in_one_and_repeated_in_another() -> None:
    assert compare("abcd", "bcda") == Difference(same=3, lost=1, repeated=1)


def test_what_has_nothing_in_common_is_lost_and_repeated_whole() -> None:
    assert compare(range(5000), range(5000, 9000)) == Difference(0, 5000, 4000)


def test_disorder_beyond_counting_is_no_equality() -> None:
    shuffled = [number ^ 1 for number in range(4000)]
    assert not compare(range(4000), shuffled).is_none


@given(st.text("abc", max_size=12), st.text("abc", max_size=12))
def test_every_record_of_both_sides_is_accounted_for(originals: str, copies: str) -> None:
    found = compare(originals, copies)
    assert found.same + found.lost == len(originals)
    assert found.same + found.repeated == len(copies)
    assert found.is_none == (originals == copies)


@given(st.lists(st.integers(), unique=True), st.data())
def test_records_taken_out_are_exactly_those_lost(
    originals: list[int], data: st.DataObject
) -> None:
    kept = [each for each in originals if data.draw(st.booleans())]
    assert compare(originals, kept) == Difference(len(kept), len(originals) - len(kept), 0)
