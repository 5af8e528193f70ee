"""What a job says to its tasks, with hand-made tasks on a real target: identities, tails, moves, succession."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TypeVar, cast

import pytest

from heliograph.copying.lease import Lease, LeaseLost
from heliograph.driving.job import FlowJob, JobOptions
from heliograph.driving.lease_server import LeaseServer
from heliograph.driving.ownership import Ownership
from heliograph.driving.partitions import Partition, Stop
from heliograph.driving.rights import Exclusive
from heliograph.driving.tally import Tally
from heliograph.errors import FlowHeld
from heliograph.kafka.cluster import Cluster
from heliograph.model import Flow, Position, ProducerIdentity, StopKind, TopicPartition
from heliograph.policy.latency import BOUNDS_MS
from heliograph.running.positions import resume_returned
from heliograph.spark.engine import Engine
from heliograph.wire.lease_messages import (
    Alive,
    Claim,
    End,
    Fenced,
    LaneShare,
    Leave,
    Left,
    Limit,
    Limits,
    Note,
    Order,
    Ping,
    Report,
    Share,
    SlotRead,
    SlotWritten,
    Stopped,
    Take,
    Welcome,
)
from lab.clusters import LiveCluster, eventually, unique_name
from lab.counting import endpoint
from lab.moves import rebalance, spread
from tests.unit.driving.engines import FakeEngine

pytestmark = pytest.mark.broker

LIMITS = Limits(4 << 20, 2 << 20, 5, 256 << 10, read_committed=True)
T = TypeVar("T", bound=Order)


class Task:
    """A slice's task as far as its job can tell: a lease, and what was said over it."""

    def __init__(self, leases: LeaseServer, number: int, slice_index: int = 0) -> None:
        host, port = leases.address
        claim = Claim("A->B", slice_index, number, host, port, leases.secret)
        self._lease = Lease(claim, number)
        self._pings = 0
        try:
            self.welcome, self._orders = self._lease.await_welcome()
        except LeaseLost:
            self.close()
            raise

    def say(self, *notes: Note) -> None:
        for note in notes:
            self._lease.send(note)

    def await_order(self, kind: type[T]) -> T:
        """Return the next order of a kind; none of another may come before it."""
        eventually(self._look)
        order = self._orders.pop(0)
        assert isinstance(order, kind), order
        return order

    def take(self) -> Share:
        """Return the only share of the next order to take some."""
        (share,) = self.await_order(Take).shares
        return share

    def shares(self, count: int) -> dict[TopicPartition, Share]:
        """Return so many shares by partition, in as many orders as there are groups to fence."""
        found: dict[TopicPartition, Share] = {}
        while len(found) < count:
            found |= {share.source: share for share in self.await_order(Take).shares}
        assert len(found) == count
        return found

    def sync(self) -> list[Order]:
        """Return the orders that are there when the job has heard all that was said."""
        self._pings += 1
        self.say(Ping(self._pings))
        eventually(lambda: self._look() and isinstance(self._orders[-1], Alive))
        orders, self._orders = self._orders[:-1], []
        return orders

    def write(self, slot: int, upstream: int, downstream: int) -> None:
        """Say that a record of 10 bytes was stored up to there, the only one."""
        row = SlotWritten(slot, upstream, downstream, upstream, 1, 10, (), -1, None)
        counts = (1, *[0] * len(BOUNDS_MS))
        self.say(Report(written=(row,), verdicts={"pass": 1}, latency=counts))

    def is_hung_up_on(self) -> bool:
        try:
            self._look()
        except LeaseLost:
            return True
        return False

    def close(self) -> None:
        self._lease.close()

    def _look(self) -> list[Order]:
        self._orders += self._lease.poll()
        return self._orders


