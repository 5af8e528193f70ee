import pickle
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.client.places import (
    Entered,
    How,
    Left,
    Place,
    Plan,
    Stream,
    plan_move,
    refuse_same_names,
    select_further,
)
from heliograph.errors import ConfigError, NotTranslated
from heliograph.model import TopicPartition
from heliograph.policy.naming import DefaultNaming, IdentityNaming
from heliograph.policy.runs import RunMap

NAMING = DefaultNaming()
ORDERS = Stream("A", "orders")


def at(topic: str, index: int = 0) -> TopicPartition:
    return TopicPartition(topic, index)


def some_runs() -> RunMap:
    """100 records, a marker at the source, 50 more; the target has a marker before all of them."""
    runs = RunMap()
    runs.begin(1)
    runs.add(0, 1, 100)
    runs.add(101, 101, 50)
    return runs


def to_b(was_at: int | None = None, **changes: object) -> Plan:
    """Plan a move from A to B, of a group that `was_at` an offset, with more facts about B."""
    left = Left("A", {} if was_at is None else {at("orders"): was_at}, {"orders": 1})
    entered = Entered("B", {at("A.orders"): 0}, {at("A.orders"): 151})
    facts = {"runs": {at("orders"): some_runs()}, **changes}
    return plan_move([ORDERS], left, replace(entered, **facts), NAMING)  # type: ignore[arg-type]


def place(plan: Plan, topic: str = "A.orders", index: int = 0) -> Place:
    return plan.places[at(topic, index)]


@pytest.mark.parametrize(("committed", "offset"), [(0, 1), (99, 100), (100, 101), (101, 101)])
def test_a_group_goes_on_at_the_very_next_record(committed: int, offset: int) -> None:
    assert place(to_b(committed)) == Place(offset, How.EXACT)


def test_a_group_comes_back_to_the_very_next_record() -> None:
    left = Left("B", {at("A.orders"): 101}, {"A.orders": 1}, {at("orders"): some_runs()})
    entered = Entered("A", {at("orders"): 0}, {at("orders"): 151})
    assert place(plan_move([ORDERS], left, entered, NAMING), "orders") == Place(101, How.EXACT)


def test_what_is_written_on_the_other_cluster_is_followed_the_other_way_round() -> None:
    stream = Stream("B", "orders")
    left = Left("A", {at("B.orders"): 101}, {"B.orders": 1}, {at("orders"): some_runs()})
    entered = Entered("B", {at("orders"): 0}, {at("orders"): 151})
    assert place(plan_move([stream], left, entered, NAMING), "orders") == Place(101, How.EXACT)
    back = Left("B", {at("orders"): 101}, {"orders": 1})
    home = Entered("A", {at("B.orders"): 0}, {at("B.orders"): 151}, runs=left.runs)
    assert place(plan_move([stream], back, home, NAMING), "B.orders") == Place(101, How.EXACT)


def test_what_never_left_the_source_is_ahead_and_not_repeated() -> None:
    plan = to_b(160)
    assert place(plan) == Place(151, How.EXACT, repeats=0, ahead=9)
    assert plan.ahead == 9
    assert not plan.may_improve(is_alive=False)


def test_what_is_not_copied_yet_is_waited_for_while_the_source_lives() -> None:
    assert to_b(160).may_improve(is_alive=True)
    assert not to_b(151).may_improve(is_alive=True)


def test_a_map_that_is_behind_what_was_copied_is_worth_waiting_for() -> None:
    plan = to_b(160, ends={at("A.orders"): 155})
    assert place(plan) == Place(151, How.EXACT, repeats=4, ahead=9)
    assert plan.repeats == 4
    assert plan.may_improve(is_alive=False)


def test_a_map_on_a_dead_cluster_is_not_waited_for() -> None:
    left = Left("B", {at("A.orders"): 160}, {}, {at("orders"): some_runs()})
    entered = Entered("A", {at("orders"): 0}, {at("orders"): 200})
    plan = plan_move([ORDERS], left, entered, NAMING)
    assert place(plan, "orders") == Place(151, How.EXACT, repeats=9)
    assert plan.may_improve(is_alive=True)
    assert not plan.may_improve(is_alive=False)


