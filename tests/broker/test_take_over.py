"""Where a flow goes on that a MirrorMaker 2 left behind, by what it left on real brokers."""

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Producer

from heliograph.config.mirror import load_mirror
from heliograph.flows.offset_syncs import offset_syncs_topic
from heliograph.flows.source import refresh_topics
from heliograph.flows.starts import Origin, Start, plan_starts
from heliograph.flows.take_over import check_stopped, settle_starts
from heliograph.kafka.cluster import Cluster
from heliograph.model import Position, TopicPartition
from heliograph.saved.progress import open_progress
from heliograph.tables.table import Table
from heliograph.wire.connect_records import SourceOffset, encode_source_key, encode_source_offset
from heliograph.wire.mirror_records import OffsetSync, encode_offset_sync
from lab.clusters import LiveCluster, Outgoing, Record
from lab.mirrors import flow_properties, unique_alias

pytestmark = pytest.mark.broker

IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"


class Left:
    """One partition, what a MirrorMaker 2 has copied of it, and what it has saved."""

    def __init__(
        self, source: LiveCluster, target: LiveCluster, folder: Path, extra: dict[str, str]
    ) -> None:
        self.source, self.target = source, target
        self.topic = source.create_topic()
        alias, to = unique_alias(), unique_alias("B")
        file = folder / "mm2.properties"
        properties = flow_properties(
            (alias, source.bootstrap), (to, target.bootstrap), self.topic, **extra
        )
        file.write_text("".join(f"{key} = {value}\n" for key, value in properties.items()))
        self.config = load_mirror(file).flows[0]
        self.here = Cluster(self.config.source_admin)
        self.there = Cluster(self.config.target_admin)
        (route,) = refresh_topics(self.config, self.here, self.there).routes
        self.remote = route.remote.topic
        self._store = open_progress(self.there, self.config)
        self._store.load()

    def close(self) -> None:
        self.here.close()
        self.there.close()

    def write(self, count: int) -> None:
        self.source.produce(self.topic, [b"%d" % n for n in range(count)], linger_ms=20)

    def copy(self, records: Iterable[Record], remote: str | None = None) -> None:
        """Write records as MirrorMaker 2 writes them: with their timestamps, in batches of their own."""
        copies = [Outgoing(r.value, r.key, 0, r.timestamp[1], r.headers) for r in records]
        self.target.produce(remote or self.remote, copies)

    def records(self, isolation: str = "read_committed") -> list[Record]:
        return self.source.consume(self.topic, isolation=isolation)

    def sync(self, upstream: int, downstream: int) -> None:
        with closing(Cluster(self.config.offset_syncs)) as cluster:
            table = Table(cluster, offset_syncs_topic(self.config))
            table.ensure(1, 1)
            sync = OffsetSync(TopicPartition(self.topic, 0), upstream, downstream)
            table.write(dict([encode_offset_sync(sync)]))

    def save(self, upstream: int | None) -> None:
        """Save a position as MirrorMaker 2 does; None deletes it."""
        config = self.config
        key = encode_source_key(config.connector_name, config.flow.source, self.topic, 0)
        value = None if upstream is None else encode_source_offset(SourceOffset(upstream))
        Table(self.there, config.offset_storage.name).write({key: value})

    def find(self, *, is_first: bool = False) -> Start | None:
        check_stopped(self.config, self.there, self.there)
        routes = refresh_topics(self.config, self.here, self.there).routes
        saved = self._store.load()
        starts = plan_starts(self.config, routes, saved, self.here, self.there)
        found = settle_starts(self.config, starts, self.here, self.there, is_first=is_first)
        self.waits = list(found.waits.values())
        return found.starts[0] if found.starts else None

    def settle(self, *, is_first: bool = False) -> Start:
        start = self.find(is_first=is_first)
        assert start is not None, self.waits
        return start


Leave = Callable[..., Left]


@pytest.fixture
def leave(source: LiveCluster, target: LiveCluster, tmp_path: Path) -> Iterator[Leave]:
    made: list[Left] = []

    def make(**extra: str) -> Left:
        made.append(Left(source, target, tmp_path, extra))
        return made[-1]

    yield make
    for left in made:
        left.close()


