"""What brokers answer to readers, and in transactions, asked of the in-process broker in every run, and of real ones with `-m long`.

Tests of our fetcher rely on these answers, so whatever the in-process broker does differently shows here.
"""

import struct
import threading
from collections.abc import Callable

import pytest

from heliograph.kafka.transactions import (
    end_transaction,
    find_coordinator,
    take_over,
    try_partitions,
)
from heliograph.model import ProducerIdentity, TopicPartition
from lab.clusters import eventually, unique_name
from lab.inprocess.code import Code
from tests.unit.kafka.asking import Asker, Want, a_batch, fetch_request, read_fetched
from tests.unit.kafka.either import Either

LATEST, EARLIEST = -1, -2


@pytest.fixture
def partition(either: Either) -> TopicPartition:
    return TopicPartition(either.create_topic(), 0)


# Fetching


def test_a_topic_that_was_made_again_is_unknown_by_its_old_id(
    asker: Asker, either: Either, partition: TopicPartition
) -> None:
    old = asker.topic_id(partition.topic)
    either.recreate(partition.topic)
    leader = asker.leader(partition)
    assert asker.topic_id(partition.topic) != old

    told = asker.fetch(leader, [Want(0, old)]).told[0]
    assert (told.error, told.end, told.records) == (Code.UNKNOWN_TOPIC_ID, -1, b"")
    assert asker.fetch(leader, [Want(0, partition.topic)]).told[0].error == 0
    missing = asker.fetch(leader, [Want(0, unique_name())]).told[0]
    assert missing.error == Code.UNKNOWN_TOPIC_OR_PARTITION


def test_an_offset_that_a_log_does_not_have_is_out_of_range(
    asker: Asker, either: Either, partition: TopicPartition
) -> None:
    for _ in range(4):
        asker.produce(partition, a_batch(b"x"))
    beyond = asker.fetch_one(partition, 5)
    assert (beyond.error, beyond.end, beyond.stable) == (Code.OFFSET_OUT_OF_RANGE, -1, -1)
    at_end = asker.fetch_one(partition, 4)
    assert (at_end.error, at_end.end, at_end.records) == (0, 4, b"")

    either.delete_before(partition, 3)
    assert asker.fetch_one(partition, 2).error == Code.OFFSET_OUT_OF_RANGE
    assert asker.fetch_one(partition, 3).error == 0
    assert (asker.offset(partition, EARLIEST), asker.offset(partition, LATEST)) == (3, 4)


def test_a_fetch_within_a_batch_returns_the_whole_batch(
    asker: Asker, partition: TopicPartition
) -> None:
    asker.produce(partition, a_batch(b"a", b"b", b"c"))
    assert struct.unpack_from(">q", asker.fetch_one(partition, 2).records) == (0,)


def test_the_first_batch_comes_whole_and_later_ones_are_cut_or_left_out(
    asker: Asker, either: Either
) -> None:
    """A client that took a part for a batch would lose the rest of it."""
    topic = either.create_topic(3)
    sent = a_batch(bytes(500))
    for index in (0, 2):
        for _ in range(2):
            asker.produce(TopicPartition(topic, index), sent)
    topic_id = asker.topic_id(topic)
    leader = asker.leader(TopicPartition(topic, 0))

    small = [Want(0, topic_id, max_bytes=100), Want(2, topic_id, max_bytes=100)]
    assert [len(t.records) for t in asker.fetch(leader, small).told] == [len(sent), 0]
    part = [Want(0, topic_id, max_bytes=len(sent) + 50)]
    assert [len(t.records) for t in asker.fetch(leader, part).told] == [len(sent) + 50]
    few = [Want(0, topic_id), Want(2, topic_id)]
    told = asker.fetch(leader, few, max_bytes=len(sent)).told
    assert [len(t.records) for t in told] == [len(sent), 0]


