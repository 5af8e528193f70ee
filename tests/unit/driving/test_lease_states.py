"""Leases as a job grants them: which task may have which slice, and what counts of what it says. Tasks are played here."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress

import pytest

from heliograph.copying.lease import Lease, LeaseLost
from heliograph.driving.job import FlowJob
from heliograph.driving.lease_server import LeaseServer
from heliograph.model import StopKind, TopicPartition
from heliograph.wire.lease_messages import (
    Alive,
    Claim,
    End,
    Left,
    Limit,
    Order,
    Ping,
    Report,
    Share,
    SlotWritten,
    Stopped,
    Take,
)
from lab.clusters import eventually
from tests.unit.driving.jobs import Driven


class Played:
    """A task that says what a test says, and keeps its orders."""

    def __init__(
        self, leases: LeaseServer, tasks: ExitStack, task: int, slice_index: int = 0
    ) -> None:
        host, port = leases.address
        claim = Claim("A->B", slice_index, task, host, port, leases.secret)
        self.lease = tasks.enter_context(closing(Lease(claim, task)))
        _, self.orders = self.lease.await_welcome()

    def until_ordered(self, kind: type[Order]) -> Order:
        """Return the first order of a kind, once it has come."""

        def come() -> Order | None:
            self.orders += self.lease.poll()
            return next((order for order in self.orders if isinstance(order, kind)), None)

        order = eventually(come)
        assert order is not None
        self.orders.remove(order)
        return order

    def take_all(self) -> Take:
        """Return all three partitions, which may come in several orders."""
        shares: tuple[Share, ...] = ()
        while len(shares) < 3:
            order = self.until_ordered(Take)
            assert isinstance(order, Take)
            shares += order.shares
        return Take(shares)

    def is_lost(self) -> bool:
        try:
            self.orders += self.lease.poll()
        except LeaseLost:
            return True
        return False


@pytest.fixture
def job(driven: Driven) -> Iterator[FlowJob]:
    """A job whose Spark starts no tasks: a test plays them."""
    driven.engine.is_up = False
    started = driven.start()
    yield started
    started._roster.end()


@pytest.fixture
def tasks() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def play(driven: Driven, tasks: ExitStack, task: int, slice_index: int = 0) -> Played:
    return Played(driven.leases, tasks, task, slice_index)


def row(slot: int, upstream: int) -> SlotWritten:
    runs = ((0, 1, upstream),)
    return SlotWritten(slot, upstream, upstream + 1, upstream, upstream, 10, runs, -1, None)


def test_a_task_is_given_the_partitions_of_its_slice_with_an_identity_each(
    driven: Driven, job: FlowJob, tasks: ExitStack
) -> None:
    taken = play(driven, tasks, 1).take_all()
    assert {share.source for share in taken.shares} == set(driven.pair.places)
    assert all(share.identity.producer_id >= 0 and share.resume for share in taken.shares)
    assert len({share.slot for share in taken.shares}) == 3
    assert all(partition.holder is not None for partition in job.partitions())


def test_a_later_task_ends_the_lease_of_the_one_before_and_gets_what_that_had(
    driven: Driven, job: FlowJob, tasks: ExitStack
) -> None:
    before = play(driven, tasks, 1)
    first = before.take_all()
    after = play(driven, tasks, 2)
    second = after.take_all()

    eventually(before.is_lost)
    epochs = {s.source: s.identity for s in first.shares}
    for share in second.shares:
        assert share.resume, "the one before may have written more than it said"
        assert share.identity.epoch > epochs[share.source].epoch
    assert job.tasks() == 1


def test_an_earlier_task_that_comes_late_gets_no_lease(
    driven: Driven, job: FlowJob, tasks: ExitStack
) -> None:
    current = play(driven, tasks, 2)
    current.take_all()
    with pytest.raises(LeaseLost):
        play(driven, tasks, 1)
    assert not current.is_lost()
    assert job.tasks() == 1


@pytest.mark.usefixtures("job")
def test_a_slice_that_the_job_does_not_have_gets_no_lease(driven: Driven, tasks: ExitStack) -> None:
    with pytest.raises(LeaseLost):
        play(driven, tasks, 1, slice_index=7)


def test_a_job_that_ends_tells_its_tasks_and_lets_no_more_in(
    driven: Driven, job: FlowJob, tasks: ExitStack
) -> None:
    task = play(driven, tasks, 1)
    task.take_all()
    job._roster.end()
    task.until_ordered(End)
    with pytest.raises(LeaseLost):
        play(driven, tasks, 2)


def test_what_a_replaced_task_still_says_does_not_count(
    driven: Driven, job: FlowJob, tasks: ExitStack
) -> None:
    before = play(driven, tasks, 1)
    before.take_all()
    line = job._roster.attempts[0].line
    after = play(driven, tasks, 2)
    after.take_all()
    job.heard(line, Report(written=(row(0, 99),)))
    job.heard(line, Left((0, 1, 2)))
    job.heard(line, Stopped(1, 5, StopKind.CORRUPT, "it says", -1, spent=True))

    assert {p.position.upstream for p in job.partitions()} == {0}
    assert job.stopped() == []
    assert all(partition.holder is not None for partition in job.partitions())
    assert driven.runs == {}


def test_a_ping_is_answered_while_the_driver_is_sure_of_its_flow(
    driven: Driven, job: FlowJob, tasks: ExitStack
) -> None:
    task = play(driven, tasks, 1)
    task.take_all()
    task.lease.send(Ping(1))
    answer = task.until_ordered(Alive)
    assert isinstance(answer, Alive)
    assert answer.number == 1
    assert answer.seconds > 0

    job._given_up = True  # as after it was fenced
    assert not job.is_sure()
    task.lease.send(Ping(2))
    task.lease.send(Report(written=(row(0, 4),)))
    eventually(lambda: driven.runs)  # what was said before it was heard
    task.orders += task.lease.poll()
    assert not any(isinstance(order, Alive) for order in task.orders)


def test_where_records_went_is_known_before_the_position_after_them(
    driven: Driven, job: FlowJob, tasks: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Invariant D of the job."""
    known: list[tuple[TopicPartition, int]] = []

    def position(source: TopicPartition) -> int:
        return next(p.position.upstream for p in job.partitions() if p.source == source)

    monkeypatch.setattr(job, "_on_runs", lambda source, _: known.append((source, position(source))))
    task = play(driven, tasks, 1)
    slots = [share.slot for share in task.take_all().shares]
    task.lease.send(Report(written=tuple(row(slot, 4) for slot in slots)))

    eventually(lambda: all(position(place) == 4 for place in driven.pair.places))
    assert sorted(known) == [(place, 0) for place in driven.pair.places]