def test_copies_beyond_the_saved_position_are_found(leave: Leave) -> None:
    left = leave()
    left.write(50)
    left.copy(left.records()[:37])
    left.sync(20, 20)
    left.save(11)
    start = left.settle()
    assert (start.origin, start.position) == (Origin.TAKEN_OVER, Position(37, 37))
    assert start.met == ((20, 20, 17),)
    assert start.begins == Position(20, 20)


def test_one_that_never_saved_is_known_by_its_offset_sync(leave: Leave) -> None:
    left = leave()
    left.write(50)
    left.copy(left.records()[:37])
    left.sync(0, 0)
    start = left.settle(is_first=True)
    assert (start.origin, start.position) == (Origin.TAKEN_OVER, Position(37, 37))


def test_a_clean_end_needs_no_comparison(leave: Leave) -> None:
    left = leave()
    left.write(50)
    # Were they compared, they would differ.
    left.target.produce(left.remote, [b"other"] * 40)
    left.sync(39, 39)
    left.save(40)
    start = left.settle()
    assert (start.position, start.met) == (Position(40, 40), ((39, 39, 1),))


def test_a_tail_of_many_windows_is_met_whole(leave: Leave) -> None:
    left = leave()
    left.write(50_000)
    left.copy(left.records()[:45_000])
    left.sync(0, 0)
    left.save(1)
    start = left.settle()
    assert start.position == Position(45_000, 45_000)
    assert start.met == ((0, 0, 45_000),)


def test_copies_that_a_retry_repeated_do_not_hide_the_end(leave: Leave) -> None:
    left = leave()
    left.write(50)
    records = left.records()
    left.copy([*records[:30], *records[20:40]])
    left.sync(10, 10)
    left.save(20)
    start = left.settle()
    assert (start.position, start.met) == (Position(40, 50), ())


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_aborted_records_were_copied_or_not(leave: Leave, isolation: str) -> None:
    left = leave()
    producer = Producer(left.source.client(transactional_id=left.topic))
    producer.init_transactions()
    for turn in range(6):
        producer.begin_transaction()
        for n in range(5):
            producer.produce(left.topic, b"%d of %d" % (n, turn))
        if turn % 2:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    copied = left.records(isolation)[:-2]
    left.copy(copied)
    left.sync(0, 0)
    left.save(3)
    start = left.settle()
    assert start.origin is Origin.TAKEN_OVER
    assert start.position == Position(copied[-1].offset + 1, len(copied))
    assert start.met, "every copy has its place"


def test_without_an_offset_sync_the_saved_position_holds_with_a_warning(
    leave: Leave, caplog: pytest.LogCaptureFixture
) -> None:
    left = leave()
    left.write(50)
    left.copy(left.records()[:37])
    left.save(11)
    start = left.settle()
    assert (start.origin, start.position, start.barred) == (
        Origin.TAKEN_OVER,
        Position(11, 37),
        False,
    )
    assert "up to 37 records may be repeated" in caplog.text


@pytest.mark.parametrize(("upstream", "downstream"), [(90, 5), (5, 90)])
def test_an_offset_sync_of_other_topics_is_not_believed(
    leave: Leave, caplog: pytest.LogCaptureFixture, upstream: int, downstream: int
) -> None:
    left = leave()
    left.write(50)
    left.copy(left.records()[:37])
    left.sync(upstream, downstream)
    left.save(37)
    assert left.settle().position == Position(37, 37)
    assert "no longer has offset 90 of its newest offset sync" in caplog.text


def test_records_of_somebody_else_end_the_comparison(
    leave: Leave, caplog: pytest.LogCaptureFixture
) -> None:
    left = leave()
    left.write(50)
    left.copy(left.records()[:30])
    left.target.produce(left.remote, [b"mine"])
    left.sync(10, 10)
    left.save(25)
    start = left.settle()
    assert (start.position, start.met) == (Position(25, 31), ())
    assert "remote offset 30 is no copy of upstream offset 30" in caplog.text