def test_a_fetch_that_waits_is_answered_by_what_is_produced(
    asker: Asker, partition: TopicPartition
) -> None:
    want = Want(0, asker.topic_id(partition.topic))
    channel = asker.channel(asker.leader(partition))
    got: list[object] = []
    request, version = fetch_request([want], wait_ms=25_000)
    waits = threading.Thread(
        target=lambda: got.append(read_fetched(channel.call(request, version)))
    )
    waits.start()
    sent = a_batch(b"news")
    # The connection is busy: a broker answers the requests of one in their order.
    asker._channels.clear()
    asker.produce(partition, sent)

    waits.join(30)
    (fetched,) = got
    assert getattr(fetched, "told")[0].records[16:] == sent[16:]  # noqa: B009 - made in the thread


# Sessions


def test_a_session_tells_what_has_changed_and_nothing_else(asker: Asker, either: Either) -> None:
    topic = either.create_topic(5)
    topic_id = asker.topic_id(topic)
    leader = asker.leader(TopicPartition(topic, 0))
    wants = [Want(index, topic_id) for index in (0, 2, 4)]

    opened = asker.fetch(leader, wants, epoch=0)
    assert (opened.error, opened.session > 0) == (0, True)
    assert [(t.partition, t.end) for t in opened.told] == [(0, 0), (2, 0), (4, 0)]
    session = opened.session
    nothing = asker.fetch(leader, [], session=session, epoch=1)
    assert (nothing.error, nothing.session, nothing.told) == (0, session, [])

    asker.produce(TopicPartition(topic, 2), a_batch(b"x"))
    first = asker.fetch(leader, [], session=session, epoch=2)
    assert [(t.partition, t.end) for t in first.told] == [(2, 1)]
    again = asker.fetch(leader, [], session=session, epoch=3)
    assert again.told == first.told, "it was not told that this was read"
    moved = asker.fetch(leader, [Want(2, topic_id, 1)], session=session, epoch=4)
    assert moved.told == []


def test_what_a_session_forgets_is_not_told_any_more(asker: Asker, either: Either) -> None:
    topic = either.create_topic(3)
    topic_id = asker.topic_id(topic)
    leader = asker.leader(TopicPartition(topic, 0))
    opened = asker.fetch(leader, [Want(0, topic_id), Want(2, topic_id)], epoch=0)
    asker.fetch(leader, [], session=opened.session, epoch=1, forget=[Want(0, topic_id)])
    for index in (0, 2):
        asker.produce(TopicPartition(topic, index), a_batch(b"x"))

    told = asker.fetch(leader, [], session=opened.session, epoch=2).told
    assert [t.partition for t in told] == [2]


def test_a_session_forgets_after_it_has_added(asker: Asker, either: Either) -> None:
    """Why a partition that is fetched again must not be forgotten in the same request."""
    topic = either.create_topic(3)
    topic_id = asker.topic_id(topic)
    leader = asker.leader(TopicPartition(topic, 0))
    wants = [Want(0, topic_id), Want(2, topic_id)]
    session = asker.fetch(leader, wants, epoch=0).session
    for index in (0, 2):
        asker.produce(TopicPartition(topic, index), a_batch(b"x"))

    told = asker.fetch(leader, wants, session=session, epoch=1, forget=wants[:1]).told
    assert [t.partition for t in told] == [2]


def test_an_error_is_told_again_until_it_has_passed(asker: Asker, either: Either) -> None:
    topic = either.create_topic(3)
    topic_id = asker.topic_id(topic)
    leader = asker.leader(TopicPartition(topic, 0))
    wants = [Want(0, topic_id), Want(2, topic_id, 9)]
    session = asker.fetch(leader, wants, epoch=0).session
    for epoch in (1, 2):
        told = asker.fetch(leader, [], session=session, epoch=epoch).told
        assert [(t.partition, t.error) for t in told] == [(2, Code.OFFSET_OUT_OF_RANGE)]
    passed = asker.fetch(leader, [Want(2, topic_id, 0)], session=session, epoch=3).told
    assert [(t.partition, t.error, t.end) for t in passed] == [(2, 0, 0)]