def test_a_group_that_was_not_seen_goes_on_at_its_checkpoint() -> None:
    plan = to_b(checkpoints={at("A.orders"): 90})
    assert place(plan) == Place(90, How.CHECKPOINT, repeats=61)
    assert plan.commits == {at("A.orders"): 90}


def test_what_was_seen_counts_more_than_the_checkpoint() -> None:
    assert place(to_b(120, checkpoints={at("A.orders"): 90})).offset == 120


def test_a_group_is_never_taken_back() -> None:
    plan = to_b(50, committed={at("A.orders"): 70})
    assert place(plan) == Place(70, How.THERE)
    assert plan.commits == {}


def test_what_cannot_be_translated_has_no_place() -> None:
    assert to_b(5, runs={}).unknown == (
        "A.orders-0: no run map and no checkpoint tells where its records are",
    )
    assert to_b(5, ends={}).unknown == ("there is no topic A.orders",)
    assert to_b(150, ends={at("A.orders"): 20}).unknown == (
        "A.orders-0: it has fewer records than it had when it was copied",
    )


def test_what_the_group_has_never_read_is_told_apart() -> None:
    never = ("A.orders-0: the group has committed nothing and has no checkpoint",)
    for plan in (to_b(), to_b(runs={})):
        assert (plan.unknown, plan.unread) == ((), never)
    assert to_b(ends={}).unread == ("there is no topic A.orders",)


def test_a_cluster_that_never_told_leaves_nothing_that_was_never_read() -> None:
    left = Left("A", is_known=False)
    entered = Entered("B", {at("A.orders"): 0}, {at("A.orders"): 151})
    for its in (entered, replace(entered, starts={}, ends={})):
        plan = plan_move([ORDERS], left, its, NAMING)
        assert (len(plan.unknown), plan.unread) == (1, ())


@pytest.mark.parametrize(
    ("home", "there", "facts", "further"),
    [
        (50, 71, {}, True),  # it went on there
        (70, 71, {}, False),  # it came back
        (90, 71, {}, False),
        (160, 151, {}, False),  # home is beyond what was copied
        (160, 155, {"ends": {at("A.orders"): 160}}, False),  # which may be what the map lacks
        (160, 161, {"ends": {at("A.orders"): 161}}, True),
        (None, 71, {}, True),  # it was never at home
        (None, 0, {}, False),
        (50, 71, {"runs": {}}, False),  # nobody knows
        (50, 71, {"runs": {}, "checkpoints": {at("A.orders"): 60}}, True),
        (50, 60, {"runs": {}, "checkpoints": {at("A.orders"): 60}}, False),
        (120, 15, {"ends": {at("A.orders"): 20}}, False),  # the copy was made anew
        (50, None, {}, False),
    ],
)
def test_a_group_has_read_more_where_its_commits_are_beyond_those_of_the_other_cluster(
    home: int | None, there: int | None, facts: dict[str, Any], further: bool
) -> None:
    left = Left("A", {} if home is None else {at("orders"): home}, {"orders": 1})
    entered = Entered("B", {at("A.orders"): 0}, {at("A.orders"): 151})
    committed = {} if there is None else {at("A.orders"): there}
    known = {"runs": {at("orders"): some_runs()}, "committed": committed, **facts}
    found = select_further([ORDERS], left, replace(entered, **known), NAMING)
    assert found == ([at("A.orders")] if further else [])


def test_a_partition_that_only_the_other_cluster_has_does_not_keep_a_group_there() -> None:
    more = {at("A.orders", index): 20 for index in range(3)}
    entered = Entered("B", dict.fromkeys(more, 0), more, more, runs={at("orders"): some_runs()})
    left = Left("A", {at("orders"): 20}, {"orders": 1})
    assert select_further([ORDERS], left, entered, NAMING) == []
    unmapped = replace(entered, runs={})
    assert select_further([ORDERS], left, unmapped, NAMING) == []
    assert len(select_further([ORDERS], Left("A"), unmapped, NAMING)) == 3


