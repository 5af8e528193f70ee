"""What two readers of the same records would see differently: records that are missing, records that are repeated."""

from collections import Counter
from collections.abc import Hashable, Sequence
from itertools import takewhile
from typing import NamedTuple, TypeVar

T = TypeVar("T", bound=Hashable)

_MOST_EDITS = 1000


class Difference(NamedTuple):
    """`same` records are in both, in order; `lost` ones only in the originals, `repeated` ones only in the copies.

    A record that changed its place is lost in one and repeated in the other.
    """

    same: int = 0
    lost: int = 0
    repeated: int = 0

    @property
    def is_none(self) -> bool:
        return not self.lost and not self.repeated

    def plus(self, other: "Difference") -> "Difference":
        return Difference(*(mine + its for mine, its in zip(self, other, strict=True)))


def compare(originals: Sequence[T], copies: Sequence[T]) -> Difference:
    """Return the smallest difference; beyond 1,000 edits order no longer counts, only which records exist."""
    head = _common(originals, copies)
    left, right = originals[head:], copies[head:]
    tail = _common(left[::-1], right[::-1])
    left, right = left[: len(left) - tail], right[: len(right) - tail]
    edits = _edits(left, right)
    if edits is None:
        lost = sum((Counter(left) - Counter(right)).values()) or _MOST_EDITS // 2
    else:
        lost = (edits + len(left) - len(right)) // 2
    same = len(left) - lost
    return Difference(head + tail + same, lost, len(right) - same)


def _common(left: Sequence[T], right: Sequence[T]) -> int:
    """Return how many records are the same from the first on."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(left, right)))  # noqa: B905 - the shorter one ends it


def _edits(left: Sequence[T], right: Sequence[T]) -> int | None:
    """Return the least number of records to take out of both so that the rest is the same (E. W. Myers, 1986)."""
    if not left or not right:
        return len(left) + len(right)
    reach = {1: 0}
    for edits in range(min(len(left) + len(right), _MOST_EDITS) + 1):
        for diagonal in range(-edits, edits + 1, 2):
            down = diagonal == -edits or (
                diagonal != edits and reach[diagonal - 1] < reach[diagonal + 1]
            )
            x = reach[diagonal + 1] if down else reach[diagonal - 1] + 1
            while x < len(left) and x - diagonal < len(right) and left[x] == right[x - diagonal]:
                x += 1
            reach[diagonal] = x
            if x >= len(left) and x - diagonal >= len(right):
                return edits
    return None
