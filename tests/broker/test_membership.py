"""Workers of one group on real brokers: who runs what, and what happens when one comes, goes or dies."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from datetime import timedelta
from pathlib import Path

import pytest

from heliograph.config.connectors import WorkerConfig
from heliograph.connect.membership import Assignment, Membership
from heliograph.groups.member import ForeignGroup, Joined, Member, MemberLost
from lab.clusters import LiveCluster, eventually, start_live_cluster, unique_name
from lab.counting import endpoint
from tests.workers import (
    open_real_connect,
    wait_until_it_answers,
    worker_config,
    worker_properties,
)

pytestmark = pytest.mark.broker

SESSION = 6
SLACK = 5


class Group:
    """Workers of one group that note what they run; no two may ever run the same."""

    def __init__(self, worker: WorkerConfig, connectors: set[str]) -> None:
        self._worker = worker
        self.connectors = connectors
        self.running: dict[str, set[str]] = {}
        self.assignments: dict[str, list[Assignment]] = {}
        self.clashes: list[str] = []
        self.members: dict[str, Membership] = {}
        self._lock = threading.Lock()

    def add(self, name: str, stopping: Callable[[], None] = lambda: None) -> Membership:
        self.running[name] = set()
        self.assignments[name] = []

        def assigned(assignment: Assignment) -> None:
            if assignment.revoked:
                stopping()
            with self._lock:
                self.assignments[name].append(assignment)
                self.running[name] -= set(assignment.revoked)
                for connector in assignment.connectors:
                    others = [
                        n for n, run in self.running.items() if n != name and connector in run
                    ]
                    self.clashes += [f"{connector} of {others} given to {name}"] if others else []
                self.running[name] |= set(assignment.connectors)

        url = f"http://{name}/"
        member = Membership(self._worker, url, assigned, lambda: set(self.connectors))
        self.members[name] = member
        member.start()
        return member

    def kill(self, name: str) -> None:
        """Have a worker fall silent without a word; what it ran has died with it."""
        member = self.members.pop(name)
        member._stopping.set()
        member._wanted.set()
        member._member.close()
        with self._lock:
            self.running.pop(name)

    def leave(self, name: str) -> None:
        self.members.pop(name).close()
        assert self.running.pop(name) == set()

    def close(self) -> None:
        for member in self.members.values():
            member.close()

    def last(self, name: str) -> Assignment:
        return self.assignments[name][-1]

    def loads(self) -> list[int]:
        """Return how much each worker runs if all is shared out, else nothing."""
        with self._lock:
            shares = list(self.running.values())
        if set().union(*shares) != self.connectors or sum(map(len, shares)) != len(self.connectors):
            return []
        return sorted(map(len, shares), reverse=True)

    def await_loads(self, *loads: int, within: float = 15) -> None:
        eventually(
            lambda: self.loads() == list(loads), within, lambda: (self.running, self.states())
        )
        assert self.clashes == []

    def states(self) -> list[tuple[str, str]]:
        return [member.state() for member in self.members.values()]


@pytest.fixture
def group(source: LiveCluster, tmp_path: Path) -> Iterator[Group]:
    with ExitStack() as stack:
        made = Group(worker_config(tmp_path, worker_properties(source)), {"a", "b", "c"})
        stack.callback(made.close)
        yield made


def test_one_worker_runs_all(group: Group) -> None:
    group.add("one")
    group.await_loads(3)
    told = group.last("one")
    assert told.is_leader
    assert told.leader_url == "http://one/"
    assert told.owners == dict.fromkeys("abc", "http://one/")
    eventually(lambda: group.states()[0][0] == "healthy")


def test_two_workers_share_three_connectors_and_no_more_is_moved_than_must_be(
    group: Group,
) -> None:
    group.add("one")
    group.await_loads(3)
    kept = {"a", "b"}
    group.add("two")
    group.await_loads(2, 1)
    assert group.running["one"] == kept
    assert all(kept <= set(told.connectors) for told in group.assignments["one"])
    for name in ("one", "two"):
        eventually(lambda name=name: len(group.last(name).owners) == 3)  # type: ignore[misc]
        assert group.last(name).leader_url == "http://one/"
    assert not group.last("two").is_leader


def test_what_a_worker_that_leaves_had_is_run_by_the_rest_at_once(group: Group) -> None:
    group.add("one")
    group.await_loads(3)
    group.add("two")
    group.await_loads(2, 1)
    began = time.monotonic()
    group.leave("one")
    group.await_loads(3)
    assert time.monotonic() - began < SESSION
    assert group.last("two").is_leader


def test_what_a_worker_that_dies_had_is_run_by_the_rest_when_its_session_is_over(
    group: Group,
) -> None:
    group.add("one")
    group.await_loads(3)
    group.add("two")
    group.await_loads(2, 1)
    group.kill("one")
    group.await_loads(3, within=SESSION + SLACK)


def test_three_workers_come_and_one_dies(group: Group) -> None:
    group.connectors |= {"d", "e", "f", "g"}
    for name in ("one", "two", "three"):
        group.add(name)
    group.await_loads(3, 2, 2)
    group.kill("two")
    group.await_loads(4, 3, within=SESSION + SLACK)
    group.add("four")
    group.await_loads(3, 2, 2)


def test_a_connector_made_or_deleted_is_shared_out_when_workers_are_told(group: Group) -> None:
    for name in ("one", "two"):
        group.add(name)
    group.await_loads(2, 1)
    group.connectors.add("d")
    for member in group.members.values():
        member.rejoin()
    group.await_loads(2, 2)
    group.connectors -= {"a", "b"}
    for member in group.members.values():
        member.rejoin()
    group.await_loads(1, 1)


def test_a_worker_that_takes_long_to_stop_a_connector_keeps_it_until_then(group: Group) -> None:
    group.add("one", stopping=lambda: time.sleep(SESSION + 2))
    group.await_loads(3)
    group.add("two")
    began = time.monotonic()
    group.await_loads(2, 1, within=30)
    assert time.monotonic() - began > SESSION
    group.members["one"]._on_assigned = lambda _: group.running["one"].clear()


def test_a_worker_whose_herder_stumbles_is_asked_again(group: Group) -> None:
    failures = iter([True])

    def stumble() -> None:
        if next(failures, False):
            raise RuntimeError("not now")

    group.add("one", stopping=stumble)
    group.await_loads(3)
    group.add("two")
    group.await_loads(2, 1, within=20)


def test_a_worker_that_was_silent_for_too_long_stops_all_before_it_joins_again(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    group.add("one")
    group.await_loads(3)
    group.add("two")
    group.await_loads(2, 1)
    frozen = group.members["one"]

    def hang() -> bool:
        time.sleep(SESSION * 2)
        return True

    monkeypatch.setattr(frozen._member, "heartbeat", hang)
    eventually(
        lambda: any(told.generation == -1 for told in group.assignments["one"]), SESSION + SLACK
    )
    monkeypatch.undo()
    group.await_loads(2, 1, within=30)


@pytest.mark.timeout(400)
def test_workers_go_on_when_their_coordinator_restarts(tmp_path: Path) -> None:
    live = start_live_cluster("coordinated", tmp_path)
    try:
        made = Group(worker_config(tmp_path, worker_properties(live)), {"a", "b", "c"})
        with ExitStack() as stack:
            stack.callback(made.close)
            for name in ("one", "two"):
                made.add(name)
            made.await_loads(2, 1)
            live.cluster.stop_broker(1)
            eventually(lambda: {state for state, _ in made.states()} == {"unhealthy"})
            live.cluster.start_broker(1)
            eventually(
                lambda: {state for state, _ in made.states()} == {"healthy"}, 30, made.states
            )
            made.await_loads(2, 1, within=30)
            made.connectors.add("d")
            for member in made.members.values():
                member.rejoin()
            made.await_loads(2, 2, within=30)
    finally:
        live.cluster.wipe()


def open_member(live: LiveCluster, group_id: str) -> Member:
    return Member(
        endpoint(live),
        group_id,
        session_timeout=timedelta(seconds=SESSION),
        rebalance_timeout=timedelta(seconds=10),
        heartbeat_interval=timedelta(seconds=1),
    )


def join(member: Member) -> Joined:
    return member.join(b"says", lambda members: dict.fromkeys(members, b"gets"))


def test_a_member_that_the_group_has_removed_is_told_so(source: LiveCluster) -> None:
    group_id = unique_name()
    with closing(open_member(source, group_id)) as member:
        assert member.heartbeat()
        joined = join(member)
        assert joined.is_leader
        assert joined.assignment == b"gets"
        assert member.heartbeat()
        with closing(open_member(source, group_id)) as other:
            other._identity = (joined.member_id, joined.generation)
            other.leave()
        with pytest.raises(MemberLost, match=group_id):
            member.heartbeat()
        assert join(member).member_id != joined.member_id
        member._identity = ("nobody-known", 7)
        with pytest.raises(MemberLost):
            join(member)
        assert member.heartbeat()


def test_a_member_with_an_old_generation_joins_again(source: LiveCluster) -> None:
    with closing(open_member(source, unique_name())) as member:
        joined = join(member)
        member._identity = (joined.member_id, joined.generation + 5)
        assert not member.heartbeat()
        assert join(member).member_id == joined.member_id


def test_a_join_that_waits_ends_when_its_member_leaves(source: LiveCluster) -> None:
    group_id = unique_name()
    ended: list[Exception] = []
    with (
        closing(open_member(source, group_id)) as first,
        closing(open_member(source, group_id)) as second,
    ):
        join(first)

        def wait() -> None:
            try:
                join(second)
            except MemberLost as exc:
                ended.append(exc)

        thread = threading.Thread(target=wait)
        thread.start()
        eventually(lambda: not first.heartbeat())
        second.leave()
        thread.join(5)
        assert [type(exc) for exc in ended] == [MemberLost]


@pytest.mark.peer
@pytest.mark.timeout(400)
def test_a_real_connect_and_we_do_not_share_a_group(source: LiveCluster, tmp_path: Path) -> None:
    properties = worker_properties(source)
    worker = worker_config(tmp_path, properties)
    with open_real_connect(tmp_path / "connect", properties) as connect:
        wait_until_it_answers(connect)
        with (
            closing(open_member(source, worker.group_id)) as member,
            pytest.raises(ForeignGroup, match=r"Kafka Connect.*another group\.id"),
        ):
            join(member)
        group = Group(worker, {"a"})
        ours = group.add("one")
        try:
            eventually(lambda: ours.state()[0] == "unhealthy")
            assert "INCONSISTENT_GROUP_PROTOCOL" in ours.state()[1]
            connect.peer.stop()
            group.await_loads(1, within=30)
        finally:
            ours.close()
