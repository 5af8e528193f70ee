"""What a producer makes of answers, with brokers that send them in pieces."""

import struct

import pytest

from heliograph.kafka.lane import Lane, Outgoing, Refused, Stored
from heliograph.kafka.produce import Producer
from heliograph.model import TopicPartition
from tests.unit.kafka.channels import Two

NOT_LEADER, TOO_LARGE, NOT_ALLOWED = 6, 10, 29


def answer(index: int, offset: int, error: int = 0) -> bytes:
    """Return what a broker answers for one partition of the topic `t`."""
    partition = struct.pack(">ihqqq", index, error, offset, -1, 0) + struct.pack(">ih", 0, -1)
    return struct.pack(">ih", 1, 1) + b"t" + struct.pack(">i", 1) + partition + bytes(4)


def batch(upstream: int) -> Outgoing:
    return Outgoing(b"head", b"payload", 1, upstream, -1)


class Scene:
    """A producer of two partitions with a leader each, and what it has told."""

    def __init__(self) -> None:
        self.brokers = Two()
        self.stored: list[Stored] = []
        self.refused: list[Refused] = []
        self.producer = Producer(
            self.brokers,
            "A->B",
            [Lane(index, TopicPartition("t", index)) for index in range(2)],
            on_stored=self.stored.append,
            on_refused=self.refused.append,
        )

    def send(self, *slots: int) -> None:
        for slot in slots:
            self.producer.offer(slot, batch(10 * slot + 1))
        self.producer.send()


def test_answers_of_two_brokers_that_come_in_turns_are_received_apart() -> None:
    scene = Scene()
    scene.send(0, 1)
    first, second = scene.brokers.channels
    first.answer(answer(0, 100))
    second.answer(answer(1, 200))

    first.arrive(0.5)
    assert not scene.producer.collect({0})
    second.arrive()
    assert scene.producer.collect({1})
    first.arrive()
    assert scene.producer.collect({0})

    assert [(s.slot, s.base_offset) for s in scene.stored] == [(1, 200), (0, 100)]
    assert scene.producer.idle
    assert scene.producer.unstored_bytes == 0


def test_what_is_offered_is_counted_until_it_is_stored_or_given_up() -> None:
    scene = Scene()
    scene.send(0, 1)
    scene.producer.offer(0, batch(2))
    assert scene.producer.unstored_bytes == 3 * len(b"payload")
    assert scene.producer.is_busy(0)

    scene.producer.abandon(0)
    assert scene.producer.unstored_bytes == len(b"payload")
    assert scene.producer.is_busy(0), "an answer is still due"
    scene.brokers.channels[0].answer(answer(0, 100))
    scene.brokers.channels[0].arrive()
    scene.producer.collect({0})

    assert not scene.producer.is_busy(0)
    assert scene.stored == [], "nobody waits for it any more"
    scene.producer.remove(0)


def test_a_batch_that_is_refused_stops_its_partition_alone() -> None:
    scene = Scene()
    scene.send(0, 1)
    for index, channel in enumerate(scene.brokers.channels):
        channel.answer(answer(index, 100, 0 if index else TOO_LARGE))
        channel.arrive()
    scene.producer.collect({0, 1})

    assert [(r.slot, r.reason, r.may_pass) for r in scene.refused] == [
        (0, "MESSAGE_SIZE_TOO_LARGE", False)
    ]
    assert [s.slot for s in scene.stored] == [1]


def test_a_leader_that_is_none_any_more_is_trouble_until_the_batch_is_stored() -> None:
    scene = Scene()
    scene.send(0)
    channel = scene.brokers.channels[0]
    channel.answer(answer(0, -1, NOT_LEADER))
    channel.arrive()
    scene.producer.collect({0})

    assert list(scene.producer.troubled) == [0]
    assert "NOT_LEADER" in str(scene.producer.trouble)
    assert scene.producer.retry_in() is not None
    scene.producer.retry_now()
    scene.producer.send()
    channel.answer(answer(0, 100))
    channel.arrive()
    scene.producer.collect({0})

    assert [s.base_offset for s in scene.stored] == [100]
    assert scene.producer.troubled == {}


def test_until_a_partition_has_answered_one_batch_of_it_is_in_flight() -> None:
    """A broker that knows nothing of a producer takes the second batch without the first."""
    scene = Scene()
    scene.send(0, 0, 0)
    channel = scene.brokers.channels[0]
    assert len(channel.sent) == 1

    channel.answer(answer(0, 100))
    channel.arrive()
    scene.producer.collect({0})
    scene.producer.send()
    assert len(channel.sent) == 3, "it knows the producer now"