def test_a_session_that_nobody_knows_or_that_is_elsewhere_is_an_error(
    asker: Asker, partition: TopicPartition
) -> None:
    leader = asker.leader(partition)
    want = Want(0, asker.topic_id(partition.topic))
    session = asker.fetch(leader, [want], epoch=0).session
    lost = asker.fetch(leader, [], session=session - 1, epoch=1)
    assert lost == (Code.FETCH_SESSION_ID_NOT_FOUND, 0, [])
    for epoch in (2, 7):
        torn = asker.fetch(leader, [], session=session, epoch=epoch)
        assert torn == (Code.INVALID_FETCH_SESSION_EPOCH, 0, [])
    assert asker.fetch(leader, [], session=session, epoch=1).error == 0


def test_a_fetch_without_a_session_opens_none_and_ends_the_one_it_names(
    asker: Asker, partition: TopicPartition
) -> None:
    leader = asker.leader(partition)
    want = Want(0, asker.topic_id(partition.topic))
    assert asker.fetch(leader, [want], epoch=-1).session == 0
    empty = asker.fetch(leader, [], epoch=0).session
    assert empty > 0
    assert asker.fetch(leader, [], session=empty, epoch=1) == (0, 0, []), "nothing is remembered"
    session = asker.fetch(leader, [want], epoch=0).session
    assert asker.fetch(leader, [want], session=session, epoch=-1).session == 0
    ended = asker.fetch(leader, [], session=session, epoch=1)
    assert ended.error == Code.FETCH_SESSION_ID_NOT_FOUND


# Leaders


def test_a_partition_that_moves_has_a_new_epoch_and_all_its_records(
    asker: Asker, either: Either, partition: TopicPartition
) -> None:
    asker.produce(partition, a_batch(b"a"))
    before, other = asker.leader(partition), asker.other(partition)
    epoch = asker.cluster.describe([partition.topic])[partition.topic].epoch_of(0)
    either.move(partition, other)

    topic = asker.cluster.describe([partition.topic])[partition.topic]
    assert topic.leaders == (other,)
    assert topic.epoch_of(0) > epoch
    assert asker.produce(partition, a_batch(b"b")) == (0, 1)
    late = asker.produce(partition, a_batch(b"c"), node=before)
    # One that holds no copy any more does not even know that it did.
    assert late[0] in (Code.NOT_LEADER_OR_FOLLOWER, Code.UNKNOWN_TOPIC_OR_PARTITION)


def test_a_leader_s_epoch_that_is_named_in_a_fetch_must_be_the_current_one(
    asker: Asker, partition: TopicPartition
) -> None:
    want = Want(0, asker.topic_id(partition.topic))
    leader = asker.leader(partition)
    epoch = asker.cluster.describe([partition.topic])[partition.topic].epoch_of(0)

    def error(named: int) -> int:
        return asker.fetch(leader, [want._replace(leader_epoch=named)]).told[0].error

    assert error(epoch) == 0
    assert error(epoch + 1) == Code.UNKNOWN_LEADER_EPOCH
    if epoch:
        assert error(epoch - 1) == Code.FENCED_LEADER_EPOCH


def test_a_client_that_has_read_more_of_an_epoch_than_it_had_is_told_where_logs_part(
    asker: Asker, either: Either, partition: TopicPartition
) -> None:
    asker.produce(partition, a_batch(b"a", b"b"))
    first = struct.unpack_from(">i", asker.fetch_one(partition, 0).records, 12)[0]
    either.move(partition, asker.other(partition))
    for _ in range(3):
        asker.produce(partition, a_batch(b"c"))
    want = Want(0, asker.topic_id(partition.topic), offset=4)
    leader = asker.leader(partition)

    parted = asker.fetch(leader, [want._replace(fetched_epoch=first)]).told[0]
    assert (parted.error, parted.parted, parted.records) == (0, (first, 2), b"")
    within = asker.fetch(leader, [want._replace(fetched_epoch=first, offset=2)]).told[0]
    assert (within.error, within.parted, bool(within.records)) == (0, None, True)
    unknown = asker.fetch(leader, [want._replace(fetched_epoch=first + 99)]).told[0]
    assert (unknown.error, unknown.records) == (Code.OFFSET_OUT_OF_RANGE, b"")


