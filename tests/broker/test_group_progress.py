"""Positions as the committed offsets of a group, as MirrorMaker 1 kept them."""

from collections.abc import Iterator
from contextlib import closing

import pytest
from confluent_kafka import Consumer

from heliograph.kafka.cluster import Cluster
from heliograph.model import Endpoint, TopicPartition
from heliograph.saved.group_progress import GroupProgress, GroupUnusable
from heliograph.wire.connect_records import SourceOffset
from lab.clusters import LiveCluster, eventually, unique_name

pytestmark = pytest.mark.broker


@pytest.fixture
def cluster(source: LiveCluster) -> Iterator[Cluster]:
    host, port = source.bootstrap.split(":")
    with closing(Cluster(Endpoint("source", ((host, int(port)),)))) as found:
        yield found


def test_what_is_saved_is_found_again(source: LiveCluster, cluster: Cluster) -> None:
    topic, group = source.create_topic(2), unique_name()
    saved = {TopicPartition(topic, 0): SourceOffset(0), TopicPartition(topic, 1): SourceOffset(7)}
    progress = GroupProgress(cluster, group)

    assert progress.load() == {}
    progress.save({p: at._replace(downstream=3, topic_id="id") for p, at in saved.items()})

    assert GroupProgress(cluster, group).load() == saved


def test_a_group_with_members_is_left_alone(source: LiveCluster, cluster: Cluster) -> None:
    topic, group = source.create_topic(), unique_name()
    progress = GroupProgress(cluster, group)
    progress.load()
    settings = source.client(group_id=group, enable_auto_commit=False)
    with closing(Consumer(settings)) as consumer:
        consumer.subscribe([topic])
        eventually(lambda: consumer.poll(0.1) or consumer.assignment())

        with pytest.raises(GroupUnusable, match=f"{topic}-0: the group has active members"):
            progress.save({TopicPartition(topic, 0): SourceOffset(1)})
        with pytest.raises(GroupUnusable, match="Stop whatever else consumes"):
            GroupProgress(cluster, group).load()
