"""What a producer makes of answers, with brokers that send them in pieces."""

import struct

from heliograph.kafka.produce import Lane, Outgoing, Producer, Refused, Stored
from heliograph.model import TopicPartition
from tests.unit.kafka.channels import Two

NOT_LEADER, TOO_LARGE = 6, 10


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
