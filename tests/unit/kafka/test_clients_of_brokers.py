"""Our producer and fetcher on the in-process brokers in every run, and on real ones with `-m long`: the same comes out."""

from contextlib import ExitStack

import pytest

from heliograph.model import TopicPartition
from heliograph.net.faults import LOST_TOPIC
from lab.inprocess.code import Code
from tests.unit.kafka.asking import Asker, a_batch
from tests.unit.kafka.brokers import Fetching, Sending
from tests.unit.kafka.either import Either


@pytest.fixture
def places(either: Either) -> list[TopicPartition]:
    topic = either.create_topic(3)
    return [TopicPartition(topic, index) for index in range(3)]


def values(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % n for n in range(first, first + count)]


def test_what_is_written_is_read_once_and_in_order_while_a_leader_moves(
    either: Either, asker: Asker, places: list[TopicPartition], stack: ExitStack
) -> None:
    sending = Sending(either.endpoint, places, stack)
    sending.identity = asker.new_producer()
    fetching = Fetching(either.endpoint, places, stack)
    for moves in range(3):
        for slot in range(3):
            sending.offer(*values(5, 5 * moves), slot=slot)
        sending.turn()
        either.move(places[0], asker.other(places[0]))
        sending.drain()
        for _ in range(3):
            fetching.turn()
            fetching.fetcher.lost_leader(s.slot for s in fetching.failed)
            fetching.failed.clear()

    def read_all() -> bool:
        fetching.fetcher.lost_leader(s.slot for s in fetching.failed)
        fetching.failed.clear()
        return all(len(read) >= 15 for read in fetching.values.values())

    fetching.until(read_all)
    assert list(fetching.values.values()) == [values(15)] * 3
    assert [s.base_offset for s in sending.stored if s.slot == 0] == list(range(15))
    assert sending.refused == []


def test_a_batch_that_is_too_large_is_refused_for_good(either: Either, stack: ExitStack) -> None:
    topic = either.create_topic(1, max_message_bytes=1000)
    sending = Sending(either.endpoint, [TopicPartition(topic, 0)], stack)
    sending.offer(bytes(2000))
    sending.until(lambda: sending.refused)
    (refused,) = sending.refused
    assert (refused.for_good, refused.forgot) == (True, False)
    assert sending.producer.idle


def test_a_gap_in_a_sequence_is_reported_as_forgotten(
    either: Either, asker: Asker, places: list[TopicPartition], stack: ExitStack
) -> None:
    sending = Sending(either.endpoint, places, stack)
    sending.identity = asker.new_producer()
    sending.offer(b"0")
    sending.drain()
    sending.sequences[0] += 1
    sending.offer(b"2")
    sending.until(lambda: sending.refused)
    assert [(r.forgot, r.for_good) for r in sending.refused] == [(True, False)]


def test_records_that_were_deleted_are_out_of_range_and_reading_goes_on_after_them(
    either: Either, asker: Asker, places: list[TopicPartition], stack: ExitStack
) -> None:
    for value in values(4):
        asker.produce(places[0], a_batch(value))
    either.delete_before(places[0], 2)
    fetching = Fetching(either.endpoint, places, stack)
    fetching.until(lambda: fetching.failed)
    assert {(s.slot, s.error) for s in fetching.failed} == {(0, Code.OFFSET_OUT_OF_RANGE)}
    fetching.fetcher.moved(0, 2)
    fetching.until_read(*values(2, 2))


def test_a_topic_that_was_made_again_brings_an_error_and_no_records(
    either: Either, asker: Asker, stack: ExitStack
) -> None:
    place = TopicPartition(either.create_topic(), 0)
    fetching = Fetching(either.endpoint, [place], stack)
    asker.produce(place, a_batch(b"of the first"))
    fetching.until_read(b"of the first")
    either.recreate(place.topic)
    for _ in range(3):
        asker.produce(place, a_batch(b"of the second"))

    def is_lost() -> bool:
        """Ask again after each error, as a reader does: in the session that it had, a real broker goes on with NOT_LEADER."""
        errors = {section.error for section in fetching.failed}
        if errors:
            fetching.fetcher.lost_leader([0])
        return not LOST_TOPIC.isdisjoint(errors)

    fetching.until(is_lost)
    for _ in range(3):
        fetching.turn()
    assert fetching.values[0] == [b"of the first"]
