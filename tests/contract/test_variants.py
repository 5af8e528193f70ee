"""What settings change: flows of one process between two clusters, each with aliases of its own."""

from collections.abc import Iterator

import pytest

from lab.clusters import unique_name
from tests.contract.brokers import alter_topic, assert_internal, commit, heartbeats, topic_configs
from tests.contract.systems import (
    EVERY_SECOND,
    LAG_MAX,
    ONE_BROKER,
    STARTING,
    Flow,
    System,
    clusters_of_its_own,
    running,
)

IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
OLD = "latest.old"

FLOWS = {
    "I->J": {"topics": "same[.].*", "replication.policy.class": IDENTITY},
    "S->T": {"topics": "located[.].*", "offset-syncs.topic.location": "target"},
    "L->M": {"topics": "latest[.].*"},
    "P->Q": {
        "topics": "plain[.].*",
        "emit.offset-syncs.enabled": "false",
        "sync.topic.configs.enabled": "false",
        "heartbeats.replication.enabled": "false",
    },
}


@pytest.fixture(scope="module")
def variants(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    folder = tmp_path_factory.mktemp(f"{kind}-variants")
    with clusters_of_its_own(folder) as (a, b):
        hosts = {
            alias: cluster.bootstrap
            for flow in FLOWS
            for alias, cluster in zip(flow.split("->"), (a, b), strict=True)
        }
        properties = {
            "clusters": ", ".join(hosts),
            **{f"{alias}.bootstrap.servers": host for alias, host in hosts.items()},
            **{f"{alias}.offset.flush.interval.ms": "1000" for alias in hosts},
            **{f"{flow}.enabled": "true" for flow in FLOWS},
            **{f"{flow}.{key}": value for flow in FLOWS for key, value in FLOWS[flow].items()},
            "emit.heartbeats.enabled": "false",
            "I->J.emit.heartbeats.enabled": "true",
            "J->I.emit.heartbeats.enabled": "true",
            "L.consumer.auto.offset.reset": "latest",
            "offset.lag.max": str(LAG_MAX),
            **EVERY_SECOND,
            **ONE_BROKER,
        }
        # P->Q has no offset syncs, and MirrorMaker refuses settings of a topic that is not made.
        shared = "offset-syncs.topic.replication.factor"
        del properties[shared]
        properties |= {f"{flow}.{shared}": "1" for flow in FLOWS if flow != "P->Q"}
        a.create_topic(name=OLD)
        a.produce(OLD, [b"old %d" % number for number in range(50)])
        with running(kind, folder / "run", (a, b), properties) as started:
            started.until(lambda: b.partition_count(f"L.{OLD}"), within=STARTING)
            yield started


@pytest.fixture
def same(variants: System) -> Flow:
    return variants.flow("I", "J", keeps_names=True)


@pytest.fixture
def located(variants: System) -> Flow:
    return variants.flow("S", "T")


@pytest.fixture
def plain(variants: System) -> Flow:
    return variants.flow("P", "Q")


def test_from_latest_only_what_comes_after_the_start_is_copied(variants: System) -> None:
    sent: list[bytes] = []

    def arrived() -> list[bytes | None]:
        sent.append(b"new %d" % len(sent))
        variants.a.produce(OLD, sent[-1:])
        return [record.value for record in variants.b.consume(f"L.{OLD}")]

    variants.until(arrived)
    last = b"new %d" % (len(sent) - 1)
    variants.until(lambda: variants.b.consume(f"L.{OLD}")[-1].value == last)

    copied = [record.value for record in variants.b.consume(f"L.{OLD}")]
    assert copied == sent[-len(copied) :]


def test_identity_naming_keeps_names_in_topics_and_checkpoints(same: Flow) -> None:
    topic, group = same.create(2, prefix="same."), unique_name()
    same.source.produce(topic, [b"%d" % number for number in range(60)])
    same.assert_copied(topic)
    end = same.source.end_offsets(topic)[0]
    commit(same.source, group, topic, {0: end})

    same.assert_followed(group, topic, 0, end)

    assert {checkpoint.partition.topic for checkpoint in same.checkpoints(group)} == {topic}
    assert f"I.{topic}" not in same.target.topics()


def test_identity_naming_still_renames_heartbeats(same: Flow) -> None:
    same.system.until(lambda: heartbeats(same.target, "I.heartbeats", "J", "I"))
    same.system.until(lambda: heartbeats(same.target, "heartbeats", "I", "J"))

    assert not heartbeats(same.target, "heartbeats", "J", "I")


def test_heartbeats_can_be_off_and_are_replicated_all_the_same(variants: System) -> None:
    variants.until(lambda: heartbeats(variants.b, "S.heartbeats", "J", "I"))

    assert not heartbeats(variants.b, "heartbeats", "S", "T")
    assert not heartbeats(variants.a, "heartbeats", "T", "S")


def test_replication_of_heartbeats_can_be_off(plain: Flow) -> None:
    plain.pass_a_refresh(prefix="plain.")

    assert "P.heartbeats" not in plain.target.topics()


def test_offset_syncs_on_the_target_are_named_after_the_source(located: Flow) -> None:
    topic, group = located.create(prefix="located."), unique_name()
    located.source.produce(topic, [b"%d" % number for number in range(60)])
    located.assert_copied(topic)
    commit(located.source, group, topic, {0: 60})

    located.assert_followed(group, topic, 0, 60)

    assert_internal(located.target, "mm2-offset-syncs.S.internal")
    assert "mm2-offset-syncs.T.internal" not in located.source.topics()
    located.system.until(lambda: located.syncs(topic, on_target=True)[-1].upstream == 59)
    originals = {record.offset: record.value for record in located.source.consume(topic)}
    copies = {record.offset: record.value for record in located.target.consume(f"S.{topic}")}
    for sync in located.syncs(topic, on_target=True):
        assert originals[sync.upstream] == copies[sync.downstream]


def test_without_offset_syncs_records_flow_and_there_is_no_topic_for_syncs(plain: Flow) -> None:
    topic = plain.create(2, prefix="plain.")
    plain.source.produce(topic, [b"%d" % number for number in range(60)])

    plain.assert_copied(topic)

    assert "mm2-offset-syncs.Q.internal" not in plain.source.topics()
    assert "mm2-offset-syncs.P.internal" not in plain.target.topics()


def test_without_config_sync_configurations_are_carried_once(plain: Flow) -> None:
    topic = plain.create(config={"retention.ms": "86400000"}, prefix="plain.")
    remote = plain.remote(topic)
    plain.system.until(lambda: plain.target.partition_count(remote))
    assert topic_configs(plain.target, remote)["retention.ms"] == "86400000"

    alter_topic(plain.source, topic, {"retention.ms": "43200000"})
    plain.pass_a_refresh(prefix="plain.")

    assert topic_configs(plain.target, remote)["retention.ms"] == "86400000"
