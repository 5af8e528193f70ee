from types import SimpleNamespace

import pytest

from heliograph.driving.pulse import Pulse


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(
        "heliograph.driving.pulse.time", SimpleNamespace(monotonic=lambda: made.now)
    )
    return made


def test_a_pulse_is_regular_until_a_beat_is_missed_and_then_until_somebody_looked_around(
    clock: Clock,
) -> None:
    pulse = Pulse()
    clock.now += 5
    assert pulse.is_regular(), "a busy machine"
    clock.now += 2
    assert not pulse.is_regular(), "this process may have slept"
    clock.now += 0.1
    assert not pulse.is_regular()

    pulse.resume()

    assert pulse.is_regular()


def test_a_gap_that_a_beat_ends_is_remembered(clock: Clock) -> None:
    pulse = Pulse()
    clock.now += 30
    beats = iter([False, True])
    pulse._over.wait = lambda _seconds: next(beats)  # type: ignore[method-assign, assignment]
    pulse._beat()

    assert not pulse.is_regular(), "the beat came after the gap"


def test_a_pulse_that_beats_stays_regular(clock: Clock) -> None:
    pulse = Pulse()

    def pass_time(_seconds: float | None = None) -> bool:
        clock.now += 5
        return clock.now > 1100

    pulse._over.wait = pass_time  # type: ignore[method-assign]
    pulse._beat()

    assert pulse.is_regular(), "100 s have passed, with a beat every 5 s"


def test_a_pulse_beats_in_a_thread_that_ends() -> None:
    pulse = Pulse()
    pulse.start()
    assert pulse.is_regular()
    pulse.stop()
