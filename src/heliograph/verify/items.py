"""What an audit keeps of records, and how two sequences of them are aligned."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from hashlib import blake2b
from typing import NamedTuple

from heliograph.wire.records import RawRecord, decode_body, encode_body

_DIGEST_BYTES = 16
_ROW = 16  # equal pairs in a row after which two sequences agree again
_SMALL = (
    1 << 20
)  # cells of the exact table; above it, repetitive stretches are matched from the end

Identity = Hashable
Pair = tuple[int, int]


class Item(NamedTuple):
    """A record as digests; `headers` covers names, values and their order."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: bytes

    def identity(self, timestamps: bool) -> Identity:
        return (self.key, self.value, self.headers, self.timestamp if timestamps else None)


class Kind(Enum):
    MISSING = "missing"
    EXTRA = "extra"
    REPEATED = "repeated"
    OUT_OF_ORDER = "out of order"
    DIFFERENT = "different"


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is wrong; an offset is None where that side has no such record."""

    kind: Kind
    upstream: int | None
    downstream: int | None
    fields: tuple[str, ...] = ()


def item_of(record: RawRecord) -> Item:
    key, value, headers = decode_body(record.body)
    return Item(
        record.offset,
        record.timestamp,
        _digest(key),
        _digest(value),
        _digest(encode_body(None, None, headers)) or b"" if headers else b"",
    )


def differing_fields(upstream: Item, downstream: Item, timestamps: bool) -> tuple[str, ...]:
    names = ("key", "value", "headers", "timestamp") if timestamps else ("key", "value", "headers")
    return tuple(name for name in names if getattr(upstream, name) != getattr(downstream, name))


def are_kin(upstream: Item, downstream: Item) -> bool:
    """Return whether two unequal records look like one that was changed on the way."""
    return (
        (upstream.key is not None and upstream.key == downstream.key)
        or (upstream.value is not None and upstream.value == downstream.value)
        or upstream.timestamp == downstream.timestamp
    )


def align(a: Sequence[Identity], b: Sequence[Identity]) -> list[Pair]:
    """Return index pairs of equal members, rising on both sides, as many as can be found.

    What is unique on both sides anchors the rest, so it is near linear on real topics. A repetitive
    stretch is matched as late as possible, which is how compaction leaves it.
    """
    pairs: list[Pair] = []
    todo = [(0, len(a), 0, len(b))]
    while todo:
        a_start, a_end, b_start, b_end = todo.pop()
        while a_start < a_end and b_start < b_end and a[a_start] == b[b_start]:
            pairs.append((a_start, b_start))
            a_start, b_start = a_start + 1, b_start + 1
        while a_start < a_end and b_start < b_end and a[a_end - 1] == b[b_end - 1]:
            a_end, b_end = a_end - 1, b_end - 1
            pairs.append((a_end, b_end))
        if a_start == a_end or b_start == b_end:
            continue
        anchors = _anchors(a, b, (a_start, a_end), (b_start, b_end))
        if not anchors:
            pairs += _repetitive(a, b, (a_start, a_end), (b_start, b_end))
            continue
        pairs += anchors
        for (a_from, b_from), (a_to, b_to) in zip(
            [(a_start - 1, b_start - 1), *anchors], [*anchors, (a_end, b_end)], strict=True
        ):
            todo.append((a_from + 1, a_to, b_from + 1, b_to))
    return sorted(pairs)


def _anchors(a: Sequence[Identity], b: Sequence[Identity], of_a: Pair, of_b: Pair) -> list[Pair]:
    """Return the longest rising row of pairs of members that are unique on both sides."""
    counts_a = Counter(a[i] for i in range(*of_a))
    at_b: dict[Identity, int] = {}
    for j in range(*of_b):
        at_b[b[j]] = -1 if b[j] in at_b else j
    unique = [
        (i, at_b[a[i]]) for i in range(*of_a) if counts_a[a[i]] == 1 and at_b.get(a[i], -1) >= 0
    ]
    tails: list[int] = []
    heads: list[int] = []
    before: list[int] = []
    for position, (_, j) in enumerate(unique):
        at = bisect_left(tails, j)
        before.append(heads[at - 1] if at else -1)
        tails[at : at + 1] = [j]
        heads[at : at + 1] = [position]
    row: list[Pair] = []
    position = heads[-1] if heads else -1
    while position >= 0:
        row.append(unique[position])
        position = before[position]
    return row[::-1]


def _repetitive(
    a: Sequence[Identity], b: Sequence[Identity], of_a: Pair, of_b: Pair
) -> Iterator[Pair]:
    common = {a[i] for i in range(*of_a)} & {b[j] for j in range(*of_b)}
    left = [i for i in range(*of_a) if a[i] in common]
    right = [j for j in range(*of_b) if b[j] in common]
    if len(left) * len(right) > _SMALL:
        yield from _from_the_end(a, b, left, right)
        return
    best = [[0] * (len(right) + 1)]
    for i in left:
        last, row = best[-1], [0]
        for at, j in enumerate(right):
            row.append(last[at] + 1 if a[i] == b[j] else max(last[at + 1], row[at]))
        best.append(row)
    x, y = len(left), len(right)
    while x and y:
        if a[left[x - 1]] == b[right[y - 1]]:
            x, y = x - 1, y - 1
            yield left[x], right[y]
        elif best[x - 1][y] >= best[x][y - 1]:
            x -= 1
        else:
            y -= 1


def _from_the_end(
    a: Sequence[Identity], b: Sequence[Identity], left: list[int], right: list[int]
) -> Iterator[Pair]:
    places: dict[Identity, list[int]] = {}
    for i in left:
        places.setdefault(a[i], []).append(i)
    limit = left[-1] + 1
    for j in reversed(right):
        at = bisect_left(places[b[j]], limit)
        if at:
            limit = places[b[j]][at - 1]
            yield limit, j


def _digest(data: bytes | None) -> bytes | None:
    """Return what stands for `data`: itself if it is short, so the two cannot be confused."""
    if data is None or len(data) < _DIGEST_BYTES:
        return data
    return blake2b(data, digest_size=_DIGEST_BYTES).digest()


def first_row(pairs: list[Pair]) -> Pair | None:
    """Return where the first long unbroken row of equal pairs begins."""
    start = 0
    for at in range(1, len(pairs) + 1):
        if at - start >= _ROW:
            return pairs[start]
        if at < len(pairs) and pairs[at] != (pairs[at - 1][0] + 1, pairs[at - 1][1] + 1):
            start = at
    return None
