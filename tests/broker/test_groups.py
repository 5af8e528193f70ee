"""Groups on real brokers: who is there, what they have committed, and what a commit is refused for."""

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as RdPartition
from confluent_kafka.admin import ResourceType

from heliograph.groups.admin import (
    Committed,
    commit_offsets,
    delete_groups,
    fetch_committed,
    find_coordinators,
    list_groups,
)
from heliograph.model import TopicPartition
from lab.clusters import LiveCluster, eventually, unique_name
from lab.counting import CountingCluster
from tests.guarded import GuardedCluster

pytestmark = pytest.mark.broker


@pytest.fixture
def cluster(target: LiveCluster) -> Iterator[CountingCluster]:
    with closing(CountingCluster(target)) as cluster:
        yield cluster


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_is_read_while_it_has_members_and_written_only_when_it_has_none(
    target: LiveCluster, cluster: CountingCluster, protocol: str
) -> None:
    topic, group = target.create_topic(), unique_name()
    target.produce(topic, [b"a", b"b", b"c"])
    partition = TopicPartition(topic, 0)
    settings = {"auto.offset.reset": "earliest", "enable.auto.commit": False}
    member = target.client(group_id=group, group_protocol=protocol, **settings)
    with closing(Consumer(member)) as consumer:
        consumer.subscribe([topic])
        eventually(lambda: consumer.poll(0.2))
        consumer.commit(offsets=[RdPartition(topic, 0, 2)], asynchronous=False)

        active = list_groups(cluster)[group]
        read = fetch_committed(cluster, [group])
        refused = commit_offsets(cluster, group, {partition: Committed(1, "")})
    eventually(lambda: list_groups(cluster)[group].state == "Empty")
    taken = commit_offsets(cluster, group, {partition: Committed(1, "back")})

    assert (active.state, active.kind.lower(), active.protocol) == ("Stable", protocol, "consumer")
    assert read == ({group: {partition: Committed(2, "")}}, {})
    assert refused == {partition: "the group has active members (UNKNOWN_MEMBER_ID)"}
    assert taken == {}
    assert fetch_committed(cluster, [group])[0][group] == {partition: Committed(1, "back")}
    with closing(Consumer(target.client(group_id=group))) as reader:
        (seen,) = reader.committed([RdPartition(topic, 0)], timeout=30)
    assert seen.offset == 1  # librdkafka's binding mangles metadata


def test_a_group_that_nobody_knows_has_committed_nothing(cluster: CountingCluster) -> None:
    group = unique_name()

    assert fetch_committed(cluster, [group]) == ({group: {}}, {})
    assert group not in list_groups(cluster)


def test_a_commit_makes_the_group_and_tells_which_partitions_it_could_not_take(
    target: LiveCluster, cluster: CountingCluster
) -> None:
    topic, group = target.create_topic(), unique_name()
    there, beyond = TopicPartition(topic, 0), TopicPartition(topic, 7)
    gone = TopicPartition(unique_name(), 0)
    offsets = dict.fromkeys((there, beyond, gone), Committed(5, "m"))

    refused = commit_offsets(cluster, group, offsets)

    reason = "there is no such partition (UNKNOWN_TOPIC_OR_PARTITION)"
    assert refused == {beyond: reason, gone: reason}
    assert fetch_committed(cluster, [group])[0][group] == {there: Committed(5, "m")}
    listing = list_groups(cluster)[group]
    assert (listing.state, listing.kind.lower(), listing.protocol) == ("Empty", "classic", "")


def test_a_forbidden_group_spoils_nothing_for_the_others(guarded: GuardedCluster) -> None:
    partition, group, forbidden = TopicPartition(guarded.create_topic(), 0), *_names(2)
    offsets = {partition: Committed(1, "")}
    with closing(CountingCluster(guarded)) as cluster:
        for name in (group, forbidden):
            assert commit_offsets(cluster, name, offsets) == {}
        guarded.deny(ResourceType.GROUP, forbidden)

        read, refused = fetch_committed(cluster, [forbidden, group])
        denied = commit_offsets(cluster, forbidden, offsets)

    reason = "this client may not use the group (GROUP_AUTHORIZATION_FAILED)"
    assert (read, refused) == ({group: offsets}, {forbidden: reason})
    assert denied == {partition: reason}


