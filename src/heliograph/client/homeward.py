"""When a group that is away tries to go home. Decides, asks nobody.

Going home stops everybody's reading for a while, so it is only begun if it can be ended: once the run map
tells of all that the group had read when it was first thought of. Reading goes on meanwhile.

    think of it  ->  the map is behind: look again soon, for `exact_within`  ->  go
                     still behind, or home is no place to go: later, and ever more rarely

Nobody may go alone, so all members think of it at the same times: at multiples of the pause, by the clock.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

from heliograph.client.places import Left
from heliograph.model import TopicPartition

_LONGEST_PAUSE = timedelta(minutes=5)
_LOOKS = 5


class Homeward:
    """The tries of one member; times are seconds of the wall clock."""

    def __init__(self, pause: timedelta, exact_within: timedelta, gather_within: timedelta) -> None:
        self._first = self._pause = pause
        self._exact_within = exact_within
        self._gather_within = gather_within
        self._next = 0.0
        self._mark: tuple[float, Mapping[TopicPartition, int]] | None = None

    def is_due(self, now: float) -> bool:
        return now >= self._next

    def mark(self, now: float, left: Left) -> Left:
        """Return the cluster with the group where it was when this try began, which may be now."""
        if self._mark is None:
            self._mark = now, left.committed
        return replace(left, committed=self._mark[1])

    def may_wait(self, now: float) -> bool:
        """Whether the map may still come up with the mark, and is to be looked at again soon."""
        assert self._mark is not None, "a try begins with a mark"
        self._next = now + self._exact_within.total_seconds() / _LOOKS
        return self._next <= self._mark[0] + self._exact_within.total_seconds()

    def fail(self, now: float, *, stopped: bool) -> None:
        """Try again later, after twice as long each time.

        Trying may be cheap. Unless it `stopped` the reading, it is done often enough for members that
        are asked at different times to find one another.
        """
        longest = _LONGEST_PAUSE if stopped else min(self._gather_within / 2, _LONGEST_PAUSE)
        self._next = next_try(now, self._pause)
        if self._pause * 2 <= longest:
            self._pause *= 2
        elif not stopped and self._pause > longest:
            self._pause = self._first
        self._mark = None

    def arrive(self) -> None:
        """Forget all tries: the next time away begins anew."""
        self._pause, self._next, self._mark = self._first, 0.0, None


def next_try(now: float, pause: timedelta) -> float:
    """Return the first multiple of `pause` that is half of it away at least."""
    step = pause.total_seconds()
    return math.ceil(now / step + 0.5) * step
