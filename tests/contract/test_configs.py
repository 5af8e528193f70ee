"""Configurations of remote topics follow those of their sources."""

from lab.clusters import eventually
from tests.contract.brokers import alter_topic, topic_configs
from tests.contract.systems import PATIENCE, Flow

CHANGED = "retention.ms"
EXCLUDED = "unclean.leader.election.enable"


def test_a_remote_topic_has_the_configurations_of_its_source(there: Flow) -> None:
    topic = there.create(
        config={"cleanup.policy": "compact", CHANGED: "86400000", EXCLUDED: "true"}
    )

    remote = there.remote(topic)
    there.system.until(lambda: there.target.partition_count(remote))
    there.pass_a_refresh()

    configs = topic_configs(there.target, remote)
    assert configs["cleanup.policy"] == "compact"
    assert configs[CHANGED] == "86400000"
    assert EXCLUDED not in configs


def test_changes_are_synced_and_excluded_ones_are_not(there: Flow) -> None:
    topic = there.create(config={"max.message.bytes": "2000000"})
    remote = there.remote(topic)
    there.system.until(lambda: there.target.partition_count(remote))
    alter_topic(there.target, remote, {EXCLUDED: "true", "segment.ms": "7200000"})

    alter_topic(
        there.source,
        topic,
        {
            CHANGED: "43200000",
            EXCLUDED: "false",
            "max.message.bytes": None,
            "message.timestamp.type": "LogAppendTime",
        },
    )

    # Changed on the source, excluded and kept as it was, removed on the source, set on the target alone.
    expected = {CHANGED: "43200000", EXCLUDED: "true"}
    eventually(
        lambda: topic_configs(there.target, remote) == expected,
        PATIENCE,
        lambda: topic_configs(there.target, remote),
    )
