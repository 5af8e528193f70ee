"""The same comparison for compacted partitions, where either side may have dropped what came later again.

For one key, all before the last record that both sides hold is superseded on both. After it:

    only on the target   fine if the source has a later one not copied yet, or if it ends in a tombstone
    only on the source   fine if not copied yet, or if it ends in a tombstone (the target may drop both)

Compaction never reorders, so a record that is once on each side and in another order than the rest is wrong.

A difference is uncertain if equal records of one key may be mistaken for each other, and if a key is only
on the target while something is not copied yet: its tombstone may have come and gone there.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from heliograph.verify.items import (
    Difference,
    Identity,
    Item,
    Kind,
    Pair,
    align,
    differing_fields,
)

LaterKeys = Callable[[set[bytes]], set[bytes]]


@dataclass(frozen=True, slots=True)
class CompactedTerms:
    """What is known beforehand; all before `surely_copied` was copied, and that is everything if `complete`."""

    surely_copied: int
    complete: bool
    source_may_lack_head: bool
    target_may_lack_head: bool
    timestamps: bool
    later_source: LaterKeys
    later_target: LaterKeys


@dataclass(slots=True)
class CompactedVerdict:
    pairs: list[tuple[Item, Item]]
    nothing_shared: bool
    differences: list[Difference] = field(default_factory=list)
    certain: bool = False
    lag: int = 0
    vanished: int = 0


@dataclass(slots=True)
class _Leftovers:
    """What only one side has of one key, after the last record of it that both have."""

    copied: list[Item] = field(default_factory=list)
    lagging: list[Item] = field(default_factory=list)
    target: list[Item] = field(default_factory=list)


def judge_compacted(
    source: list[Item], target: list[Item], terms: CompactedTerms
) -> CompactedVerdict:
    """Return what is wrong between two whole compacted partitions."""
    a = [item.identity(terms.timestamps) for item in source]
    b = [item.identity(terms.timestamps) for item in target]
    copied = sum(item.offset < terms.surely_copied for item in source)
    places = _late(align(a, b), a, b, copied)
    verdict = CompactedVerdict(
        pairs=[(source[i], target[j]) for i, j in places],
        nothing_shared=not places and bool(source) and bool(target),
    )
    repeated = _repeated(source, a) | _repeated(target, b)
    if not terms.timestamps:
        repeated |= _repeated(source, [s.key for s in source])
        repeated |= _repeated(target, [t.key for t in target])
    sure = max(
        [terms.surely_copied]
        + [s.offset for s, _ in verdict.pairs if terms.timestamps and s.key not in repeated]
    )
    crossed = _crossed(a, b, places)
    for i, j in crossed:
        where = Difference(Kind.OUT_OF_ORDER, source[i].offset, target[j].offset)
        verdict.differences.append(where)
        verdict.certain |= terms.timestamps and source[i].key not in repeated
    left: dict[bytes, _Leftovers] = defaultdict(_Leftovers)
    verdict.lag, gone = _sort_source(source, places, {i for i, _ in crossed}, terms, left)
    verdict.vanished = gone + _sort_target(target, places, {j for _, j in crossed}, terms, left)
    _judge_leftovers(
        verdict, left, terms, lambda item: item.offset < sure and item.key not in repeated
    )
    verdict.differences.sort(key=_place)
    return verdict


def _sort_source(
    source: list[Item],
    places: list[Pair],
    crossed: set[int],
    terms: CompactedTerms,
    left: dict[bytes, _Leftovers],
) -> Pair:
    """Classify the records that only the source has; return how many are lag and how many dropped."""
    lag = vanished = 0
    first, last = (places[0][0], places[-1][0]) if places else (len(source), -1)
    ends: dict[bytes | None, int] = {source[i].key: i for i, _ in places}
    taken = crossed | {i for i, _ in places}
    for i, item in enumerate(source):
        if i in taken:
            continue
        if i > last and item.offset >= terms.surely_copied:
            lag += 1
            if item.key is not None:
                left[item.key].lagging.append(item)
        elif (
            item.key is None
            or i < ends.get(item.key, -1)
            or (terms.target_may_lack_head and i < first)
        ):
            vanished += 1
        else:
            left[item.key].copied.append(item)
    return lag, vanished


def _sort_target(
    target: list[Item],
    places: list[Pair],
    crossed: set[int],
    terms: CompactedTerms,
    left: dict[bytes, _Leftovers],
) -> int:
    vanished = 0
    first = places[0][1] if places else len(target)
    ends: dict[bytes | None, int] = {target[j].key: j for _, j in places}
    taken = crossed | {j for _, j in places}
    for j, item in enumerate(target):
        if j in taken:
            continue
        if (
            item.key is None
            or j < ends.get(item.key, -1)
            or (terms.source_may_lack_head and j < first)
        ):
            vanished += 1
        else:
            left[item.key].target.append(item)
    return vanished


def _judge_leftovers(
    verdict: CompactedVerdict,
    left: dict[bytes, _Leftovers],
    terms: CompactedTerms,
    is_sure: Callable[[Item], bool],
) -> None:
    uncovered = {key for key, of in left.items() if of.target and not of.lagging}
    dropped_by_source = terms.later_source(uncovered) if uncovered else set()
    lost = {key for key, of in left.items() if of.copied and not _both_dropped(of)}
    dropped_by_target = terms.later_target(lost) if lost else set()
    for key, of in left.items():
        covered = key not in uncovered or key in dropped_by_source
        missing = key in lost - dropped_by_target and not (of.target and covered)
        extra = not covered and (bool(of.copied) or of.target[-1].value is not None)
        verdict.vanished += len(of.copied) + len(of.target) - missing - extra
        if not (missing or extra):
            continue
        # A tombstone that seems to lag may have been copied, and have dropped the key from the target.
        deleted = any(item.value is None for item in of.lagging)
        verdict.certain |= is_sure(of.copied[-1]) and not deleted if missing else terms.complete
        if missing and extra:
            a, b = of.copied[-1], of.target[-1]
            fields = differing_fields(a, b, terms.timestamps)
            verdict.differences.append(Difference(Kind.DIFFERENT, a.offset, b.offset, fields))
        elif missing:
            verdict.differences.append(Difference(Kind.MISSING, of.copied[-1].offset, None))
        else:
            verdict.differences.append(Difference(Kind.EXTRA, None, of.target[-1].offset))


def _both_dropped(of: _Leftovers) -> bool:
    """Return whether the target may have dropped a key whole: its tombstone, and so all before it."""
    return of.copied[-1].value is None and not of.target


def _late(
    pairs: list[Pair], a: Sequence[Identity], b: Sequence[Identity], copied: int
) -> list[Pair]:
    """Move pairs to the last equal records they can have: of equals, compaction keeps the last."""
    at_a, at_b = _places(a), _places(b)
    next_a = max(copied, pairs[-1][0] + 1) if pairs else 0
    next_b = len(b)
    moved = []
    for i, j in reversed(pairs):
        next_a = at_a[a[i]][bisect_left(at_a[a[i]], next_a) - 1]
        next_b = at_b[b[j]][bisect_left(at_b[b[j]], next_b) - 1]
        moved.append((next_a, next_b))
    return moved[::-1]


def _places(members: Sequence[Identity]) -> dict[Identity, list[int]]:
    places: dict[Identity, list[int]] = defaultdict(list)
    for at, member in enumerate(members):
        places[member].append(at)
    return places


def _repeated(items: list[Item], marks: Sequence[Identity]) -> set[bytes | None]:
    """Return the keys of those items whose mark comes more than once."""
    counts = Counter(marks)
    return {item.key for item, mark in zip(items, marks, strict=True) if counts[mark] > 1}


def _crossed(a: Sequence[Identity], b: Sequence[Identity], places: list[Pair]) -> list[Pair]:
    """Return the records that both sides hold once, but not in the same order as the others."""
    counts_a, counts_b = Counter(a), Counter(b)
    paired = {a[i] for i, _ in places}
    at_b = {identity: j for j, identity in enumerate(b)}
    return [
        (i, at_b[identity])
        for i, identity in enumerate(a)
        if identity not in paired and counts_a[identity] == 1 and counts_b.get(identity) == 1
    ]


def _place(difference: Difference) -> tuple[bool, int]:
    where = difference.downstream if difference.upstream is None else difference.upstream
    return difference.upstream is None, where or 0
