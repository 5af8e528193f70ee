"""The producer's invariants A to E on brokers that fail at exact points. In process only: a real one cannot be timed so.

What these brokers answer to duplicates, gaps and epochs is what real ones answer: see test_broker_stores.py.
"""

from contextlib import ExitStack

import pytest

from heliograph.errors import FlowFenced
from heliograph.model import ProducerIdentity, TopicPartition
from lab.inprocess.cluster import InProcessCluster
from lab.inprocess.code import Code
from lab.inprocess.messages import Api
from lab.inprocess.script import Event, Fate
from lab.inprocess.topics import NO_LEADER
from tests.unit.kafka.asking import Asker, a_batch
from tests.unit.kafka.brokers import Sending, stored_values

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
IN_FLIGHT = 5


def values(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % n for n in range(first, first + count)]


@pytest.fixture
def sending(cluster: InProcessCluster, stack: ExitStack) -> Sending:
    """A producer of two partitions with a leader each; both know it already."""
    cluster.create_topic("t", 2)
    made = Sending(cluster.endpoint, [T0, T1], stack)
    for slot in range(2):
        made.offer(b"first", slot=slot)
    made.drain()
    made.stored.clear()
    return made


def check(sending: Sending, cluster: InProcessCluster, *wanted: bytes) -> None:
    """Everything is stored once, in order, and was reported in order where it is."""
    assert stored_values(cluster, T0) == [b"first", *wanted]
    assert [s.base_offset for s in sending.stored if s.slot == 0] == [
        *range(1, 1 + len(wanted)),
    ]
    assert sending.refused == []
    assert sending.producer.unstored_bytes == 0
    assert sending.producer.troubled == {}


@pytest.mark.parametrize("fate", [Fate.UNHEARD, Fate.UNANSWERED])
@pytest.mark.parametrize("at", range(1, IN_FLIGHT + 1))
def test_a_connection_that_ends_at_any_request_in_flight_loses_and_repeats_nothing(
    sending: Sending, cluster: InProcessCluster, fate: Fate, at: int
) -> None:
    lost = cluster.plan(Event(Api.PRODUCE, first=at, fate=fate))
    sending.offer(*values(12))
    sending.drain()

    assert lost.happened.is_set()
    check(sending, cluster, *values(12))


def test_connections_that_end_again_and_again_lose_and_repeat_nothing(
    sending: Sending, cluster: InProcessCluster
) -> None:
    for first, fate in ((2, Fate.UNANSWERED), (5, Fate.UNHEARD), (7, Fate.UNANSWERED)):
        cluster.plan(Event(Api.PRODUCE, first=first, fate=fate))
    sending.offer(*values(20))
    sending.drain()
    check(sending, cluster, *values(20))


def test_a_partition_is_refused_and_all_from_that_batch_on_is_sent_again(
    sending: Sending, cluster: InProcessCluster
) -> None:
    """Invariants A and B: those behind it were refused, too, as out of order."""
    cluster.plan(
        Event(
            Api.PRODUCE,
            first=2,
            before=lambda: cluster.trouble(T0, Code.KAFKA_STORAGE_ERROR),
            after=lambda: cluster.trouble(T0, Code.NONE),
        )
    )
    sending.offer(*values(9))
    sending.until(lambda: sending.producer.trouble)
    assert "KAFKA_STORAGE_ERROR" in str(sending.producer.trouble)
    sending.drain()
    check(sending, cluster, *values(9))


def test_a_leader_that_moves_between_two_batches_is_followed(
    sending: Sending, cluster: InProcessCluster
) -> None:
    cluster.plan(Event(Api.PRODUCE, first=3, before=lambda: cluster.elect(T0, 2)))
    sending.offer(*values(9))
    sending.drain()
    check(sending, cluster, *values(9))
    assert {asked.node for asked in cluster.asked(Api.PRODUCE)[-2:]} == {2}


def test_a_leader_that_moves_after_it_has_stored_and_not_answered_is_followed(
    sending: Sending, cluster: InProcessCluster
) -> None:
    cluster.plan(
        Event(Api.PRODUCE, first=2, fate=Fate.UNANSWERED, after=lambda: cluster.elect(T0, 2))
    )
    sending.offer(*values(9))
    sending.drain()
    check(sending, cluster, *values(9))


