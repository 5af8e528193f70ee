import pytest

from heliograph.model import TopicPartition
from heliograph.policy.checkpoints import (
    downstream_topic,
    is_news,
    plan_commits,
    refusal_to_sync,
)
from heliograph.policy.naming import DefaultNaming, IdentityNaming, NamingPolicy
from heliograph.wire.mirror_records import Checkpoint

PARTITION = TopicPartition("A.t", 0)


def checkpoint(upstream: int, downstream: int, partition: TopicPartition = PARTITION) -> Checkpoint:
    return Checkpoint("g", partition, upstream, downstream)


@pytest.mark.parametrize(
    ("topic", "renamed"),
    [
        ("topic3", "source1.topic3"),
        ("target2.topic3", "topic3"),
        ("source6.topic7", "source1.source6.topic7"),
    ],
)
def test_topics_are_called_as_on_the_target_and_those_that_came_from_there_by_their_own_name(
    topic: str, renamed: str
) -> None:
    found = downstream_topic(
        topic, naming=DefaultNaming(), source_alias="source1", target_alias="target2"
    )
    assert found == renamed


def test_identity_naming_keeps_names() -> None:
    naming: NamingPolicy = IdentityNaming("A")
    assert downstream_topic("t", naming=naming, source_alias="A", target_alias="B") == "t"


@pytest.mark.parametrize(
    ("last", "new", "news"),
    [
        (None, (5, 5), True),
        ((5, 5), (6, 6), True),
        ((5, 5), (5, 5), False),
        ((5, 5), (6, 5), False),
        ((5, 5), (6, 4), False),
        ((5, 5), (3, 3), True),
        ((5, 5), (4, 5), True),
        ((5, 5), (5, 9), True),
    ],
)
def test_a_checkpoint_is_news_if_it_goes_on_or_the_group_went_back(
    last: tuple[int, int] | None, new: tuple[int, int], news: bool
) -> None:
    assert is_news(checkpoint(*last) if last else None, checkpoint(*new)) is news


def test_a_group_on_the_target_is_only_moved_on() -> None:
    partitions = [TopicPartition("A.t", n) for n in range(4)]
    wanted = [checkpoint(10, 10, partition) for partition in partitions]
    committed = {partitions[0]: 9, partitions[1]: 10, partitions[2]: 11}
    assert [c.partition.index for c in plan_commits(wanted, committed)] == [0, 3]


def test_an_entry_without_an_offset_counts_as_none() -> None:
    assert plan_commits([checkpoint(0, 0)], {PARTITION: -1}) == [checkpoint(0, 0)]


@pytest.mark.parametrize("state", ["", "Empty", "Dead"])
def test_a_group_that_nobody_uses_may_be_moved(state: str) -> None:
    assert refusal_to_sync(state) is None


@pytest.mark.parametrize("state", ["Stable", "PreparingRebalance", "Assigning", "Unknown", "new!"])
def test_any_other_state_is_a_reason_to_leave_a_group_alone(state: str) -> None:
    assert state in (refusal_to_sync(state) or "")
