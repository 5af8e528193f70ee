import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.errors import ConfigError
from heliograph.policy.naming import (
    DefaultNaming,
    IdentityNaming,
    NamingPolicy,
    naming_for,
    runs_topic,
)

DEFAULT = DefaultNaming()
IDENTITY = IdentityNaming("A")
JAVA = "org.apache.kafka.connect.mirror."

aliases = st.text("abcXYZ019-", min_size=1, max_size=8)
topics = st.text("abcXYZ019-._", min_size=1, max_size=12)


class Shouting(DefaultNaming):
    """A naming that a user might write."""

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        return f"{source_alias}{self.separator}{topic}".upper()

    def topic_source(self, topic: str) -> str | None:
        return self.source_alias if topic.isupper() else None


class Silent:
    def __init__(self, **_: object) -> None: ...


@pytest.mark.parametrize(
    ("topic", "source", "upstream", "original"),
    [
        ("A.t", "A", "t", "t"),
        ("B.A.t", "B", "A.t", "t"),
        ("t", None, None, "t"),
        ("", None, None, ""),
        ("foo.", None, None, "foo."),
        (".foo", "", "foo", "foo"),
        (".", None, None, "."),
        ("..", None, None, ".."),
        ("a..b", "a", ".b", "b"),
        ("a.b.", "a", "b.", "b."),
    ],
)
def test_names_are_taken_apart_as_java_splits(
    topic: str, source: str | None, upstream: str | None, original: str
) -> None:
    assert DEFAULT.topic_source(topic) == source
    assert DEFAULT.upstream_topic(topic) == upstream
    assert DEFAULT.original_topic(topic) == original


@given(aliases, topics.filter(lambda topic: topic.strip(".") != ""))
def test_a_remote_name_leads_back(alias: str, topic: str) -> None:
    remote = DEFAULT.format_remote_topic(alias, topic)
    assert DEFAULT.topic_source(remote) == alias
    assert DEFAULT.upstream_topic(remote) == topic


@given(topics, st.sampled_from([".", "_", "__", "-", ""]))
def test_the_original_topic_is_always_found(topic: str, separator: str) -> None:
    for naming in (DefaultNaming(separator=separator), IdentityNaming("A", separator=separator)):
        assert topic.endswith(naming.original_topic(topic))


def test_another_separator_changes_what_is_remote() -> None:
    naming = DefaultNaming(separator="__")
    assert naming.format_remote_topic("A", "t") == "A__t"
    assert naming.topic_source("A__t") == "A"
    assert naming.topic_source("A.t") is None
    assert not naming.is_heartbeats_topic("A.heartbeats")
    assert naming.is_heartbeats_topic("A__heartbeats")


@pytest.mark.parametrize(
    ("topic", "expected"),
    [
        ("heartbeats", True),
        ("s1.heartbeats", True),
        ("s2.s1.heartbeats", True),
        ("heartbeats!", False),
        ("!heartbeats", False),
        ("source1heartbeats", False),
        ("source1-heartbeats", False),
    ],
)
def test_heartbeats_are_known_however_far_they_came(topic: str, expected: bool) -> None:
    assert DEFAULT.is_heartbeats_topic(topic) is expected
    assert IDENTITY.is_heartbeats_topic(topic) is expected


@pytest.mark.parametrize(
    ("topic", "expected"),
    [
        ("source1.checkpoints.internal", True),
        ("checkpoints.internal", False),
        ("checkpoints-internal", False),
        ("source1.checkpoints-internal", False),
    ],
)
def test_checkpoints_need_an_alias(topic: str, expected: bool) -> None:
    assert DEFAULT.is_checkpoints_topic(topic) is expected


@pytest.mark.parametrize(
    ("topic", "expected"),
    [
        ("__consumer_offsets", True),
        (".hidden", True),
        ("mm2-offsets.A.internal", True),
        ("mm2-offset-syncs.B.internal", True),
        ("A.checkpoints.internal", True),
        ("_schemas", False),
        ("orders.internal", False),
        ("orders-internal", False),
        ("mm2-internal", False),
        ("x_internal", False),
    ],
)
def test_internal_topics_are_kafkas_and_mirrormakers(topic: str, expected: bool) -> None:
    assert DEFAULT.is_internal_topic(topic) is expected
    assert IDENTITY.is_internal_topic(topic) is expected


