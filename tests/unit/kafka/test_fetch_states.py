"""The fetcher's sessions and positions on brokers that fail at exact points. In process only: a real one cannot be timed so.

What these brokers answer to sessions, offsets and epochs is what real ones answer: see test_broker_answers.py.
"""

from contextlib import ExitStack
from datetime import timedelta

import pytest

from heliograph.kafka.fetch import FetchLimits, Subject
from heliograph.model import TopicPartition
from heliograph.net.faults import LOST_TOPIC
from lab.inprocess.cluster import InProcessCluster
from lab.inprocess.code import Code
from lab.inprocess.messages import Api
from lab.inprocess.script import Event, Fate
from lab.inprocess.topics import NO_LEADER
from tests.unit.kafka.asking import Asker, a_batch
from tests.unit.kafka.brokers import FAST, Fetching

T0, T1, T2 = (TopicPartition("t", index) for index in range(3))  # T0 and T2 have one leader


class Scene:
    """A topic, what is written to it, and a fetcher of all of it."""

    def __init__(self, cluster: InProcessCluster, stack: ExitStack) -> None:
        self.cluster = cluster
        self.stack = stack
        cluster.create_topic("t", 3)
        self.asker = Asker(cluster.endpoint, stack)
        self.fetching = Fetching(cluster.endpoint, [T0, T1, T2], stack)
        self.fetcher = self.fetching.fetcher
        self._written: dict[TopicPartition, list[bytes]] = {T0: [], T1: [], T2: []}
        self._next = 0

    def write(self, *partitions: TopicPartition) -> None:
        """Write another record to each of these partitions."""
        for partition in partitions:
            self._next += 1
            value = b"%d" % self._next
            assert self.asker.produce(partition, a_batch(value))[0] == 0
            self._written[partition].append(value)

    def read_all(self) -> None:
        """Read until all that was written has come: each record once, and in order."""
        written = list(self._written.values())
        self.fetching.until(
            lambda: all(len(self.fetching.values[i]) >= len(w) for i, w in enumerate(written))
        )
        assert list(self.fetching.values.values()) == written


@pytest.fixture
def scene(cluster: InProcessCluster, stack: ExitStack) -> Scene:
    """Every partition has one record, which is read; both sessions are open."""
    made = Scene(cluster, stack)
    made.write(T0, T1, T2)
    made.read_all()
    return made


def asked_of(cluster: InProcessCluster, node: int) -> list[list[int]]:
    """Return the partitions that each fetch of a node has listed."""
    return [
        [entry.partition for topic in asked.request.topics for entry in topic.partitions]
        for asked in cluster.asked(Api.FETCH)
        if asked.node == node
    ]


def test_only_what_has_moved_is_listed_in_the_next_request(
    scene: Scene, cluster: InProcessCluster
) -> None:
    assert asked_of(cluster, 1)[0] == [0, 2]
    scene.fetching.until(lambda: asked_of(cluster, 1)[-1] == [])
    before = len(asked_of(cluster, 1))
    scene.write(T2)
    scene.read_all()
    scene.fetching.turn()

    later = asked_of(cluster, 1)[before:]
    assert [wanted for wanted in later if wanted] == [[2]]
    sessions = {asked.request.session_id for asked in cluster.asked(Api.FETCH)}
    assert len(sessions - {0}) == 2, "one for each broker, kept"


@pytest.mark.parametrize("node", [1, 2])
def test_a_session_that_is_lost_is_begun_again_where_reading_was(
    scene: Scene, cluster: InProcessCluster, node: int
) -> None:
    cluster.forget_sessions(node)
    scene.write(T0, T1, T2)
    scene.read_all()
    assert asked_of(cluster, 1).count([0, 2]) >= (2 if node == 1 else 1)
    assert not scene.fetching.failed


