"""Where the head of one side lies in the other side's stream."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from heliograph.verify.items import Identity, align, item_of
from heliograph.verify.streams import Cursor, Open

HEAD = 256
_TRIES = 16

Run = tuple[Identity, ...]


class Place(NamedTuple):
    """Member `head` of the head is member `stream` of the stream, as `run` showed."""

    head: int
    stream: int
    run: Run


def seek(head: Sequence[Identity], stream: Open, size: int, timestamps: bool) -> Place | None:
    """Return the first place where the head and the stream agree.

    A run of `size` records is looked for; the first equal one may lie before it, with a fault between.
    """
    size = min(size, len(head))
    runs: dict[Run, int] = {}
    for at in range(len(head) - size + 1):
        runs.setdefault(tuple(head[at : at + size]), at)
    passed: deque[Identity] = deque(maxlen=2 * HEAD)
    window: deque[Identity] = deque(maxlen=size)
    for at, identity in enumerate(_identities(stream, timestamps)):
        window.append(identity)
        passed.append(identity)
        found = runs.get(tuple(window))
        if found is not None:
            # Backwards, so that of equal records those next to the run are taken.
            before = align(head[:found][::-1], list(passed)[-size - 1 :: -1])
            skipped = before[-1] if before else (-1, -1)
            return Place(found - 1 - skipped[0], at - size - skipped[1], tuple(window))
    return None


def count_run(run: Run, stream: Open, timestamps: bool) -> int:
    """Return how often a run occurs."""
    window: deque[Identity] = deque(maxlen=len(run))
    times = 0
    for identity in _identities(stream, timestamps):
        window.append(identity)
        times += tuple(window) == run
    return times


def count_before(stream: Open, offset: int) -> int:
    """Return how many records lie before an offset."""
    count = 0
    for chunk in stream():
        if chunk.last < offset:
            count += chunk.count
            continue
        return count + sum(record.offset < offset for record in chunk.unpack())
    return count


@dataclass(frozen=True, slots=True)
class Fit:
    """Looks for a place where two sides that lack a head agree to the target's end.

    The first `copied` records of the source are known to have been copied. Memory does not grow with the streams. If
    records are so repetitive that many places must be tried, the answer is unknown: that counts as a fit.
    """

    source: Open
    target: Open
    timestamps: bool
    copied: int

    def without_head_of_source(self) -> bool:
        """Return whether some suffix of the target is a prefix of the source."""
        places, rest = self._places(self.target, self.source)
        return rest >= max(self.copied, 1) or self._any_agree((0, at) for at in places)

    def without_head_of_target(self) -> bool:
        """Return whether the whole target lies somewhere in the source."""
        places, _ = self._places(self.source, self.target)
        return self._any_agree((at, 0) for at in places)

    def _places(self, outer: Open, inner: Open) -> tuple[list[int], int]:
        """Return where the head of `inner` lies in `outer`, and how much of it the end of `outer` is.

        Knuth, Morris and Pratt: a member is looked at once, however often the head begins.
        """
        head = list(islice(_identities(inner, self.timestamps), HEAD))
        falls = _falls(head)
        places, reached = [], 0
        for at, identity in enumerate(_identities(outer, self.timestamps) if head else ()):
            while reached and (reached == len(head) or identity != head[reached]):
                reached = falls[reached - 1]
            reached += identity == head[reached]
            if reached == len(head):
                places.append(at + 1 - reached)
                if len(places) > _TRIES:
                    break
        return places, reached if reached < len(head) else 0

    def _any_agree(self, pairs: Iterable[tuple[int, int]]) -> bool:
        pairs = list(pairs)
        return len(pairs) > _TRIES or any(self._agree(*pair) for pair in pairs)

    def _agree(self, source_at: int, target_at: int) -> bool:
        """Return whether the target from `target_at` on equals what the source has from `source_at` on."""
        source = _identities(self.source, self.timestamps, source_at)
        equal = 0
        for identity in _identities(self.target, self.timestamps, target_at):
            if next(source, None) != identity:
                return False
            equal += 1
        return source_at + equal >= self.copied


def _falls(head: Sequence[Identity]) -> list[int]:
    """Return, for each prefix of the head, the length of its longest proper suffix that is also a prefix."""
    falls = [0] * len(head)
    reached = 0
    for at in range(1, len(head)):
        while reached and head[at] != head[reached]:
            reached = falls[reached - 1]
        reached += head[at] == head[reached]
        falls[at] = reached
    return falls


def _identities(stream: Open, timestamps: bool, start: int = 0) -> Iterator[Identity]:
    cursor = Cursor(stream())
    cursor.skip(start)
    for record in cursor.rest():
        yield item_of(record).identity(timestamps)
