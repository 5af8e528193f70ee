import time
from dataclasses import replace
from typing import Any, cast

import pytest

from heliograph.driving.partitions import Attempt, HeldBack, Partition, Stop, stop_from
from heliograph.kafka.producers import OpenTransaction
from heliograph.model import NOWHERE, Position, ProducerIdentity, StopKind, TopicPartition
from heliograph.policy.latency import taken
from heliograph.wire.lease_messages import SlotRead, SlotWritten, Stopped

SOURCE, REMOTE = TopicPartition("t", 3), TopicPartition("A.t", 3)
NOBODY = cast("Any", None)


def partition(**changed: Any) -> Partition:
    made = Partition(SOURCE, "id", REMOTE, "remote id", 1 << 20, Position(500, 40))
    for name, value in changed.items():
        setattr(made, name, value)
    return made


def stop(kind: StopKind = StopKind.REFUSED, upstream: int = 500) -> Stop:
    return stop_from(Stopped(0, upstream, kind, "so it is"))


def written(upstream: int, downstream: int, **changed: Any) -> SlotWritten:
    plain = SlotWritten(0, upstream, downstream, 7, 3, 30, (), -1, None)
    return plain._replace(**changed)


def test_a_partition_is_due_when_nobody_holds_it_and_nothing_keeps_it() -> None:
    now = time.monotonic()
    assert partition().is_due(now)
    assert not partition(holder=Attempt(0, 1, NOBODY)).is_due(now)
    assert not partition(retry_at=now + 1).is_due(now)
    assert partition(retry_at=now - 1).is_due(now)


@pytest.mark.parametrize("kind", StopKind)
def test_what_may_pass_is_tried_again_after_a_minute_and_nothing_else_ever(kind: StopKind) -> None:
    stopped = partition(stop=stop(kind))
    now = time.monotonic()
    assert not stopped.is_due(now)
    assert stopped.is_due(now + 61) is kind.may_pass
    assert ("Retrying in 60 s" in stop(kind).again) is kind.may_pass


def test_a_stop_is_over_when_records_after_it_are_stored() -> None:
    tried = partition(stop=stop(upstream=500))
    tried.note_written(written(500, 40), 0.0)
    assert tried.stop is not None, "nothing got past it yet"
    tried.note_written(written(503, 43), 1.0)
    assert tried.stop is None


def test_what_is_written_is_counted_and_its_position_kept() -> None:
    counted = partition()
    counted.note_written(written(503, 43, copied_ms=900, took=taken(8.0, 3)), 0.0)
    counted.note_written(written(506, 46, sequence=10), 1.0)
    assert (counted.position, counted.sequence) == (Position(506, 46), 10)
    assert (counted.records, counted.bytes, counted.copied_ms) == (6, 60, 900)
    assert counted.latencies.last == 8.0


def test_a_leader_s_epoch_belongs_to_one_position() -> None:
    read = partition()
    read.note_read(SlotRead(0, 510, 512, 512, 4, None), 0.0)
    assert read.leader_epoch == -1, "what was read is not stored yet"
    read.note_written(written(510, 50), 0.0)
    assert read.leader_epoch == 4
    assert read.lag == 2


def test_a_share_asks_for_a_look_at_the_tail_unless_records_are_placed_by_key() -> None:
    alone = partition(identity=ProducerIdentity(9, 1), sequence=7)
    share = alone.share(5, resume=True, ours=True)
    assert (share.slot, share.source, share.remote, share.remote_id) == (
        5,
        SOURCE,
        REMOTE,
        "remote id",
    )
    assert (share.resume, share.ours, share.sequence, share.spread) == (True, True, 7, 0)
    assert not alone.share(5, resume=False, ours=True).resume
    alone.spread = 4
    assert not alone.share(5, resume=True, ours=True).resume


