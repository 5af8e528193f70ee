"""What a plan judges, without a cluster."""

from collections.abc import Iterator

import pytest

from heliograph.model import Flow
from heliograph.plan.judgement import (
    Backlog,
    Loop,
    Origin,
    Place,
    count_backlog,
    explain_skip,
    find_clashes,
    find_loops,
    refusal_to_replicate,
)
from heliograph.policy.filters import NameFilter, Skip

A, B, C = "ABC"


def loops(start: Place, *flows: tuple[str, str]) -> list[Loop]:
    def follow(place: Place) -> Iterator[Place]:
        return (Place(target, place.topic) for source, target in flows if source == place.cluster)

    return find_loops([start], follow, longest=10)


def test_equal_names_in_both_directions_go_round() -> None:
    (loop,) = loops(Place(A, "t"), (A, B), (B, A))
    assert str(loop) == "A:t -> B:t -> A:t"
    assert loop.clusters == "A->B->A"


def test_a_longer_way_round_is_found_too() -> None:
    (loop,) = loops(Place(A, "t"), (A, B), (B, C), (C, A))
    assert loop.clusters == "A->B->C->A"


def test_a_loop_further_on_begins_where_it_closes() -> None:
    (loop,) = loops(Place(A, "t"), (A, B), (B, C), (C, B))
    assert loop.clusters == "B->C->B"


def test_two_ways_to_one_cluster_are_no_loop() -> None:
    assert loops(Place(A, "t"), (A, B), (B, C), (A, C)) == []


def test_a_naming_without_end_ends() -> None:
    def follow(place: Place) -> Iterator[Place]:
        yield Place(B if place.cluster == A else A, f"x.{place.topic}")

    assert find_loops([Place(A, "t")], follow, longest=8) == []


def test_two_sources_clash_in_one_name_and_not_in_two() -> None:
    copies = [
        (Origin(Flow(A, C), "t"), Place(C, "t")),
        (Origin(Flow(B, C), "t"), Place(C, "t")),
        (Origin(Flow(B, C), "u"), Place(C, "u")),
    ]
    (clash,) = find_clashes(copies)
    assert str(clash) == "A:t and B:t would both go to C:t"


@pytest.mark.parametrize(
    ("position", "first", "end", "size", "expected"),
    [
        (0, 0, 100, 5000, Backlog(100, 5000, is_estimate=False)),
        (50, 0, 100, 5000, Backlog(50, 2500, is_estimate=True)),
        (100, 0, 100, 5000, Backlog(0, 0, is_estimate=False)),
        (10, 40, 100, 600, Backlog(60, 600, is_estimate=False)),
        (0, 0, 100, None, Backlog(100, None, is_estimate=True)),
        (200, 0, 100, 5000, Backlog(0, 0, is_estimate=False)),
        (0, 7, 7, 90, Backlog(0, 0, is_estimate=False)),
    ],
)
def test_a_backlog_is_what_lies_before_the_end(
    position: int, first: int, end: int, size: int | None, expected: Backlog
) -> None:
    assert count_backlog(position, first, end, size) == expected


def test_a_skipped_topic_is_explained_by_its_pattern() -> None:
    names = NameFilter(["a.*"], ["ab.*"])
    assert explain_skip("abc", Skip.FILTERED, names) == "topics.exclude has ab.*"
    assert explain_skip("z", Skip.FILTERED, names) == "topics does not name it"
    assert explain_skip("B.abc", Skip.CYCLE, names) == "it came from the target"
    assert explain_skip("__x", Skip.INTERNAL, names) == "internal"


def test_more_replicas_than_brokers_are_refused() -> None:
    assert refusal_to_replicate(1, 1, "replication.factor", B) is None
    assert refusal_to_replicate(-1, 1, "replication.factor", B) is None
    told = refusal_to_replicate(3, 1, "replication.factor", B)
    assert told == "replication.factor=3, and B has 1 broker; set it to 1 or add brokers"