def test_no_more_than_five_requests_are_in_flight(
    sending: Sending, cluster: InProcessCluster
) -> None:
    """Invariant D."""
    held = cluster.hold(Api.PRODUCE)
    before = len(cluster.asked(Api.PRODUCE))
    sending.offer(*values(12))
    for _ in range(5):
        sending.turn()
    assert len(sending.producer._flying[1]) == IN_FLIGHT
    # The broker looks at one request of a connection at a time, so it has begun one of them.
    assert len(cluster.asked(Api.PRODUCE)) == before + 1
    assert sending.producer.is_full(0), "seven wait here"

    cluster.release(held)
    sending.drain()
    check(sending, cluster, *values(12))


def test_a_first_batch_that_fails_does_not_leave_a_gap_before_the_second(
    cluster: InProcessCluster, stack: ExitStack
) -> None:
    """Invariant E: this broker knows nothing of the producer, and would take the second batch without the first."""
    cluster.create_topic("t", 1)
    failed = cluster.plan(
        Event(
            Api.PRODUCE,
            before=lambda: cluster.trouble(T0, Code.KAFKA_STORAGE_ERROR),
            after=lambda: cluster.trouble(T0, Code.NONE),
        )
    )
    fresh = Sending(cluster.endpoint, [T0], stack)
    fresh.offer(*values(6))
    fresh.drain()
    assert failed.happened.is_set()
    assert stored_values(cluster, T0) == values(6)
    assert fresh.refused == []


def test_a_batch_that_fails_at_a_broker_that_forgot_the_producer_leaves_no_gap(
    sending: Sending, cluster: InProcessCluster
) -> None:
    """Invariant E, after an idle time: what the broker knew may have expired."""
    sending.producer._lanes[0].known_at = float("-inf")
    cluster.change_log(T0, lambda log: log.senders.forget())
    cluster.plan(
        Event(
            Api.PRODUCE,
            before=lambda: cluster.trouble(T0, Code.KAFKA_STORAGE_ERROR),
            after=lambda: cluster.trouble(T0, Code.NONE),
        )
    )
    sending.offer(*values(6))
    sending.drain()
    check(sending, cluster, *values(6))


def test_after_a_failure_one_batch_goes_alone_because_the_next_leader_may_know_nothing(
    sending: Sending, cluster: InProcessCluster
) -> None:
    """Invariant E, again: all five in flight fail, and so does the first that is sent again."""
    cluster.plan(Event(Api.PRODUCE, before=lambda: cluster.trouble(T0, Code.KAFKA_STORAGE_ERROR)))
    again = cluster.plan(
        Event(
            Api.PRODUCE,
            first=IN_FLIGHT + 1,
            before=lambda: cluster.change_log(T0, lambda log: log.senders.forget()),
            after=lambda: cluster.trouble(T0, Code.NONE),
        )
    )
    sending.offer(*values(8))
    sending.drain()
    assert again.happened.is_set()
    check(sending, cluster, *values(8))


def test_a_second_batch_that_a_broker_would_take_first_shows_why_one_goes_alone(
    cluster: InProcessCluster, stack: ExitStack
) -> None:
    cluster.create_topic("t", 1)
    asker = Asker(cluster.endpoint, stack)
    sender = ProducerIdentity(7, 0)
    assert asker.produce(T0, a_batch(b"1", identity=sender, sequence=1)) == (0, 0)
    late = asker.produce(T0, a_batch(b"0", identity=sender, sequence=0))
    assert late[0] == Code.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_stored_batches_are_reported_in_order_although_one_fails_between_them(
    sending: Sending, cluster: InProcessCluster
) -> None:
    """Invariant C, on two brokers of which one goes away for a moment."""
    cluster.plan(Event(Api.PRODUCE, first=2, node=2, before=lambda: cluster.close_node(2)))
    for n in range(8):
        sending.offer(b"%d" % n, slot=0)
        sending.offer(b"%d" % n, slot=1)
    sending.until(lambda: not sending.producer.is_busy(0))
    assert [s.base_offset for s in sending.stored if s.slot == 0] == list(range(1, 9))

    cluster.open_node(2)
    sending.drain()
    assert [s.base_offset for s in sending.stored if s.slot == 1] == list(range(1, 9))
    assert stored_values(cluster, T1) == [b"first", *values(8)]


def test_a_writer_with_a_later_epoch_ends_this_one(
    sending: Sending, cluster: InProcessCluster, stack: ExitStack
) -> None:
    asker = Asker(cluster.endpoint, stack)
    after = ProducerIdentity(sending.identity.producer_id, 1)
    assert asker.produce(T0, a_batch(b"successor", identity=after, sequence=0))[0] == 0

    sending.offer(*values(2))
    with pytest.raises(FlowFenced, match="another process mirrors this flow"):
        sending.drain()
    assert stored_values(cluster, T0) == [b"first", b"successor"]


