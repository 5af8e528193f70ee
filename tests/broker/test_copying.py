"""The data plane whole, without Spark: tasks in threads of this process, a job that drives them, two real brokers."""

import threading
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from datetime import timedelta
from typing import cast

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from heliograph.driving.hands import Rights
from heliograph.driving.job import FlowJob, JobOptions
from heliograph.driving.lease_server import LeaseServer
from heliograph.driving.ownership import Ownership
from heliograph.driving.partitions import Partition
from heliograph.driving.rights import Exclusive
from heliograph.kafka.cluster import Cluster
from heliograph.model import Flow, Position, StopKind, TopicPartition
from heliograph.spark.engine import Engine
from heliograph.wire.lease_messages import Limits
from lab.clusters import LiveCluster, Outgoing, eventually
from lab.counting import endpoint
from lab.moves import is_moving, rebalance, spread
from tests.guarded import GuardedCluster
from tests.unit.driving.engines import FakeEngine, KeptRuns, copy_as_task

pytestmark = pytest.mark.broker

LIMITS = Limits(256 << 10, 64 << 10, 5, 32 << 10, read_committed=True)
PARTITIONS = 3


@dataclass
class Pair:
    """A topic, its copy, and the job that copies it."""

    source: LiveCluster
    target: LiveCluster
    stack: ExitStack
    limits: Limits = LIMITS
    placed: int = 0  # remote partitions that keys place records in
    copies: int = 1
    engine: FakeEngine = field(default_factory=FakeEngine)
    failures: list[str] = field(default_factory=list)
    runs: KeptRuns = field(default_factory=KeptRuns)

    def __post_init__(self) -> None:
        self.engine.run = lambda claim: copy_as_task(claim, self.failures)
        self.topic = self.source.create_topic(PARTITIONS, replication=self.copies)
        self.remote = self.target.create_topic(self.placed or PARTITIONS, replication=self.copies)
        self.leases = self.stack.enter_context(closing(LeaseServer()))
        self.ownership = Ownership(self.remote)
        with closing(Cluster(endpoint(self.target))) as target:
            self.ownership.open(target)
            self.remote_id = str(target.describe([self.remote])[self.remote].topic_id)
        with closing(Cluster(endpoint(self.source))) as source:
            self.topic_id = str(source.describe([self.topic])[self.topic].topic_id)

    def partition(self, index: int, max_message_bytes: int = 1 << 20) -> Partition:
        made = Partition(
            TopicPartition(self.topic, index),
            self.topic_id,
            TopicPartition(self.remote, 0 if self.placed else index),
            self.remote_id,
            max_message_bytes,
            Position(0, 0),
        )
        made.spread = self.placed
        return made

    def elsewhere(self, index: int, topic: str) -> Partition:
        """Return a partition whose copy is to be the only one of another topic."""
        made = self.partition(index)
        with closing(Cluster(endpoint(self.target))) as target:
            made.remote_id = str(target.describe([topic])[topic].topic_id)
        made.remote = TopicPartition(topic, 0)
        return made

    def start(self, partitions: Sequence[Partition] = (), slices: int = 1) -> FlowJob:
        job = FlowJob(
            JobOptions(
                Flow("A", "B"),
                self.remote,
                endpoint(self.source),
                endpoint(self.target),
                self.limits,
                slices,
            ),
            self.leases,
            self.rights(),
            on_fatal=lambda kind, reason: self.failures.append(f"{kind}: {reason}"),
            on_runs=self.runs.note,
        )
        job.assign(partitions or [self.partition(index) for index in range(PARTITIONS)])
        if slices == 2:
            sources = [TopicPartition(self.topic, index) for index in range(PARTITIONS)]
            spread(job, [tuple(sources[:2]), tuple(sources[2:])])
        job.start(cast("Engine", self.engine))
        self.stack.callback(lambda: job.stop(timedelta(seconds=20)))
        return job

    def rights(self) -> Rights:
        return Exclusive(self.ownership)

    def produce(self, first: int, count: int) -> None:
        records = [
            Outgoing(b"%d" % n, b"key %d" % (n % 7), n % PARTITIONS)
            for n in range(first, first + count)
        ]
        self.source.produce(self.topic, records, linger_ms=1)

    def check(self, count: int, within: float = 30) -> None:
        """Wait until the target has so many records: those of the source, in order, each once."""

        def describe() -> str:
            return f"{len(self.copied())} of {count}; {self.failures}"

        eventually(lambda: sum(self.target.end_offsets(self.remote)) >= count, within, describe)
        eventually(lambda: len(self.copied()) >= count, within, describe)
        assert self.copied() == [
            (r.partition, r.key, r.value) for r in self.source.consume(self.topic)
        ]
        assert self.failures == []

    def copied(self) -> list[tuple[int, bytes | None, bytes | None]]:
        return [(r.partition, r.key, r.value) for r in self.target.consume(self.remote)]

    def check_runs(self) -> None:
        """Every record is told to be where it is."""
        eventually(lambda: sum(map(len, self.runs.values())) == len(self.copied()))
        upstream = {(r.partition, r.offset): r.value for r in self.source.consume(self.topic)}
        downstream = {(r.partition, r.offset): r.value for r in self.target.consume(self.remote)}
        told = {
            (source.index, up): (source.index, down)
            for source, kept in self.runs.items()
            for up, down in kept.items()
        }
        assert {place: downstream[told[place]] for place in upstream} == upstream


