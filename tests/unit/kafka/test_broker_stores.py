"""What brokers store and what they refuse, asked of the in-process broker in every run, and of real ones with `-m long`.

Tests of our producer rely on these answers, so whatever the in-process broker does differently shows here.
"""

import struct

import pytest
from crc32c import crc32c

from heliograph.errors import FlowFenced
from heliograph.kafka.fencing import fence
from heliograph.kafka.transactions import take_over
from heliograph.model import ProducerIdentity, TopicPartition
from lab.clusters import unique_name
from lab.inprocess.code import Code
from tests.unit.kafka.asking import Asker, Want, a_batch
from tests.unit.kafka.either import Either

LATEST = -1


@pytest.fixture
def partition(either: Either) -> TopicPartition:
    return TopicPartition(either.create_topic(), 0)


@pytest.fixture
def sender(asker: Asker) -> ProducerIdentity:
    return asker.new_producer()


def test_a_batch_is_stored_as_it_was_sent_but_for_its_offset_and_leader_epoch(
    asker: Asker, partition: TopicPartition
) -> None:
    sent = a_batch(b"one", b"two")
    assert asker.produce(partition, sent) == (0, 0)
    assert asker.produce(partition, sent) == (0, 2)

    stored = asker.fetch_one(partition, 2).records
    assert struct.unpack_from(">qi", stored) == (2, len(sent) - 12)
    assert struct.unpack_from(">i", stored, 12)[0] >= 0
    assert stored[16:] == sent[16:]


def test_a_batch_that_is_sent_twice_is_answered_with_its_first_offset_and_stored_once(
    asker: Asker, partition: TopicPartition, sender: ProducerIdentity
) -> None:
    first = a_batch(b"a", b"b", identity=sender, sequence=0)
    second = a_batch(b"c", identity=sender, sequence=2)
    assert [asker.produce(partition, sent) for sent in (first, second)] == [(0, 0), (0, 2)]

    assert asker.produce(partition, second) == (0, 2)
    assert asker.produce(partition, first) == (0, 0)
    assert asker.offset(partition, LATEST) == 3


def test_the_last_five_batches_of_a_producer_are_recognised_and_no_earlier_one(
    asker: Asker, partition: TopicPartition, sender: ProducerIdentity
) -> None:
    sent = [a_batch(b"x", identity=sender, sequence=n) for n in range(6)]
    for batch in sent:
        assert asker.produce(partition, batch)[0] == 0

    assert [asker.produce(partition, batch) for batch in sent[1:]] == [(0, n) for n in range(1, 6)]
    assert asker.produce(partition, sent[0])[0] == Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert asker.offset(partition, LATEST) == 6


