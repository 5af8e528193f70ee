"""What takes time, in threads of its own: the loop hears of it by a bell. No broker is there."""

import select
import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import closing

import pytest

from heliograph.errors import ClusterUnreachable, ConfigError, KafkaFault
from heliograph.kafka.background import Background, Bell
from heliograph.kafka.brokers import await_any
from heliograph.kafka.cluster import Cluster, Described
from heliograph.model import Endpoint
from lab.clusters import eventually


@pytest.fixture
def bell() -> Iterator[Bell]:
    with closing(Bell()) as made:
        yield made


def rings(bell: Bell, within: float = 10) -> bool:
    return bool(await_any({bell.fileno(): select.POLLIN}, within))


@pytest.fixture
def nowhere() -> Endpoint:
    """A cluster at a port where nobody listens."""
    with closing(socket.create_server(("127.0.0.1", 0))) as closed:
        port: int = closed.getsockname()[1]
    return Endpoint("B", (("127.0.0.1", port),))


def test_a_bell_rings_when_an_errand_is_over_and_until_it_is_silenced(bell: Bell) -> None:
    go = threading.Event()

    def work() -> int:
        go.wait(30)
        return 7

    errand = bell.start(work, "work")
    assert not rings(bell, 0)
    assert not errand.is_over
    go.set()

    assert rings(bell)
    assert (errand.is_over, errand.result()) == (True, 7)
    assert rings(bell, 0), "nobody has listened yet"
    bell.silence()
    assert not rings(bell, 0)
    bell.silence()


def test_what_an_errand_raises_is_raised_by_its_result(bell: Bell) -> None:
    def work() -> None:
        raise ConfigError("no such file")

    errand = bell.start(work, "work")
    assert rings(bell)
    with pytest.raises(ConfigError, match="no such file"):
        errand.result()


def test_a_bell_that_was_closed_is_rung_in_vain(bell: Bell) -> None:
    del bell
    other = Bell()
    other.close()
    other.ring()


def test_a_cluster_that_does_not_answer_is_told_by_the_next_ask(
    bell: Bell, nowhere: Endpoint
) -> None:
    with closing(Background(nowhere, bell)) as brokers:
        assert brokers.describe_each({"t"}) is None, "nothing here waits"
        assert rings(bell)
        with pytest.raises(ClusterUnreachable):
            brokers.describe_each({"t"})
        assert brokers.describe_each({"t"}) is None, "it is asked again"
        assert rings(bell)


def test_a_broker_that_cannot_be_reached_is_told_and_not_tried_again_at_once(
    bell: Bell, nowhere: Endpoint
) -> None:
    with closing(Background(nowhere, bell)) as brokers:
        brokers._addresses = {1: nowhere.bootstrap[0]}
        assert brokers.channel(1) is None
        assert rings(bell)
        with pytest.raises(KafkaFault, match="connect to B at"):
            brokers.channel(1)
        bell.silence()
        assert brokers.channel(1) is None
        assert not brokers._opening, "there is a pause between two tries"
        brokers._not_before[1, 0] = 0.0
        assert brokers.channel(1) is None
        assert rings(bell)


def test_a_broker_that_nobody_has_heard_of_is_a_fault_that_may_pass(
    bell: Bell, nowhere: Endpoint
) -> None:
    with closing(Background(nowhere, bell)) as brokers:
        assert brokers.channel(9) is None
        assert rings(bell)
        with pytest.raises(KafkaFault) as missing:
            brokers.channel(9)
        assert missing.value.retriable


class Counted(Background):
    """A cluster that is described by what a test says, and counts how often."""

    asked = 0

    def _ask(self, names: frozenset[str]) -> Described:
        del names
        self.asked += 1
        return Described({}, {})


def test_what_was_asked_a_moment_ago_is_not_asked_again(
    bell: Bell, nowhere: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heliograph.kafka.background._FRESH", 3600.0)
    with closing(Counted(nowhere, bell)) as brokers:
        brokers.describe_each({"t", "u"})
        assert rings(bell)
        bell.silence()
        for _ in range(5):
            assert brokers.describe_each({"t"}) == Described({}, {})
        assert brokers.asked == 1
        assert brokers.describe_each({"v"}) is None, "another topic is"
        assert rings(bell)
        assert brokers.describe_each({"v"}) == Described({}, {})
        assert brokers.asked == 2


def test_leaders_are_taken_from_an_old_answer_for_a_moment_only(
    bell: Bell, nowhere: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heliograph.kafka.background._FRESH", -1.0)
    with closing(Counted(nowhere, bell)) as brokers:
        brokers.describe_each({"t"})
        assert rings(bell)
        assert brokers.describe_each({"t"}) is None
        eventually(lambda: brokers.asked == 2)


class Slow(Cluster):
    """A cluster that answers when a test says so, and notes that it was closed."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        self.may_answer = threading.Event()
        self.closed = 0

    def describe_each(self, names: Iterable[str] | None, node: int | None = None) -> Described:
        del names, node
        self.may_answer.wait(30)
        return Described({}, {})

    def close(self) -> None:
        self.closed += 1
        super().close()


def test_who_is_still_asked_when_all_is_closed_is_left_when_it_answers(
    bell: Bell, nowhere: Endpoint
) -> None:
    brokers = Background(nowhere, bell)
    slow = brokers._metadata = Slow(nowhere)
    assert brokers.describe_each({"t"}) is None
    brokers.close()
    assert not slow.closed, "it belongs to the thread that asks"

    slow.may_answer.set()

    eventually(lambda: slow.closed)


def test_an_address_that_answers_nonsense_is_a_fault_that_may_pass(bell: Bell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            line, _ = server.accept()
            line.recv(1000)
            line.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            line.close()

        threading.Thread(target=answer, daemon=True).start()
        place = server.getsockname()
        with closing(Background(Endpoint("B", (place,)), bell)) as brokers:
            brokers._addresses = {7: place}
            assert brokers.channel(7) is None
            assert rings(bell)
            with pytest.raises(KafkaFault, match="nothing that makes sense") as fault:
                brokers.channel(7)
    assert fault.value.retriable


def test_an_errand_that_gets_no_thread_ends_with_a_fault_that_may_pass(
    bell: Bell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    errand = bell.start(lambda: 1, "broker 3")

    assert errand.is_over
    assert rings(bell)
    with pytest.raises(KafkaFault, match=r"start a thread for broker 3.*new thread") as caught:
        errand.result()
    assert caught.value.retriable