def test_internal_names_follow_the_separator_unless_told_not_to() -> None:
    follows = DefaultNaming(separator="__")
    assert follows.offset_syncs_topic("B") == "mm2-offset-syncs__B__internal"
    assert follows.checkpoints_topic("A") == "A__checkpoints__internal"
    assert follows.is_mm2_internal_topic("mm2-offset-syncs__B__internal")
    assert not follows.is_mm2_internal_topic("mm2-offset-syncs.B.internal")
    stays = DefaultNaming(separator="__", internal_separator=False)
    assert stays.offset_syncs_topic("B") == "mm2-offset-syncs.B.internal"
    assert stays.checkpoints_topic("A") == "A.checkpoints.internal"
    assert stays.is_checkpoints_topic("A.checkpoints.internal")
    assert stays.format_remote_topic("A", "t") == "A__t"
    assert follows.heartbeats_topic() == stays.heartbeats_topic() == "heartbeats"


@given(aliases, topics.filter(lambda topic: not topic.endswith("heartbeats")))
def test_identity_keeps_every_name_but_heartbeats(alias: str, topic: str) -> None:
    assert IDENTITY.format_remote_topic(alias, topic) == topic
    assert IDENTITY.topic_source(topic) == "A"
    assert IDENTITY.upstream_topic(topic) == topic
    assert IDENTITY.original_topic(topic) == topic


def test_identity_names_heartbeats_as_the_default_does() -> None:
    assert IDENTITY.format_remote_topic("B", "heartbeats") == "B.heartbeats"
    assert IDENTITY.topic_source("heartbeats") is None
    assert IDENTITY.topic_source("backup.heartbeats") == "backup"
    assert IDENTITY.upstream_topic("C.B.heartbeats") == "B.heartbeats"
    assert IDENTITY.format_remote_topic("B", "myheartbeats") == "B.myheartbeats"


def test_java_names_are_known() -> None:
    assert naming_for(f"{JAVA}DefaultReplicationPolicy", "_", False, "A") == DefaultNaming(
        separator="_", internal_separator=False
    )
    for name in (
        f"{JAVA}IdentityReplicationPolicy",
        "io.strimzi.kafka.connect.mirror.IdentityReplicationPolicy",
    ):
        assert naming_for(name, "", True, "A") == IdentityNaming("A", separator="")


def test_a_python_class_is_loaded() -> None:
    naming = naming_for(f"{__name__}:Shouting", "-", True, "A")
    assert naming.format_remote_topic("us", "t") == "US-T"
    assert naming.topic_source("US-T") == "A"
    assert isinstance(naming, NamingPolicy)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("com.acme.OurPolicy", "com.acme.OurPolicy is not known here"),
        ("no_such_module:Class", "cannot be imported"),
        (":Class", "cannot be imported"),
        (f"{__name__}:Missing", "cannot be imported"),
        (f"{__name__}:JAVA", "is no class"),
        (f"{__name__}:Silent", "lacks a method"),
    ],
)
def test_an_unknown_class_is_a_mistake_in_the_configuration(name: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        naming_for(name, ".", True, "A")


def test_namings_pickle() -> None:
    for naming in (DefaultNaming(separator="_"), IDENTITY):
        assert pickle.loads(pickle.dumps(naming)) == naming


class Aloof(DefaultNaming):
    """A naming with offset syncs in a place of its own."""

    def offset_syncs_topic(self, alias: str) -> str:
        return f"syncs-{alias}"


def test_the_runs_topic_is_named_like_the_offset_syncs_topic() -> None:
    assert runs_topic(DEFAULT, "A") == "mm2-runs.A.internal"
    assert runs_topic(IDENTITY, "A") == "mm2-runs.A.internal"
    assert runs_topic(DefaultNaming(separator="__"), "A") == "mm2-runs__A__internal"
    legacy = DefaultNaming(separator="__", internal_separator=False)
    assert runs_topic(legacy, "A") == "mm2-runs.A.internal"
    assert runs_topic(Aloof(), "A") == "mm2-runs.A.internal"
    assert DEFAULT.is_internal_topic(runs_topic(DEFAULT, "A"))