def test_a_partition_that_is_placed_by_key_writes_to_every_lane() -> None:
    assert partition().remotes == [REMOTE]
    assert partition(spread=3).remotes == [TopicPartition("A.t", i) for i in range(3)]


def test_another_place_begins_at_an_unknown_end_with_no_identity() -> None:
    turned = partition(identity=ProducerIdentity(9, 1), turn=(TopicPartition("A.t", 0), 2))
    turned.apply_turn()
    assert (turned.remote.index, turned.spread, turned.turn, turned.identity) == (0, 2, None, None)
    assert turned.position == Position(500, NOWHERE)
    turned.apply_turn()
    assert turned.position == Position(500, NOWHERE)


def test_slots_of_a_task_are_never_used_again() -> None:
    attempt = Attempt(0, 1, NOBODY)
    first, other = partition(), partition()
    slot = attempt.take(first)
    assert first.holder is attempt
    first.waits = "for a broker"

    assert attempt.release(slot) is first
    assert [first.holder, first.waits] == [None, None]
    assert attempt.release(slot) is None, "it was left already"

    assert attempt.take(other) == slot + 1


def test_a_partition_is_of_the_topics_it_was_made_for() -> None:
    assert partition().is_of("id", "remote id")
    assert not partition().is_of("id", "another")
    assert not partition().is_of("another", "remote id")


def test_a_stop_keeps_where_the_source_parted() -> None:
    parted = stop_from(Stopped(0, 500, StopKind.OUT_OF_RANGE, "parted", resume=480))
    assert (parted.kind, parted.upstream, parted.resume) == (StopKind.OUT_OF_RANGE, 500, 480)
    assert not replace(parted, since=0.0).due(1e9)


def read_to(partition: Partition, end: int, stable: int, now: float) -> None:
    partition.note_read(SlotRead(0, stable, end, stable, 4, None), now)


def test_an_open_transaction_is_as_old_as_the_stillness_of_the_last_stable_offset() -> None:
    read = partition()
    assert read.held_back(0.0) is None, "nothing is known yet"
    read_to(read, 100, 100, 1.0)
    assert read.held_back(5.0) is None, "all of it is decided"
    read_to(read, 110, 100, 10.0)
    read_to(read, 150, 100, 20.0)
    assert read.held_back(45.0) == HeldBack(SOURCE, 100, 35.0, 50, None)


def test_a_last_stable_offset_that_moves_begins_to_stand_still_again() -> None:
    read = partition()
    read_to(read, 110, 100, 10.0)
    read_to(read, 120, 105, 20.0)
    assert read.held_back(21.0) == HeldBack(SOURCE, 105, 1.0, 15, None)
    read_to(read, 120, 120, 30.0)
    assert read.held_back(31.0) is None
    read_to(read, 130, 120, 40.0)
    assert read.held_back(40.0) == HeldBack(SOURCE, 120, 0.0, 10, None)


def transaction_of(partition: Partition) -> OpenTransaction | None:
    return partition.open_transaction


def test_a_transaction_is_known_until_the_last_stable_offset_moves() -> None:
    read, transaction = partition(), OpenTransaction(100, producer_id=7)
    read_to(read, 110, 100, 10.0)
    read.note_transaction(90, transaction)
    assert transaction_of(read) is None, "it was asked about an offset of before"
    read.note_transaction(100, transaction)
    read_to(read, 150, 100, 20.0)
    assert transaction_of(read) is transaction
    read_to(read, 150, 140, 30.0)
    assert transaction_of(read) is None
    read_to(read, 150, 150, 40.0)
    read.note_transaction(150, transaction)
    assert transaction_of(read) is None, "none is open"


def test_a_partition_is_read_while_a_task_holds_it_that_waits_for_nothing() -> None:
    holder = Attempt(0, 1, NOBODY)
    assert partition(holder=holder).is_read
    assert not partition().is_read
    assert not partition(holder=holder, waits="for a broker").is_read
    assert not partition(holder=holder, stop=stop()).is_read
