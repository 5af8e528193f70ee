"""The cores that Spark has for tasks, and what to report when there are too few."""

from dataclasses import dataclass
from datetime import timedelta

GRACE = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class Cores:
    """What Spark's executors have: `all` task slots, `free` of them idle."""

    all: int
    free: int


def describe_shortage(cores: Cores, wanted: int) -> str | None:
    """Return the sentence about a Spark with fewer cores than all its flows have tasks."""
    if cores.all >= wanted:
        return None
    return (
        f"Spark has {cores.all} cores for {wanted} tasks, so some wait for others to end; "
        "give it more cores, or set tasks.max lower"
    )


def describe_missed(missed: int, cores: Cores) -> str:
    """Return the sentence about tasks that do not start."""
    return (
        f"Spark has {cores.free} cores free for {missed} tasks that have not begun for "
        f"{GRACE.seconds} s; look at the logs of its executors"
    )
