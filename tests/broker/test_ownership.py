"""Who may write for a flow, on a real coordinator: groups that are lost, renewed late, or needed while it is away."""

import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from heliograph.driving import ownership as room
from heliograph.driving.ownership import GROUPS, Ownership, group_id, group_of
from heliograph.errors import KafkaFault, MirrorError
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.fencing import Fenced
from heliograph.kafka.transactions import NOBODY, take_over
from heliograph.model import Endpoint, ProducerIdentity, TopicPartition
from lab.clusters import LiveCluster, eventually, unique_name
from lab.counting import endpoint

pytestmark = pytest.mark.broker

LIFETIME = 900.0


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def cluster(target: LiveCluster) -> Iterator[Cluster]:
    with closing(Cluster(endpoint(target))) as cluster:
        yield cluster


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def owner(cluster: Cluster, clock: Clock) -> Ownership:
    made = Ownership(unique_name(), "driver", clock)
    made.open(cluster)
    made._lifetime = LIFETIME
    return made


class WithoutCoordinatorOf(Cluster):
    """A cluster that does not answer for one transactional id."""

    def __init__(self, endpoint: Endpoint, missing: str) -> None:
        super().__init__(endpoint)
        self._missing = missing

    def call(self, request: Any, node: int | None = None, newest: int | None = None) -> Any:
        if self._missing in (
            getattr(request, "key", None),
            getattr(request, "transactional_id", None),
        ):
            raise KafkaFault("call", "COORDINATOR_NOT_AVAILABLE", retriable=False)
        return super().call(request, node, newest)


def test_a_driver_that_takes_its_own_topics_in_two_tries_does_not_fence_itself(
    target: LiveCluster, cluster: Cluster
) -> None:
    there, later = target.create_topic(), unique_name()
    mine = [TopicPartition(there, 0), TopicPartition(later, 0)]
    failed: list[Exception] = []

    def take() -> None:
        try:
            Ownership(there).open(cluster, topics=mine)
        except MirrorError as exc:
            failed.append(exc)

    taking = threading.Thread(target=take)
    taking.start()
    # The first try fences the one, and is refused for the other.
    eventually(lambda: target.end_offsets(there) == [1] or not taking.is_alive())
    target.create_topic(name=later)
    taking.join(60)

    assert failed == []


def test_a_group_that_cannot_be_renewed_holds_up_no_other_and_is_given_up_in_time(
    cluster: Cluster, owner: Ownership, clock: Clock, target: LiveCluster
) -> None:
    """One permission is for all that a task writes, so a group that ran out would end it for the others."""
    lost: list[int] = []
    owner.on_group_lost = lost.append
    owner.take_all(cluster)
    assert len(owner.record().identities) == GROUPS + 1
    before = dict(owner.record().identities)
    missing = group_id(owner.flow_id, 3)
    of_missing = next(p for p in places() if group_of(p) == 3)
    of_other = next(p for p in places() if group_of(p) == 4)
    with closing(WithoutCoordinatorOf(endpoint(target), missing)) as away:
        clock.now += LIFETIME / 3
        owner.renew(away)
        assert lost == []
        after = owner.record().identities
        assert {name for name in before if before[name] == after[name]} == {missing}
        clock.now += LIFETIME / 6
        assert owner.valid_for([of_missing]) > 0
        owner.renew(away)
        assert lost == [3]
        assert owner.valid_for([of_other]) > 0
        assert owner.valid_for() > 0, "the flow is ours, and may be saved"
        with pytest.raises(KafkaFault, match="COORDINATOR_NOT_AVAILABLE"):
            owner.take_group(away, 3, [of_missing])

    refused = owner.take_group(cluster, 3, [of_missing]).refused
    assert "may still write" in refused[of_missing], "a task that did not hear of it"
    clock.now += room.PERMISSION + 10
    remote = target.create_topic()
    granted = owner.take_group(cluster, 3, [of_missing], [TopicPartition(remote, 0)])
    assert TopicPartition(remote, 0) in granted.identities


def test_an_own_identity_that_cannot_be_renewed_is_told_and_groups_are_renewed_all_the_same(
    cluster: Cluster, owner: Ownership, clock: Clock, target: LiveCluster
) -> None:
    owner.take_all(cluster)
    of_some = next(p for p in places() if group_of(p) == 4)
    with closing(WithoutCoordinatorOf(endpoint(target), owner.flow_id)) as away:
        for _ in range(3):
            clock.now += LIFETIME / 3
            owner.renew(away)
    assert owner.valid_for() <= 0
    assert "nothing is written: " in "".join(owner.troubles())
    assert "COORDINATOR_NOT_AVAILABLE" in "".join(owner.troubles())
    assert group_id(owner.flow_id, 4) in owner.record().identities
    clock.now += LIFETIME / 3
    owner.renew(cluster)
    assert owner.troubles() == []
    assert owner.valid_for([of_some]) > 0


def places() -> Iterator[TopicPartition]:
    return (TopicPartition("t", index) for index in range(1000))


def test_writers_of_a_group_that_was_taken_are_ended(
    cluster: Cluster, owner: Ownership, clock: Clock
) -> None:
    lost: list[int] = []
    owner.on_group_lost = lost.append
    owner.take_all(cluster)
    take_over(cluster, group_id(owner.flow_id, 7))

    clock.now += LIFETIME / 3
    owner.renew(cluster)

    assert lost == [7]
    assert group_id(owner.flow_id, 7) not in owner.record().identities
    owner.take_group(cluster, 7, ())
    assert group_id(owner.flow_id, 7) in owner.record().identities


def test_a_new_topic_needs_no_coordinator_once_all_groups_are_held(
    cluster: Cluster, owner: Ownership
) -> None:
    owner.take_all(cluster)
    made = [TopicPartition("new", 0)]
    with closing(Cluster(Endpoint("B", (("127.0.0.1", 1),)))) as away:
        assert owner.open_groups(away, made) == set()
        granted = owner.take_group(away, group_of(made[0]), (), made)
    assert granted.identities[made[0]] != NOBODY
    assert granted.refused == {}


def test_where_epochs_were_used_up_nobody_writes_before_the_old_producer_cannot(
    cluster: Cluster, owner: Ownership, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A coordinator gives another producer id then, whose markers do not fence the old one."""
    lost: list[int] = []
    owner.on_group_lost = lost.append
    remote = TopicPartition("t", 0)
    group = group_of(remote)
    owner.take_group(cluster, group, ())
    held = owner._groups[group]
    held.identity = ProducerIdentity(held.identity.producer_id, 0x7FFF - 1)
    new = ProducerIdentity(held.identity.producer_id + 1, 0)
    monkeypatch.setattr(room, "open_identity", lambda *_: new)
    monkeypatch.setattr(room, "fence_group", lambda *_: Fenced(new, {}))

    granted = owner.take_group(cluster, group, [remote])
    assert granted.identities == {}
    assert "cannot be fenced" in granted.refused[remote]
    assert lost == [group]

    clock.now += room.PERMISSION + 10
    assert owner.take_group(cluster, group, [remote]).identities == {remote: new}
