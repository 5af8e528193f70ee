import pytest

from heliograph.observe.lag import EndHistory


def seen(*looks: tuple[float, int], upstream: int = 0) -> EndHistory:
    history = EndHistory()
    for now, end in looks:
        history.note(now, end, upstream)
    return history


def test_a_partition_that_is_copied_whole_has_no_age() -> None:
    assert seen((0, 10), (15, 20), upstream=20).age(15, 20) == 0
    assert EndHistory().age(15, 0) == 0


def test_records_between_two_looks_count_as_appended_evenly() -> None:
    history = seen((0, 0), (10, 100))
    assert history.age(10, 99) == pytest.approx(0)
    assert history.age(10, 49) == pytest.approx(5)
    assert history.age(30, 49) == pytest.approx(25)


def test_an_end_that_stood_still_tells_that_nothing_came_meanwhile() -> None:
    history = seen((0, 5), (100, 5), (110, 15))
    assert history.age(110, 5) == pytest.approx(9)


def test_what_was_there_at_the_first_look_is_as_old_as_nobody_knows() -> None:
    history = seen((0, 10), (30, 20))
    assert history.age(30, 3) is None
    assert history.known_for(30) == 30


def test_a_topic_made_anew_is_looked_at_anew() -> None:
    history = seen((0, 100), (10, 3))
    assert history.age(20, 1) is None
    assert history.known_for(20) == 10


def test_what_was_copied_is_forgotten_and_a_long_backlog_is_thinned_out() -> None:
    history = EndHistory()
    for look in range(1000):
        history.note(look * 15.0, look * 10, 0)
    assert len(history._seen) <= 64
    assert history.age(999 * 15.0, 4999) == pytest.approx(999 * 15.0 - 500 * 15.0, rel=0.01)
    history.note(1000 * 15.0, 10_000, 9_995)
    assert len(history._seen) == 2
