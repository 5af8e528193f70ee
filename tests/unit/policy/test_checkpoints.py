import pytest

from heliograph.model import TopicPartition
from heliograph.policy.checkpoints import (
    downstream_topic,
    is_news,
    plan_commits,
    refusal_to_sync,
)
from heliograph.policy.naming import DefaultNaming, IdentityNaming, NamingPolicy
from heliograph.policy.sync_history import SyncHistory
from heliograph.wire.mirror_records import Checkpoint

DEFAULT = DefaultNaming()
P0, P1 = TopicPartition("A.t", 0), TopicPartition("A.t", 1)


def checkpoint(upstream: int, downstream: int, partition: TopicPartition = P0) -> Checkpoint:
    return Checkpoint("g", partition, upstream, downstream)


@pytest.mark.parametrize(
    ("naming", "topic", "expected"),
    [
        (DEFAULT, "topic3", "source1.topic3"),
        (DEFAULT, "target2.topic3", "topic3"),
        (DEFAULT, "source6.topic7", "source1.source6.topic7"),
        (DEFAULT, "target2.source6.topic7", "topic7"),
        (IdentityNaming("source1"), "topic3", "topic3"),
        (IdentityNaming("source1"), "target2.topic3", "target2.topic3"),
    ],
)
def test_a_group_that_read_what_came_from_the_target_reads_the_original_there(
    naming: NamingPolicy, topic: str, expected: str
) -> None:
    found = downstream_topic(topic, naming=naming, source_alias="source1", target_alias="target2")
    assert found == expected


@pytest.mark.parametrize(
    ("last", "new", "news"),
    [
        (None, checkpoint(10, 8), True),
        (checkpoint(10, 8), checkpoint(10, 8), False),
        (checkpoint(10, 8), checkpoint(12, 8), False),
        (checkpoint(10, 8), checkpoint(12, 10), True),
        (checkpoint(10, 8), checkpoint(10, 9), True),
        (checkpoint(10, 8), checkpoint(12, 7), False),
        (checkpoint(10, 8), checkpoint(9, 7), True),
        (checkpoint(10, 8), checkpoint(9, 8), True),
    ],
)
def test_a_checkpoint_goes_on_or_back_with_its_group(
    last: Checkpoint | None, new: Checkpoint, news: bool
) -> None:
    assert is_news(last, new) is news


def test_a_translation_that_got_worse_takes_no_group_back() -> None:
    history = SyncHistory()
    history.add(11, 4)
    history.add(12, 5)
    last = checkpoint(13, history.downstream_of(13) or -1)
    for upstream in range(13, 18):
        history.add(upstream, upstream - 7)
    assert (last.downstream, history.downstream_of(13)) == (6, 5)
    assert not is_news(last, checkpoint(13, 5))
    assert is_news(last, checkpoint(12, history.downstream_of(12) or -1))


def test_the_checkpoints_before_a_restart_hold_those_after_it() -> None:
    history = SyncHistory()
    for offset in (175, 275, 375, 475):
        history.add(offset, offset)
    last = checkpoint(250, 201)
    translated = {offset: history.downstream_of(offset) or -1 for offset in (250, 370, 400)}
    assert translated == {250: 176, 370: 176, 400: 376}
    assert [is_news(last, checkpoint(*pair)) for pair in translated.items()] == [False, False, True]


def test_a_group_is_committed_for_where_it_is_behind() -> None:
    wanted = [checkpoint(200, 101), checkpoint(100, 51, P1)]
    assert plan_commits(wanted, {P0: 100, P1: 50}) == wanted
    assert plan_commits(wanted, {P0: 101, P1: 50}) == wanted[1:]
    assert plan_commits(wanted, {P0: 101, P1: 99}) == []
    assert plan_commits(wanted, {P1: 51}) == wanted[:1]


def test_an_offset_that_was_taken_back_to_nothing_is_set() -> None:
    wanted = [checkpoint(200, 101), checkpoint(0, 0, P1)]
    assert plan_commits(wanted, {P0: -1, P1: -1}) == wanted


@pytest.mark.parametrize("state", ["", "Empty", "Dead"])
def test_a_group_that_nobody_uses_may_be_moved(state: str) -> None:
    assert refusal_to_sync(state) is None


@pytest.mark.parametrize(
    "state",
    ["Stable", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "Unknown"],
)
def test_a_group_in_use_is_left_alone_with_the_reason(state: str) -> None:
    assert refusal_to_sync(state) == f"it is in use on the target (state {state})"
