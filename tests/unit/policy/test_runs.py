import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.model import TopicPartition
from heliograph.policy.runs import RunMap, read_run_maps
from heliograph.wire.run_records import (
    Run,
    Segment,
    decode_segment,
    encode_segment,
    encode_segment_key,
)

SOURCE = TopicPartition("orders", 0)

# Per step: how many upstream offsets hold nothing, how many markers the target has, how many records.
STEPS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(1, 5)), min_size=1, max_size=40
)


def build(steps: list[tuple[int, int, int]]) -> tuple[RunMap, list[tuple[int, int]]]:
    """Return a map and, to check it, every copied record as (upstream, downstream)."""
    runs = RunMap()
    runs.begin(3)
    pairs: list[tuple[int, int]] = []
    up, down = 7, 3
    for gap, markers, count in steps:
        up, down = up + gap, down + markers
        runs.add(up, down, count)
        pairs += [(up + i, down + i) for i in range(count)]
        up, down = up + count, down + count
    return runs, pairs


def saved(runs: RunMap, before: dict[int, bytes] | None = None) -> dict[int, bytes]:
    """Return the rows of a compacted topic after the map's changes were written to it."""
    rows = dict(before or {})
    for upstream, value in runs.take_changes().items():
        if value is None:
            rows.pop(upstream, None)
        else:
            rows[upstream] = value
    return rows


def expected(pairs: list[tuple[int, int]], offset: int) -> int:
    """Return where the first record at or after an upstream offset went."""
    return next((down for up, down in pairs if up >= offset), pairs[-1][1] + 1)


@given(STEPS)
def test_every_offset_translates_to_the_first_record_at_or_after_it(
    steps: list[tuple[int, int, int]],
) -> None:
    runs, pairs = build(steps)
    back = [(down, up) for up, down in pairs]
    for offset in range(pairs[-1][0] + 5):
        assert runs.downstream_of(offset) == expected(pairs, offset)
    for offset in range(3, pairs[-1][1] + 5):
        assert runs.upstream_of(offset) == expected(back, offset)


@given(
    st.lists(st.tuples(st.integers(-30, 300), st.integers(-30, 300), st.integers(0, 9)), max_size=9)
)
def test_many_runs_at_once_are_as_many_one_after_the_other(
    steps: list[tuple[int, int, int]],
) -> None:
    one, other = RunMap(), RunMap()
    told, up, down = [], 40, 40
    for gap, markers, count in [*steps, *[(1, 1, 2)] * 600, *steps]:
        up, down = max(up + gap, 0), max(down + markers, 0)
        told.append((up, down, count))
        up, down = up + count, down + count
    for runs in (one, other):
        runs.begin(3)
        runs.take_changes()
    for run in told:
        one.add(*run)
    other.extend(told)
    assert list(other.segments()) == list(one.segments())
    assert other.take_changes() == one.take_changes()


@given(STEPS, st.integers(0, 60))
def test_a_map_that_was_saved_and_loaded_again_says_the_same(
    steps: list[tuple[int, int, int]], at: int
) -> None:
    runs, pairs = build(steps)
    loaded = RunMap(saved(runs).items())
    assert loaded.downstream_of(at) == runs.downstream_of(at)
    assert loaded.take_changes() == {}
    loaded.add(pairs[-1][0] + 1, pairs[-1][1] + 1, 4)
    runs.add(pairs[-1][0] + 1, pairs[-1][1] + 1, 4)
    assert loaded.downstream_of(at) == runs.downstream_of(at)


@given(STEPS, st.integers(0, 60))
def test_records_that_come_again_replace_all_from_there_on(
    steps: list[tuple[int, int, int]], again: int
) -> None:
    runs, pairs = build(steps)
    rows = saved(runs)
    down = pairs[-1][1] + 9
    runs.add(again, down, 100)
    pairs = [pair for pair in pairs if pair[0] < again]
    pairs += [(again + i, down + i) for i in range(100)]
    reloaded = RunMap(saved(runs, rows).items())
    for offset in range(120):
        assert runs.downstream_of(offset) == expected(pairs, offset)
        assert reloaded.downstream_of(offset) == expected(pairs, offset)


def test_a_successor_that_meets_the_tail_again_changes_nothing() -> None:
    runs = RunMap()
    runs.begin(0)
    runs.add(0, 0, 100)
    runs.add(101, 100, 50)
    rows = saved(runs)
    runs.add(40, 40, 60)
    runs.add(101, 100, 50)
    assert saved(runs, rows) == rows


def test_thousands_of_runs_are_kept_in_segments() -> None:
    runs = RunMap()
    for i in range(5000):
        runs.add(i * 11, i * 10, 10)
    assert len(runs) == 10
    rows = saved(runs)
    assert len(rows) == 10
    assert sum(map(len, rows.values())) < 5000 * 5
    loaded = RunMap(rows.items())
    for i in (0, 1, 511, 512, 513, 4095, 4999):
        for m in (runs, loaded):
            assert m.downstream_of(i * 11 + 3) == i * 10 + 3
            assert m.downstream_of(i * 11 + 10) == i * 10 + 10
            assert m.upstream_of(i * 10 + 7) == i * 11 + 7


def test_pruning_forgets_whole_segments_below_the_log_start() -> None:
    runs = RunMap()
    for i in range(2000):
        runs.add(i * 11, i * 10, 10)
    rows = saved(runs)
    runs.prune(1100 * 11 + 5)
    assert runs.downstream_of(1100 * 11 + 5) == 1100 * 10 + 5
    # A group that stands there stays where its last checkpoint says: the target may hold it longer.
    assert runs.downstream_of(0) is None
    after = saved(runs, rows)
    assert sorted(after) == [1024 * 11, 1536 * 11]
    assert RunMap(after.items()).downstream_of(1100 * 11 + 5) == 1100 * 10 + 5


