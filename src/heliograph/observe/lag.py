"""The age of the oldest record that is not copied yet, computed from samples of a partition's end."""

from itertools import pairwise
from typing import NamedTuple

_KEPT = 64


class _Seen(NamedTuple):
    """The partition ended at `end` from `first` to `last`, as far as it was sampled."""

    end: int
    first: float
    last: float


class EndHistory:
    """Where a partition ended at which time. Records between two samples count as appended evenly between them."""

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen: list[_Seen] = []

    def note(self, now: float, end: int, upstream: int) -> None:
        """Add a sample; `upstream` is the next offset to be copied: what is before it is of no use."""
        seen = self._seen
        if seen and end < seen[-1].end:
            seen.clear()  # it was recreated
        if seen and end == seen[-1].end:
            seen[-1] = seen[-1]._replace(last=now)
        else:
            seen.append(_Seen(end, now, now))
        useless = 0
        while useless + 1 < len(seen) and seen[useless + 1].end <= upstream:
            useless += 1
        del seen[:useless]
        if len(seen) > _KEPT:
            del seen[1:-1:2]

    def age(self, now: float, upstream: int) -> float | None:
        """Return for how many seconds the record at `upstream` has existed; 0 if it does not exist yet.

        None if it existed at the first sample.
        """
        seen = self._seen
        if not seen or upstream >= seen[-1].end:
            return 0.0
        for before, after in pairwise(seen):
            if before.end <= upstream < after.end:
                share = (upstream + 1 - before.end) / (after.end - before.end)
                return now - before.last - share * (after.first - before.last)
        return None

    def known_for(self, now: float) -> float:
        """Return for how many seconds samples are remembered."""
        return now - self._seen[0].first if self._seen else 0.0
