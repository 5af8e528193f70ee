"""The same question for compacted partitions, where either side may have dropped what came later again.

For one key, all before the last record that both sides hold is superseded on both. After it:

    only on the target   fine if the source has a later one not copied yet, or if it ends in a tombstone
    only on the source   fine if not copied yet, or if it ends in a tombstone (the target may drop both)

Compaction never reorders, so a record that is once on either side and crosses the others is wrong.
"""

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from heliograph.policy.audit_items import (
    Difference,
    Identity,
    Item,
    Kind,
    align,
    differing_fields,
)

LaterKeys = Callable[[set[bytes]], set[bytes]]


@dataclass(slots=True)
class CompactedVerdict:
    pairs: list[tuple[Item, Item]] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)
    lag: int = 0
    vanished: int = 0
    nothing_shared: bool = False


@dataclass(slots=True)
class _Leftovers:
    """What only one side has of one key, after the last record of it that both have."""

    copied: list[Item] = field(default_factory=list)
    lagging: list[Item] = field(default_factory=list)
    target: list[Item] = field(default_factory=list)


def judge_compacted(
    source: list[Item],
    target: list[Item],
    *,
    upstream: int | None,
    source_may_lack_head: bool,
    target_may_lack_head: bool,
    timestamps: bool,
    later_source: LaterKeys,
    later_target: LaterKeys,
) -> CompactedVerdict:
    """Return what is wrong between the rests of two partitions that agree up to here."""
    a = [item.identity(timestamps) for item in source]
    b = [item.identity(timestamps) for item in target]
    places = align(a, b)
    verdict = CompactedVerdict(
        pairs=[(source[i], target[j]) for i, j in places],
        nothing_shared=not places and bool(source) and bool(target),
    )
    first, last = (places[0], places[-1]) if places else ((len(source), len(target)), (-1, -1))
    crossed = _crossed(a, b, places)
    ends = defaultdict(lambda: (-1, -1), {source[i].key: (i, j) for i, j in places})
    left: dict[bytes, _Leftovers] = defaultdict(_Leftovers)
    for i in _others(len(source), {i for i, _ in places}):
        item = source[i]
        if a[i] in crossed:
            downstream = target[crossed[a[i]]].offset
            verdict.differences.append(Difference(Kind.OUT_OF_ORDER, item.offset, downstream))
        elif i > last[0] and (upstream is None or item.offset >= upstream):
            verdict.lag += 1
            if item.key is not None:
                left[item.key].lagging.append(item)
        elif item.key is None or i < ends[item.key][0] or (target_may_lack_head and i < first[0]):
            verdict.vanished += 1
        else:
            left[item.key].copied.append(item)
    for j in _others(len(target), {j for _, j in places}):
        item = target[j]
        if b[j] in crossed:
            continue
        if item.key is None or j < ends[item.key][1] or (source_may_lack_head and j < first[1]):
            verdict.vanished += 1
        else:
            left[item.key].target.append(item)
    _judge_leftovers(verdict, left, later_source, later_target, timestamps)
    verdict.differences.sort(key=_place)
    return verdict


def _others(count: int, taken: set[int]) -> list[int]:
    return [at for at in range(count) if at not in taken]


def _judge_leftovers(
    verdict: CompactedVerdict,
    left: dict[bytes, _Leftovers],
    later_source: LaterKeys,
    later_target: LaterKeys,
    timestamps: bool,
) -> None:
    uncovered = {key for key, of in left.items() if of.target and not of.lagging}
    dropped_by_source = later_source(uncovered) if uncovered else set()
    lost = {key for key, of in left.items() if of.copied and not _both_dropped(of)}
    dropped_by_target = later_target(lost) if lost else set()
    for key, of in left.items():
        covered = key not in uncovered or key in dropped_by_source
        missing = key in lost - dropped_by_target and not (of.target and covered)
        extra = (
            bool(of.target) and not covered and (bool(of.copied) or of.target[-1].value is not None)
        )
        verdict.vanished += len(of.copied) + len(of.target) - missing - extra
        if missing and extra:
            a, b = of.copied[-1], of.target[-1]
            fields = differing_fields(a, b, timestamps)
            verdict.differences.append(Difference(Kind.DIFFERENT, a.offset, b.offset, fields))
        elif missing:
            verdict.differences.append(Difference(Kind.MISSING, of.copied[-1].offset, None))
        elif extra:
            verdict.differences.append(Difference(Kind.EXTRA, None, of.target[-1].offset))


def _both_dropped(of: _Leftovers) -> bool:
    """Return whether the target may have dropped a key whole: its tombstone, and so all before it."""
    return of.copied[-1].value is None and not of.target


def _crossed(
    a: list[Identity], b: list[Identity], places: list[tuple[int, int]]
) -> dict[Identity, int]:
    """Return the records that both sides hold once, but not in the same order, and where the target does."""
    counts_a, counts_b = Counter(a), Counter(b)
    paired = {a[i] for i, _ in places}
    return {
        identity: j
        for j, identity in enumerate(b)
        if identity not in paired and counts_b[identity] == 1 and counts_a[identity] == 1
    }


def _place(difference: Difference) -> tuple[bool, int]:
    where = difference.downstream if difference.upstream is None else difference.upstream
    return difference.upstream is None, where or 0
