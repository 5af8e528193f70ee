import contextlib
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.errors import ConfigError
from heliograph.policy.filters import NameFilter, Skip, is_cycle, reason_to_skip
from heliograph.policy.naming import DefaultNaming, IdentityNaming, NamingPolicy

DEFAULT = DefaultNaming()
IDENTITY = IdentityNaming("source")
DEFAULT_EXCLUDE = (r"mm2.*\.internal", r".*\.replica", "__.*")


def taken(
    topic: str,
    *,
    include: tuple[str, ...] = (".*",),
    exclude: tuple[str, ...] = DEFAULT_EXCLUDE,
    naming: NamingPolicy = DEFAULT,
    heartbeats: bool = True,
) -> bool:
    return skipped(topic, include, exclude, naming, heartbeats) is None


def skipped(
    topic: str,
    include: tuple[str, ...] = (".*",),
    exclude: tuple[str, ...] = DEFAULT_EXCLUDE,
    naming: NamingPolicy = DEFAULT,
    heartbeats: bool = True,
) -> Skip | None:
    return reason_to_skip(
        topic,
        accepts=NameFilter(include, exclude).accepts,
        naming=naming,
        target_alias="target",
        heartbeats=heartbeats,
    )


def test_a_name_must_match_as_a_whole() -> None:
    names = NameFilter(["foo", "bar.*"], [])
    assert names.accepts("foo")
    assert names.accepts("bartender")
    assert not names.accepts("foot")
    assert not names.accepts("a bar")


def test_exclude_beats_include() -> None:
    names = NameFilter([".*"], ["foo", "x.*"])
    assert names.accepts("bar")
    assert not names.accepts("foo")
    assert not names.accepts("xyz")


@given(st.text(max_size=10))
def test_an_empty_list_matches_nothing(name: str) -> None:
    assert not NameFilter([], []).accepts(name)
    assert not NameFilter([], [".*"]).accepts(name)


@given(st.text("ab.|*+\\-", min_size=1, max_size=10))
def test_a_quoted_name_matches_itself_alone(name: str) -> None:
    names = NameFilter([f"\\Q{name}\\E"], [])
    assert names.accepts(name) or "\\E" in name
    assert not names.accepts(name + "x")


@pytest.mark.parametrize(
    ("patterns", "matching", "other"),
    [
        (["a", "(?i)b"], "B", "A"),
        (["(?i)a", "b"], "B", "c"),
        (["((?i)a)b"], "Ab", "AB"),
        (["(?<x>a+)b"], "aab", "b"),
        (["(?<!z)a", "b"], "a", "za"),
        ([r"\p{Alpha}+"], "abcZ", "ab1"),
        ([r"[\p{Digit}x]+"], "1x2", "y"),
        ([r"\P{Upper}"], "a", "A"),
        ([r"\d+"], "12", "\N{ARABIC-INDIC DIGIT ONE}"),
        (["[^a|~b]+"], "cd", "c|d"),
        ([r"[\[\]]"], "]", "x"),
        (["a(b", "c)d"], "acd", "ab"),
        (["a", ""], "", "b"),
        ([r"a\.b"], "a.b", "axb"),
        ([r"ab\z"], "ab", "abc"),
        (["a++b"], "aab", "a"),
        (["a{1", "3}"], "a{1", "aa"),
    ],
)
def test_patterns_mean_what_they_mean_in_java(
    patterns: list[str], matching: str, other: str
) -> None:
    names = NameFilter(patterns, [])
    assert names.accepts(matching)
    assert not names.accepts(other)


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        "*",
        "[a&&[b]]",
        "[a[b]]",
        r"\p{IsGreek}",
        r"[\P{Upper}]",
        r"\p{L}",
        "a)",
        "[a--b]",
        "[]a]",
        "[^]a]",
        "a{99999999999}",
    ],
)
def test_a_pattern_that_cannot_be_used_is_a_mistake_in_the_configuration(pattern: str) -> None:
    with pytest.raises(ConfigError, match="cannot be used"):
        NameFilter(["ok", pattern], [])