def test_nobody_knows_what_lies_before_a_detached_segment() -> None:
    runs = RunMap()
    runs.add(0, 0, 10)
    runs.detach(100, 80)
    runs.add(100, 81, 5)
    for m in (runs, RunMap(saved(runs).items())):
        assert m.downstream_of(5) == 5
        assert m.downstream_of(10) is None
        assert m.downstream_of(99) is None
        assert m.downstream_of(100) == 81
        assert m.upstream_of(85) == 104
        assert m.upstream_of(50) is None


@pytest.mark.parametrize("save", [True, False])
@pytest.mark.parametrize("before", [True, False])
def test_a_detached_segment_stays_so_when_its_runs_are_told_again(save: bool, before: bool) -> None:
    runs = RunMap()
    if before:
        runs.add(0, 0, 10)
    runs.detach(1000, 1200)
    runs.add(1000, 1201, 50)
    if save:
        runs = RunMap(saved(runs).items())
    runs.add(1000, 1201, 50)
    assert runs.downstream_of(500) is None
    assert runs.downstream_of(1010) == 1211
    # The source was truncated to before the place where somebody else stopped.
    runs.add(990, 1251, 5)
    assert runs.downstream_of(500) is None
    assert runs.downstream_of(992) == 1253
    assert runs.downstream_of(5) == (5 if before else None)


def test_nobody_knows_what_lies_before_the_first_run_unless_it_was_the_start() -> None:
    runs = RunMap()
    runs.add(1000, 1000, 10)
    assert runs.downstream_of(500) is None
    runs.begin(1010)
    assert runs.downstream_of(500) == 1010
    assert not runs.holds_records
    runs.add(700, 1011, 10)
    assert runs.downstream_of(500) == 1011
    assert runs.holds_records


def test_rows_are_saved_in_ascending_order() -> None:
    runs = RunMap()
    for i in range(5000):
        runs.add(i * 3, i, 1)
    changes = list(runs.take_changes())
    assert changes == sorted(changes)


def test_detaching_twice_at_one_place_is_detaching_once() -> None:
    runs = RunMap()
    runs.detach(100, 80)
    runs.detach(100, 90)
    assert len(runs) == 1
    assert runs.downstream_of(100) == 90


def test_an_empty_map_answers_nothing() -> None:
    assert RunMap().downstream_of(0) is None
    assert RunMap().upstream_of(0) is None


def test_a_cleared_map_deletes_all_its_rows() -> None:
    runs = RunMap()
    for i in range(1200):
        runs.add(i * 2, i, 1)
    rows = saved(runs)
    runs.clear()
    assert not runs
    assert saved(runs, rows) == {}


@given(st.lists(st.tuples(*[st.integers(0, 1 << 40)] * 3), min_size=1, max_size=20), st.booleans())
def test_segments_survive_their_encoding(gaps: list[tuple[int, int, int]], detached: bool) -> None:
    runs = []
    up = down = 0
    for a, b, length in gaps:
        runs.append(Run(up + a, down + b, length))
        up, down = up + a + length, down + b + length
    segment = Segment(tuple(runs), detached)
    assert decode_segment(runs[0].upstream, encode_segment(segment)) == segment


def row(upstream: int, *runs: Run) -> tuple[bytes, bytes | None]:
    return encode_segment_key(SOURCE, upstream), encode_segment(Segment(runs))


def test_runs_of_all_rows_make_one_map_each() -> None:
    rows = [
        row(100, Run(100, 90, 7)),
        row(0, Run(0, 0, 5)),
        row(0, Run(0, 0, 10), Run(12, 10, 3)),
        (b"foreign", b"bytes"),
        row(500, Run(500, 400, 1)),
        (encode_segment_key(SOURCE, 500), None),
    ]
    runs = read_run_maps(rows)[0][SOURCE]
    assert [runs.downstream_of(offset) for offset in (3, 11, 13, 101, 107)] == [3, 10, 11, 91, 97]
    assert [runs.upstream_of(offset) for offset in (3, 10, 91)] == [3, 12, 101]


def test_a_partition_with_a_broken_row_is_not_known_at_all() -> None:
    broken = encode_segment_key(SOURCE, 9), b"broken"
    assert read_run_maps([row(0, Run(0, 0, 5)), broken]) == ({}, {SOURCE: [0, 9]})


def test_a_partition_whose_rows_are_all_deleted_is_not_known() -> None:
    deleted = encode_segment_key(SOURCE, 0), None
    maps, broken = read_run_maps([row(0, Run(0, 0, 5)), deleted])
    assert not maps[SOURCE]
    assert not broken


@given(STEPS)
def test_a_map_that_is_turned_translates_every_record_the_other_way(
    steps: list[tuple[int, int, int]],
) -> None:
    runs, pairs = build(steps)
    turned = RunMap()
    turned.add(5, 5, 100)
    turned.turn(runs)
    for upstream, downstream in pairs:
        assert turned.downstream_of(downstream) == upstream
        assert turned.upstream_of(upstream) == downstream
    assert saved(turned, {5: b"old"}).get(5) != b"old"


def test_a_turned_map_knows_no_more_than_the_other_one() -> None:
    runs = RunMap()
    runs.begin(0)
    runs.add(0, 0, 10)
    runs.detach(50, 20)
    runs.add(50, 20, 5)
    turned = RunMap()
    turned.turn(runs)
    assert turned.downstream_of(9) == 9
    assert turned.downstream_of(15) is None
    assert turned.downstream_of(22) == 52