def test_a_broker_that_has_forgotten_the_producer_stops_nothing(
    sending: Sending, cluster: InProcessCluster
) -> None:
    """It takes any sequence as the first; the batches in flight go out one by one then."""
    cluster.change_log(T0, lambda log: log.senders.forget())
    sending.offer(*values(4))
    sending.drain()
    check(sending, cluster, *values(4))


def test_a_gap_that_is_nobody_s_failure_is_reported_as_forgotten(
    sending: Sending, cluster: InProcessCluster
) -> None:
    sending.sequences[0] += 1
    sending.offer(b"after a gap")
    sending.until(lambda: sending.refused)
    (refused,) = sending.refused
    assert (refused.slot, refused.forgot, refused.may_pass) == (0, True, False)
    assert sending.producer.idle
    assert stored_values(cluster, T0) == [b"first"]


def test_a_batch_too_large_for_its_topic_is_refused_for_good_and_the_others_go_on(
    cluster: InProcessCluster, stack: ExitStack
) -> None:
    cluster.create_topic("t", 2, max_message_bytes=1000)
    sending = Sending(cluster.endpoint, [T0, T1], stack)
    sending.offer(bytes(2000), b"behind it", slot=0)
    sending.offer(b"fits", slot=1)
    sending.until(lambda: sending.producer.idle)

    (refused,) = sending.refused
    assert (refused.slot, refused.for_good) == (0, True)
    assert stored_values(cluster, T0) == []
    assert stored_values(cluster, T1) == [b"fits"]


def test_a_partition_without_a_leader_waits_and_goes_on_when_it_has_one(
    sending: Sending, cluster: InProcessCluster
) -> None:
    cluster.elect(T0, NO_LEADER)
    sending.offer(*values(3))
    sending.offer(*values(3), slot=1)
    sending.until(lambda: sending.producer.trouble == "t-0 has no leader")
    sending.until(lambda: not sending.producer.is_busy(1))
    assert sending.producer.held_bytes == sending.producer.unstored_bytes > 0

    cluster.elect(T0, 2)
    sending.drain()
    check(sending, cluster, *values(3))


def test_a_broker_that_falls_silent_holds_up_its_own_partitions_alone(
    sending: Sending, cluster: InProcessCluster
) -> None:
    cluster.silence(1)
    sending.offer(*values(3), slot=0)
    sending.offer(*values(3), slot=1)
    sending.until(lambda: sending.producer.troubled)
    assert sending.producer.trouble == "broker 1 of A does not answer"
    assert not sending.producer.is_busy(1)

    cluster.silence(1, is_silent=False)
    sending.drain()
    check(sending, cluster, *values(3))


def test_what_is_put_off_counts_as_unstored_until_it_is_offered(
    sending: Sending, cluster: InProcessCluster
) -> None:
    held = cluster.hold(Api.PRODUCE)
    sending.offer(*values(IN_FLIGHT + 1))
    sending.turn()
    assert sending.producer.is_full(0)
    before = sending.producer.unstored_bytes
    sending.producer.put_off(0, 1000)
    assert sending.producer.unstored_bytes == before + 1000

    cluster.release(held)
    sending.until(lambda: not sending.producer.is_full(0))
    sending.until(lambda: len(sending.stored) == IN_FLIGHT + 1)
    assert sending.producer.unstored_bytes == 1000
    assert sending.producer.is_busy(0), "what was put off is still to come"
    sending.producer.go_on(0)
    sending.offer(b"put off")
    sending.drain()
    check(sending, cluster, *values(IN_FLIGHT + 1), b"put off")


def test_a_partition_that_is_given_up_may_be_written_again_by_its_next_writer(
    sending: Sending, cluster: InProcessCluster, stack: ExitStack
) -> None:
    held = cluster.hold(Api.PRODUCE)
    sending.offer(*values(8))
    sending.turn()
    sending.producer.abandon(0)
    assert sending.producer.unstored_bytes == 0
    assert sending.producer.is_busy(0), "answers are due"
    cluster.release(held)
    sending.drain()
    assert sending.stored == [], "nobody waits for them"
    sending.producer.remove(0)

    after = Sending(cluster.endpoint, [T0], stack)
    after.identity = ProducerIdentity(8, 0)
    after.offer(b"successor")
    after.drain()
    assert stored_values(cluster, T0) == [b"first", *values(IN_FLIGHT), b"successor"]
