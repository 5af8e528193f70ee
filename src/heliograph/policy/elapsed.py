"""A clock for promises between processes: it also counts the time in which this machine was suspended."""

import time

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def elapsed() -> float:
    """Return seconds that pass whatever happens to this process, its machine or the wall clock."""
    return time.clock_gettime(_CLOCK)