def test_a_topic_of_the_other_cluster_is_compared_the_other_way_round() -> None:
    stream = Stream("B", "orders")
    left = Left("A", {at("B.orders"): 50}, {"B.orders": 1}, {at("orders"): some_runs()})
    entered = Entered("B", {at("orders"): 0}, {at("orders"): 151})
    for there, further in ((49, False), (60, True)):
        its = replace(entered, committed={at("orders"): there})
        assert bool(select_further([stream], left, its, NAMING)) is further


def test_what_cannot_be_translated_goes_on_where_the_group_was_there_if_it_was() -> None:
    assert place(to_b(5, runs={}, committed={at("A.orders"): 3})) == Place(3, How.THERE, 148)
    assert place(to_b(runs={}, committed={at("A.orders"): 3})) == Place(3, How.THERE)


def test_a_partition_that_only_the_other_cluster_has_is_read_from_its_beginning() -> None:
    more = {at("A.orders", index): 20 for index in range(3)}
    plan = to_b(20, ends={**more, at("A.orders"): 151}, starts=dict.fromkeys(more, 4))
    assert plan.unknown == ()
    assert place(plan, index=2) == Place(4, How.BEGINNING)


def test_where_keys_place_records_no_partition_counts_as_one_that_nothing_was_copied_to() -> None:
    more = {at("A.orders", index): 20 for index in range(3)}
    starts = dict.fromkeys(more, 4)
    assert len(to_b(20, ends=more, starts=starts, runs={}).unknown) == 3
    assert len(to_b(20, ends=more, starts=more, runs={}).unread) == 2


def test_partitions_that_the_other_cluster_lacks_are_named() -> None:
    left = Left("A", {at("orders"): 1}, {"orders": 3})
    entered = Entered(
        "B", {at("A.orders"): 0}, {at("A.orders"): 151}, runs={at("orders"): some_runs()}
    )
    plan = plan_move([ORDERS], left, entered, NAMING)
    assert plan.absent == (at("orders", 1), at("orders", 2))


def test_names_may_stay_as_they_are() -> None:
    left = Left("A", {at("orders"): 101}, {"orders": 1})
    entered = Entered("B", {at("orders"): 0}, {at("orders"): 151}, runs={at("orders"): some_runs()})
    plan = plan_move([ORDERS], left, entered, IdentityNaming("A"))
    assert place(plan, "orders").offset == 101


def test_two_topics_of_one_name_are_refused() -> None:
    streams = [ORDERS, Stream("B", "orders")]
    refuse_same_names(streams, ["A", "B"], NAMING)
    with pytest.raises(ConfigError, match="same topic on A"):
        refuse_same_names(streams, ["A", "B"], IdentityNaming("A"))


def test_the_error_tells_some_reasons_and_pickles() -> None:
    error = NotTranslated("billing", "B", tuple(f"t-{index}: why" for index in range(5)))
    assert "billing: cannot tell where to go on on B (t-0: why; " in str(error)
    assert "and 2 more" in str(error)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


STEPS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(1, 5)), min_size=1, max_size=30
)


@given(STEPS, st.data())
def test_nothing_is_passed_over_and_nothing_repeated_there_and_back(
    steps: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    runs = RunMap()
    runs.begin(0)
    pairs, up, down = [], 0, 0
    for gap, markers, count in steps:
        up, down = up + gap, down + markers
        runs.add(up, down, count)
        pairs += [(up + i, down + i) for i in range(count)]
        up, down = up + count, down + count
    committed = data.draw(st.integers(0, up))
    left = Left("A", {at("orders"): committed}, {"orders": 1})
    entered = Entered("B", {at("A.orders"): 0}, {at("A.orders"): down}, runs={at("orders"): runs})
    there = place(plan_move([ORDERS], left, entered, NAMING))
    assert [u for u, d in pairs if d >= there.offset] == [u for u, _ in pairs if u >= committed]
    assert there.repeats == 0
    away = Left("B", {at("A.orders"): there.offset}, {}, {at("orders"): runs})
    home = Entered("A", {at("orders"): 0}, {at("orders"): up})
    back = place(plan_move([ORDERS], away, home, NAMING), "orders")
    assert [u for u, _ in pairs if u >= back.offset] == [u for u, _ in pairs if u >= committed]
    assert back.repeats == 0