def test_a_position_that_was_set_further_on_is_kept(leave: Leave) -> None:
    left = leave()
    left.write(50)
    left.copy(left.records()[:30])
    left.sync(10, 10)
    left.save(45)
    assert left.settle().position == Position(45, 30)


@pytest.mark.parametrize("later", [1, None], ids=["taken back", "deleted"])
def test_what_somebody_asks_to_be_copied_again_is_copied_again(
    leave: Leave, later: int | None
) -> None:
    left = leave()
    left.write(50)
    left.copy(left.records())
    left.sync(49, 49)
    left.save(50)
    left.save(later)
    start = left.settle()
    assert (start.position, start.barred) == (Position(later or 0, 50), False)


def test_records_that_nobody_can_explain_bar_a_partition(leave: Leave) -> None:
    left = leave()
    left.write(50)
    left.copy(left.records())
    start = left.settle(is_first=True)
    assert (start.origin, start.barred) == (Origin.UNTRACKED, True)
    assert f"{left.remote}-0 holds 50 records, and no position of" in str(start.loss)
    assert left.config.offset_storage.name in str(start.loss)
    assert "on.loss=continue" in start.advice


def test_all_is_copied_again_where_a_person_says_so(
    leave: Leave, caplog: pytest.LogCaptureFixture
) -> None:
    left = leave(on_loss="continue")
    left.write(50)
    left.copy(left.records())
    start = left.settle(is_first=True)
    assert (start.origin, start.position, start.barred) == (
        Origin.FRESH,
        Position(0, 50),
        False,
    )
    assert "behind 50 records" in caplog.text


def test_a_topic_of_the_same_name_may_have_records_of_its_own(
    leave: Leave, caplog: pytest.LogCaptureFixture
) -> None:
    left = leave(replication_policy_class=IDENTITY)
    left.write(50)
    left.target.produce(left.remote, [b"mine"] * 4)
    start = left.settle(is_first=True)
    assert (start.origin, start.position, start.barred) == (Origin.FRESH, Position(0, 4), False)
    assert "behind 4 records" in caplog.text


def test_another_alias_of_the_same_source_is_found_out(leave: Leave) -> None:
    left = leave()
    left.write(50)
    right = f"{unique_alias('R')}.{left.topic}"
    left.target.create_topic(name=right)
    left.copy(left.records()[:30], right)
    left.sync(29, 29)
    start = left.settle(is_first=True)
    assert (start.origin, start.barred) == (Origin.UNTRACKED, True)
    assert f"{right} holds this topic's records already" in str(start.loss)
    assert left.settle().origin is Origin.FRESH, "only a flow that never ran is asked"


def test_a_namesake_from_another_source_is_no_proof(leave: Leave) -> None:
    left = leave()
    left.write(50)
    other = f"{unique_alias('R')}.{left.topic}"
    left.target.create_topic(name=other)
    left.target.produce(other, [b"%d" % n for n in range(50)])
    left.sync(29, 29)
    assert left.settle(is_first=True).origin is Origin.FRESH


def test_an_open_transaction_of_a_killed_one_is_waited_for(leave: Leave) -> None:
    left = leave()
    left.write(50)
    left.copy(left.records()[:30])
    left.sync(10, 10)
    left.save(30)
    producer = Producer(left.target.client(transactional_id=left.topic))
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(left.remote, b"30")
    producer.flush(10)
    assert left.find() is None, "it waits alone"
    (why,) = left.waits
    assert why.startswith(f"a transaction on {left.remote}-0 is open")
    producer.abort_transaction()
    start = left.settle()
    assert start.position.upstream == 30
    assert start.met == ((10, 10, 20),)


def test_a_take_over_is_told_with_what_it_found(
    leave: Leave, caplog: pytest.LogCaptureFixture
) -> None:
    left = leave()
    left.write(50)
    left.copy(left.records()[:37])
    left.sync(20, 20)
    left.save(11)
    with caplog.at_level(logging.INFO):
        left.settle()
    assert "takes over from MirrorMaker 2 partitions=1: offsets=26 beyond" in caplog.text