def test_a_partition_that_was_left_behind_is_fenced_and_its_tail_is_read(
    driven: Driven, job: FlowJob, tasks: ExitStack
) -> None:
    task = play(driven, tasks, 1)
    (share,) = [s for s in task.take_all().shares if s.source == driven.pair.places[0]]
    task.lease.send(Left((share.slot,), behind=True))
    again = task.until_ordered(Take)
    assert isinstance(again, Take)
    (given,) = again.shares
    assert (given.source, given.resume) == (share.source, True)
    assert given.identity.epoch > share.identity.epoch
    assert job.tasks() == 1


def test_a_partition_that_was_handed_over_is_given_on_without_a_fence_and_in_its_sequence(
    driven: Driven, job: FlowJob, tasks: ExitStack
) -> None:
    task = play(driven, tasks, 1)
    (share,) = [s for s in task.take_all().shares if s.source == driven.pair.places[0]]
    task.lease.send(Report(written=(row(share.slot, 4),)))
    task.lease.send(Left((share.slot,)))
    again = task.until_ordered(Take)
    assert isinstance(again, Take)
    (given,) = again.shares
    assert (given.identity, given.sequence, given.resume) == (share.identity, 4, False)
    assert (given.position.upstream, given.position.downstream) == (4, 5)
    assert job.tally.restarts == 0


def test_a_new_limit_reaches_the_task_that_holds_the_partition(
    driven: Driven, job: FlowJob, tasks: ExitStack
) -> None:
    task = play(driven, tasks, 1)
    (share,) = [s for s in task.take_all().shares if s.source == driven.pair.places[0]]
    grown = driven.partitions()
    grown[0].max_message_bytes = 5 << 20
    job.assign(grown)
    assert task.until_ordered(Limit) == Limit(share.slot, 5 << 20)


@pytest.mark.parametrize(
    "first",
    [b"no JSON\n", b'{"Ping": [1]}\n', b"x" * (20 << 10), b""],
    ids=["words", "ping", "long", "nothing"],
)
def test_a_stranger_is_disconnected_and_harms_nobody(
    driven: Driven, job: FlowJob, tasks: ExitStack, first: bytes
) -> None:
    task = play(driven, tasks, 1)
    task.take_all()
    with closing(socket.create_connection(driven.leases.address, 30)) as stranger:
        stranger.sendall(first)
        stranger.shutdown(socket.SHUT_WR)
        with suppress(ConnectionResetError):  # where it had sent more than was read
            assert stranger.recv(100) == b""
    assert not task.is_lost()
    assert job.tasks() == 1