@dataclass
class Scene:
    """Jobs on a target, the tasks that come to them, and what went wrong for good."""

    target: LiveCluster
    topic: str
    stack: ExitStack
    fatal: list[str] = field(default_factory=list)
    runs: list[tuple[TopicPartition, list[tuple[int, int, int]]]] = field(default_factory=list)
    held: str | None = None
    tasks_end: threading.Event = field(default_factory=threading.Event)

    def own(self) -> ProducerIdentity:
        """Return the identity that says whose the flow is."""
        return self.ownership.record().identities[self.ownership.flow_id]

    def __post_init__(self) -> None:
        self.leases = self.stack.enter_context(closing(LeaseServer()))
        self.ownership = Ownership(self.topic)
        self.cluster = self.stack.enter_context(closing(Cluster(endpoint(self.target))))
        self.ownership.open(self.cluster)

    def start(
        self, partitions: Sequence[Partition], slices: int = 1, tally: Tally | None = None
    ) -> FlowJob:
        """Start a job with these partitions; its slices run in tasks that the test plays."""
        place = endpoint(self.target)
        job = FlowJob(
            JobOptions(Flow("A", "B"), "A->B", place, place, LIMITS, slices),
            self.leases,
            Exclusive(self.ownership),
            on_fatal=lambda kind, _: self.fatal.append(kind),
            on_runs=lambda source, told: self.runs.append((source, told)),
            may_copy=self._check,
            tally=tally,
        )
        job.assign(partitions)
        job.start(cast("Engine", FakeEngine(lambda _: self.tasks_end.wait(120))))
        self.stack.callback(lambda: job.stop(timedelta(0)))
        self.stack.callback(self.tasks_end.set)
        return job

    def task(self, number: int, slice_index: int = 0) -> Task:
        return self.stack.enter_context(closing(Task(self.leases, number, slice_index)))

    def partition(self, index: int = 0, topic_id: str = "id") -> Partition:
        place = TopicPartition(self.topic, index)
        return Partition(place, topic_id, place, "id", 1 << 20, Position(0, 0))

    def _check(self, _target: Cluster) -> None:
        if self.held is not None:
            raise FlowHeld(self.held, "2026-01-01")


def sleep_long(job: FlowJob) -> None:
    """Have a job find out that its process did not run for a while."""
    job._pulse._missed = True


@pytest.fixture
def scene(target: LiveCluster) -> Iterator[Scene]:
    with ExitStack() as stack:
        yield Scene(target, target.create_topic(3), stack)


def test_a_task_is_told_how_to_work_before_it_is_given_work(scene: Scene) -> None:
    scene.start([scene.partition()])
    task = scene.task(1)

    place = endpoint(scene.target)
    assert task.welcome == Welcome("A->B", place, place, LIMITS)
    share = task.take()
    assert (share.source, share.position, share.sequence) == (
        TopicPartition(scene.topic, 0),
        Position(0, 0),
        0,
    )
    assert share.ours
    assert share.resume, "nobody knows what a predecessor wrote"


def test_a_partition_that_was_left_keeps_its_identity_and_goes_on(scene: Scene) -> None:
    scene.start([scene.partition()])
    task = scene.task(1)
    before = task.take()
    task.write(before.slot, 10, 11)
    task.say(Left((before.slot,)))

    after = task.take()

    assert after.slot != before.slot, "what is under way to a slot is never taken for another's"
    assert (after.identity, after.sequence, after.resume) == (before.identity, 10, False)
    assert after.position == Position(10, 11)


def test_a_task_that_died_is_fenced_and_its_tail_is_read(scene: Scene) -> None:
    scene.start([scene.partition()])
    first = scene.task(1)
    before = first.take()
    first.close()

    after = scene.task(2).take()

    assert after.identity.producer_id == before.identity.producer_id
    assert after.identity.epoch > before.identity.epoch
    assert after.resume


def test_a_remote_partition_that_lost_records_is_seen_before_a_marker_hides_it(
    scene: Scene,
) -> None:
    """The fence's own marker takes an offset: with exactly one record lost, the end was where it should be."""
    lost = scene.partition()
    lost.position = Position(7, 1)
    job = scene.start([lost])
    scene.task(1)

    (stopped,) = eventually(job.stopped)

    assert stopped.stop is not None
    assert stopped.stop.kind is StopKind.TRUNCATED
    assert "ended at 1 and now ends at 0" in stopped.stop.reason
    assert scene.target.end_offsets(scene.topic)[0] == 0, "there is no marker"


