"""Which tasks of a flow are at work, and what to say of those that Spark does not start."""

from dataclasses import dataclass
from datetime import timedelta

from heliograph.dataplane.lease_server import Line

GRACE = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class Cores:
    """What Spark's executors have: `all` task slots, `free` of them idle."""

    all: int
    free: int


class Attendance:
    """Who of a flow's slices came for a lease, and since when the others are missed."""

    def __init__(self, slices: int) -> None:
        self._lines: list[dict[str, Line]] = [{} for _ in range(slices)]
        self._missed_since: dict[int, float] = {}

    def came(self, slice_index: int, role: str, line: Line) -> None:
        self._lines[slice_index][role] = line

    def is_present(self, slice_index: int) -> bool:
        return any(line.is_open for line in self._lines[slice_index].values())

    def missed(self, resting: set[int], now: float) -> int:
        """Return how many slices nobody has worked on for a while; those that rest are not missed."""
        for index in range(len(self._lines)):
            if index in resting or self.is_present(index):
                self._missed_since.pop(index, None)
            else:
                self._missed_since.setdefault(index, now)
        return sum(now - since > GRACE.total_seconds() for since in self._missed_since.values())


def describe_shortage(cores: Cores, wanted: int) -> str | None:
    """Return the sentence about a Spark with fewer cores than all its flows have tasks."""
    if cores.all >= wanted:
        return None
    return (
        f"Spark has {cores.all} cores for {wanted} tasks, so some wait for others to end; "
        "give it more cores, or set tasks.max lower"
    )


def describe_missed(missed: int, cores: Cores) -> str:
    """Return the sentence about tasks that do not come."""
    return (
        f"Spark has {cores.free} cores free for {missed} tasks that have not begun for "
        f"{GRACE.seconds} s; look at the logs of its executors"
    )
