"""Many topics at once, on real brokers: few requests, and one that is refused stands alone."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from heliograph.admin.configs import topic_configs
from heliograph.admin.topics import NewTopic, await_topics, create_topics, grow_topics
from heliograph.config.flow import FlowConfig
from heliograph.config.mirror import load_mirror
from heliograph.flows.source import copied_of, refresh_topics
from heliograph.kafka.cluster import Topic
from heliograph.model import TopicPartition
from lab.clusters import LiveCluster, eventually, unique_name
from lab.counting import CountingCluster
from lab.mirrors import Mirror, flow_properties, unique_alias
from tests.guarded import GuardedCluster

pytestmark = pytest.mark.broker

LONGEST_NAME = 249


@pytest.fixture
def cluster(target: LiveCluster) -> Iterator[CountingCluster]:
    with closing(CountingCluster(target)) as cluster:
        yield cluster


def flow(folder: Path, source: LiveCluster, target: LiveCluster, topics: str) -> FlowConfig:
    """Return a flow from `source`, under an alias of this test's own."""
    ends = ((unique_alias("A"), source.bootstrap), (unique_alias("B"), target.bootstrap))
    (config,) = load_mirror(Mirror(folder, flow_properties(*ends, topics)).file).flows
    return config


@contextmanager
def both(
    source: LiveCluster, target: LiveCluster
) -> Iterator[tuple[CountingCluster, CountingCluster]]:
    with ExitStack() as stack:
        here, there = (
            stack.enter_context(closing(CountingCluster(live))) for live in (source, target)
        )
        yield here, there


def test_three_hundred_topics_are_mirrored_in_a_handful_of_requests(
    source: LiveCluster, target: LiveCluster, tmp_path: Path
) -> None:
    prefix = unique_name()
    names = [f"{prefix}.{number}" for number in range(300)]
    long = f"{prefix}.".ljust(LONGEST_NAME, "x")
    config = flow(tmp_path, source, target, rf"{prefix}\\..*")
    with both(source, target) as (here, there):
        assert create_topics(here, [NewTopic(name, 4, 1) for name in [*names, long]]).refused == {}
        await_topics(here, dict.fromkeys([*names, long], 4))
        here.calls.clear()

        refresh_topics(config, here, there)
        asked = (dict(here.calls), dict(there.calls))
        # A busy machine may take longer for 1,200 partitions than a refresh waits.
        eventually(lambda: len(refresh_topics(config, here, there).routes) == 4 * len(names), 120)
        here.calls.clear()
        there.calls.clear()
        second = refresh_topics(config, here, there)

        assert asked[0] == {"Metadata": 1, "DescribeConfigs": 1}
        assert (asked[1]["CreateTopics"], asked[1]["DescribeConfigs"]) == (2, 1)
        # What the target refused is tried again.
        assert here.calls == {"Metadata": 1, "DescribeConfigs": 1}
        assert there.calls == {"Metadata": 1, "DescribeConfigs": 1, "CreateTopics": 1}
        found = there.describe()
        origin = here.describe()
    alias = config.flow.source
    assert {route.source.topic for route in second.routes} == set(names)
    for route in second.routes:
        remote = f"{alias}.{route.source.topic}"
        assert route.remote == TopicPartition(remote, route.source.index)
        assert route.remote_id == str(found[remote].topic_id)
        assert route.topic_id == str(origin[route.source.topic].topic_id)
    (refusal,) = second.refused
    assert refusal.startswith(f"create topic {alias}.{long} on ")
    assert "INVALID_TOPIC" in refusal


def test_a_refresh_in_which_nothing_changes_asks_and_does_nothing(
    source: LiveCluster, target: LiveCluster, tmp_path: Path
) -> None:
    config = flow(tmp_path, source, target, source.create_topic(2))
    with both(source, target) as (here, there):
        refresh_topics(config, here, there)
        here.calls.clear()
        there.calls.clear()

        inventory = refresh_topics(config, here, there)

    assert (len(inventory.routes), inventory.refused) == (2, ())
    assert here.calls == {"Metadata": 1}
    assert there.calls == {"Metadata": 1, "DescribeConfigs": 1}


class Lagging(CountingCluster):
    """A cluster of which the broker that lists all topics is behind: it does not know some, or not all their partitions."""

    behind: Mapping[str, int] = {}

    def describe(self, names: Iterable[str] | None = None) -> dict[str, Topic]:
        topics = super().describe(names)
        if names is None:
            for name, count in self.behind.items():
                topic = topics.pop(name)
                if count:
                    topics[name] = replace(topic, leaders=topic.leaders[:count])
        return topics


