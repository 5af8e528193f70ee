from hypothesis import given
from hypothesis import strategies as st

from heliograph.policy.topics import CreateTopic, GrowTopic, own_counts, plan_topics

counts = st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 20))


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


def test_what_is_on_the_target_alone_is_left_alone() -> None:
    assert plan_topics({}, {"A.t": 3}) == []
    assert plan_topics({"A.t": 3}, {"A.t": 3, "A.other": 1}) == []
    assert plan_topics({"A.t": 4}, {"A.t": 3, "A.other": 1}) == [GrowTopic("A.t", 4)]


def test_a_topic_is_planned_again_until_it_is_there() -> None:
    for _ in range(3):
        assert plan_topics({"A.t": 1}, {}) == [CreateTopic("A.t", 1)]
    assert plan_topics({"A.t": 1}, {"A.t": 1}) == []
