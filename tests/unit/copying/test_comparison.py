"""A tail compared with its source, when either side may have lost some of what was copied."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from heliograph.copying.comparison import Comparison
from heliograph.kafka.tail import TailBatch, body_digest
from heliograph.model import UNKNOWN, Position, ProducerIdentity
from heliograph.policy.runs import RunMap
from heliograph.wire.record_batch import build_header
from heliograph.wire.records import RawRecord, encode_body, join_records
from tests.unit.copying.lanes import make_share

UPSTREAM, DOWNSTREAM = 500, 40


def a_batch(record: RawRecord) -> memoryview:
    """Return a record as its source sends it, alone: compaction leaves holes anywhere."""
    payload, base, newest = join_records([record])
    header = build_header(
        payload,
        attributes=0,
        count=1,
        base_timestamp=base,
        max_timestamp=newest,
        identity=ProducerIdentity(-1, -1),
        sequence=-1,
    )
    return memoryview(record.offset.to_bytes(8, "big") + header[8:] + payload)


class Copied:
    """Records of a source, the first of which were copied; either side may lose some of them."""

    def __init__(self, values: Sequence[int], copied: int, markers: frozenset[int]) -> None:
        self.source = [
            RawRecord(UPSTREAM + i, 0, 0, encode_body(b"k", b"%d" % value))
            for i, value in enumerate(values)
        ]
        self.copied = copied
        self.target: dict[int, RawRecord] = {}
        self.end = DOWNSTREAM
        for number, record in enumerate(self.source[:copied]):
            self.end += number in markers
            self.target[self.end] = record
            self.end += 1

    def lose(self, source: frozenset[int], target: frozenset[int]) -> None:
        """Delete records by their number; the newest of either log always stays."""
        newest = max(self.target, default=None)
        by_number = dict(enumerate(sorted(self.target)))
        for number in target:
            if by_number.get(number, newest) != newest:
                del self.target[by_number[number]]
        last = len(self.source) - 1
        self.source = [r for i, r in enumerate(self.source) if i not in source or i == last]

    def compare(self) -> Comparison:
        found = Comparison(make_share(), self.end)
        offsets = sorted(self.target)
        if offsets:
            found.tail.append((offsets[0], TailBatch(1, 999, 0)))  # no twin of anything
        for record in self.source:
            if found.is_over:
                break
            found.meet(a_batch(record), self.read)
        if not found.is_over:
            found.end_source(self.read)
        assert found.is_over
        return found

    def read(self, start: int, end: int) -> list[tuple[int, int]]:
        return [(at, body_digest(r)) for at, r in sorted(self.target.items()) if start <= at < end]


NUMBERS = st.frozensets(st.integers(0, 30))
COUNTS = st.integers(0, 25)


@given(st.lists(st.integers(0, 2), max_size=25), COUNTS, NUMBERS)
def test_what_is_whole_on_both_sides_is_found_exactly(
    values: list[int], copied: int, markers: frozenset[int]
) -> None:
    copies = Copied(values, min(copied, len(values)), markers)

    found = copies.compare()

    assert found.position() == Position(UPSTREAM + copies.copied, copies.end)
    assert found.strangers == 0
    pairs = [(u + i, d + i) for u, d, n in found.runs for i in range(n)]
    assert pairs == [(r.offset, at) for at, r in sorted(copies.target.items())]


@given(COUNTS, COUNTS, NUMBERS, NUMBERS, NUMBERS)
def test_nothing_is_skipped_and_all_that_is_found_is_where_it_is(
    total: int,
    copied: int,
    markers: frozenset[int],
    source: frozenset[int],
    target: frozenset[int],
) -> None:
    copies = Copied(range(total), min(copied, total), markers)
    whole = dict(copies.target)
    copies.lose(source, target)

    found = copies.compare()

    assert found.position().upstream <= UPSTREAM + copies.copied
    assert found.position().downstream == copies.end
    for upstream, downstream, count in found.runs:
        for i in range(count):
            assert whole[downstream + i].offset == upstream + i
    assert found.strangers == 0


@given(st.lists(st.integers(0, 2), max_size=25), COUNTS, NUMBERS)
def test_a_remote_log_that_was_compacted_makes_nothing_be_copied_twice(
    values: list[int], copied: int, target: frozenset[int]
) -> None:
    copies = Copied(values, min(copied, len(values)), frozenset())
    copies.lose(frozenset(), target)

    assert copies.compare().position().upstream >= UPSTREAM + copies.copied - len(target)
    unique = Copied(range(len(values)), copies.copied, frozenset())
    unique.lose(frozenset(), target)
    assert unique.compare().position() == Position(UPSTREAM + unique.copied, unique.end)


@given(st.integers(1, 20), st.integers(0, 20), st.integers(1, 20))
def test_a_source_that_lost_its_beginning_is_lost_only_as_far_as_it_was_not_copied(
    copied: int, gone: int, more: int
) -> None:
    copies = Copied(range(copied + more), copied, frozenset())
    first = UPSTREAM + min(gone, copied + more - 1)
    copies.source = [r for r in copies.source if r.offset >= first]
    found = Comparison(make_share(), copies.end)
    found.tail.append((DOWNSTREAM, TailBatch(1, 999, 0)))
    if first > UPSTREAM:
        found.skip_to(first)
    for record in copies.source:
        if not found.is_over:
            found.meet(a_batch(record), copies.read)

    assert found.position() == Position(UPSTREAM + copied, copies.end)
    known = first < UPSTREAM + copied or first == UPSTREAM
    assert (found.result()[-1][2] == UNKNOWN) is not known
    runs = RunMap()
    runs.add(UPSTREAM - 10, DOWNSTREAM - 10, 10)
    for upstream, downstream, count in found.result():
        if count == UNKNOWN:
            runs.detach(upstream, downstream)
        else:
            runs.add(upstream, downstream, count)
    for number in range(copied):
        at = runs.downstream_of(UPSTREAM + number)
        assert at is None or at == DOWNSTREAM + number, "what the source lost is not skipped"
        floor = runs.floor_of(UPSTREAM + number)
        assert floor is not None
        assert floor <= DOWNSTREAM + number


@given(st.lists(st.sampled_from("cx"), min_size=1, max_size=20))
def test_records_of_another_writer_are_told_and_make_nothing_be_skipped(order: list[str]) -> None:
    copies = Copied(range(order.count("c") + 3), 0, frozenset())
    theirs = RawRecord(0, 0, 0, encode_body(b"x", b"not of the source"))
    ours = iter(copies.source)
    copies.target = {
        DOWNSTREAM + i: next(ours) if kind == "c" else theirs for i, kind in enumerate(order)
    }
    copies.end = DOWNSTREAM + len(order)

    found = copies.compare()

    assert found.position() == Position(UPSTREAM + order.count("c"), copies.end)
    assert (found.strangers > 0) is ("x" in order)
