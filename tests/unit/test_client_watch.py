import socket
from datetime import timedelta

from heliograph.client.watch import Pulse, Watch, answers
from heliograph.model import Endpoint, TopicPartition

ORDERS = TopicPartition("orders", 0)
MOMENT = timedelta(milliseconds=200)
NOBODY = Endpoint("A", (("127.0.0.1", 1),))


def test_a_cluster_that_nobody_is_at_does_not_answer() -> None:
    assert not answers(NOBODY, timedelta(seconds=30))


def test_a_cluster_that_hangs_is_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert not answers(Endpoint("A", (server.getsockname(),)), MOMENT)


def test_an_answer_that_somebody_else_got_counts() -> None:
    pulse = Pulse(NOBODY, MOMENT)
    pulse.note_answer()
    assert pulse.silence() == timedelta(0)
    pulse._unanswered_since = 0.0
    before = pulse.silence()
    pulse.note_answer()
    assert pulse.silence() < before


def test_what_a_group_came_with_is_known_before_the_cluster_tells_it() -> None:
    def watch(committed: dict[TopicPartition, int] | None) -> Watch:
        return Watch(NOBODY, MOMENT, "billing", ["orders"], "runs", committed=committed)

    assert not watch(None).seen().is_known
    arrived = watch({ORDERS: 5})
    assert (arrived.seen().committed, arrived.seen().is_known) == ({ORDERS: 5}, True)
    arrived.note_commit({ORDERS: 7})
    assert arrived.seen().committed == {ORDERS: 7}
