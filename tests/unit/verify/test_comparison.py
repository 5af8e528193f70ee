from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from heliograph.verify.comparison import compare
from heliograph.verify.items import Kind, align
from heliograph.verify.streams import Chunk, Findings, Terms
from heliograph.wire.records import RawRecord, encode_body

Log = list[RawRecord]


def record(
    offset: int, key: bytes | None, value: bytes | None, timestamp: int, headers: bytes = b""
) -> RawRecord:
    body = encode_body(key, value, [(b"h", headers)] if headers else [])
    return RawRecord(offset, timestamp, 0, body)


def log_of(count: int) -> Log:
    return [record(i, b"key %d" % (i % 7), b"value number %d" % i, 1000 + i) for i in range(count)]


def copy_of(log: Log, start: int = 0, step: int = 1) -> Log:
    return [r._replace(offset=start + step * i) for i, r in enumerate(log)]


def opening(log: Log, size: int = 5, sealed: bool = False) -> Callable[[], Iterator[Chunk]]:
    def chunks() -> Iterator[Chunk]:
        for start in range(0, len(log), size):
            part = log[start : start + size]
            seal = tuple((r.timestamp, r.body) for r in part) if sealed else None
            yield Chunk(len(part), part[0].offset, part[-1].offset, seal, part.copy)

    return chunks


def audit(
    source: Log, target: Log, terms: Terms | None = None, *, sealed: bool = False
) -> Findings:
    return compare(opening(source, sealed=sealed), opening(target, sealed=sealed), terms or Terms())


def test_equal_partitions_are_proved_equal_to_their_ends() -> None:
    source = [r._replace(offset=2 * r.offset) for r in log_of(30)]
    found = audit(source, copy_of(source, 100), sealed=True)
    assert found == Findings(True, 30, 59, 130)


def test_what_is_not_copied_yet_is_lag() -> None:
    source = log_of(30)
    found = audit(source, copy_of(source[:20]))
    assert (found.equal, found.compared, found.lag, found.upstream) == (True, 20, 10, 20)


def test_a_tail_that_was_copied_and_is_gone_is_missing() -> None:
    source = log_of(30)
    found = audit(source, copy_of(source[:20]), Terms(upstream=25))
    assert found.counts == {"missing": 5}
    assert found.differences[0].upstream == 20
    assert (found.upstream, found.lag) == (20, 5)


@pytest.mark.parametrize(
    ("change", "kind", "upstream", "downstream"),
    [
        (lambda t: t[:12] + t[13:], Kind.MISSING, 12, None),
        (lambda t: t[1:], Kind.MISSING, 0, None),
        (lambda t: [*t[:12], t[11], *t[12:]], Kind.REPEATED, 11, 12),
        (lambda t: [*t[:12], t[0], *t[12:]], Kind.REPEATED, 0, 12),
        (lambda t: [*t, t[-1]], Kind.REPEATED, 29, 30),
        (lambda t: [*t[:12], t[13], t[12], *t[14:]], Kind.OUT_OF_ORDER, 12, 13),
        (lambda t: [*t[1:], t[0]], Kind.OUT_OF_ORDER, 0, 29),
        (lambda t: [t[-1], *t[:-1]], Kind.OUT_OF_ORDER, 29, 0),
        (lambda t: [*t[:12], record(0, b"who", b"ever", 5), *t[12:]], Kind.EXTRA, None, 12),
    ],
)
def test_one_fault_is_named_with_its_offsets(
    change: Callable[[Log], Log], kind: Kind, upstream: int | None, downstream: int | None
) -> None:
    source = log_of(30)
    found = audit(source, copy_of(change(copy_of(source))))
    assert found.equal is False
    assert found.counts == {kind.value: 1}
    (difference,) = found.differences
    assert (difference.kind, difference.upstream, difference.downstream) == (
        kind,
        upstream,
        downstream,
    )


@pytest.mark.parametrize("at", [0, 12, 29])
@pytest.mark.parametrize(
    ("changed", "fields"),
    [
        ({"key": b"other"}, ("key",)),
        ({"value": b"other"}, ("value",)),
        ({"value": None}, ("value",)),
        ({"headers": b"other"}, ("headers",)),
        ({"timestamp": 5}, ("timestamp",)),
        ({"timestamp": 5, "value": b""}, ("value", "timestamp")),
    ],
)
def test_a_changed_record_is_named_with_its_fields(
    at: int, changed: dict[str, bytes], fields: tuple[str, ...]
) -> None:
    source = log_of(30)
    target = copy_of(source, 7)
    plain = {"key": b"key %d" % (at % 7), "value": b"value number %d" % at, "timestamp": 1000 + at}
    target[at] = record(at + 7, **{**plain, **changed})  # type: ignore[arg-type]
    found = audit(source, target)
    (difference,) = found.differences
    assert (difference.kind, difference.fields) == (Kind.DIFFERENT, fields)
    assert (difference.upstream, difference.downstream) == (at, at + 7)
    assert found.upstream == at