def test_a_broker_without_room_for_sessions_is_asked_for_everything_each_time(
    cluster: InProcessCluster, stack: ExitStack
) -> None:
    cluster.limit_sessions(1, 0)
    scene = Scene(cluster, stack)
    for _ in range(3):
        scene.write(T0, T1, T2)
        scene.read_all()
    asked = [a.request for a in cluster.asked(Api.FETCH) if a.node == 1]
    assert {(request.session_id, request.session_epoch) for request in asked} == {(0, 0)}
    assert all(sorted(wanted) == [0, 2] for wanted in asked_of(cluster, 1))


@pytest.mark.parametrize("fate", [Fate.UNHEARD, Fate.UNANSWERED])
@pytest.mark.parametrize("at", [1, 2])
def test_a_connection_that_ends_during_a_fetch_loses_and_repeats_nothing(
    scene: Scene, cluster: InProcessCluster, fate: Fate, at: int
) -> None:
    lost = cluster.plan(Event(Api.FETCH, first=at, node=1, fate=fate))
    scene.write(T0, T1, T2)
    scene.fetching.until(lost.happened.is_set)
    scene.write(T0, T1, T2)
    scene.read_all()


def test_a_leader_that_moves_is_followed_and_the_old_one_is_asked_no_more(
    scene: Scene, cluster: InProcessCluster
) -> None:
    cluster.elect(T0, 2)
    scene.write(T0)
    scene.fetching.until(lambda: scene.fetching.failed)
    failed = scene.fetching.failed.popleft()
    assert (failed.slot, failed.error) == (0, Code.NOT_LEADER_OR_FOLLOWER)
    scene.fetcher.lost_leader([0])
    scene.write(T0, T2)
    scene.read_all()

    scene.fetching.until(lambda: asked_of(cluster, 1)[-1] == [])
    forgotten = [
        list(topic.partitions)
        for asked in cluster.asked(Api.FETCH)
        for topic in asked.request.forgotten_topics_data or ()
    ]
    assert forgotten == [[0]]


def test_a_leader_that_says_nothing_of_its_successor_is_left_when_metadata_does(
    scene: Scene, cluster: InProcessCluster
) -> None:
    held = cluster.hold(Api.FETCH, node=1)
    scene.fetching.turn()
    cluster.elect(T0, 2)
    assert scene.fetcher.follow_leaders()
    assert scene.fetcher.homeless
    scene.write(T0)
    scene.fetching.until(lambda: len(scene.fetching.values[0]) == 2)
    cluster.release(held)
    scene.read_all()


def test_a_partition_without_a_leader_keeps_no_other_waiting(
    scene: Scene, cluster: InProcessCluster
) -> None:
    cluster.elect(T0, NO_LEADER)
    scene.fetching.until(lambda: scene.fetching.failed)
    scene.fetcher.lost_leader([0])
    scene.write(T1, T2)
    scene.read_all()
    assert scene.fetching.why == {0: "t-0 has no leader"}

    cluster.elect(T0, 1)
    scene.write(T0)
    scene.read_all()


def test_an_error_of_one_partition_is_told_beside_the_records_of_others(
    scene: Scene, cluster: InProcessCluster
) -> None:
    cluster.trouble(T0, Code.KAFKA_STORAGE_ERROR)
    scene.write(T2)
    scene.read_all()
    scene.fetching.until(lambda: scene.fetching.failed)
    assert {(s.slot, s.error) for s in scene.fetching.failed} == {(0, Code.KAFKA_STORAGE_ERROR)}

    cluster.trouble(T0, Code.NONE)
    scene.fetching.failed.clear()
    scene.write(T0)
    scene.read_all()


