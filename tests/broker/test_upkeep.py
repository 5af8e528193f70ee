"""What a flow does beside copying, on real brokers."""

from pathlib import Path

import pytest

from heliograph.config.mirror import load_mirror
from heliograph.embedded.nodes import write_properties
from heliograph.flows.offset_syncs import offset_syncs_topic
from heliograph.flows.schedule import broken_chores
from heliograph.flows.upkeep import TopicUpkeep
from lab.clusters import LiveCluster, eventually, unique_name
from lab.mirrors import flow_properties, unique_alias

pytestmark = pytest.mark.broker


def test_a_topic_that_cannot_be_made_is_told_until_somebody_makes_it(
    source: LiveCluster, target: LiveCluster, tmp_path: Path
) -> None:
    here, there = (unique_alias(), source.bootstrap), (unique_alias("B"), target.bootstrap)
    file = tmp_path / "mm2.properties"
    replicas = {"offset-syncs.topic.replication.factor": "3"}
    write_properties(file, flow_properties(here, there, unique_name(), **replicas))
    config = load_mirror(file).flows[0]
    topic = offset_syncs_topic(config)
    upkeep = TopicUpkeep(config)
    upkeep.start()
    try:
        (told,) = eventually(lambda: broken_chores(upkeep.status()))
        assert f"create topic {topic}" in told
        assert "INVALID_REPLICATION_FACTOR" in told
        source.create_topic(1, {"cleanup.policy": "compact"}, name=topic)
        eventually(lambda: not broken_chores(upkeep.status()), 30, upkeep.status)
    finally:
        upkeep.stop()
        upkeep.join(10)
