"""The writing half of a slice: what is told of batches that are stored, refused, rotten, or not wanted."""

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.copying.sections import ChunkSection
from heliograph.kafka.lane import Lane
from heliograph.model import Position, StopKind, TopicPartition
from heliograph.wire.lease_messages import Stopped
from heliograph.wire.record_batch import CONTROL, TRANSACTIONAL
from heliograph.wire.records import RawRecord, encode_body
from tests.unit.copying.lanes import Batches, make_share
from tests.unit.copying.targets import Scene, slow_target

bodies = st.builds(encode_body, st.none() | st.binary(max_size=5), st.binary(max_size=40))
LARGE = encode_body(None, bytes(2000))


@pytest.fixture(autouse=True)
def _slow_target(monkeypatch: pytest.MonkeyPatch) -> None:
    slow_target(monkeypatch)


def scene_of(*, ours: bool = True, max_message_bytes: int = 1 << 20) -> Scene:
    scene = Scene()
    scene.take([make_share(max_message_bytes, ours=ours)])
    return scene


def store_all(scene: Scene) -> None:
    while scene.target.store_one() is not None or scene.writer.go_on():
        pass


def many(count: int) -> list[bytes]:
    """Return records that make a batch of their own: too many to be merged."""
    return [encode_body(b"k%d" % i, b"v") for i in range(count)]


@given(
    st.lists(st.lists(bodies, min_size=1, max_size=30), min_size=1, max_size=9),
    st.integers(0, 30),
    st.integers(0, 6),
    st.integers(1, 4),
)
def test_what_is_stored_is_what_was_read_from_the_position_on(
    contents: list[list[bytes]], skipped: int, at_once: int, room: int
) -> None:
    source = Batches()
    written = [source.write(some) for some in contents]
    expected = [r for _, records in written for r in records if r.offset >= 500 + skipped]
    scene = Scene()
    scene.take([make_share(position=Position(500 + skipped, 40))])
    scene.target.room = room
    for batch, records in written:
        # A reader never tells of an offset before the one it began at.
        scene.write(0, batch, max(records[-1].offset + 1, 500 + skipped))
        for _ in range(at_once):
            scene.target.store_one()
        scene.writer.go_on()
    store_all(scene)

    assert [r.body for r in scene.target.stored[0]] == [r.body for r in expected]
    assert scene.position() == (max(source.offset, 500 + skipped), 40 + len(expected))
    (told,) = scene.writer.news()
    assert told.records == len(expected)
    assert [up + i for up, _, n in told.runs for i in range(n)] == [r.offset for r in expected]
    assert [down + i for _, down, n in told.runs for i in range(n)] == [
        40 + i for i in range(len(expected))
    ]


def test_a_position_moves_when_the_target_has_it_and_not_before() -> None:
    scene, source = scene_of(), Batches()
    for _ in range(2):
        batch, _ = source.write(many(20))
        scene.write(0, batch, source.offset)
    assert scene.position() == (500, 40)
    assert not scene.writer.is_settled(0)

    scene.target.store(0)
    assert scene.position() == (520, 60)
    scene.target.store(0)

    assert scene.position() == (540, 80)
    assert scene.writer.is_settled(0)
    assert scene.writer.leave(0) == ()


def test_news_are_told_once() -> None:
    scene, source = scene_of(), Batches()
    assert [row.slot for row in scene.writer.news()] == [0], "a partition that was taken is told of"
    assert scene.writer.news() == ()
    batch, _ = source.write(many(20))
    scene.write(0, batch, 520)
    scene.target.store(0)

    (told,) = scene.writer.news()

    assert (told.upstream, told.downstream, told.sequence, told.records) == (520, 60, 20, 20)
    assert told.runs == ((500, 40, 20),)
    assert scene.writer.news() == ()


def test_markers_and_aborted_transactions_are_passed_without_a_batch() -> None:
    scene, source = scene_of(), Batches()
    aborted, _ = source.write(many(3), attributes=TRANSACTIONAL)
    marker, _ = source.write([b"\0"], attributes=TRANSACTIONAL | CONTROL)
    scene.write(0, aborted + marker, 504, aborted=((77, 500),))

    assert scene.position() == (504, 40)
    assert scene.writer.verdicts == {"dropped": 2}
    assert scene.target.idle


def test_a_rotten_batch_stops_its_partition_when_all_before_it_is_stored() -> None:
    scene, source = scene_of(), Batches()
    good, _ = source.write(many(20))
    rotten = bytearray(source.write(many(20))[0])
    rotten[-1] ^= 1
    scene.write(0, good + rotten, 540)
    assert scene.stops == []

    scene.target.store(0)

    (stop,) = scene.stops
    assert (stop.kind, stop.upstream, stop.spent) == (StopKind.CORRUPT, 520, True)
    after, _ = source.write(many(20))
    scene.write(0, after, 560)
    assert scene.target.idle, "nothing is taken of a partition that has stopped"