# Offsets and transactions


def test_offsets_are_found_by_time(asker: Asker, partition: TopicPartition) -> None:
    for time_ms in (1000, 2000, 3000):
        asker.produce(partition, a_batch(b"x", at=time_ms))
    assert [asker.offset(partition, at) for at in (500, 1000, 1001, 3000)] == [0, 0, 1, 2]
    assert asker.offset(partition, 3001) == -1


def in_transaction(
    asker: Asker, partition: TopicPartition, name: str
) -> tuple[ProducerIdentity, Callable[[bool], None]]:
    """Return a producer with an open transaction, and what ends that."""
    made = take_over(asker.cluster, name)
    sender = ProducerIdentity(made.producer_id, made.epoch, transactional=True)
    node = find_coordinator(asker.cluster, name)
    assert try_partitions(asker.cluster, node, name, sender, [partition]) == {}

    def end(commit: bool) -> None:
        end_transaction(asker.cluster, node, name, sender, commit=commit)

    return sender, end


def test_an_open_transaction_holds_readers_of_what_is_committed_back(
    asker: Asker, partition: TopicPartition
) -> None:
    name = unique_name()
    sender, end = in_transaction(asker, partition, name)
    asker.produce(partition, a_batch(b"before"))
    undecided = a_batch(b"open", identity=sender, sequence=0)
    assert asker.produce(partition, undecided, owner=name) == (0, 1)
    asker.produce(partition, a_batch(b"after"))

    told = asker.fetch_one(partition, 0, committed=True)
    assert (told.end, told.stable, told.aborted) == (3, 1, ())
    assert asker.fetch_one(partition, 1, committed=True).records == b""
    assert asker.fetch_one(partition, 1).records
    assert asker.offset(partition, LATEST, committed=True) == 1
    end(True)

    eventually(lambda: asker.offset(partition, LATEST, committed=True) == 4)
    assert asker.fetch_one(partition, 0, committed=True).aborted == ()


def test_an_aborted_transaction_is_named_where_its_records_are_read(
    asker: Asker, partition: TopicPartition
) -> None:
    name = unique_name()
    sender, end = in_transaction(asker, partition, name)
    undecided = a_batch(b"aborted", identity=sender, sequence=0)
    assert asker.produce(partition, undecided, owner=name) == (0, 0)
    end(False)
    eventually(lambda: asker.offset(partition, LATEST, committed=True) == 2)
    asker.produce(partition, a_batch(b"plain"))

    aborted = ((sender.producer_id, 0),)
    assert asker.fetch_one(partition, 0, committed=True).aborted == aborted
    assert asker.fetch_one(partition, 2, committed=True).aborted == ()
    assert asker.fetch_one(partition, 0).aborted == ()


def test_a_batch_of_a_transaction_that_was_not_begun_is_refused(
    asker: Asker, partition: TopicPartition
) -> None:
    name = unique_name()
    made = take_over(asker.cluster, name)
    sender = ProducerIdentity(made.producer_id, made.epoch, transactional=True)
    batch = a_batch(b"x", identity=sender, sequence=0)
    assert asker.produce(partition, batch, owner=name) == (Code.INVALID_TXN_STATE, -1)
    refused = asker.produce(partition, batch)
    assert refused == (Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, -1), "nobody is named"


def test_a_transaction_joins_all_partitions_or_none(
    asker: Asker, partition: TopicPartition
) -> None:
    name = unique_name()
    sender = take_over(asker.cluster, name)
    node = find_coordinator(asker.cluster, name)
    missing = TopicPartition(unique_name(), 0)
    refused = try_partitions(asker.cluster, node, name, sender, [partition, missing])
    assert list(refused) == [missing]
    assert asker.offset(partition, LATEST) == 0