def test_after_a_failure_one_batch_is_in_flight_again() -> None:
    scene = Scene()
    scene.send(0)
    channel = scene.brokers.channels[0]
    channel.answer(answer(0, 100))
    channel.arrive()
    scene.producer.collect({0})
    scene.send(0)
    channel.answer(answer(0, -1, NOT_LEADER))
    channel.arrive()
    scene.producer.collect({0})

    scene.producer.retry_now()
    scene.send(0, 0)

    assert len(channel.sent) == 3


def test_partitions_of_a_broker_that_stopped_answering_wait_until_it_answers() -> None:
    scene = Scene()
    scene.send(0, 1)
    silent = scene.brokers.channels[0]
    assert scene.producer.silent_at() < float("inf")
    silent.silent_for = 2.0
    scene.producer.collect(set())

    assert list(scene.producer.troubled) == [0]
    assert "does not answer" in str(scene.producer.trouble)
    assert not silent.is_sending, "it is given time"
    silent.answer(answer(0, 100))
    silent.arrive()
    scene.producer.collect({0})
    assert scene.producer.troubled == {}


def test_an_answer_that_makes_no_sense_costs_its_connection_and_its_batches_are_sent_again() -> (
    None
):
    scene = Scene()
    scene.brokers.may_drop = True
    scene.send(0)
    channel = scene.brokers.channels[0]
    channel.answer(b"\0\0")
    channel.arrive()
    scene.producer.collect({0})
    assert "ends early" in str(scene.producer.trouble)

    scene.producer.retry_now()
    scene.producer.send()
    channel.answer(answer(0, 100))
    channel.arrive()
    scene.producer.collect({0})
    assert [s.base_offset for s in scene.stored] == [100]


def test_a_request_that_has_left_in_part_is_given_up_when_it_may_be_too_late() -> None:
    scene = Scene()
    scene.brokers.may_drop = True
    scene.send(0, 1)
    scene.brokers.channels[0].is_sending = True

    scene.producer.cut()

    assert list(scene.producer.troubled) == [0]
    assert scene.producer.is_busy(0), "it is sent again"


@pytest.mark.parametrize(("error", "for_good"), [(TOO_LARGE, True), (NOT_ALLOWED, False)])
def test_only_what_the_same_records_would_meet_again_is_refused_for_good(
    error: int, for_good: bool
) -> None:
    scene = Scene()
    scene.send(0)
    scene.brokers.channels[0].answer(answer(0, -1, error))
    scene.brokers.channels[0].arrive()
    scene.producer.collect({0})

    assert [(r.slot, r.for_good) for r in scene.refused] == [(0, for_good)]


def test_a_partition_that_was_given_up_does_not_wait_for_a_broker_that_falls_silent() -> None:
    scene = Scene()
    scene.send(0)
    scene.producer.abandon(0)
    scene.brokers.channels[0].silent_for = 2.0

    scene.producer.collect(set())

    assert scene.producer.troubled == {}, "its slot may be gone by then"


def test_what_waits_for_a_broker_keeps_no_response_alive() -> None:
    scene = Scene()
    response = memoryview(bytearray(1000))
    sent, waiting = (Outgoing(b"head", response[:10], 1, n, -1) for n in (1, 2))
    for each in (sent, waiting):
        scene.producer.offer(0, each)
    scene.producer.send()

    scene.producer.unpin(0)
    scene.producer.unpin(7)

    assert [type(each.payload) for each in (sent, waiting)] == [bytes, bytes]
    assert sent.payload == bytes(10)


def test_a_partition_is_full_while_some_of_it_could_not_be_sent() -> None:
    scene = Scene()
    assert not scene.producer.is_full(0)
    scene.send(0, 0)
    assert scene.producer.is_full(0), "one batch is in flight until its broker is known to answer"
    assert not scene.producer.is_full(1)
    scene.brokers.channels[0].answer(answer(0, 100))
    scene.brokers.channels[0].arrive()
    assert scene.producer.collect({0})
    scene.producer.send()

    assert not scene.producer.is_full(0)


def test_what_a_writer_has_put_off_counts_as_unstored_and_its_partition_is_not_at_rest() -> None:
    scene = Scene()
    scene.producer.put_off(0, 500)
    assert scene.producer.unstored_bytes == 500
    assert scene.producer.is_busy(0)
    assert not scene.producer.idle
    scene.producer.go_on(0)
    assert (scene.producer.unstored_bytes, scene.producer.idle) == (0, True)

    scene.send(0)
    scene.producer.put_off(0, 500)
    scene.producer.abandon(0)
    assert scene.producer.unstored_bytes == 0
