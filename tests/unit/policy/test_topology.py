"""MirrorMaker's own cases for its client, and ours beside them."""

import pytest

from heliograph.policy.naming import DefaultNaming, IdentityNaming
from heliograph.policy.topology import (
    UNREACHABLE,
    count_hops,
    count_replication_hops,
    find_upstream_clusters,
    select_checkpoints,
    select_heartbeats,
    select_remote,
    sources_of,
)

DEFAULT = DefaultNaming()
IDENTITY = IdentityNaming("A")


@pytest.mark.parametrize(
    ("topic", "beats"),
    [
        ("heartbeats", True),
        ("s1.heartbeats", True),
        ("s2.s1.heartbeats", True),
        ("heartbeats!", False),
        ("!heartbeats", False),
        ("s1heartbeats", False),
        ("s1-heartbeats", False),
    ],
)
def test_heartbeats_are_known_by_their_name(topic: str, beats: bool) -> None:
    assert select_heartbeats([topic], DEFAULT) == ({topic} if beats else set())


@pytest.mark.parametrize(
    ("topic", "checkpoints"),
    [
        ("s1.checkpoints.internal", True),
        ("s-2.checkpoints.internal", True),
        ("checkpoints.internal", False),
        ("checkpoints-internal", False),
        ("s1.checkpoints-internal", False),
        ("s1.checkpoints.internal!", False),
        ("s1-checkpoints-internal", False),
    ],
)
def test_checkpoints_are_known_by_their_name(topic: str, checkpoints: bool) -> None:
    assert select_checkpoints([topic], DEFAULT) == ({topic} if checkpoints else set())


@pytest.mark.parametrize(
    ("topic", "alias", "hops"),
    [
        ("topic", "s1", UNREACHABLE),
        ("s1", "s1", UNREACHABLE),
        ("s1topic", "s1", UNREACHABLE),
        ("s1.topic", "s1", 1),
        ("s1.topic", "s2", UNREACHABLE),
        ("s2.s1.topic", "s2", 1),
        ("s2.s1.topic", "s1", 2),
        ("s3.s2.s1.topic", "s1", 3),
        ("s3.s2.s1.topic", "s4", UNREACHABLE),
        ("s1.s2.s1.topic", "s3", UNREACHABLE),
    ],
)
def test_hops_are_counted_from_the_name(topic: str, alias: str, hops: int) -> None:
    assert count_hops(topic, alias, DEFAULT) == hops


def test_a_naming_that_keeps_names_has_one_hop_and_ends() -> None:
    assert sources_of("topic", IDENTITY) == ["A"]
    assert count_hops("topic", "A", IDENTITY) == 1
    assert count_hops("topic", "B", IDENTITY) == UNREACHABLE
    assert sources_of("topic", IdentityNaming(None)) == []


def test_the_shortest_way_counts() -> None:
    topics = ["t", "s1.t", "heartbeats", "s1.heartbeats", "s2.s1.heartbeats", "s3.s4.heartbeats"]
    assert count_replication_hops(topics, "s1", DEFAULT) == 1
    assert count_replication_hops(topics, "s2", DEFAULT) == 1
    assert count_replication_hops(topics, "s4", DEFAULT) == 2
    assert count_replication_hops(topics, "s5", DEFAULT) == UNREACHABLE
    assert count_replication_hops([], "s1", DEFAULT) == UNREACHABLE


def test_data_topics_say_nothing_of_hops() -> None:
    assert count_replication_hops(["s1.t"], "s1", DEFAULT) == UNREACHABLE
    assert find_upstream_clusters(["s1.t"], DEFAULT) == set()


HEARTBEATS = [
    "topic",
    "heartbeats",
    "s1.heartbeats",
    "s1.s2.heartbeats",
    "s3.s4.s5.heartbeats",
    "s6.topic",
]


@pytest.mark.parametrize("naming", [DEFAULT, IDENTITY])
def test_clusters_behind_clusters_are_upstream(naming: DefaultNaming) -> None:
    assert find_upstream_clusters(HEARTBEATS, naming) == {"s1", "s2", "s3", "s4", "s5"}


def test_copies_are_remote_and_what_mirrors_keep_is_not() -> None:
    topics = [
        "topic",
        "s1.topic",
        "s2.topic",
        "s2.s1.topic",
        "heartbeats",
        "backup.heartbeats",
        "s1.checkpoints.internal",
        "mm2-offset-syncs.s1.internal",
        "__consumer_offsets",
    ]
    copies = {"s1.topic", "s2.topic", "s2.s1.topic", "backup.heartbeats"}
    assert select_remote(topics, DEFAULT) == copies
    assert select_remote(topics, DEFAULT, "s2") == {"s2.topic", "s2.s1.topic"}
    assert select_remote(topics, DEFAULT, "s3") == set()


def test_the_separator_decides_what_is_a_copy() -> None:
    naming = DefaultNaming(separator="__")
    topics = ["topic", "s1__topic", "s2__s1__topic", "s.topic", "s1__checkpoints__internal"]
    assert select_remote(topics, naming) == {"s1__topic", "s2__s1__topic"}


def test_with_kept_names_everything_may_be_a_copy_but_own_heartbeats() -> None:
    topics = ["topic", "s1.topic", "heartbeats", "backup.heartbeats", "A.checkpoints.internal"]
    assert select_remote(topics, IDENTITY) == {"topic", "s1.topic", "backup.heartbeats"}
    assert select_remote(topics, IDENTITY, "A") == {"topic", "s1.topic"}
    assert select_remote(topics, IDENTITY, "backup") == {"backup.heartbeats"}
    assert select_remote(topics, IdentityNaming(None)) == {"backup.heartbeats"}