def test_what_is_copied_is_not_given_up_because_one_broker_is_behind(
    source: LiveCluster, target: LiveCluster, tmp_path: Path
) -> None:
    prefix = unique_name()
    names = [source.create_topic(2, name=f"{prefix}.{n}") for n in ("gone", "shrunk", "new")]
    config = flow(tmp_path, source, target, rf"{prefix}\\..*")
    with closing(Lagging(source)) as here, closing(Lagging(target)) as there:
        routes = refresh_topics(config, here, there).routes
        here.behind = dict(zip(names, (0, 1, 0), strict=True))
        there.behind = {r.remote.topic: 0 for r in routes}
        copied = copied_of(r for r in routes if r.source.topic != names[2])

        inventory = refresh_topics(config, here, there, copied=copied)

        assert inventory.routes == tuple(r for r in routes if r.source.topic != names[2])
        assert inventory.refused == ()


def test_a_topic_whose_configuration_is_secret_is_refused_alone(
    guarded: GuardedCluster, target: LiveCluster, tmp_path: Path
) -> None:
    prefix = unique_name()
    open_one, secret = (guarded.create_topic(name=f"{prefix}.{n}") for n in ("open", "secret"))
    guarded.allow_only(ResourceType.TOPIC, secret, AclOperation.DESCRIBE)
    config = flow(tmp_path, guarded, target, rf"{prefix}\\..*")

    with both(guarded, target) as (here, there):
        inventory = refresh_topics(config, here, there)

    assert [route.source.topic for route in inventory.routes] == [open_one]
    (refusal,) = inventory.refused
    assert refusal.startswith(f"describe the configuration of {secret} on guarded: the broker ")
    assert "TOPIC_AUTHORIZATION_FAILED" in refusal


def test_settings_that_the_broker_refuses_are_told_by_topic(cluster: CountingCluster) -> None:
    good, bad = unique_name(), unique_name()

    refused = create_topics(
        cluster,
        [
            NewTopic(good, 1, 1, {"cleanup.policy": "compact"}),
            NewTopic(bad, 1, 1, {"cleanup.policy": "shred"}),
        ],
    ).refused

    assert list(refused) == [bad]
    assert refused[bad].error.startswith("INVALID_CONFIG: ")
    assert "shred" in refused[bad].error
    await_topics(cluster, {good: 1})
    assert topic_configs(cluster, [good], ["cleanup.policy"]) == {
        good: {"cleanup.policy": "compact"}
    }


def test_a_topic_that_is_there_is_no_refusal(target: LiveCluster, cluster: CountingCluster) -> None:
    topic = target.create_topic(3)

    assert create_topics(cluster, [NewTopic(topic, 5, 1)]) == (frozenset(), {})
    assert target.partition_count(topic) == 3


def test_many_topics_grow_in_one_request_and_one_that_would_shrink_is_told(
    cluster: CountingCluster,
) -> None:
    prefix = unique_name()
    names = [f"{prefix}.{number}" for number in range(20)]
    create_topics(cluster, [NewTopic(name, 2, 1) for name in names])
    await_topics(cluster, dict.fromkeys(names, 2))

    refused = grow_topics(cluster, {**dict.fromkeys(names, 3), names[7]: 1})

    assert list(refused) == [names[7]]
    assert "INVALID_PARTITIONS" in refused[names[7]].error
    grown = {name: 3 for name in names if name != names[7]}
    found = await_topics(cluster, grown)
    assert {name: len(topic.leaders) for name, topic in found.items()} == grown
    assert (cluster.calls["CreateTopics"], cluster.calls["CreatePartitions"]) == (1, 1)


def test_a_request_holds_no_more_partitions_than_a_controller_takes(
    cluster: CountingCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heliograph.admin.topics._PARTITIONS_PER_REQUEST", 5)
    prefix = unique_name()
    sizes = {f"{prefix}.{number}": count for number, count in enumerate([7, 2, 3, 1])}

    created = create_topics(cluster, [NewTopic(name, count, 1) for name, count in sizes.items()])

    assert created.made == sizes.keys()
    assert created.refused == {}
    found = await_topics(cluster, sizes)
    assert {name: len(topic.leaders) for name, topic in found.items()} == sizes
    assert cluster.calls["CreateTopics"] == 3