@pytest.fixture
def pair(source: LiveCluster, target: LiveCluster, stack: ExitStack) -> Pair:
    return Pair(source, target, stack)


def test_records_are_copied_and_told_of_and_a_job_that_stops_is_drained(pair: Pair) -> None:
    pair.produce(0, 3000)
    job = pair.start()
    pair.check(3000)
    pair.produce(3000, 300)
    pair.check(3300)

    assert job.stop(timedelta(seconds=30))

    assert sorted((p.position.upstream, p.lag) for p in job.partitions()) == [(1100, 0)] * 3
    assert job.tally.records == {pair.topic: 3300}
    assert job.tally.restarts == 0
    assert all(p.clean and p.holder is None for p in job.partitions())
    pair.check_runs()


def test_a_partition_that_moves_under_load_loses_and_repeats_nothing(pair: Pair) -> None:
    job = pair.start(slices=2)
    sources = [TopicPartition(pair.topic, index) for index in range(PARTITIONS)]
    plans = [
        [(sources[0],), (sources[1], sources[2])],
        [(sources[0], sources[1]), (sources[2],)],
        [(sources[2],), (sources[0], sources[1])],
    ]
    eventually(lambda: job.tasks() == 2)
    for number in range(6):
        pair.produce(500 * number, 500)
        rebalance(job, plans[number % 3])
        eventually(lambda: not is_moving(job))

    pair.check(3000)
    assert job.tally.handovers >= 8
    assert job.tally.restarts == 0
    pair.check_runs()


def test_a_task_that_loses_its_lease_under_load_loses_and_repeats_nothing(pair: Pair) -> None:
    job = pair.start()
    for number in range(4):
        pair.produce(1000 * number, 1000)
        eventually(lambda: job.tasks() == 1)
        job._roster.attempts[0].line.hang_up()

    pair.check(4000)
    assert job.tally.restarts >= 1
    pair.check_runs()


def test_a_job_goes_on_where_one_that_died_was(pair: Pair) -> None:
    """Its positions were saved before most of its records were written: these are found on the target."""
    first = pair.start()
    pair.produce(0, 2000)
    pair.check(2000)
    first.stop(timedelta(0))

    pair.produce(2000, 1000)
    pair.ownership = Ownership(pair.remote)
    with closing(Cluster(endpoint(pair.target))) as target:
        pair.ownership.open(target)
    pair.runs.clear()
    job = pair.start()  # from offset 0

    # The markers of the fences are in the way of what was written.
    pair.check(3000)
    assert job.tally.verdicts["foreign"] == 0
    pair.check_runs()