def test_timestamps_that_the_target_sets_are_not_compared() -> None:
    source = log_of(30)
    target = [r._replace(timestamp=77) for r in source]
    assert audit(source, target).equal is False
    assert audit(source, target, Terms(timestamps=False)).equal is True


def test_many_faults_are_counted_and_the_first_are_shown() -> None:
    source = log_of(3000)
    target = copy_of([r for r in source if r.offset % 100 != 50])
    found = audit(source, target)
    assert found.counts == {"missing": 30}
    assert [d.upstream for d in found.differences] == [50 + 100 * i for i in range(10)]


def test_a_long_gap_is_bridged() -> None:
    source = log_of(9000)
    found = audit(source, copy_of(source[:100] + source[8000:]))
    assert found.counts == {"missing": 7900}
    assert found.compared == 1100


def test_identical_records_without_a_position_cannot_be_told_apart() -> None:
    same = [record(i, None, b"same", 1) for i in range(100)]
    target = copy_of(same)
    late = Terms(source_start=40)
    assert audit(same[40:], target, late).equal is None
    paired = replace(late, upstream=90, downstream=90)
    found = audit(same[40:], target, paired)
    assert (found.equal, found.expired, found.lag) == (True, 40, 0)


def test_sides_that_share_nothing_need_a_position() -> None:
    source = log_of(30)
    terms = Terms(source_start=20)
    assert audit(source[20:], copy_of(source[:10]), terms).equal is None
    found = audit(source[20:], copy_of(source[:10]), replace(terms, upstream=10, downstream=10))
    assert (found.equal, found.lag, found.expired) == (True, 10, 10)
    assert audit(source[20:], copy_of(source[:10]), replace(terms, upstream=25)).counts == {
        "missing": 5
    }


@dataclass(frozen=True)
class Case:
    source: Log
    target: Log
    terms: Terms
    lag: int
    overlap: int


@st.composite
def retained(draw: st.DrawFn, distinct: bool) -> Case:
    count = draw(st.integers(0, 60))
    values = draw(st.lists(st.sampled_from([b"a", b"b", None]), min_size=count, max_size=count))
    log = [record(3 * i, None, v, i if distinct else 0) for i, v in enumerate(values)]
    copied = draw(st.integers(0, count))
    expired = draw(st.integers(0, copied))
    trimmed = draw(st.integers(0, copied))
    target = copy_of(log[:copied], 0, 2)
    saved = draw(st.one_of(st.none(), st.integers(0, copied)))
    terms = Terms(
        source_start=3 * expired,
        target_start=2 * trimmed,
        upstream=None if saved is None else 3 * saved,
        downstream=None if saved is None or draw(st.booleans()) else 2 * saved,
    )
    overlap = copied - max(expired, trimmed)
    return Case(log[expired:], target[trimmed:], terms, count - copied, overlap)


@settings(max_examples=300, deadline=None)
@given(retained(distinct=True), st.booleans())
def test_retention_and_lag_are_never_taken_for_loss(case: Case, sealed: bool) -> None:
    found = audit(case.source, case.target, case.terms, sealed=sealed)
    if case.overlap or not case.source or not case.target:
        assert found.equal is True
        assert (found.lag, found.compared) == (case.lag, case.overlap) or not case.overlap
    else:
        assert found.equal is not False


def repetitive(values: bytes, upstream: int | None = None) -> Case:
    """Return a case of records that are told apart by their values alone, which are single letters."""
    log = [record(3 * i, None, bytes([value]), 0) for i, value in enumerate(values)]
    case = Case(
        log[1:], copy_of(log[:8], 0, 2), Terms(source_start=3, upstream=upstream), len(log) - 8, 7
    )
    assert len(case.source) > len(case.target), "one record expired, some are not copied yet"
    return case


@settings(max_examples=300, deadline=None)
@given(retained(distinct=False))
@example(repetitive(b"aaabaaaabaaaa"))
@example(repetitive(b"aaabaaaabaaaa", upstream=9))
def test_repetitive_records_never_raise_a_false_alarm(case: Case) -> None:
    found = audit(case.source, case.target, case.terms)
    assert found.equal is not False


