"""A job over in-process clusters, with its tasks in threads of this process."""

from collections.abc import Sequence
from contextlib import ExitStack, closing
from datetime import timedelta
from typing import cast

from heliograph.driving.job import FlowJob, JobOptions
from heliograph.driving.lease_server import LeaseServer
from heliograph.driving.ownership import Ownership
from heliograph.driving.partitions import Partition
from heliograph.driving.rights import Exclusive
from heliograph.kafka.cluster import Cluster
from heliograph.model import Flow, Position
from heliograph.spark.engine import Engine
from lab.clusters import eventually
from lab.moves import spread
from tests.unit.copying.pairs import LIMITS, Pair
from tests.unit.driving.engines import FakeEngine, KeptRuns, copy_as_task
from tests.unit.kafka.brokers import stored_values

WITHIN = timedelta(seconds=20)


class Driven:
    """A pair, and what is needed to run a job that copies it; several jobs may follow each other."""

    def __init__(self, stack: ExitStack) -> None:
        self.stack = stack
        self.pair = Pair(stack)
        self.engine = FakeEngine(lambda claim: copy_as_task(claim, self.failures))
        self.failures: list[str] = []
        self.fatal: list[str] = []
        self.runs = KeptRuns()
        self.leases = stack.enter_context(closing(LeaseServer()))
        self.ownership = self.own()

    def own(self) -> Ownership:
        """Return the ownership of a driver that takes the flow now."""
        taken = Ownership("mirror")
        with closing(Cluster(self.pair.target.endpoint)) as target:
            taken.open(target)
        return taken

    def partition(self, index: int, position: Position | None = None) -> Partition:
        pair = self.pair
        return Partition(
            pair.places[index],
            pair.topic_id,
            pair.remotes[index],
            pair.remote_id,
            1 << 20,
            position or Position(0, 0),
        )

    def partitions(self) -> list[Partition]:
        return [self.partition(index) for index in range(self.pair.count)]

    def start(self, partitions: Sequence[Partition] = (), slices: int = 1) -> FlowJob:
        """Start a job, which is stopped at the end of the test."""
        pair = self.pair
        job = FlowJob(
            JobOptions(
                Flow("A", "B"),
                "A->B",
                pair.source.endpoint,
                pair.target.endpoint,
                LIMITS,
                slices,
            ),
            self.leases,
            Exclusive(self.ownership),
            on_fatal=lambda kind, reason: self.fatal.append(f"{kind}: {reason}"),
            on_runs=self.runs.note,
        )
        job.assign(partitions or self.partitions())
        if slices == 2:
            spread(job, [tuple(pair.places[:2]), tuple(pair.places[2:])])
        job.start(cast("Engine", self.engine))
        self.stack.callback(lambda: job.stop(WITHIN))
        return job

    def hang_up(self, job: FlowJob, slice_index: int = 0) -> None:
        """End the lease of a task that has one."""
        eventually(lambda: slice_index in job._roster.attempts)
        attempt = job._roster.attempts.get(slice_index)
        if attempt is not None:
            attempt.line.hang_up()

    def check(self, job: FlowJob) -> None:
        """Wait until everything is copied, each record once."""
        self.pair.check(lambda: (self.failures, self.fatal, job.waiting(), job.troubles()))
        assert self.failures == []

    def is_copied(self, index: int) -> bool:
        """Whether a remote partition has what its source has."""
        written = stored_values(self.pair.source, self.pair.places[index])
        return stored_values(self.pair.target, self.pair.remotes[index]) == written

    def finish(self, job: FlowJob) -> None:
        """Wait until everything is copied, and stop: the job knows its positions, and where each record went."""
        self.check(job)
        assert job.stop(WITHIN)
        ends = [self.pair.source.end_of(place) for place in self.pair.places]
        positions = {p.source: p.position.upstream for p in job.partitions()}
        assert positions == dict(zip(self.pair.places, ends, strict=True))
        assert {place: len(runs) for place, runs in self.runs.items()} == positions
        assert all(p.clean and p.holder is None for p in job.partitions())
        assert (self.failures, self.fatal) == ([], [])