def test_a_remote_topic_that_we_made_is_written_without_a_marker(scene: Scene) -> None:
    made = scene.partition()
    made.made = True
    job = scene.start([made])
    task = scene.task(1)

    first = task.take()

    assert not first.resume
    assert scene.target.end_offsets(scene.topic)[0] == 0
    task.say(Left((first.slot,), behind=True))
    assert task.take().resume, "who comes later must look at the tail"
    assert scene.target.end_offsets(scene.topic)[0] == 1
    assert job.stopped() == []


def test_a_later_attempt_ends_the_lease_of_the_one_before(scene: Scene) -> None:
    scene.start([scene.partition()])
    first = scene.task(5)
    before = first.take()

    second = scene.task(6)

    after = second.take()
    assert after.identity.epoch > before.identity.epoch
    eventually(first.is_hung_up_on)
    with pytest.raises(LeaseLost):
        Task(scene.leases, 4)
    assert second.sync() == [], "one that comes late takes nothing away"


def test_what_an_attempt_says_that_was_replaced_counts_no_more(scene: Scene) -> None:
    job = scene.start([scene.partition()])
    before = scene.task(1).take()
    line = job._roster.attempts[0].line
    second = scene.task(2)
    second.take()

    late = SlotWritten(before.slot, 99, 99, 99, 1, 10, (), -1, None)
    job.heard(line, Report(written=(late,)))
    job.lost(line)

    assert [p.position for p in job.partitions()] == [Position(0, 0)]
    assert job.tasks() == 1
    assert second.sync() == []


def test_a_tail_that_was_not_met_whole_is_met_again(scene: Scene) -> None:
    scene.start([scene.partition()])
    task = scene.task(1)
    before = task.take()
    task.say(Left((before.slot,), behind=True))

    after = task.take()

    assert after.resume
    assert after.identity.epoch > before.identity.epoch


def test_partitions_come_and_go_while_a_task_runs(scene: Scene) -> None:
    one, two, three = (scene.partition(index) for index in range(3))
    job = scene.start([one])
    task = scene.task(1)
    first = task.take()
    assert task.sync() == []

    assert job.assign([one, two, three])
    taken = task.shares(2)
    assert taken.keys() == {two.source, three.source}
    assert len({first.slot, *(share.slot for share in taken.values())}) == 3
    assert not job.assign([one, two, three]), "nothing has changed"
    assert task.sync() == []

    job.assign([two, three])
    assert task.await_order(Leave) == Leave((first.slot,))
    task.write(first.slot, 4, 5)
    task.say(Left((first.slot,)))
    assert task.sync() == [], "nobody wants it any more"
    assert [p.source for p in job.partitions()] == [two.source, three.source]
    assert job.tally.records == {scene.topic: 1}, "what was under way is counted"
    assert job.tally.handovers == 1

    job.assign([scene.partition(), two, three])
    again = task.take()
    assert (again.source, again.resume) == (one.source, True), "its identity went with it"
    assert job.tasks() == 1


def test_a_partition_that_moves_goes_from_task_to_task_without_a_fence(scene: Scene) -> None:
    partitions = [scene.partition(index) for index in range(3)]
    sources = [p.source for p in partitions]
    job = scene.start(partitions, slices=2)
    spread(job, [(sources[0], sources[1]), (sources[2],)])
    first, second = scene.task(1, 0), scene.task(1, 1)
    taken = first.shares(2)
    second.take()
    moved = taken[sources[1]]
    first.write(moved.slot, 7, 9)

    rebalance(job, [(sources[0],), (sources[1], sources[2])])

    assert first.await_order(Leave) == Leave((moved.slot,))
    assert second.sync() == [], "one holder at a time"
    first.write(moved.slot, 8, 10)
    first.say(Left((moved.slot,)))
    after = second.take()
    assert (after.source, after.position, after.sequence) == (moved.source, Position(8, 10), 8)
    assert (after.identity, after.resume) == (moved.identity, False)
    assert first.sync() == [], "the other partition does not notice"
    assert job.tally.handovers == 1
    assert job.slices() == [(sources[0],), (sources[1], sources[2])]


