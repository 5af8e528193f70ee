"""Where the head of one side lies in the other side's stream."""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from heliograph.policy.audit_items import Identity, align, item_of
from heliograph.policy.audit_streams import Cursor, Open

HEAD = 256

Run = tuple[Identity, ...]


class Place(NamedTuple):
    """Member `head` of the head is member `stream` of the stream, as `run` told."""

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
    """Return how often a run comes."""
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


def _identities(stream: Open, timestamps: bool) -> Iterator[Identity]:
    for record in Cursor(stream()).rest():
        yield item_of(record).identity(timestamps)
