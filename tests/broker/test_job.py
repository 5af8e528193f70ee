"""What a job hands to its tasks, with hand-made tasks on a real target: identities, tails, succession."""

import socket
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from heliograph.control.positions import resume_returned
from heliograph.driving.job import FlowJob
from heliograph.driving.lease_server import LeaseServer, Line
from heliograph.driving.partitions import LOST_REMOTE, LOST_TOPIC, Partition, Stop
from heliograph.driving.tally import Tally
from heliograph.kafka.cluster import Cluster
from heliograph.model import Endpoint, Flow, Position, TopicPartition
from heliograph.wire.lease_messages import Claim, JobOptions, Limits, Share
from tests.clusters import LiveCluster, unique_name
from tests.counting import endpoint

pytestmark = pytest.mark.broker

LIMITS = Limits(45, 4 << 20, 2 << 20, 5, 256 << 10, read_committed=True)


class Task:
    """A task's two workers, as far as the job can tell."""

    def __init__(self, job: FlowJob, number: int) -> None:
        self._job = job
        self._ends = socket.socketpair()
        self.line = Line(self._ends[0])
        self._claim = Claim("A->B", 0, number, number, "writer", "")
        self.share: Share | None = None

    def ask(self) -> "Task":
        (self.share,) = self._job.grant(self.line, self._claim).shares
        return self

    def say(self, **message: Any) -> None:
        self._job.heard(self.line, self._claim, message)

    def write(self, upstream: int, downstream: int) -> None:
        """Say that a record of 10 bytes was stored up to there, the only one."""
        counts = [1] + [0] * 19
        slots = [[0, upstream, downstream, upstream, 1, 10, []]]
        self.say(
            wrote={"slots": slots, "verdicts": {"pass": 1}, "latency": counts, "trouble": None}
        )

    def finish(self, upstream: int, downstream: int, *, behind: bool = False) -> None:
        report = [[0, upstream, downstream, upstream, 0, 0, []]]
        counts = [0] * 20
        self.say(
            done={
                "slots": report,
                "verdicts": {},
                "latency": counts,
                "trouble": None,
                "behind": [0] if behind else [],
            }
        )

    def was_told_to_end(self) -> bool:
        self._ends[1].setblocking(False)
        try:
            return b"end" in self._ends[1].recv(1 << 16)
        except BlockingIOError:
            return False

    def close(self) -> None:
        for end in self._ends:
            end.close()


@pytest.fixture
def fatal() -> list[str]:
    return []


@pytest.fixture
def topic(target: LiveCluster) -> str:
    return target.create_topic()


@pytest.fixture
def job(target: LiveCluster, topic: str, fatal: list[str]) -> Iterator[FlowJob]:
    with open_job(target, topic, fatal) as job:
        yield job


@contextmanager
def open_job(
    target: LiveCluster,
    topic: str,
    fatal: list[str],
    tally: Tally | None = None,
    slices: int = 1,
) -> Iterator[FlowJob]:
    host, port = target.bootstrap.split(":")
    place = Endpoint("B", ((host, int(port)),))
    options = JobOptions(Flow("A", "B"), "A->B", place, place, topic, LIMITS, slices)
    with closing(LeaseServer()) as leases:
        job = FlowJob(
            options,
            leases,
            on_fatal=lambda kind, _: fatal.append(kind),
            on_runs=lambda *_: None,
            tally=tally,
        )
        job.assign([partition(topic)])
        yield job
        job.stop(timedelta(0))


def partition(topic: str, topic_id: str = "id") -> Partition:
    place = TopicPartition(topic, 0)
    return Partition(place, topic_id, place, "id", 1 << 20, Position(0, 0))


def ask(job: FlowJob, number: int) -> Share:
    with closing(Task(job, number)) as task:
        share = task.ask().share
        assert share is not None
        return share


def test_a_finished_task_hands_its_identity_on(job: FlowJob) -> None:
    with closing(Task(job, 1)) as first:
        began = first.ask().share
        first.finish(10, 11)

    after = ask(job, 2)

    assert began is not None
    assert began.resume
    assert (after.identity, after.sequence, after.resume) == (began.identity, 10, False)
    assert after.position == Position(10, 11)


def test_a_task_that_died_is_fenced_and_its_tail_is_read(job: FlowJob) -> None:
    began = ask(job, 1)

    after = ask(job, 2)

    assert after.identity.epoch > began.identity.epoch
    assert after.resume


def test_a_tail_that_was_not_met_whole_is_met_again(job: FlowJob) -> None:
    with closing(Task(job, 1)) as first:
        first.ask()
        first.finish(0, 0, behind=True)

    assert ask(job, 2).resume


def test_a_stop_outlives_the_reports_that_were_under_way(job: FlowJob) -> None:
    with closing(Task(job, 1)) as task:
        task.ask()
        task.say(stopped={"slot": 0, "upstream": 7, "kind": "too-large", "reason": "it is"})
        task.finish(7, 8)

    (stopped,) = job.partitions()
    assert stopped.stop is not None
    with closing(Task(job, 2)) as task:
        assert job.grant(task.line, Claim("A->B", 0, 2, 2, "writer", "")).shares == ()


