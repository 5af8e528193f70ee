"""sync.group.offsets.enabled: groups without members are moved forward on the target, and nothing else is."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer

from lab.clusters import LiveCluster, Outgoing, unique_name
from tests.contract.brokers import commit, committed
from tests.contract.systems import LAG_MAX, Flow, System

COUNT = 100


@pytest.fixture(scope="module")
def filled(system: System) -> str:
    """A topic with 100 records in each of two partitions, and their copies."""
    flow = system.flow("A", "B")
    topic = flow.create(2)
    for wave in range(2):
        records = [Outgoing(b"%d/%d" % (wave, n), partition=n % 2) for n in range(COUNT)]
        flow.source.produce(topic, records)
        flow.wait_for(topic, (wave + 1) * COUNT)
    flow.assert_copied(topic)
    return topic


def test_an_absent_group_appears_close_to_where_it_was(there: Flow, filled: str) -> None:
    group, remote = unique_name(), there.remote(filled)
    commit(there.source, group, filled, {0: COUNT, 1: 40})
    ends = there.target.end_offsets(remote)

    def close() -> bool:
        there_now = committed(there.target, group, remote)
        return len(there_now) == 2 and there_now[0] >= ends[0] - LAG_MAX

    there.system.until(close)
    for index, upstream in enumerate((COUNT, 40)):
        assert_moved(there, group, filled, index, upstream)


def test_an_empty_group_that_is_behind_is_advanced(there: Flow, filled: str) -> None:
    group, remote = unique_name(), there.remote(filled)
    commit(there.target, group, remote, {0: 1})
    commit(there.source, group, filled, {0: COUNT})

    there.system.until(lambda: committed(there.target, group, remote)[0] > 1)
    assert_moved(there, group, filled, 0, COUNT)


def test_an_empty_group_that_is_ahead_is_not_rewound(there: Flow, filled: str) -> None:
    group, remote = unique_name(), there.remote(filled)
    commit(there.target, group, remote, {0: COUNT - 1})
    commit(there.source, group, filled, {0: 30, 1: 30})

    # The other partition, which has no offset yet, tells that the group was looked at.
    there.system.until(lambda: 1 in committed(there.target, group, remote))
    pass_a_sync(there, filled)

    assert committed(there.target, group, remote)[0] == COUNT - 1


def test_a_group_that_went_back_on_the_source_stays_on_the_target(there: Flow, filled: str) -> None:
    group, remote = unique_name(), there.remote(filled)
    commit(there.source, group, filled, {0: COUNT})
    before = there.system.until(lambda: committed(there.target, group, remote))

    commit(there.source, group, filled, {0: 20})
    there.checkpoint_at(group, filled, 0, 20)
    pass_a_sync(there, filled)

    assert committed(there.target, group, remote) == before


def test_a_group_with_members_on_the_target_is_left_alone(there: Flow, filled: str) -> None:
    group, remote = unique_name(), there.remote(filled)
    commit(there.target, group, remote, {0: 3, 1: 3})
    with member(there.target, group, remote):
        commit(there.source, group, filled, {0: COUNT, 1: COUNT})
        there.checkpoint_at(group, filled, 0, COUNT)
        pass_a_sync(there, filled)

        assert committed(there.target, group, remote) == {0: 3, 1: 3}


def test_offsets_of_topics_that_are_not_mirrored_are_left_alone(there: Flow, filled: str) -> None:
    private, group = there.create(prefix="private."), unique_name()
    there.source.produce(private, [b"x"])
    there.target.create_topic(name=there.remote(private))
    commit(there.source, group, private, {0: 1})
    commit(there.source, group, filled, {0: 10})

    there.system.until(lambda: committed(there.target, group, there.remote(filled)))

    assert not committed(there.target, group, there.remote(private))


def assert_moved(flow: Flow, group: str, topic: str, index: int, upstream: int) -> None:
    def downstream() -> int:
        return committed(flow.target, group, flow.remote(topic))[index]

    flow.assert_nothing_skipped(topic, index, (upstream, downstream()))
    if flow.system.is_exact:
        # heliograph alone: the group repeats no record either.
        flow.system.until(lambda: not flow.repeated(topic, index, upstream, downstream()))


def pass_a_sync(flow: Flow, topic: str) -> None:
    """Return when the groups of the target were looked at, twice at least."""
    group, remote = unique_name(), flow.remote(topic)
    last = -1

    def advanced() -> bool:
        return committed(flow.target, group, remote).get(0, -1) > last

    for upstream in (COUNT // 2, COUNT):
        commit(flow.source, group, topic, {0: upstream})
        flow.system.until(advanced)
        last = committed(flow.target, group, remote)[0]


@contextmanager
def member(cluster: LiveCluster, group: str, topic: str) -> Iterator[Consumer]:
    """Be the one member of a group; what it reads is not committed."""
    consumer = Consumer(cluster.client(group_id=group, enable_auto_commit=False))
    try:
        consumer.subscribe([topic])
        while not consumer.assignment():
            consumer.poll(0.1)
        yield consumer
    finally:
        consumer.close()
