"""A copier between two clusters that fail at exact points. In process only; on real ones: tests/broker/test_copying.py."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

import pytest

from heliograph.errors import FlowFenced
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.transactions import (
    end_transaction,
    find_coordinator,
    take_over,
    try_partitions,
)
from heliograph.model import ProducerIdentity, StopKind, TopicPartition
from heliograph.wire.lease_messages import Fenced, Stopped
from lab.clusters import eventually
from lab.inprocess.log import PartitionLog
from lab.inprocess.messages import Api
from lab.inprocess.script import Event, Fate
from lab.inprocess.topics import NO_LEADER
from tests.unit.copying.pairs import LIMITS, REMOTE, SURE, TOPIC, Driver, Pair
from tests.unit.copying.weather import Weather
from tests.unit.kafka.asking import a_batch
from tests.unit.kafka.brokers import stored_values

OFTEN = 1.5  # seconds that a task may write for; it pings three times meanwhile
T0, R0 = TopicPartition(TOPIC, 0), TopicPartition(REMOTE, 0)


def stops(driver: Driver) -> list[Stopped]:
    return [note for note in driver.notes if isinstance(note, Stopped)]


def produced(pair: Pair) -> int:
    return len(pair.target.asked(Api.PRODUCE))


def read_to(pair: Pair, index: int = 0) -> int:
    """Return the offset that the source was asked for last."""
    offsets = [
        entry.fetch_offset
        for asked in pair.source.asked(Api.FETCH)
        for topic in asked.request.topics
        for entry in topic.partitions
        if entry.partition == index
    ]
    return max(offsets, default=-1)


def test_all_is_copied_and_handed_over_with_its_position(pair: Pair, driver: Driver) -> None:
    pair.produce(4)
    driver.take(pair.shares(pair.identity()))
    pair.check()
    pair.produce(2)
    pair.check()
    driver.end()

    assert driver.failure is None
    assert driver.left() == {0, 1, 2}
    # The marker of a fence is before the records.
    assert {(row.upstream, row.downstream) for row in driver.written.values()} == {(18, 19)}


def test_nothing_is_written_before_the_driver_has_said_that_the_flow_is_its_own(
    pair: Pair,
) -> None:
    """Invariant A: what was read is kept meanwhile."""
    unsure = Driver(pair, seconds=0)
    pair.produce(2)
    unsure.take(pair.shares(pair.identity()))
    eventually(lambda: read_to(pair) == 6 and unsure.pings >= 2)
    assert produced(pair) == 0

    unsure.seconds = SURE
    pair.check()


def test_nothing_is_written_after_the_driver_s_word_has_expired(pair: Pair) -> None:
    """Invariant A, for a driver that does not answer any more."""
    driver = Driver(pair, seconds=1.0)
    driver.take(pair.shares(pair.identity()))
    pair.produce(1)
    pair.check()
    driver.seconds = 0
    pings = driver.pings
    eventually(lambda: driver.pings >= pings + 4)  # half a second after each other, at least
    before = produced(pair)
    pair.produce(1)
    eventually(lambda: read_to(pair) == 6)
    assert produced(pair) == before

    driver.seconds = SURE
    pair.check()


def test_what_was_read_is_stored_before_a_partition_is_handed_over(pair: Pair) -> None:
    """Invariant B."""
    driver = Driver(pair, seconds=OFTEN)
    held = pair.target.hold(Api.PRODUCE)
    pair.produce(3)
    driver.take(pair.shares(pair.identity()))
    eventually(lambda: read_to(pair) == 9)
    driver.leave(0)
    pings = driver.pings
    eventually(lambda: driver.pings > pings)
    assert driver.left() == set()

    pair.target.release(held)
    eventually(lambda: driver.left() == {0})
    assert stored_values(pair.target, R0) == stored_values(pair.source, T0)
    assert driver.written[0].upstream == 9


def test_a_partition_that_was_handed_over_goes_on_elsewhere_in_its_sequence(
    pair: Pair, driver: Driver
) -> None:
    shares = pair.shares(pair.identity())
    driver.take(shares)
    pair.produce(3)
    pair.check()
    driver.leave(0, 1, 2)
    eventually(lambda: driver.left() == {0, 1, 2})

    after = Driver(pair)
    after.take(driver.after(share) for share in shares)
    pair.produce(3)
    pair.check()
    after.end()
    assert after.failure is None
    assert after.left() == {0, 1, 2}


def test_unstored_data_is_bounded(pair: Pair) -> None:
    """Invariant C: no more is fetched than two responses hold, whatever there is."""
    driver = Driver(pair, seconds=OFTEN)
    held = pair.target.hold(Api.PRODUCE)
    pair.produce(100, size=1, padding=bytes(5000))
    driver.take(pair.shares(pair.identity()))
    pings = driver.pings
    eventually(lambda: driver.pings > pings)

    read = sum(max(read_to(pair, index), 0) for index in range(3))
    # What is in flight when the bound is reached is at most one response for each of two leaders.
    assert 0 < read * 5000 <= 2 * LIMITS.chunk_bytes + 2 * (LIMITS.chunk_bytes + (16 << 10))
    pair.target.release(held)
    pair.check()


@pytest.mark.parametrize("fate", [Fate.UNHEARD, Fate.UNANSWERED])
def test_connections_that_end_on_both_sides_lose_and_repeat_nothing(
    pair: Pair, driver: Driver, fate: Fate
) -> None:
    for first in (2, 4, 7):
        pair.target.plan(Event(Api.PRODUCE, first=first, fate=fate))
        pair.source.plan(Event(Api.FETCH, first=first, fate=fate))
    driver.take(pair.shares(pair.identity()))
    for _ in range(5):
        pair.produce(2)
    pair.check()
    driver.end()
    assert driver.failure is None


def test_leaders_that_move_on_both_sides_lose_and_repeat_nothing(
    pair: Pair, driver: Driver
) -> None:
    driver.take(pair.shares(pair.identity()))
    for round_ in range(4):
        pair.produce(2)
        pair.source.elect(pair.places[round_ % 3], 1 + round_ % 2)
        pair.target.elect(pair.remotes[round_ % 3], 2 - round_ % 2)
    pair.check()
    driver.end()
    assert driver.failure is None


def test_a_target_broker_that_is_silent_holds_up_its_own_partitions_alone(
    pair: Pair, driver: Driver
) -> None:
    driver.take(pair.shares(pair.identity()))
    pair.produce(1)
    pair.check()
    pair.target.silence(1)
    pair.produce(2)
    other = pair.remotes[1]
    eventually(
        lambda: stored_values(pair.target, other) == stored_values(pair.source, pair.places[1])
    )
    assert not pair.is_copied()
    pair.target.silence(1, is_silent=False)
    pair.check()


def test_a_partition_without_a_leader_on_the_target_keeps_no_other_waiting(
    pair: Pair, driver: Driver
) -> None:
    driver.take(pair.shares(pair.identity()))
    pair.target.elect(R0, NO_LEADER)
    pair.produce(2)
    eventually(
        lambda: all(
            stored_values(pair.target, pair.remotes[i])
            == stored_values(pair.source, pair.places[i])
            for i in (1, 2)
        )
    )
    assert stored_values(pair.target, R0) == []
    pair.target.elect(R0, 2)
    pair.check()


def test_a_task_that_is_fenced_says_so_and_ends(pair: Pair, driver: Driver) -> None:
    driver.take(pair.shares(pair.identity()))
    pair.produce(1)
    pair.check()
    pair.identity()  # the next epoch of the same id
    pair.produce(1)
    driver.join()

    assert isinstance(driver.failure, FlowFenced)
    eventually(lambda: any(isinstance(note, Fenced) for note in driver.notes))
    assert stored_values(pair.target, R0) == stored_values(pair.source, T0)[:3]


def test_a_batch_that_was_torn_on_the_source_stops_its_partition_at_what_is_stored(
    pair: Pair, driver: Driver
) -> None:
    pair.produce(3)

    def tear(log: PartitionLog) -> None:
        whole = log.batches[1]
        torn = whole.data[:-3] + bytes([whole.data[-3] ^ 1]) + whole.data[-2:]
        log.batches[1] = replace(whole, data=torn)

    written = stored_values(pair.source, T0)
    pair.source.change_log(T0, tear)
    driver.take(pair.shares(pair.identity()))
    eventually(lambda: stops(driver))

    (stop,) = stops(driver)
    assert (stop.slot, stop.kind, stop.upstream) == (0, StopKind.CORRUPT, 3)
    assert stored_values(pair.target, R0) == written[:3]
    assert driver.written[0].upstream == 3, "reported before the stop"
    driver.end()
    assert driver.left() == {1, 2}


def test_an_offset_that_the_source_has_deleted_stops_its_partition_alone(
    pair: Pair, driver: Driver
) -> None:
    pair.produce(3)
    pair.source.change_log(T0, lambda log: log.delete_before(6))
    driver.take(pair.shares(pair.identity()))
    eventually(lambda: stops(driver))
    (stop,) = stops(driver)
    assert (stop.slot, stop.kind, stop.upstream) == (0, StopKind.OUT_OF_RANGE, 0)
    assert not stop.spent, "no sequence was used"
    driver.end()
    assert driver.left() == {1, 2}


def test_a_source_that_lost_what_was_copied_stops_its_partition_where_logs_part(
    pair: Pair, driver: Driver
) -> None:
    driver.take(pair.shares(pair.identity()))
    pair.produce(3)
    pair.check()
    pair.source.elect(T0, 2, keeps=3)
    for _ in range(4):
        pair.write(T0, a_batch(b"of another", b"history", b"altogether"))
    eventually(lambda: stops(driver))

    (stop,) = stops(driver)
    assert (stop.slot, stop.kind) == (0, StopKind.OUT_OF_RANGE)
    assert (stop.upstream, stop.resume) == (9, 3)
    assert b"history" not in stored_values(pair.target, R0)


def test_a_record_larger_than_the_target_allows_stops_its_partition_before_it(
    pair: Pair, driver: Driver
) -> None:
    pair.produce(2)
    pair.write(T0, a_batch(bytes(5000)))
    pair.produce(2)
    shares = pair.shares(pair.identity())
    driver.take([replace(shares[0], max_message_bytes=3000), *shares[1:]])
    eventually(lambda: stops(driver))
    (stop,) = stops(driver)
    assert (stop.slot, stop.kind, stop.upstream) == (0, StopKind.TOO_LARGE, 6)
    driver.end()
    assert driver.left() == {1, 2}
    assert stored_values(pair.target, R0) == stored_values(pair.source, T0)[:6]


def test_aborted_transactions_are_not_copied_and_open_ones_wait(pair: Pair, driver: Driver) -> None:
    aborted, committed = (begin(pair, name) for name in ("aborted", "committed"))
    pair.write(T0, a_batch(b"plain"))
    aborted(False)
    driver.take(pair.shares(pair.identity()))
    pair.produce(1)
    eventually(lambda: stored_values(pair.target, pair.remotes[1]))
    assert stored_values(pair.target, R0) == []

    committed(True)
    pair.write(T0, a_batch(b"end"))
    eventually(lambda: b"end" in stored_values(pair.target, R0))
    copied = stored_values(pair.target, R0)
    assert (copied[:2], copied[-1], len(copied)) == ([b"committed", b"plain"], b"end", 6)


def begin(pair: Pair, name: str) -> Callable[[bool], None]:
    """Write a record in a transaction, and return what ends that."""
    with closing(Cluster(pair.source.endpoint)) as source:
        made = take_over(source, name)
        sender = ProducerIdentity(made.producer_id, made.epoch, transactional=True)
        node = find_coordinator(source, name)
        assert try_partitions(source, node, name, sender, [T0]) == {}
    batch = a_batch(name.encode(), identity=sender, sequence=0)
    assert pair.asker.produce(T0, batch, owner=name)[0] == 0

    def end(commit: bool) -> None:
        with closing(Cluster(pair.source.endpoint)) as source:
            end_transaction(source, node, name, sender, commit=commit)

    return end


def test_what_a_predecessor_stored_after_the_saved_position_is_skipped(pair: Pair) -> None:
    before = Driver(pair)
    before.take(pair.shares(pair.identity()))
    pair.produce(4)
    pair.check()
    before.hang_up()
    pair.produce(2)

    after = Driver(pair)
    after.take(pair.shares(pair.identity(), resume=True))
    pair.check()
    after.end()
    assert after.failure is None
    assert after.written[0].upstream == 18


def test_a_broker_that_forgot_the_writer_gives_a_partition_back_only_if_it_must(
    pair: Pair, driver: Driver
) -> None:
    driver.take(pair.shares(pair.identity()))
    pair.produce(2)
    pair.check()
    pair.target.change_log(R0, lambda log: log.senders.forget())
    pair.produce(2)
    pair.check()
    assert driver.notes
    assert driver.left() == set()


@pytest.mark.parametrize("seed", range(4))
def test_whatever_happens_to_brokers_every_record_is_copied_once_and_in_order(
    pair: Pair, driver: Driver, seed: int
) -> None:
    weather = Weather(pair, seed)
    driver.take(pair.shares(pair.identity()))
    for _ in range(12):
        weather.strike()
        weather.write()
        weather.await_progress()
    weather.clear()

    pair.check(lambda: (weather.happened, driver.failure, driver.notes[-1:]))
    driver.end()
    assert driver.failure is None
    assert driver.left() == {0, 1, 2}