def test_records_that_were_deleted_before_they_were_read_are_out_of_range(
    scene: Scene, cluster: InProcessCluster
) -> None:
    held = cluster.hold(Api.FETCH, node=1)
    scene.fetching.turn()
    scene.write(T0, T0, T0)
    cluster.change_log(T0, lambda log: log.delete_before(3))
    cluster.release(held)
    scene.fetching.until(lambda: scene.fetching.failed or len(scene.fetching.values[0]) > 1)
    if not scene.fetching.failed:  # the first of them came before they were deleted
        scene.fetcher.moved(0, 1)
        scene.fetching.until(lambda: scene.fetching.failed)
    assert {(s.slot, s.error) for s in scene.fetching.failed} == {(0, Code.OFFSET_OUT_OF_RANGE)}

    scene.fetcher.moved(0, 3)
    scene.fetching.values[0].clear()
    scene.fetching.until_read(b"6", slot=0)


def test_a_log_that_lost_what_was_read_is_told_where_it_parts(
    scene: Scene, cluster: InProcessCluster
) -> None:
    """Its records at the same offsets are others now; without the epoch they would be taken for the next."""
    scene.write(T1, T1)
    scene.read_all()
    cluster.elect(T1, 2, keeps=1)
    assert scene.asker.produce(T1, a_batch(b"other"))[0] == 0
    for _ in range(3):
        assert scene.asker.produce(T1, a_batch(b"other still"))[0] == 0

    scene.fetching.until(lambda: scene.fetching.failed)
    parted = scene.fetching.failed[-1]
    assert (parted.slot, parted.error, parted.parted) == (1, 0, 1)
    assert len(scene.fetching.values[1]) == 3, "none of the others was read"


def test_a_topic_that_was_made_again_is_an_error_and_not_another_topic_s_records(
    scene: Scene, cluster: InProcessCluster
) -> None:
    cluster.delete_topic("t")
    cluster.create_topic("t", 3)
    assert scene.asker.produce(T0, a_batch(b"another topic's"))[0] == 0

    scene.fetching.until(lambda: {s.slot for s in scene.fetching.failed} == {0, 1, 2})
    assert {s.error for s in scene.fetching.failed} <= LOST_TOPIC
    assert [len(values) for values in scene.fetching.values.values()] == [1, 1, 1]


def test_what_is_paused_is_not_asked_for_and_goes_on_where_it_was(
    scene: Scene,
) -> None:
    scene.fetcher.pause(0)
    scene.write(T0, T2)
    scene.fetching.until(lambda: len(scene.fetching.values[2]) == 2)
    for _ in range(3):
        scene.fetching.turn()
    assert len(scene.fetching.values[0]) == 1
    assert not scene.fetcher.homeless, "nobody looks for its leader"

    scene.fetcher.resume(0)
    scene.write(T0)
    scene.read_all()


def test_what_is_on_its_way_when_a_partition_is_paused_comes_once_after_it_is_resumed(
    scene: Scene, cluster: InProcessCluster
) -> None:
    held = cluster.hold(Api.FETCH, node=1)
    scene.write(T0)
    scene.fetching.turn()
    scene.fetcher.pause(0)
    scene.fetcher.resume(0)
    cluster.release(held)
    scene.write(T0)
    scene.read_all()


def test_a_partition_that_leaves_and_returns_under_another_slot_is_read_from_its_position(
    scene: Scene,
) -> None:
    scene.write(T0, T0)
    scene.read_all()
    scene.fetcher.remove(0)
    again = Subject(3, T0, scene.asker.topic_id("t"), 1)
    scene.fetching.subjects.append(again)
    scene.fetching.values[3] = []
    scene.fetcher.add([again])
    scene.write(T0)
    scene.fetching.until(lambda: len(scene.fetching.values[3]) == 3)
    assert scene.fetching.values[3] == [b"4", b"5", b"6"]
    assert not scene.fetcher.fetches(0)
    assert not scene.fetching.failed