def test_a_thousand_groups_are_read_in_a_handful_of_requests(
    target: LiveCluster, cluster: CountingCluster
) -> None:
    topic, prefix = target.create_topic(4), unique_name()
    partitions = [TopicPartition(topic, index) for index in range(4)]
    expected = {
        f"{prefix}.{number}": dict.fromkeys(partitions, Committed(number, ""))
        for number in range(1000)
    }
    for group, offsets in expected.items():
        assert commit_offsets(cluster, group, offsets) == {}
    cluster.calls.clear()

    listed = list_groups(cluster)
    read, refused = fetch_committed(cluster, expected)

    assert expected.keys() <= listed.keys()
    assert (read, refused) == (expected, {})
    assert cluster.calls == {
        "Metadata": 1,
        "ListGroups": 1,
        "FindCoordinator": 1,
        "OffsetFetch": 5,
    }


def test_more_partitions_than_a_request_holds_are_committed(
    target: LiveCluster, cluster: CountingCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heliograph.groups.admin._PARTITIONS_PER_COMMIT", 3)
    topic, group = target.create_topic(8), unique_name()
    offsets = {TopicPartition(topic, index): Committed(index, "") for index in range(8)}

    assert commit_offsets(cluster, group, offsets) == {}

    assert fetch_committed(cluster, [group])[0][group] == offsets
    assert cluster.calls["OffsetCommit"] == 3


def test_an_older_broker_is_asked_group_by_group(
    target: LiveCluster, cluster: CountingCluster
) -> None:
    partition, groups = TopicPartition(target.create_topic(), 0), _names(3)
    known = {"ListGroups": 2, "FindCoordinator": 2, "OffsetFetch": 5, "OffsetCommit": 7}
    with closing(CountingCluster(target, newest=known)) as old:
        for group in groups:
            assert commit_offsets(old, group, {partition: Committed(3, "")}) == {}
        listed = list_groups(old)
        coordinators, unknown = find_coordinators(old, groups)
        read, refused = fetch_committed(old, groups)

    assert {(listed[group].state, listed[group].kind) for group in groups} == {("", "")}
    assert (set(coordinators), unknown, refused) == (set(groups), {}, {})
    assert read == fetch_committed(cluster, groups)[0]
    assert old.calls["OffsetFetch"] == len(groups)


def test_a_group_whose_coordinator_stays_away_is_told_with_the_reason(
    target: LiveCluster, cluster: CountingCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition, here, away = TopicPartition(target.create_topic(), 0), *_names(2)
    for group in (here, away):
        commit_offsets(cluster, group, {partition: Committed(3, "")})
    monkeypatch.setattr(
        "heliograph.groups.admin.find_coordinators",
        lambda _, groups: ({group: {here: 1, away: 77}[group] for group in groups}, {}),
    )

    read, refused = fetch_committed(cluster, [here, away], within=timedelta(seconds=0.2))

    assert read == {here: {partition: Committed(3, "")}}
    assert refused == {away: "the broker answered nothing"}


def _names(count: int) -> list[str]:
    return [unique_name() for _ in range(count)]


def test_a_group_is_deleted_with_its_offsets_unless_it_has_members(
    target: LiveCluster, cluster: CountingCluster
) -> None:
    topic, busy, idle = target.create_topic(), unique_name(), unique_name()
    partition = TopicPartition(topic, 0)
    commit_offsets(cluster, idle, {partition: Committed(3, "")})
    with closing(Consumer(target.client(group_id=busy))) as consumer:
        consumer.subscribe([topic])
        eventually(lambda: consumer.poll(0.2) or list_groups(cluster)[busy].state == "Stable")
        refused = delete_groups(cluster, [busy, idle, unique_name()])
    assert refused == {busy: "the group has active members (NON_EMPTY_GROUP)"}
    assert idle not in list_groups(cluster)
    assert fetch_committed(cluster, [idle]) == ({idle: {}}, {})