def test_a_record_that_is_too_large_stops_its_partition_when_all_before_it_is_stored() -> None:
    scene, source = scene_of(max_message_bytes=1000), Batches()
    batch, _ = source.write([encode_body(None, b"small"), LARGE])
    scene.write(0, batch, 502)
    store_all(scene)

    (stop,) = scene.stops
    assert (stop.kind, stop.upstream) == (StopKind.TOO_LARGE, 501)


def test_a_limit_that_is_raised_while_a_task_runs_counts_at_once() -> None:
    scene, source = scene_of(max_message_bytes=1000), Batches()
    scene.writer.limit(0, 1 << 20)
    scene.writer.limit(7, 1 << 20)  # one that this task has handed over meanwhile
    batch, _ = source.write([LARGE])
    scene.write(0, batch, 501)
    store_all(scene)

    assert scene.stops == []
    assert scene.position() == (501, 41)


def test_a_batch_that_the_target_refuses_stops_its_partition_at_once() -> None:
    scene, source = scene_of(), Batches()
    for _ in range(3):
        batch, _ = source.write(many(20))
        scene.write(0, batch, source.offset)
    scene.target.store(0)

    scene.target.refuse(0)

    (stop,) = scene.stops
    assert (stop.kind, stop.upstream, stop.spent) == (StopKind.REFUSED, 520, True)
    assert "the target answered: no" in stop.reason
    assert scene.target.idle


def test_a_target_whose_end_went_back_stops_the_partition_where_it_was() -> None:
    scene, source = scene_of(), Batches()
    batch, _ = source.write(many(20))
    scene.write(0, batch, 520)
    scene.target.begin_at(0, 38)

    scene.target.store(0)

    (stop,) = scene.stops
    assert (stop.kind, stop.upstream) == (StopKind.TRUNCATED, 500)
    assert "ended at 40 and is now at 38" in stop.reason


@pytest.mark.parametrize("ours", [True, False])
def test_records_of_somebody_else_are_an_alarm_once_where_nobody_else_may_write(
    ours: bool,
) -> None:
    scene, source = scene_of(ours=ours), Batches()
    for end in (45, 70):
        batch, _ = source.write(many(5))
        scene.write(0, batch, source.offset)
        scene.target.begin_at(0, end)
        scene.target.store(0)

    assert scene.position() == (510, 75), "positions stay exact"
    (told,) = scene.writer.news()
    assert told.runs == ((500, 45, 5), (505, 70, 5))
    assert len(scene.foreign) == ours
    if ours:
        assert "offsets 40 to 44 were written by somebody else" in scene.foreign[0].reason


@pytest.mark.parametrize(
    ("kind", "spent"),
    [(StopKind.OUT_OF_RANGE, False), (StopKind.LOST_TOPIC, False), (StopKind.CORRUPT, True)],
)
def test_what_the_source_stops_is_told_at_what_is_stored(kind: StopKind, spent: bool) -> None:
    scene, source = scene_of(), Batches()
    batch, _ = source.write(many(20))
    scene.write(0, batch, 520)
    scene.writer.halt(Stopped(0, 520, kind, "so it is", 7, spent=False))
    scene.writer.halt(Stopped(0, 520, StopKind.REFUSED, "another reason"))
    assert scene.stops == []

    scene.target.store(0)

    assert scene.stops == [Stopped(0, 520, kind, "so it is", 7, spent=spent)]


def test_a_stop_of_a_partition_that_was_left_is_nobody_s() -> None:
    scene = scene_of()
    scene.writer.leave(0)
    scene.writer.halt(Stopped(0, 500, StopKind.CORRUPT, "late"))
    batch, _ = Batches().write(many(20))
    scene.write(0, batch, 520)
    assert scene.stops == []


def test_a_partition_whose_broker_is_away_waits_and_no_other() -> None:
    scene = Scene()
    scene.take([make_share(slot=slot) for slot in range(2)])
    scene.target.troubled[1] = Lane(1, TopicPartition("A.t", 1), trouble="it is away")

    assert list(scene.writer.waits()) == [(1, "it is away")]


def test_records_without_a_timestamp_have_no_latency() -> None:
    scene, source = scene_of(), Batches()
    batch, _ = source.write(many(20), timestamp=-1000)
    scene.write(0, batch, 520)
    scene.target.store(0)
    dated, _ = source.write(many(20), timestamp=1000)
    scene.write(0, dated, 540)
    scene.target.store(0)

    (told,) = scene.writer.news()

    assert told.took is not None
    assert told.took.records == sum(scene.writer.latency.counts) == 20
    assert 1000 <= told.copied_ms < 1010


