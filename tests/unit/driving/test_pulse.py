import threading
from typing import cast

import pytest

from heliograph.driving.pulse import Pulse


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Beats:
    """Lets so many beats come, so many seconds apart, and then ends."""

    def __init__(self, clock: Clock, count: int, apart: float = 0) -> None:
        self._clock, self._left, self._apart = clock, count, apart

    def wait(self, _seconds: float) -> bool:
        self._left -= 1
        self._clock.now += self._apart
        return self._left < 0


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_pulse_is_regular_until_a_beat_is_missed_and_then_until_somebody_looked_around(
    clock: Clock,
) -> None:
    pulse = Pulse(clock)
    clock.now += 5
    assert pulse.is_regular(), "a busy machine"
    clock.now += 2
    assert not pulse.is_regular(), "this process may have slept"
    clock.now += 0.1
    assert not pulse.is_regular()

    pulse.resume()

    assert pulse.is_regular()


def test_a_gap_that_a_beat_ends_is_remembered(clock: Clock) -> None:
    pulse = Pulse(clock)
    clock.now += 30
    pulse._over = cast("threading.Event", Beats(clock, count=1))
    pulse._beat()

    assert not pulse.is_regular(), "the beat came after the gap"


def test_a_pulse_that_beats_stays_regular(clock: Clock) -> None:
    pulse = Pulse(clock)
    pulse._over = cast("threading.Event", Beats(clock, count=20, apart=5))
    pulse._beat()

    assert pulse.is_regular(), "100 s have passed, with a beat every 5 s"


def test_a_pulse_beats_in_a_thread_that_ends() -> None:
    pulse = Pulse()
    pulse.start()
    assert pulse.is_regular()
    pulse.stop()
