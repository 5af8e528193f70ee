from collections.abc import Callable

import pytest

from heliograph.policy.filters import NameFilter
from heliograph.policy.topic_configs import (
    DEFAULT_CONFIG,
    DYNAMIC_BROKER_CONFIG,
    DYNAMIC_DEFAULT_BROKER_CONFIG,
    STATIC_BROKER_CONFIG,
    TOPIC_CONFIG,
    ConfigChange,
    ConfigEntry,
    ResetConfig,
    SetConfig,
    creation_configs,
    plan_configs,
)

OWN = ConfigEntry("retention.ms", "60000", TOPIC_CONFIG)
DEFAULT = ConfigEntry("segment.bytes", "1073741824", DEFAULT_CONFIG)


def excluding(*patterns: str) -> Callable[[str], bool]:
    return NameFilter(patterns, ()).accepts


def plan(
    *upstream: ConfigEntry, target: tuple[ConfigEntry, ...] = (), defaults: str = "target"
) -> list[ConfigChange]:
    return plan_configs(upstream, target, excluding("min\\.insync\\.replicas"), defaults)


def made_with(*upstream: ConfigEntry, defaults: str = "target") -> dict[str, str]:
    return creation_configs(upstream, excluding("min\\.insync\\..*"), defaults)


def test_what_the_source_topic_has_set_is_set() -> None:
    assert plan(OWN) == [SetConfig("retention.ms", "60000")]


def test_a_value_that_the_remote_topic_has_is_not_set_again() -> None:
    assert plan(OWN, target=(OWN,)) == []


def test_another_value_on_the_remote_topic_is_overwritten() -> None:
    other = ConfigEntry("retention.ms", "1", TOPIC_CONFIG)

    assert plan(OWN, target=(other,)) == [SetConfig("retention.ms", "60000")]


@pytest.mark.parametrize(
    "source", [DYNAMIC_BROKER_CONFIG, DYNAMIC_DEFAULT_BROKER_CONFIG, STATIC_BROKER_CONFIG]
)
def test_a_value_that_only_the_target_brokers_have_is_set_on_the_topic(source: int) -> None:
    same_from_broker = ConfigEntry("retention.ms", "60000", source)

    assert plan(OWN, target=(same_from_broker,)) == [SetConfig("retention.ms", "60000")]


def test_a_default_of_the_source_resets_what_only_the_remote_topic_has() -> None:
    set_there = ConfigEntry("segment.bytes", "20000000", TOPIC_CONFIG)

    assert plan(DEFAULT, target=(set_there,)) == [ResetConfig("segment.bytes")]


def test_a_default_on_both_sides_needs_nothing_even_if_the_values_differ() -> None:
    assert plan(DEFAULT, target=(ConfigEntry("segment.bytes", "1", DEFAULT_CONFIG),)) == []
    assert plan(DEFAULT, target=(ConfigEntry("segment.bytes", "1", STATIC_BROKER_CONFIG),)) == []
    assert plan(DEFAULT) == []


def test_defaults_are_set_where_they_come_from_the_source() -> None:
    assert plan(DEFAULT, defaults="source") == [SetConfig("segment.bytes", "1073741824")]


@pytest.mark.parametrize("defaults", ["target", "Source", "nonsense", ""])
def test_only_the_exact_word_source_copies_defaults(defaults: str) -> None:
    assert plan(DEFAULT, defaults=defaults) == []
    assert made_with(DEFAULT, defaults=defaults) == {}


@pytest.mark.parametrize("source", [DYNAMIC_BROKER_CONFIG, DYNAMIC_DEFAULT_BROKER_CONFIG])
def test_a_default_given_to_running_source_brokers_is_copied(source: int) -> None:
    entry = ConfigEntry("retention.ms", "7", source)

    assert plan(entry) == [SetConfig("retention.ms", "7")]
    assert made_with(entry) == {"retention.ms": "7"}


@pytest.mark.parametrize("defaults", ["target", "source"])
@pytest.mark.parametrize(
    "entry",
    [
        ConfigEntry("min.insync.replicas", "2", TOPIC_CONFIG),
        ConfigEntry("min.insync.replicas", "1", DEFAULT_CONFIG),
        ConfigEntry("retention.ms", "5", STATIC_BROKER_CONFIG),
        ConfigEntry("retention.ms", "5", TOPIC_CONFIG, read_only=True),
        ConfigEntry("retention.ms", None, TOPIC_CONFIG, sensitive=True),
    ],
    ids=["excluded", "excluded-default", "static-broker", "read-only", "sensitive"],
)
def test_an_entry_that_is_never_taken_leaves_the_remote_topic_alone(
    entry: ConfigEntry, defaults: str
) -> None:
    there = ConfigEntry(entry.name, "9", TOPIC_CONFIG)

    assert plan(entry, target=(there,), defaults=defaults) == []
    assert made_with(entry, defaults=defaults) == {}


def test_a_setting_without_a_value_is_reset_and_never_sent_as_nothing() -> None:
    empty = ConfigEntry("retention.ms", None, DEFAULT_CONFIG)

    assert plan(empty, defaults="source") == []
    assert plan(empty, target=(OWN,), defaults="source") == [ResetConfig("retention.ms")]
    assert made_with(empty, defaults="source") == {}


def test_a_setting_that_the_source_does_not_know_stays_on_the_remote_topic() -> None:
    assert plan(OWN, target=(OWN, ConfigEntry("new.in.target", "1", TOPIC_CONFIG))) == []


def test_a_new_topic_gets_what_the_source_topic_has_set_and_no_defaults() -> None:
    assert made_with(OWN, DEFAULT) == {"retention.ms": "60000"}


def test_a_new_topic_gets_the_defaults_too_where_they_come_from_the_source() -> None:
    both = {"retention.ms": "60000", "segment.bytes": "1073741824"}

    assert made_with(OWN, DEFAULT, defaults="source") == both


def test_excludes_of_a_new_topic_are_regular_expressions() -> None:
    upstream = [
        ConfigEntry(name, "1", TOPIC_CONFIG)
        for name in ("leader.throttled", "follower.throttled", "unclean.leader", "cleanup.policy")
    ]

    made = creation_configs(upstream, excluding(".*\\.throttled", "unclean.*"), "target")

    assert made == {"cleanup.policy": "1"}