def test_a_task_that_dies_while_it_hands_over_is_fenced(scene: Scene) -> None:
    partitions = [scene.partition(index) for index in range(2)]
    sources = [p.source for p in partitions]
    job = scene.start(partitions, slices=2)
    spread(job, [tuple(sources), ()])
    first, second = scene.task(1, 0), scene.task(1, 1)
    taken = first.shares(2)

    rebalance(job, [(sources[0],), (sources[1],)])
    first.await_order(Leave)
    first.close()

    after = second.take()
    assert after.identity.epoch > taken[sources[1]].identity.epoch
    assert after.resume


def test_a_remote_topic_that_takes_larger_batches_is_told_while_a_task_runs(scene: Scene) -> None:
    job = scene.start([scene.partition()])
    task = scene.task(1)
    share = task.take()
    larger = scene.partition()
    larger.max_message_bytes = 5 << 20

    job.assign([larger])

    assert task.await_order(Limit) == Limit(share.slot, 5 << 20)
    task.say(Left((share.slot,)))
    assert task.take().max_message_bytes == 5 << 20


def test_where_records_went_is_told_before_the_position_after_them(scene: Scene) -> None:
    job = scene.start([scene.partition()])
    (held,) = job.partitions()
    positions: list[Position] = []

    def note(source: TopicPartition, told: list[tuple[int, int, int]]) -> None:
        positions.append(held.position)
        scene.runs.append((source, told))

    job._on_runs = note
    task = scene.task(1)
    slot = task.take().slot

    row = SlotWritten(slot, 5, 6, 5, 5, 50, ((0, 1, 5),), -1, None)
    task.say(Report(written=(row,)))
    task.sync()

    assert scene.runs == [(TopicPartition(scene.topic, 0), [(0, 1, 5)])]
    assert (positions, held.position) == ([Position(0, 0)], Position(5, 6))


def test_a_stop_outlives_the_reports_that_were_under_way(scene: Scene) -> None:
    job = scene.start([scene.partition()])
    task = scene.task(1)
    slot = task.take().slot
    task.say(Stopped(slot, 7, StopKind.TOO_LARGE, "it is"))
    task.write(slot, 7, 8)

    assert task.sync() == []
    (stopped,) = job.stopped()
    assert stopped.stop is not None
    assert (stopped.stop.kind, stopped.stop.upstream) == (StopKind.TOO_LARGE, 7)
    task.close()
    assert scene.task(2).sync() == [], "nobody is given it"


def test_a_stopped_partition_is_tried_again_after_a_minute_by_the_task_that_runs(
    scene: Scene,
) -> None:
    job = scene.start([scene.partition()])
    task = scene.task(1)
    before = task.take()
    task.say(Stopped(before.slot, 0, StopKind.REFUSED, "no"))
    assert task.sync() == [], "it has just stopped"

    (held,) = job.partitions()
    assert held.stop is not None
    held.stop = replace(held.stop, since=held.stop.since - 61)
    again = task.take()

    assert again.identity.epoch > before.identity.epoch, "sequences were spent on what was refused"
    assert again.resume
    assert job.stopped() == [held], "it is being tried"
    task.write(again.slot, 1, 1)
    assert task.sync() == []
    assert job.stopped() == []


def test_a_partition_whose_source_stopped_it_goes_on_as_it_was(scene: Scene) -> None:
    job = scene.start([scene.partition()])
    task = scene.task(1)
    before = task.take()
    task.write(before.slot, 3, 4)
    task.say(Stopped(before.slot, 3, StopKind.OUT_OF_RANGE, "gone", resume=9, spent=False))
    assert task.sync() == []

    job.reposition(TopicPartition(scene.topic, 0), 9)

    after = task.take()
    assert (after.identity, after.sequence, after.resume) == (before.identity, 3, False)
    assert after.position == Position(9, 4)


def test_what_tasks_wait_for_is_told_as_long_as_they_do(scene: Scene) -> None:
    job = scene.start([scene.partition(index) for index in range(2)])
    task = scene.task(1)
    first, second = (share.slot for share in task.shares(2).values())
    task.say(Report(waits={first: "A does not answer"}))
    task.sync()
    assert list(job.waiting().values()) == ["A does not answer"]
    assert job.troubles() == [], "the other one gets on"

    task.say(Report(waits={first: "A does not answer", second: "A does not answer"}))
    task.sync()
    assert job.troubles() == ["A does not answer"]
    task.write(first, 1, 1)
    task.sync()
    assert job.troubles() == ["A does not answer"], (
        "a report that says nothing of it changes nothing"
    )

    task.say(Report(waits={}))
    task.sync()
    assert job.troubles() == []
    assert job.waiting() == {}