def test_a_batch_after_a_gap_is_out_of_order(
    asker: Asker, partition: TopicPartition, sender: ProducerIdentity
) -> None:
    assert asker.produce(partition, a_batch(b"0", identity=sender, sequence=0))[0] == 0
    late = a_batch(b"2", identity=sender, sequence=2)
    assert asker.produce(partition, late) == (Code.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert asker.produce(partition, a_batch(b"1", identity=sender, sequence=1)) == (0, 1)
    assert asker.produce(partition, late) == (0, 2)


def test_a_producer_that_is_not_known_may_begin_at_any_sequence(
    asker: Asker, partition: TopicPartition, sender: ProducerIdentity
) -> None:
    """Why invariant E of produce.py is needed."""
    assert asker.produce(partition, a_batch(b"9", identity=sender, sequence=9)) == (0, 0)
    before = a_batch(b"8", identity=sender, sequence=8)
    assert asker.produce(partition, before)[0] == Code.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_sequences_go_on_at_0_after_the_largest(
    asker: Asker, partition: TopicPartition, sender: ProducerIdentity
) -> None:
    last = a_batch(b"last", identity=sender, sequence=0x7FFFFFFF)
    assert asker.produce(partition, last) == (0, 0)
    assert asker.produce(partition, a_batch(b"0", identity=sender, sequence=0)) == (0, 1)


def test_an_epoch_begins_at_sequence_0_and_ends_the_one_before(
    asker: Asker, partition: TopicPartition
) -> None:
    name = unique_name()
    old = take_over(asker.cluster, name)
    new = take_over(asker.cluster, name, old)
    assert (new.producer_id, new.epoch) == (old.producer_id, old.epoch + 1)
    assert asker.produce(partition, a_batch(b"a", identity=old, sequence=0)) == (0, 0)

    torn = a_batch(b"b", identity=new, sequence=1)
    assert asker.produce(partition, torn)[0] == Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert asker.produce(partition, a_batch(b"b", identity=new, sequence=0)) == (0, 1)
    late = a_batch(b"c", identity=old, sequence=1)
    assert asker.produce(partition, late)[0] == Code.INVALID_PRODUCER_EPOCH


def test_a_fence_is_a_marker_that_keeps_the_earlier_epoch_out(
    asker: Asker, partition: TopicPartition
) -> None:
    name = unique_name()
    old = fence(asker.cluster, name, [partition])
    assert asker.produce(partition, a_batch(b"a", identity=old, sequence=0)) == (0, 1)
    fence(asker.cluster, name, [partition])

    late = a_batch(b"b", identity=old, sequence=1)
    assert asker.produce(partition, late)[0] == Code.INVALID_PRODUCER_EPOCH
    assert asker.offset(partition, LATEST) == 3, "a marker, a record, a marker"
    marker = asker.fetch_one(partition, 2).records
    assert struct.unpack_from(">h", marker, 21)[0] & 0x30 == 0x30
    assert struct.unpack_from(">I", marker, 17)[0] == crc32c(marker[21:])


def test_an_identity_that_is_not_the_latest_cannot_be_renewed(asker: Asker) -> None:
    name = unique_name()
    old = take_over(asker.cluster, name)
    take_over(asker.cluster, name)
    with pytest.raises(FlowFenced):
        take_over(asker.cluster, name, old)


def test_a_batch_whose_bytes_have_changed_is_refused(
    asker: Asker, partition: TopicPartition
) -> None:
    torn = bytearray(a_batch(b"value"))
    torn[-3] ^= 1
    assert asker.produce(partition, bytes(torn)) == (Code.CORRUPT_MESSAGE, -1)
    assert asker.offset(partition, LATEST) == 0


def test_a_batch_that_claims_other_records_than_offsets_is_refused(
    asker: Asker, partition: TopicPartition
) -> None:
    odd = bytearray(a_batch(b"a", b"b"))
    struct.pack_into(">i", odd, 57, 1)
    struct.pack_into(">I", odd, 17, crc32c(bytes(odd[21:])))
    assert asker.produce(partition, bytes(odd)) == (Code.INVALID_RECORD, -1)


def test_a_batch_larger_than_its_topic_allows_is_refused(asker: Asker, either: Either) -> None:
    partition = TopicPartition(either.create_topic(max_message_bytes=2000), 0)
    assert asker.produce(partition, a_batch(bytes(3000))) == (Code.MESSAGE_TOO_LARGE, -1)
    assert asker.produce(partition, a_batch(bytes(1000))) == (0, 0)


def test_a_broker_writes_and_reads_only_what_it_leads(
    asker: Asker, partition: TopicPartition
) -> None:
    other = asker.other(partition)
    assert asker.produce(partition, a_batch(b"a"), node=other) == (Code.NOT_LEADER_OR_FOLLOWER, -1)
    told = asker.fetch(other, [Want(0, asker.topic_id(partition.topic))]).told[0]
    assert (told.error, told.end, told.records) == (Code.NOT_LEADER_OR_FOLLOWER, -1, b"")


def test_a_partition_that_does_not_exist_is_unknown(
    asker: Asker, partition: TopicPartition
) -> None:
    leader = asker.leader(partition)
    missing = TopicPartition(partition.topic, 7)
    answer = asker.produce(missing, a_batch(b"a"), node=leader)
    assert answer == (Code.UNKNOWN_TOPIC_OR_PARTITION, -1)
    told = asker.fetch(leader, [Want(7, asker.topic_id(partition.topic))]).told[0]
    assert told.error == Code.UNKNOWN_TOPIC_OR_PARTITION
