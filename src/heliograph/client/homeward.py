"""When a group that is away tries to go home. Only decides, does no I/O.

Going home stops the reading of all members for a while. So it starts only if it can finish: once the run
map covers all that the group had read when the try began. Reading continues meanwhile.

    begin a try  ->  the map is behind: look again soon, for `exact_within`  ->  go
                     still behind, or home is not usable: try later, and less and less often

No member may go alone, so all members try at the same times: at multiples of the pause, by the wall clock.
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
        """Return the cluster with the group's positions when this try began, which may be now."""
        if self._mark is None:
            self._mark = now, left.committed
        return replace(left, committed=self._mark[1])

    def may_wait(self, now: float) -> bool:
        """Whether the map may still catch up with the mark, and should be checked again soon."""
        assert self._mark is not None, "a try begins with a mark"
        self._next = now + self._exact_within.total_seconds() / _LOOKS
        return self._next <= self._mark[0] + self._exact_within.total_seconds()

    def fail(self, now: float, *, stopped: bool) -> None:
        """Schedule the next try, after twice as long each time.

        A try may be cheap. Unless it `stopped` the reading, tries are frequent enough for members that
        are asked at different times to meet.
        """
        longest = _LONGEST_PAUSE if stopped else min(self._gather_within / 2, _LONGEST_PAUSE)
        self._next = next_try(now, self._pause)
        if self._pause * 2 <= longest:
            self._pause *= 2
        elif not stopped and self._pause > longest:
            self._pause = self._first
        self._mark = None

    def arrive(self) -> None:
        """Forget all tries: the next time away starts from the beginning."""
        self._pause, self._next, self._mark = self._first, 0.0, None


def next_try(now: float, pause: timedelta) -> float:
    """Return the first multiple of `pause` that is at least half a pause away."""
    step = pause.total_seconds()
    return math.ceil(now / step + 0.5) * step