def test_what_is_waited_for_is_told_across_the_end_of_an_epoch(job: FlowJob) -> None:
    def read(task: Task, number: int, trouble: str | None) -> None:
        """Say what a reader of the same task waits for."""
        claim = Claim("A->B", 0, number, number, "reader", "")
        job.grant(task.line, claim)
        told: dict[str, Any] = {"ends": [], "ages": [], "verdicts": {}, "trouble": trouble}
        job.heard(task.line, claim, {"read": told})

    with closing(Task(job, 1)) as first:
        first.ask()
        read(first, 1, "A does not answer")
        assert job.troubles() == ["A does not answer"]
        first.finish(10, 11)
    assert job.troubles() == ["A does not answer"]
    with closing(Task(job, 2)) as second:
        second.ask()
        assert job.troubles() == ["A does not answer"]
        read(second, 2, None)
        assert job.troubles() == []


def test_a_fenced_job_fences_nobody(job: FlowJob, fatal: list[str]) -> None:
    with closing(Task(job, 1)) as task:
        task.ask()
        task.say(failed={"kind": "fenced", "reason": "somebody else"})

    with closing(Task(job, 2)) as retry:
        assert job.grant(retry.line, Claim("A->B", 0, 2, 2, "writer", "")).shares == ()
    assert fatal == ["fenced"]


def test_a_count_does_not_fall_where_a_partition_begins_anew_or_goes(
    job: FlowJob, topic: str
) -> None:
    with closing(Task(job, 1)) as task:
        task.ask()
        task.write(1, 1)
        job.assign([partition(topic, "another id")])
        task.write(2, 2)  # what was under way to the old one
        assert job.tally.records == {topic: 2}
        assert job.tally.bytes == {topic: 20}
        job.assign([])
    assert job.tally.records.total() == 2


def test_a_job_counts_on_from_where_the_one_before_it_was(
    job: FlowJob, target: LiveCluster, topic: str, fatal: list[str]
) -> None:
    with closing(Task(job, 3)) as task:
        task.ask()
        task.write(1, 1)
    with open_job(target, topic, fatal, job.tally) as after, closing(Task(after, 1)) as task:
        task.ask()
        task.write(2, 2)
        tally = after.tally
    assert (tally.records[topic], tally.bytes[topic], tally.epochs) == (2, 20, 4)
    assert (tally.verdicts["pass"], sum(tally.latency.counts)) == (2, 2)


@pytest.mark.parametrize("kind", [LOST_REMOTE, LOST_TOPIC])
def test_a_topic_that_was_away_is_copied_again_before_the_epoch_ends(
    job: FlowJob, target: LiveCluster, topic: str, kind: str
) -> None:
    with closing(Cluster(endpoint(target))) as cluster:
        topic_id = str(cluster.describe([topic])[topic].topic_id)
        gone, here = partition(unique_name(), topic_id), partition(topic, topic_id)
        here.remote_id = gone.remote_id = topic_id
        for held in (gone, here):
            held.stop = Stop(kind, 0, "it has no leader", time.monotonic() - 10)
        job.assign([gone, here])

        resume_returned(job, cluster, cluster)

    assert here.stop is None
    assert gone.stop is not None


def test_the_leader_s_epoch_is_handed_on_only_for_the_position_it_belongs_to(job: FlowJob) -> None:
    (held,) = job.partitions()
    held.note_read(upstream=10, end_offset=12, epoch=3)
    assert ask(job, 1).leader_epoch == -1

    held.position = Position(10, 11)
    assert ask(job, 2).leader_epoch == 3


def test_an_epoch_ends_for_a_partition_that_is_tried_again_and_not_while_it_is_tried(
    job: FlowJob,
) -> None:
    (held,) = job.partitions()
    with closing(Task(job, 1)) as first:
        first.ask()
        job.make_way()
        assert not first.was_told_to_end()
        first.say(stopped={"slot": 0, "upstream": 0, "kind": "refused", "reason": "no"})
        job.make_way()
        assert not first.was_told_to_end(), "it has just stopped"

        assert held.stop is not None
        held.stop = replace(held.stop, since=held.stop.since - 61)
        first_began = job._attempts[0].began
        job._attempts[0].began = first_began - 62  # as it was: it was there before the stop
        job.make_way()
        assert first.was_told_to_end()
        first.finish(0, 0)

    with closing(Task(job, 2)) as second:
        assert second.ask().share is not None
        job.make_way()
        assert not second.was_told_to_end(), "it is being tried"


def test_tasks_that_have_cores_make_way_for_one_that_has_none(
    target: LiveCluster, topic: str, fatal: list[str]
) -> None:
    with (
        open_job(target, topic, fatal, slices=2) as job,
        closing(Task(job, 1)) as task,
    ):
        task.ask()
        job.make_way()
        assert not task.was_told_to_end()

        job._attempts[0].began -= 46
        job.make_way()
        assert task.was_told_to_end()
