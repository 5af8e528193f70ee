"""Both ends of a lease, over a socket of this machine: what is said, in which order, and how it ends."""

import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from heliograph.copying.lease import Lease, LeaseLost
from heliograph.driving.lease_server import LeaseRefused, LeaseServer, Line
from heliograph.wire.lease_messages import (
    Alive,
    Claim,
    End,
    Fenced,
    Hello,
    Leave,
    Note,
    Order,
    Ping,
    Report,
    Welcome,
)
from lab.clusters import eventually
from tests.unit.copying.targets import WELCOME


class Landlord:
    """Grants every lease, and keeps what it hears."""

    def __init__(self) -> None:
        self.hellos: list[Hello] = []
        self.notes: list[Note] = []
        self.lines: list[Line] = []
        self.lost_lines: list[Line] = []
        self.first_orders: list[Order] = []
        self.refuses = False

    def grant(self, line: Line, hello: Hello) -> Welcome:
        if self.refuses:
            raise LeaseRefused(hello.flow, hello.slice_index, "the flow is being stopped")
        self.hellos.append(hello)
        self.lines.append(line)
        for order in self.first_orders:
            line.send(order)
        return WELCOME

    def heard(self, line: Line, note: Note) -> None:
        assert line is self.lines[-1]
        self.notes.append(note)

    def lost(self, line: Line) -> None:
        self.lost_lines.append(line)


@pytest.fixture
def landlord() -> Landlord:
    return Landlord()


@pytest.fixture
def leases(landlord: Landlord) -> Iterator[LeaseServer]:
    with closing(LeaseServer()) as server:
        server.register("A->B", landlord)
        yield server


def claim_of(leases: LeaseServer) -> Claim:
    host, port = leases.address
    return Claim("A->B", 2, 1, host, port, leases.secret)


@pytest.fixture
def lease(leases: LeaseServer) -> Iterator[Lease]:
    with closing(Lease(claim_of(leases), 7)) as opened:
        yield opened


def heard(lease: Lease, count: int) -> list[Order]:
    """Return so many orders, as they come."""
    orders: list[Order] = []

    def come() -> bool:
        orders.extend(lease.poll())
        return len(orders) >= count

    eventually(come)
    return orders


def test_a_task_introduces_itself_and_is_welcomed(lease: Lease, landlord: Landlord) -> None:
    welcome, orders = lease.await_welcome()

    assert welcome == WELCOME
    assert orders == []
    (hello,) = landlord.hellos
    assert (hello.flow, hello.slice_index, hello.task) == ("A->B", 2, 7)


def test_what_is_handed_to_a_task_before_its_welcome_is_not_forgotten(
    leases: LeaseServer, landlord: Landlord
) -> None:
    """A thread that hands out sees a task as soon as it is let in, and may be faster than its welcome."""
    landlord.first_orders = [Leave((1,)), End()]
    with closing(Lease(claim_of(leases), 7)) as lease:
        welcome, orders = lease.await_welcome()

    assert welcome == WELCOME
    assert orders == [Leave((1,)), End()]


def test_orders_and_notes_come_in_the_order_they_were_given(
    lease: Lease, landlord: Landlord
) -> None:
    lease.await_welcome()
    given: list[Order] = [*(Leave((n,)) for n in range(200)), Alive(5, 20.0), End()]
    for order in given:
        landlord.lines[0].send(order)
    assert heard(lease, len(given)) == given

    said: list[Note] = [Ping(n) for n in range(200)]
    for note in said:
        lease.send(note)
    eventually(lambda: len(landlord.notes) == len(said))
    assert landlord.notes == said


def test_a_long_note_is_sent_although_the_driver_is_busy(lease: Lease, landlord: Landlord) -> None:
    lease.await_welcome()
    long = Report(waits=dict.fromkeys(range(100_000), "the broker is away"))
    lease.send(long)

    def come() -> bool:
        lease.poll()  # sends on
        return bool(landlord.notes)

    eventually(come)
    assert landlord.notes == [replace(long, read=(), written=())]


def test_last_words_are_heard_before_the_line_ends(lease: Lease, landlord: Landlord) -> None:
    lease.await_welcome()
    lease.send(Fenced("somebody else has the flow"))
    lease.finish(10)
    lease.close()

    eventually(lambda: landlord.lost_lines)
    assert landlord.notes == [Fenced("somebody else has the flow")]
    assert landlord.lost_lines == landlord.lines
    assert not landlord.lines[0].is_open


def test_a_task_whose_driver_hangs_up_has_lost_its_lease(lease: Lease, landlord: Landlord) -> None:
    lease.await_welcome()
    landlord.lines[0].hang_up()

    with pytest.raises(LeaseLost, match="slice 2 lost its driver"):
        heard(lease, 1)


def test_a_task_whose_driver_says_nothing_for_long_has_lost_its_lease(
    lease: Lease, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease.await_welcome()
    assert lease.poll() == []
    monkeypatch.setattr("heliograph.copying.lease._SILENCE", -1.0)
    with pytest.raises(LeaseLost):
        lease.poll()


def test_a_task_whose_driver_is_gone_ends_at_once(leases: LeaseServer) -> None:
    claim = claim_of(leases)
    leases.close()
    with pytest.raises(LeaseLost):
        Lease(claim, 1)


@pytest.mark.parametrize("wrong", ["flow", "secret"])
def test_a_task_of_another_driver_gets_no_lease(leases: LeaseServer, wrong: str) -> None:
    claim = claim_of(leases)
    claim = replace(claim, flow="B->A") if wrong == "flow" else replace(claim, secret="a guess")
    with closing(Lease(claim, 1)) as lease, pytest.raises(LeaseLost):
        lease.await_welcome()


def test_a_task_that_is_not_wanted_gets_no_lease(leases: LeaseServer, landlord: Landlord) -> None:
    landlord.refuses = True
    with closing(Lease(claim_of(leases), 1)) as lease, pytest.raises(LeaseLost):
        lease.await_welcome()
    eventually(lambda: landlord.lost_lines)


def test_a_successor_is_not_forgotten_with_the_landlord_before_it(
    leases: LeaseServer, landlord: Landlord
) -> None:
    after = Landlord()
    leases.register("A->B", after)
    leases.forget("A->B", landlord)
    with closing(Lease(claim_of(leases), 1)) as lease:
        lease.await_welcome()
    assert len(after.hellos) == 1
    assert landlord.hellos == []


def test_a_line_that_is_gone_may_be_spoken_to(landlord: Landlord) -> None:
    del landlord
    ours, theirs = socket.socketpair()
    line = Line(ours)
    theirs.close()
    says: list[Callable[[], None]] = [lambda: line.send(End()), line.hang_up]
    for say in says * 2:
        say()
    ours.close()
    line.send(End())