def test_an_old_message_set_that_begins_before_the_position_is_copied_from_there() -> None:
    def message(offset: int, value: bytes) -> bytes:
        body = bytes([1, 0]) + struct.pack(">qii", 5, -1, len(value)) + value
        return struct.pack(">qiI", offset, 4 + len(body), zlib.crc32(body)) + body

    scene = Scene()
    scene.take([make_share(position=Position(501, 40))])
    scene.write(0, message(500, b"a") + message(501, b"b") + message(502, b"c"), 503)
    store_all(scene)

    kept: list[RawRecord] = scene.target.stored[0]
    assert [record.body for record in kept] == [encode_body(None, v) for v in (b"b", b"c")]
    assert scene.position() == (503, 42)


def test_the_largest_partitions_that_wait_for_brokers_are_given_back_above_a_cap() -> None:
    scene = Scene()
    scene.take([make_share(slot=slot) for slot in range(4)])
    for slot, times in enumerate([1, 5, 3, 9]):
        source = Batches()
        for _ in range(times):
            batch, _ = source.write([encode_body(b"k", b"v")] * 20)
            scene.write(slot, batch, source.offset)
        scene.target.trouble(slot, f"broker {slot} is away")
    size = scene.target.held_bytes // 18

    scene.writer.give_back(18 * size)
    assert scene.forgotten == {}
    scene.writer.give_back(8 * size)

    # Nine and five of the eighteen go, and four are within the cap.
    assert scene.forgotten == {3: "broker 3 is away", 1: "broker 1 is away"}
    assert scene.target.held_bytes == 4 * size


def put_off(scene: Scene, source: Batches, sections: int) -> None:
    """Write a section, and some more behind it that find the lane full."""
    scene.target.room = 1
    for _ in range(1 + sections):
        batch, _ = source.write([encode_body(b"k", b"v")] * 2)
        scene.write(0, batch, source.offset)


def test_small_batches_that_find_their_lane_full_go_in_common() -> None:
    scene, source = scene_of(), Batches()
    put_off(scene, source, 9)
    assert not scene.writer.go_on(), "there is no room yet"
    assert len(scene.target.queues[0]) == 1
    assert scene.position() == (500, 40)

    scene.target.store(0)
    assert scene.position() == (502, 42), "what is put off is not stored"
    assert scene.writer.go_on()

    assert [batch.count for batch in scene.target.queues[0]] == [18]
    scene.target.store(0)
    assert scene.position() == (520, 60)
    assert scene.writer.is_settled(0)
    assert not scene.target.kept


def test_what_is_put_off_lies_in_no_buffer_that_others_need() -> None:
    scene, source = scene_of(), Batches()
    put_off(scene, source, 0)
    buffer = bytearray(source.write([encode_body(b"k", b"v")])[0])
    with memoryview(buffer) as chunk:
        scene.writer.write(chunk, ChunkSection(0, 0, len(buffer), source.offset))

    buffer.clear()  # refused while there is a view of it
    store_all(scene)

    assert scene.position() == (503, 43)


def test_a_partition_that_stops_stores_what_was_put_off_first() -> None:
    scene, source = scene_of(), Batches()
    put_off(scene, source, 3)
    scene.writer.halt(Stopped(0, 0, StopKind.OUT_OF_RANGE, "gone"))
    scene.target.store(0)
    assert scene.stops == []
    store_all(scene)

    (stop,) = scene.stops
    assert (stop.upstream, stop.kind) == (508, StopKind.OUT_OF_RANGE)


def test_a_partition_stops_also_where_nothing_of_what_was_put_off_is_delivered() -> None:
    scene, source = scene_of(), Batches()
    scene.target.room = 1
    first, _ = source.write([encode_body(b"k", b"v")])
    scene.write(0, first, source.offset)
    marker, _ = source.write([b"\0"], attributes=TRANSACTIONAL | CONTROL)
    scene.write(0, marker, source.offset)
    scene.writer.halt(Stopped(0, 0, StopKind.OUT_OF_RANGE, "gone"))
    store_all(scene)

    (stop,) = scene.stops
    assert stop.upstream == 502
    assert not scene.target.kept


def test_a_rotten_batch_that_was_put_off_stops_its_partition_once_all_before_it_is_stored() -> None:
    scene, source = scene_of(), Batches()
    put_off(scene, source, 2)
    rotten = bytearray(source.write([encode_body(b"k", b"v")] * 2)[0])
    rotten[-1] ^= 1
    scene.write(0, bytes(rotten), source.offset)
    later, _ = source.write([encode_body(b"k", b"v")])
    scene.write(0, later, source.offset)
    store_all(scene)

    (stop,) = scene.stops
    assert (stop.upstream, stop.kind) == (506, StopKind.CORRUPT)
    assert not scene.target.kept


def test_what_was_put_off_is_forgotten_with_its_partition() -> None:
    scene, source = scene_of(), Batches()
    put_off(scene, source, 2)
    scene.target.refuse(0)

    (stop,) = scene.stops
    assert (stop.upstream, stop.kind) == (500, StopKind.REFUSED)
    assert not scene.writer.go_on()
    scene.writer.leave(0)
