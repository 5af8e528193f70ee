from heliograph.failover.moves import (
    NO_CHECKPOINT,
    GroupMove,
    Place,
    Stand,
    Step,
    Views,
    plan_moves,
)
from heliograph.model import TopicPartition

ORDERS = TopicPartition("orders", 0)
COPY = TopicPartition("A.orders", 0)


def move(
    offset: int = 40,
    place: Place | str = Place(COPY, 44),  # noqa: B008 - frozen
    views: Views = Views(),  # noqa: B008 - frozen
    missing: int | None = 0,
) -> GroupMove:
    (only,) = plan_moves({"g": [Stand(ORDERS, offset)]}, lambda *_: place, views, lambda _: missing)
    return only


def test_a_group_is_moved_to_where_its_offset_is_on_the_target() -> None:
    planned = move()
    assert planned.ready
    assert not planned.moved
    assert planned.steps == (Step(Stand(ORDERS, 40), Place(COPY, 44), None, 0),)


def test_a_group_that_is_at_or_beyond_its_place_is_there_already_and_is_not_taken_back() -> None:
    for committed in (44, 60):
        planned = move(views=Views(there={"g": {COPY: committed}}))
        assert planned.moved
        assert not planned.steps[0].moves


def test_a_group_that_is_behind_its_place_on_the_target_is_moved() -> None:
    assert move(views=Views(there={"g": {COPY: 43}})).steps[0].moves


def test_a_group_in_use_on_the_target_is_left_alone() -> None:
    planned = move(views=Views(target_states={"g": "Stable"}))
    assert not planned.ready
    assert planned.reason == "it is in use on the target (state Stable)"


def test_a_group_in_use_on_the_source_is_told() -> None:
    assert move(views=Views(source_states={"g": "Stable"})).in_use
    assert not move(views=Views(source_states={"g": "Empty"})).in_use


def test_a_partition_that_cannot_be_translated_blocks_its_group_and_says_why() -> None:
    planned = move(place="nobody knows")
    assert not planned.ready
    assert [step.reason for step in planned.blocked] == ["nobody knows"]


def test_a_group_without_any_partition_is_not_ready() -> None:
    (planned,) = plan_moves({"g": []}, lambda *_: "", Views(), lambda _: 0)
    assert (planned.ready, planned.reason) == (False, NO_CHECKPOINT)


def test_what_is_missing_is_not_known_if_it_is_not_known_of_one_partition() -> None:
    other = TopicPartition("orders", 1)
    counts = {ORDERS: 3, other: None}
    (planned,) = plan_moves(
        {"g": [Stand(ORDERS, 1), Stand(other, 1)]},
        lambda _, stand: Place(stand.partition, 1),
        Views(),
        lambda stand: counts[stand.partition],
    )
    assert planned.missing is None
    assert move(missing=3).missing == 3


def test_a_place_that_a_mirrormaker_gave_is_only_roughly_right() -> None:
    assert move(place=Place(COPY, 40, exact=False)).roughly