def test_a_fenced_job_fences_nobody(scene: Scene) -> None:
    job = scene.start([scene.partition()])
    task = scene.task(1)
    task.take()
    Ownership(scene.topic).open(scene.cluster)
    task.say(Fenced("somebody else"))

    eventually(lambda: scene.fatal)
    assert scene.fatal == ["fenced"]
    with pytest.raises(LeaseLost):
        Task(scene.leases, 2)
    assert job._is_wanted(0, 0.0) is None, "its slices are not started again"


def test_a_writer_that_is_fenced_while_the_flow_is_ours_is_followed_by_another(
    scene: Scene,
) -> None:
    scene.start([scene.partition()])
    first = scene.task(1)
    before = first.take()
    first.say(Fenced("somebody who has no right to it"))
    first.sync()
    first.close()

    after = scene.task(2).take()

    assert after.identity.epoch > before.identity.epoch
    assert scene.fatal == []


def test_a_driver_whose_flow_another_has_taken_gives_up(scene: Scene) -> None:
    job = scene.start([scene.partition()])
    task = scene.task(1)
    task.take()
    Ownership(scene.topic).open(scene.cluster)

    sleep_long(job)

    eventually(lambda: scene.fatal)
    assert scene.fatal == ["fenced"]
    task.say(Ping(7))
    assert not task.is_hung_up_on()
    assert task._look() == [], "the task may not write on"


def test_a_driver_that_slept_lets_tasks_write_again_once_it_knows_that_the_flow_is_its_own(
    scene: Scene,
) -> None:
    job = scene.start([scene.partition()])
    task = scene.task(1)
    task.take()
    before = scene.own()

    sleep_long(job)

    eventually(job._pulse.is_regular)
    assert task.sync() == []
    assert scene.own().epoch > before.epoch, "it has asked"
    assert scene.fatal == []


def test_a_flow_that_is_held_is_given_to_no_task(scene: Scene) -> None:
    scene.held = "A->B"
    scene.start([scene.partition()])
    task = scene.task(1)

    eventually(lambda: scene.fatal)

    assert scene.fatal == ["held"]
    assert task._look() == []


def test_a_partition_that_cannot_be_fenced_waits_and_the_others_do_not(scene: Scene) -> None:
    missing = scene.partition()
    missing.source = missing.remote = TopicPartition(unique_name(), 0)
    job = scene.start([missing, scene.partition(1)])
    task = scene.task(1)

    share = task.take()

    assert share.source == TopicPartition(scene.topic, 1)
    eventually(job.waiting)
    assert list(job.waiting()) == [missing.source]
    assert task.sync() == []


def test_a_count_does_not_fall_where_a_partition_begins_anew_or_goes(scene: Scene) -> None:
    job = scene.start([scene.partition()])
    task = scene.task(1)
    share = task.take()
    task.write(share.slot, 1, 1)
    task.sync()
    job.assign([scene.partition(topic_id="another id")])
    assert task.await_order(Leave) == Leave((share.slot,))
    assert task.sync() == [], "fencing what it still writes would fence the task"
    task.write(share.slot, 2, 2)  # what was under way to the old one
    task.say(Left((share.slot,)))
    assert task.take().topic_id == "another id"
    assert job.tally.records == {scene.topic: 2}
    assert job.tally.bytes == {scene.topic: 20}
    job.assign([])
    assert job.tally.records.total() == 2


def test_a_job_counts_on_from_where_the_one_before_it_was(scene: Scene) -> None:
    before = scene.start([scene.partition()])
    task = scene.task(3)
    task.write(task.take().slot, 1, 1)
    task.sync()
    before.stop(timedelta(0))

    job = scene.start([scene.partition()], tally=before.tally)
    task = scene.task(1)
    task.write(task.take().slot, 2, 2)
    task.sync()

    tally = job.tally
    assert (tally.records[scene.topic], tally.bytes[scene.topic]) == (2, 20)
    assert (tally.verdicts["pass"], sum(tally.latency.counts)) == (2, 2)


