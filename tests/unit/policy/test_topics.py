from itertools import chain

from hypothesis import given
from hypothesis import strategies as st

from heliograph.model import TopicPartition
from heliograph.policy.topics import CreateTopic, GrowTopic, own_counts, plan_slices, plan_topics

counts = st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 20))
partitions = st.sets(st.builds(TopicPartition, st.sampled_from("abc"), st.integers(0, 9)))
tasks = st.integers(1, 8)

Slices = list[tuple[TopicPartition, ...]]


def sets(slices: Slices) -> list[frozenset[TopicPartition]]:
    return [frozenset(held) for held in slices]


def staying(before: Slices, after: Slices) -> int:
    return sum(len(set(old) & set(new)) for old, new in zip(before, after, strict=False))


def test_missing_topics_are_made_and_small_ones_grow() -> None:
    plan = plan_topics(
        {"new": 3, "small": 4, "same": 2, "large": 1}, {"small": 2, "same": 2, "large": 9}
    )
    assert plan == [CreateTopic("new", 3), GrowTopic("small", 4)]


@given(counts, counts, st.just("target") | st.integers(1, 9))
def test_a_topic_that_keeps_its_own_count_never_grows(
    wanted: dict[str, int], existing: dict[str, int], choice: str | int
) -> None:
    plan = plan_topics(own_counts(wanted, existing, choice), existing)

    expected = {
        t: choice if isinstance(choice, int) else wanted[t] for t in wanted.keys() - existing
    }
    assert plan == [CreateTopic(topic, count) for topic, count in sorted(expected.items())]


@given(counts, counts)
def test_after_the_plan_everything_wanted_exists(
    wanted: dict[str, int], existing: dict[str, int]
) -> None:
    after = existing | {step.topic: step.partitions for step in plan_topics(wanted, existing)}
    assert all(after[topic] >= count for topic, count in wanted.items())
    assert all(after[topic] >= count for topic, count in existing.items())
    assert plan_topics(wanted, after) == []


@given(
    partitions,
    st.integers(-1, 8),
    st.lists(
        st.frozensets(st.builds(TopicPartition, st.sampled_from("abc"), st.integers(0, 9))),
        max_size=8,
    ),
)
def test_every_partition_is_in_one_of_even_slices(
    wanted: set[TopicPartition], at_most: int, previous: list[frozenset[TopicPartition]]
) -> None:
    slices = plan_slices(wanted, at_most, previous)
    if at_most < 1:
        assert slices == []
        return
    assert len(slices) == min(at_most, len(wanted))
    assert sorted(chain(*slices)) == sorted(wanted)
    sizes = [len(held) for held in slices]
    assert not sizes or (max(sizes) - min(sizes) <= 1 and min(sizes) >= 1)


@given(partitions, tasks)
def test_nothing_moves_while_nothing_changes(wanted: set[TopicPartition], at_most: int) -> None:
    slices = plan_slices(wanted, at_most)
    assert plan_slices(wanted, at_most, sets(slices)) == slices


@given(partitions, partitions, tasks)
def test_new_partitions_move_no_old_one(
    old: set[TopicPartition], new: set[TopicPartition], at_most: int
) -> None:
    before = plan_slices(old, at_most)
    after = plan_slices(old | new, at_most, sets(before))
    # Fewer partitions than tasks: more slices appear, and each old partition is alone in its own.
    assert staying(before, after) == len(old)


@given(partitions, st.data(), tasks)
def test_few_move_when_partitions_go(
    old: set[TopicPartition], data: st.DataObject, at_most: int
) -> None:
    gone = data.draw(st.sets(st.sampled_from(sorted(old)))) if old else set()
    before = plan_slices(old, at_most)
    after = plan_slices(old - gone, at_most, sets(before))
    kept = [len(set(held) - gone) for held in before][: len(after)]
    fair = (len(old) - len(gone)) / len(after) if after else 0
    surplus = sum(max(0, size - int(fair)) for size in kept)
    assert staying(before, after) >= sum(kept) - surplus


def test_a_topic_is_spread_over_the_slices() -> None:
    slices = plan_slices([TopicPartition("t", index) for index in range(6)], 3)
    assert [[partition.index for partition in held] for held in slices] == [[0, 3], [1, 4], [2, 5]]


def test_what_is_on_the_target_alone_is_left_alone() -> None:
    assert plan_topics({}, {"A.t": 3}) == []
    assert plan_topics({"A.t": 3}, {"A.t": 3, "A.other": 1}) == []
    assert plan_topics({"A.t": 4}, {"A.t": 3, "A.other": 1}) == [GrowTopic("A.t", 4)]


def test_a_topic_is_planned_again_until_it_is_there() -> None:
    for _ in range(3):
        assert plan_topics({"A.t": 1}, {}) == [CreateTopic("A.t", 1)]
    assert plan_topics({"A.t": 1}, {"A.t": 1}) == []