@settings(max_examples=300, deadline=None)
@given(retained(distinct=True), st.data())
def test_a_fault_in_what_both_sides_hold_is_always_found(case: Case, data: st.DataObject) -> None:
    if case.overlap < 3:
        return
    target = list(case.target)
    extra = len(target) - case.overlap
    at = data.draw(st.integers(extra + 1, len(target) - 2))
    fault = data.draw(st.sampled_from(["drop", "repeat", "swap", "change"]))
    if fault == "drop":
        del target[at]
    elif fault == "repeat":
        target.insert(at, target[at])
    elif fault == "swap":
        target[at], target[at + 1] = target[at + 1], target[at]
    else:
        target[at] = record(target[at].offset, b"k", b"changed", target[at].timestamp)
    start = target[0].offset
    terms = replace(case.terms, downstream=None)
    found = audit(case.source, copy_of(target, start, 2), terms)
    assert found.equal is not True
    if not case.terms.source_start and not case.terms.target_start:
        assert found.equal is False


@st.composite
def compacted(draw: st.DrawFn, distinct: bool) -> Case:
    count = draw(st.integers(0, 40))
    keyed = st.tuples(
        st.sampled_from([b"1", b"2", b"3", b"4"]), st.sampled_from([b"a", b"b", None])
    )
    rows = draw(st.lists(keyed, min_size=count, max_size=count))
    log = [record(i, k, v, i if distinct else 0) for i, (k, v) in enumerate(rows)]
    copied = draw(st.integers(0, count))
    source, target = log, copy_of(log[:copied], 5)
    for _ in range(draw(st.integers(0, 3))):
        source = compact(source, draw(st.integers(0, count)), draw(st.booleans()))
    for _ in range(draw(st.integers(0, 3))):
        target = compact(target, draw(st.integers(0, copied)), draw(st.booleans()))
    saved = draw(st.one_of(st.none(), st.integers(0, copied)))
    terms = Terms(source_end=count, compacted=True, upstream=saved)
    return Case(source, target, terms, count - copied, 0)


def compact(log: Log, dirty: int, drop_tombstones: bool) -> Log:
    """Clean what lies before a point, as a broker does."""
    last = {r.body[:2]: r.offset for r in log[:dirty]}
    kept = [
        r
        for r in log[:dirty]
        if last[r.body[:2]] == r.offset and not (drop_tombstones and r.body[2:3] == b"\x01")
    ]
    return kept + log[dirty:]


@settings(max_examples=500, deadline=None)
@given(compacted(distinct=True))
def test_compaction_is_never_taken_for_loss(case: Case) -> None:
    found = audit(case.source, case.target, case.terms)
    if case.terms.upstream == case.terms.source_end:
        assert found.equal is True
    else:
        assert found.equal is not False


@settings(max_examples=500, deadline=None)
@given(compacted(distinct=False))
def test_compaction_of_repetitive_records_never_raises_a_false_alarm(case: Case) -> None:
    found = audit(case.source, case.target, replace(case.terms, timestamps=False))
    assert found.equal is not False


@settings(max_examples=300, deadline=None)
@given(compacted(distinct=True), st.data())
def test_a_key_that_ends_in_another_value_is_found(case: Case, data: st.DataObject) -> None:
    if case.lag or not case.target:
        return
    last = {r.body[:2]: at for at, r in enumerate(case.target)}
    held = {r.body[:2]: r for r in case.source}
    keys = sorted(k for k, at in last.items() if k in held and held[k].body == case.target[at].body)
    if not keys:
        return
    key = data.draw(st.sampled_from(keys))
    target = list(case.target)
    changed = target[last[key]]
    target[last[key]] = record(changed.offset, key[1:], b"changed", changed.timestamp)
    terms = replace(case.terms, upstream=1000)
    assert audit(case.source, target, terms).equal is False


def test_a_key_whose_tombstone_was_lost_is_found() -> None:
    source = [record(3, b"k", None, 3), record(4, b"other", b"v", 4)]
    target = [record(0, b"k", b"alive", 1), record(1, b"other", b"v", 4)]
    found = audit(source, target, Terms(compacted=True, upstream=5))
    assert found.equal is False
    assert [(d.upstream, d.downstream) for d in found.differences] == [(3, 0)]


def test_a_later_key_beyond_the_snapshot_excuses_a_dropped_record() -> None:
    source = [record(4, b"other", b"v", 4)]
    target = [record(0, b"k", b"v", 1), record(1, b"other", b"v", 4)]
    terms = Terms(compacted=True, upstream=5)
    assert audit(source, target, terms).counts == {"extra": 1}
    found = compare(opening(source), opening(target), terms, later_source=lambda keys: keys)
    assert found.equal is True


@given(st.lists(st.integers(0, 6), max_size=40), st.lists(st.integers(0, 6), max_size=40))
def test_aligned_pairs_rise_and_are_equal(a: list[int], b: list[int]) -> None:
    pairs = align(a, b)
    assert all(a[i] == b[j] for i, j in pairs)
    assert all(p[0] < q[0] and p[1] < q[1] for p, q in pairwise(pairs))
    assert bool(pairs) == bool(set(a) & set(b))