def test_partitions_that_are_added_and_dropped_while_others_are_copied(pair: Pair) -> None:
    job = pair.start([pair.partition(0)])
    pair.produce(0, 900)
    eventually(lambda: len(pair.copied()) == 300)

    job.assign([pair.partition(index) for index in range(PARTITIONS)])
    pair.check(900)
    job.assign([pair.partition(0), pair.partition(2)])
    eventually(lambda: not any(attempt.leaving for attempt in job._roster.attempts.values()))
    pair.produce(900, 900)
    eventually(lambda: len(pair.copied()) == 1500)

    assert {partition for partition, _, _ in pair.copied()[-300:]} == {2}
    assert job.tally.restarts == 0
    assert pair.failures == []


def test_records_are_placed_by_key_into_another_number_of_partitions(
    source: LiveCluster, target: LiveCluster, stack: ExitStack
) -> None:
    pair = Pair(source, target, stack, placed=5)
    job = pair.start()
    pair.produce(0, 2000)
    eventually(lambda: len(pair.copied()) == 2000, 30, lambda: pair.failures)
    job._roster.attempts[0].line.hang_up()
    pair.produce(2000, 1000)
    eventually(lambda: len({v for _, _, v in pair.copied()}) == 3000, 30, lambda: pair.failures)

    copied = pair.copied()
    assert {int(v or b"") for _, _, v in copied} == set(range(3000))
    by_key: dict[bytes | None, set[int]] = {}
    for partition, key, _ in copied:
        by_key.setdefault(key, set()).add(partition)
    assert all(len(partitions) == 1 for partitions in by_key.values())
    assert pair.failures == []
    assert job.tally.restarts == 1


def test_a_record_that_is_too_large_stops_its_partition_and_goes_on_when_the_limit_grows(
    pair: Pair,
) -> None:
    job = pair.start([pair.partition(index, 2000) for index in range(PARTITIONS)])
    pair.produce(0, 300)
    pair.source.produce(pair.topic, [Outgoing(bytes(5000), b"large", 1)])
    pair.produce(300, 300)
    eventually(lambda: len(pair.copied()) == 500, 30, lambda: pair.failures)
    (stopped,) = eventually(job.stopped)
    assert stopped.stop is not None
    assert (stopped.source.index, stopped.stop.kind) == (1, StopKind.TOO_LARGE)
    assert stopped.position.upstream == stopped.stop.upstream == 100

    job.assign([pair.partition(index) for index in range(PARTITIONS)])
    job.reposition(stopped.source, stopped.stop.upstream)

    pair.check(601)
    assert job.tally.restarts == 0


def test_a_tail_that_must_not_be_read_keeps_no_others_waiting(
    source: LiveCluster, guarded: GuardedCluster, stack: ExitStack
) -> None:
    pair = Pair(source, guarded, stack)
    pair.produce(0, 30)
    before = pair.start()
    pair.check(30)
    before.stop(timedelta(seconds=20))
    secret = guarded.create_topic(1)
    guarded.produce(secret, [b"a tail"])
    for operation in (AclOperation.DESCRIBE, AclOperation.WRITE):
        guarded.allow_only(ResourceType.TOPIC, secret, operation)

    job = pair.start([pair.elsewhere(0, secret), pair.partition(1), pair.partition(2)])
    pair.produce(30, 30)

    eventually(lambda: [p.lag for p in job.partitions()][1:] == [0, 0], 30, job.partitions)
    eventually(lambda: "TOPIC_AUTHORIZATION_FAILED" in (job.partitions()[0].waits or ""))


def test_many_threads_end_with_their_job(pair: Pair) -> None:
    before = {thread.ident for thread in threading.enumerate()}
    job = pair.start(slices=2)
    pair.produce(0, 300)
    pair.check(300)
    job.stop(timedelta(seconds=20))

    def left() -> list[str]:
        return [
            t.name
            for t in threading.enumerate()
            if t.ident not in before and not t.name.startswith(("leases", "lease"))
        ]

    eventually(lambda: not left(), 30, left)