def test_a_partition_that_comes_while_its_leader_has_no_news_is_served_meanwhile(
    cluster: InProcessCluster, stack: ExitStack
) -> None:
    """Over a second connection: the first has to wait for the news it asked for."""
    cluster.create_topic("t", 3)
    asker = Asker(cluster.endpoint, stack)
    slow = FetchLimits(wait=timedelta(minutes=10))
    fetching = Fetching(cluster.endpoint, [T0], stack, slow)
    fetching.until(lambda: cluster.asked(Api.FETCH))
    asker.produce(T2, a_batch(b"at once"))
    late = Subject(1, T2, asker.topic_id("t"), 0)
    fetching.subjects.append(late)
    fetching.values[1] = []
    fetching.fetcher.add([late])
    fetching.until_read(b"at once", slot=1)
    assert [wanted for wanted in asked_of(cluster, 1) if wanted][:2] == [[0], [2]]

    asker.produce(T0, a_batch(b"news"))
    fetching.until_read(b"news", slot=0)
    asker.produce(T2, a_batch(b"later"))
    fetching.until_read(b"at once", b"later", slot=1)


def test_an_answer_to_an_earlier_slot_is_not_taken_for_that_of_a_later_one(
    cluster: InProcessCluster, stack: ExitStack
) -> None:
    """It begins behind the later one's position: what lies between would be left out."""
    cluster.create_topic("t", 3)
    asker = Asker(cluster.endpoint, stack)
    for value in (b"0", b"1", b"2"):
        asker.produce(T2, a_batch(value))
    fetching = Fetching(cluster.endpoint, [T0], stack, FetchLimits(wait=timedelta(minutes=10)))
    fetching.until(lambda: cluster.asked(Api.FETCH))
    held = cluster.hold(Api.FETCH)
    topic_id = asker.topic_id("t")
    for slot, position in ((1, 2), (2, 0)):
        subject = Subject(slot, T2, topic_id, position)
        fetching.fetcher.remove(slot - 1 if slot == 2 else -1)
        fetching.subjects.append(subject)
        fetching.values[slot] = []
        fetching.fetcher.add([subject])
        fetching.turn()
        fetching.turn()
    assert asked_of(cluster, 1) == [[0], [2]], "the second answer is still to come"
    cluster.release(held)
    fetching.until_read(b"0", b"1", b"2", slot=2)
    assert fetching.values[1] == []


def test_a_large_partition_does_not_keep_a_small_one_waiting(
    cluster: InProcessCluster, stack: ExitStack
) -> None:
    cluster.create_topic("t", 3)
    asker = Asker(cluster.endpoint, stack)
    for _ in range(20):
        asker.produce(T0, a_batch(bytes(1000)))
    asker.produce(T2, a_batch(b"small"))
    limits = FetchLimits(max_bytes=1200, partition_max_bytes=1200, wait=FAST)
    fetching = Fetching(cluster.endpoint, [T0, T2], stack, limits)
    fetching.until(lambda: fetching.values[1])
    assert len(fetching.values[0]) <= 2, "its turn comes after the first answer"
    fetching.until(lambda: len(fetching.values[0]) == 20)


def test_a_batch_larger_than_any_limit_is_read_whole(
    cluster: InProcessCluster, stack: ExitStack
) -> None:
    cluster.create_topic("t", 1)
    asker = Asker(cluster.endpoint, stack)
    for value in (bytes(9000), b"after"):
        asker.produce(T0, a_batch(value))
    limits = FetchLimits(max_bytes=500, partition_max_bytes=500, wait=FAST)
    fetching = Fetching(cluster.endpoint, [T0], stack, limits)
    fetching.until_read(bytes(9000), b"after")


def test_a_broker_that_is_restarted_is_found_again(scene: Scene, cluster: InProcessCluster) -> None:
    cluster.close_node(1)
    cluster.forget_sessions(1)
    scene.write(T1)
    scene.fetching.until(lambda: len(scene.fetching.values[1]) == 2)
    scene.fetching.until(lambda: 0 in scene.fetching.why)
    cluster.open_node(1)
    scene.asker.forget(1)
    scene.write(T0, T2)
    scene.read_all()