@given(st.text("ab()[]{}?*+|\\QEpPi<>:=!^$&-~", max_size=12))
def test_any_pattern_is_used_or_refused(pattern: str) -> None:
    with contextlib.suppress(ConfigError):
        NameFilter([pattern], []).accepts("aab")


def test_filters_pickle() -> None:
    names = pickle.loads(pickle.dumps(NameFilter(["a.*"], ["ab"])))
    assert (names.accepts("a"), names.accepts("ab")) == (True, False)


@pytest.mark.parametrize(
    ("topic", "expected"),
    [
        ("orders", True),
        ("other.orders", True),
        ("orders.internal", True),
        ("_schemas", True),
        ("orders.replica", False),
        ("__consumer_offsets", False),
        ("target.orders", False),
        ("source.target.orders", False),
        ("x.target.y", False),
        ("targets.orders", True),
        ("heartbeats", True),
        ("source.heartbeats", True),
        ("target.heartbeats", False),
        ("A.checkpoints.internal", False),
    ],
)
def test_topics_are_chosen_as_by_default(topic: str, expected: bool) -> None:
    assert taken(topic) is expected


def test_internal_topics_are_not_copied_even_if_named() -> None:
    for topic in ("__x", ".x", "mm2-offset-syncs.B.internal"):
        assert not taken(topic, include=("__x", r"\.x", "mm2.*"), exclude=())


def test_heartbeats_come_past_the_filter_unless_switched_off() -> None:
    assert taken("heartbeats", include=("orders",))
    assert taken("us.heartbeats", include=("orders",))
    assert not taken("heartbeats", include=("orders",), heartbeats=False)
    assert taken("heartbeats", heartbeats=False)
    assert not taken("mine", include=("orders",))


def test_identity_sees_a_cycle_in_heartbeats_only() -> None:
    assert taken("target.orders", naming=IDENTITY)
    assert not taken("target.heartbeats", naming=IDENTITY)
    assert not taken("backup.target.heartbeats", naming=IDENTITY)
    assert taken("backup.heartbeats", naming=IDENTITY)


@given(st.text("ab.", max_size=12), st.sampled_from(["a", "b", "ab", ""]))
def test_a_topic_that_was_on_the_target_is_a_cycle(topic: str, target: str) -> None:
    assert is_cycle(f"x.{target}.{topic}q", naming=DEFAULT, target_alias=target)


def test_under_another_separator_a_dotted_name_is_no_heartbeat() -> None:
    underscore = DefaultNaming(separator="_")
    assert taken("us-west_heartbeats", include=("orders",), naming=underscore)
    assert not taken("us-west.heartbeats", include=("orders",), naming=underscore)


class Forgetful(DefaultNaming):
    """A naming of a user's that knows where a topic is from, and not what it was called there."""

    def topic_source(self, topic: str) -> str | None:
        return "source" if topic else None

    def upstream_topic(self, topic: str) -> str | None:
        return topic[:0] or None


def test_a_naming_without_upstream_names_shows_no_cycle() -> None:
    assert not is_cycle("any", naming=Forgetful(), target_alias="target")
    assert is_cycle("any", naming=Forgetful(), target_alias="source")


def test_the_reason_why_a_topic_is_left_out_is_told() -> None:
    assert skipped("__consumer_offsets") is Skip.INTERNAL
    assert skipped("target.orders") is Skip.CYCLE
    assert skipped("orders.replica") is Skip.FILTERED
    assert skipped("orders", include=("payments",)) is Skip.FILTERED
    assert skipped("orders") is None


def test_the_pattern_that_leaves_a_name_out_is_named() -> None:
    names = NameFilter([".*"], ["a.*", r"b\d", "(c|", "d)"])
    assert names.excluded_by("apple") == "a.*"
    assert names.excluded_by("b7") == r"b\d"
    assert names.excluded_by("pear") is None


def test_a_pattern_that_several_items_make_up_is_named_whole() -> None:
    assert NameFilter([".*"], ["x(c", "d)y"]).excluded_by("x" + "c") is None
    assert NameFilter([".*"], ["x(c", "d)y"]).excluded_by("xcy") == "x(c,d)y"
