"""Records placed by key among lanes that source partitions share, with a target that is slow."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.kafka.lane import Lane
from heliograph.model import Position, ProducerIdentity, StopKind, TopicPartition
from heliograph.wire.lease_messages import LaneShare
from heliograph.wire.records import encode_body
from tests.unit.copying.lanes import Batches, make_share
from tests.unit.copying.targets import Scene, slow_target

keys = st.none() | st.sampled_from([b"", b"a", b"b", b"key-7"]) | st.binary(max_size=9)
bodies = st.builds(encode_body, keys, st.binary(max_size=60))


@pytest.fixture(autouse=True)
def _slow_target(monkeypatch: pytest.MonkeyPatch) -> None:
    slow_target(monkeypatch)


def spread_scene(sources: int = 3, count: int = 2) -> Scene:
    """Return a writer of so many source partitions that share the lanes -1, -2 and so on."""
    scene = Scene()
    shares = [
        make_share(
            slot=index,
            remote=TopicPartition("A.t", index % count),
            position=Position(500, -1),
            spread=count,
        )
        for index in range(sources)
    ]
    lanes = tuple(
        LaneShare(TopicPartition("A.t", index), ProducerIdentity(9, 1), 0, 1 << 20)
        for index in range(count)
    )
    scene.take(shares, lanes)
    return scene


def check_positions(scene: Scene) -> None:
    """No slot's position is behind the first record of its batches that are not stored."""
    spread = scene.writer._spread
    for queue in scene.target.queues.values():
        for batch in queue:
            slot = spread._tickets[batch].slot
            assert slot.upstream <= batch.spans[0][0]


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.lists(bodies, min_size=1, max_size=9), st.integers(0, 4)),
        max_size=9,
    )
)
def test_a_position_never_passes_a_record_that_is_not_stored(
    sections: list[tuple[int, list[bytes], int]],
) -> None:
    scene = spread_scene()
    sources = [Batches() for _ in range(3)]
    sent: list[bytes] = []
    for slot, contents, stored_meanwhile in sections:
        batch, records = sources[slot].write(contents)
        sent += [record.body for record in records]
        scene.write(slot, batch, sources[slot].offset)
        check_positions(scene)
        for _ in range(stored_meanwhile):
            scene.target.store_one()
            check_positions(scene)
    while scene.target.store_one() is not None:
        check_positions(scene)

    stored = {lane: its for lane, its in scene.target.stored.items() if lane < 0}
    assert sorted(r.body for its in stored.values() for r in its) == sorted(sent)
    assert [scene.position(i)[0] for i in range(3)] == [source.offset for source in sources]
    assert all(scene.writer.is_settled(i) for i in range(3))
    left = [scene.writer.leave(i) for i in range(3)]
    assert left == [(), (), (("A.t", 0, len(stored[-1])), ("A.t", 1, len(stored[-2])))]


@pytest.mark.parametrize("for_good", [True, False])
def test_a_lane_that_cannot_go_on_stops_every_partition_of_its_topic(for_good: bool) -> None:
    scene = spread_scene()
    batch, _ = Batches().write([encode_body(b"key-%d" % i, b"v") for i in range(20)])
    scene.write(1, batch, 520)
    scene.target.store(-1)

    scene.target.refuse(-2, for_good=for_good)
    scene.write(1, batch, 520)

    kind = StopKind.REFUSED_FOR_GOOD if for_good else StopKind.REFUSED
    assert sorted((s.slot, s.upstream, s.kind, s.spent) for s in scene.stops) == [
        (0, 500, kind, True),
        (1, 500, kind, True),
        (2, 500, kind, True),
    ]
    assert "A.t-1: the target answered: no" in scene.stops[0].reason
    assert scene.target.idle
    left = [scene.writer.leave(slot) for slot in range(3)]
    assert left == [(), (), ()], "nobody is told sequences with holes"


def test_a_record_that_is_too_large_stops_its_partition_alone() -> None:
    scene = spread_scene()
    small = encode_body(b"a", b"v")
    batch, _ = Batches().write([small, encode_body(b"b", bytes(1 << 20)), small])
    scene.write(0, batch, 503)
    other, _ = Batches().write([small])
    scene.write(1, other, 501)
    assert scene.stops == [], "what is before it is stored first"

    while scene.target.store_one() is not None:
        pass

    (stop,) = scene.stops
    assert (stop.slot, stop.upstream, stop.kind) == (0, 501, StopKind.TOO_LARGE)
    assert scene.position(1)[0] == 501
    left = [scene.writer.leave(slot) for slot in range(3)]
    assert [(topic, index) for topic, index, _ in left[2]] == [("A.t", 0), ("A.t", 1)]
    assert sum(sequence for _, _, sequence in left[2]) == 2


def test_a_topic_that_comes_again_gets_lanes_of_its_own_numbers() -> None:
    scene = spread_scene(sources=1)
    scene.writer.leave(0)
    share = make_share(slot=1, remote=TopicPartition("A.t", 0), spread=1)
    scene.take([share], (LaneShare(share.remote, ProducerIdentity(9, 2), 7, 1 << 20),))
    batch, _ = Batches().write([encode_body(b"a", b"v")])

    scene.write(1, batch, 501)
    scene.target.store(-3)

    assert scene.position(1)[0] == 501
    assert scene.writer.leave(1) == (("A.t", 0, 8),)


def test_a_lane_in_trouble_is_waited_for_by_every_partition_that_uses_it() -> None:
    scene = spread_scene()
    lane = Lane(-2, TopicPartition("A.t", 1), trouble="its broker is away")
    scene.target.troubled[-2] = lane

    assert dict(scene.writer.waits()) == dict.fromkeys(range(3), "its broker is away")