@pytest.mark.parametrize("kind", [StopKind.LOST_REMOTE, StopKind.LOST_TOPIC])
def test_a_topic_that_was_away_is_copied_again_as_soon_as_it_is_back(
    scene: Scene, kind: StopKind
) -> None:
    topic_id = str(scene.cluster.describe([scene.topic])[scene.topic].topic_id)
    here, gone = scene.partition(), scene.partition(1)
    gone.source = gone.remote = TopicPartition(unique_name(), 0)
    for held in (gone, here):
        held.topic_id = held.remote_id = topic_id
        held.stop = Stop(kind, 0, "it has no leader", time.monotonic() - 10)
    job = scene.start([gone, here])
    task = scene.task(1)
    assert task.sync() == []

    resume_returned(job, scene.cluster, scene.cluster)

    assert task.take().source == here.source
    assert job.stopped() == [gone]


def test_the_leader_s_epoch_is_handed_on_only_for_the_position_it_belongs_to(scene: Scene) -> None:
    scene.start([scene.partition()])
    task = scene.task(1)
    share = task.take()
    assert share.leader_epoch == -1
    task.say(Report(read=(SlotRead(share.slot, 10, 12, 12, 3, None),)))
    task.write(share.slot, 5, 6)
    task.say(Left((share.slot,)))

    share = task.take()
    assert share.leader_epoch == -1, "it was read further than it was stored"
    task.say(Report(read=(SlotRead(share.slot, 10, 12, 12, 3, None),)))
    task.write(share.slot, 10, 11)
    task.say(Left((share.slot,)))
    assert task.take().leader_epoch == 3


def spread_over(scene: Scene, count: int) -> list[Partition]:
    """Return the partitions of a topic whose records are placed by key among so many remote ones."""
    made = [scene.partition(index) for index in range(2)]
    for partition in made:
        partition.remote = TopicPartition(scene.topic, 0)
        partition.spread = count
    return made


def test_lanes_come_with_the_first_partition_of_their_topic_and_are_handed_on(scene: Scene) -> None:
    job = scene.start(spread_over(scene, 3))
    task = scene.task(1)
    taken = task.await_order(Take)
    assert [lane.remote.index for lane in taken.lanes] == [0, 1, 2]
    assert all(share.spread == 3 and not share.resume for share in taken.shares)
    identities = [lane.identity for lane in taken.lanes]
    one, two = (share.slot for share in taken.shares)

    task.say(Left((one,)))
    again = task.await_order(Take)
    assert (len(again.shares), again.lanes) == (1, ()), "the task has the lanes"
    job.assign([])
    assert set(task.await_order(Leave).slots) == {two, again.shares[0].slot}
    lanes = tuple((scene.topic, index, 5 + index) for index in range(3))
    task.say(Left((two, again.shares[0].slot), lanes))
    task.sync()

    job.assign(spread_over(scene, 3))
    after = task.await_order(Take).lanes
    assert after == tuple(
        LaneShare(TopicPartition(scene.topic, index), identities[index], 5 + index, 1 << 20)
        for index in range(3)
    )


def test_lanes_of_a_task_that_died_are_fenced(scene: Scene) -> None:
    scene.start(spread_over(scene, 2))
    first = scene.task(1)
    before = first.await_order(Take).lanes
    first.close()

    after = scene.task(2).await_order(Take).lanes

    for old, new in zip(before, after, strict=True):
        assert new.identity.epoch > old.identity.epoch
        assert new.sequence == 0


def test_a_partition_that_stops_alone_comes_back_to_the_lanes_that_the_others_use(
    scene: Scene,
) -> None:
    job = scene.start(spread_over(scene, 2))
    task = scene.task(1)
    taken = task.await_order(Take)
    stopped = taken.shares[0]
    task.say(Stopped(stopped.slot, 0, StopKind.TOO_LARGE, "it is"))
    assert task.sync() == []

    (held,) = job.stopped()
    assert held.stop is not None
    held.stop = replace(held.stop, since=held.stop.since - 61)
    again = task.await_order(Take)

    assert [share.source for share in again.shares] == [stopped.source]
    assert again.lanes == (), "a fence would end the others, which write there meanwhile"
    assert again.shares[0].identity == stopped.identity


def test_lanes_of_which_one_was_refused_come_with_new_identities(scene: Scene) -> None:
    job = scene.start(spread_over(scene, 2))
    task = scene.task(1)
    taken = task.await_order(Take)
    for share in taken.shares:
        task.say(Stopped(share.slot, 0, StopKind.REFUSED, "no"))
    assert task.sync() == []

    for held in job.stopped():
        assert held.stop is not None
        held.stop = replace(held.stop, since=held.stop.since - 61)
    again = task.await_order(Take)

    assert [lane.sequence for lane in again.lanes] == [0, 0]
    for old, new in zip(taken.lanes, again.lanes, strict=True):
        assert new.identity.epoch > old.identity.epoch


def test_a_job_that_stops_lets_its_tasks_finish(scene: Scene) -> None:
    job = scene.start([scene.partition()])
    task = scene.task(1)
    slot = task.take().slot
    drained: list[bool] = []
    stopping = threading.Thread(target=lambda: drained.append(job.stop(timedelta(seconds=30))))
    stopping.start()

    assert task.await_order(End) == End()
    task.write(slot, 10, 11)
    task.say(Left((slot,)))
    task.close()
    scene.tasks_end.set()
    stopping.join(60)

    assert drained == [True]
    assert [p.position for p in job.partitions()] == [Position(10, 11)]
    assert job.tasks() == 0
    with pytest.raises(LeaseLost):
        Task(scene.leases, 2)


def test_what_a_task_said_last_counts_where_spark_tells_of_its_end_first(scene: Scene) -> None:
    job = scene.start([scene.partition()])
    task = scene.task(1)
    slot = task.take().slot

    with job._changed:  # nothing is heard meanwhile
        task.write(slot, 10, 11)
        task.say(Left((slot,)))
        job._note_over(0)

    eventually(lambda: [p.position for p in job.partitions()] == [Position(10, 11)])


def test_a_task_that_is_lost_at_the_end_has_not_finished_what_it_began(scene: Scene) -> None:
    job = scene.start([scene.partition()])
    task = scene.task(1)
    task.take()
    drained: list[bool] = []
    stopping = threading.Thread(target=lambda: drained.append(job.stop(timedelta(seconds=30))))
    stopping.start()

    assert task.await_order(End) == End()
    task.close()
    scene.tasks_end.set()
    stopping.join(60)

    assert drained == [False]


def test_a_task_that_does_not_finish_is_hung_up_on(scene: Scene) -> None:
    job = scene.start([scene.partition()])
    task = scene.task(1)
    task.take()

    assert not job.stop(timedelta(seconds=0.1))

    eventually(task.is_hung_up_on)


def test_a_task_that_says_nothing_for_long_is_ended_and_started_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heliograph.driving.roster._SILENT_LOOKS", 3)
    job = scene.start([scene.partition()])
    silent = scene.task(1)
    silent.take()

    eventually(silent.is_hung_up_on)

    eventually(lambda: job.tasks() == 0)
    again = scene.task(2)
    again.take()
    for _ in range(5):
        again.sync()


def test_what_was_fenced_for_a_partition_that_is_wanted_no_more_is_not_handed_out(
    scene: Scene,
) -> None:
    """Its successor of the same name would be fenced by it, or fence it: the whole task would end."""
    job = scene.start([scene.partition()])
    task = scene.task(1)
    task.take()
    roster = job._roster
    (attempt,) = roster.attempts.values()
    old = scene.partition(1)
    job.assign([scene.partition(), scene.partition(1, topic_id="another")])
    share = task.take()
    assert share.topic_id == "another"

    roster.hand(attempt, [old], {})

    assert task.sync() == []
    assert old.holder is None


def test_a_stop_of_a_slot_that_a_task_does_not_hold_is_passed_over(scene: Scene) -> None:
    job = scene.start([scene.partition()])
    task = scene.task(1)
    slot = task.take().slot

    task.say(Stopped(slot + 7, 5, StopKind.CORRUPT, "no such slot"))

    assert task.sync() == []
    assert job.stopped() == []
    assert job.tasks() == 1
