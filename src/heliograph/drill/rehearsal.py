"""A rehearsal of a fail-over on live data: every group continues on the target, under another name.

The offsets that a fail-over would commit are committed for forked groups, `<group>.drill-<id>`, which read from
there. The real groups, the flow and the topics are only read. The forks are always deleted at the end.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice

from heliograph.config.flow import FlowConfig
from heliograph.drill.compare import Difference, compare
from heliograph.drill.report import Step as DoneStep
from heliograph.drill.steps import StepLog, Watcher
from heliograph.failover.copied import Settled, settle
from heliograph.failover.copy import read_records
from heliograph.failover.facts import FlowView, look
from heliograph.failover.failover import FailoverPlan, Refused, decide_failover
from heliograph.failover.moves import GroupMove, Step
from heliograph.groups.admin import Committed, commit_offsets, delete_groups, fetch_committed
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.tail import body_digest
from heliograph.model import TopicPartition


@dataclass(frozen=True, slots=True)
class PartitionDrill:
    """Where a group is on the source, where its fork continued on the target, and the result.

    `missing` counts records that it has not read and that are not on the target yet. It and `difference` are
    None if the source could not be queried.
    """

    partition: TopicPartition
    upstream: int
    remote: TopicPartition
    downstream: int
    missing: int | None = None
    read: int = 0
    difference: Difference | None = None


@dataclass(frozen=True, slots=True)
class GroupDrill:
    """A group and its fork; `reason` is why it could not continue.

    `first_record` is the time in seconds from reading its offsets to its first record, None if there was none to read.
    """

    group: str
    fork: str
    partitions: tuple[PartitionDrill, ...] = ()
    first_record: float | None = None
    at_end: bool = False
    reason: str | None = None

    @property
    def ready(self) -> bool:
        return self.reason is None and (self.first_record is not None or self.at_end)

    @property
    def read(self) -> int:
        return sum(partition.read for partition in self.partitions)

    @property
    def missing(self) -> int | None:
        """How many records it has not read and could not read there now."""
        counts = [partition.missing for partition in self.partitions]
        return None if None in counts else sum(count for count in counts if count)

    @property
    def difference(self) -> Difference | None:
        """What it would lose and repeat; None if that is not known for all its partitions."""
        total = Difference()
        for partition in self.partitions:
            if partition.difference is None:
                return None
            total = total.plus(partition.difference)
        return total

    @property
    def is_good(self) -> bool:
        difference = self.difference
        return self.ready and difference is not None and difference.is_none


@dataclass(frozen=True, slots=True)
class Behind:
    """What is only on the source: how many offsets, and the time of the oldest."""

    offsets: int
    partitions: int
    oldest_ms: int | None
    now_ms: int

    @property
    def seconds(self) -> float:
        """The age of the oldest record that a loss of the source would lose now: the RPO."""
        return 0.0 if self.oldest_ms is None else max(self.now_ms - self.oldest_ms, 0) / 1000


@dataclass(frozen=True, slots=True)
class DrillResult:
    """The result of a rehearsal; `rto` is when the last group was ready, in seconds from the start."""

    flow: str
    began: datetime
    seconds: float
    rto: float
    groups: tuple[GroupDrill, ...]
    behind: Behind | None
    gone: str | None
    left: Mapping[str, str] = field(default_factory=dict)
    steps: tuple[DoneStep, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.left and all(group.is_good for group in self.groups)


def run_drill(
    config: FlowConfig,
    groups: str | None,
    records: int,
    drill_id: str,
    watcher: Watcher,
) -> DrillResult:
    """Rehearse a fail-over; `groups` matches whole names, at most `records` are read per partition."""
    log = StepLog(watcher)
    with closing(Cluster(config.source_admin)) as source, closing(Cluster(config.target)) as target:
        return _Rehearsal(config, source, target, drill_id, log).run(groups, records)


class _Rehearsal:
    """Both clusters, and the forks that exist so far."""

    def __init__(
        self, config: FlowConfig, source: Cluster, target: Cluster, drill_id: str, log: StepLog
    ) -> None:
        self._config = config
        self._source = source
        self._target = target
        self._suffix = f".drill-{drill_id}"
        self._log = log
        self._forks: list[str] = []

    def run(self, groups: str | None, records: int) -> DrillResult:
        began = datetime.now(UTC)
        flow = self._config.flow
        with self._log.step(f"look at {flow.source} and {flow.target}") as notes:
            plan = self._look(groups)
            notes.append(f"{len(plan.moves)} groups")
        left: dict[str, str] = {}
        try:
            with self._log.step("commit for the forked groups") as notes:
                drills = [self._fork(move, plan.view) for move in plan.moves]
                notes.append(f"{len(self._forks)} groups")
            with self._log.step("read their first records"):
                drills = [self._read_first(plan.view, drill) for drill in drills]
            rto = self._log.now
            with self._log.step("read on, and compare with the source") as notes:
                drills = [self._compare(plan, drill, records) for drill in drills]
                notes.append(f"{sum(drill.read for drill in drills)} records")
                behind = self._behind(plan)
        finally:
            with self._log.step("delete the forked groups"):
                left = delete_groups(self._target, self._forks)
        return DrillResult(
            flow=str(flow),
            began=began,
            seconds=self._log.now,
            rto=rto,
            groups=tuple(drills),
            behind=behind,
            gone=plan.view.gone,
            left=left,
            steps=tuple(self._log.steps),
        )

    def _look(self, groups: str | None) -> FailoverPlan:
        view = look(self._config, self._source, self._target)
        if view.hold is not None:
            raise Refused(
                f"{self._config.flow}: it is failed over since {view.hold.since}, so there is nothing to "
                "rehearse. Fail it back first."
            )
        settled = settle(view, self._source, self._target) if view.source is not None else {}
        plan = decide_failover(view, settled, groups)
        if not plan.moves:
            raise Refused(plan.objections[0].sentence)
        return plan

    def _fork(self, move: GroupMove, view: FlowView) -> GroupDrill:
        """Commit for a group's fork the offsets that a fail-over would leave the group with, of what was copied."""
        fork = move.group + self._suffix
        if not move.ready:
            return GroupDrill(move.group, fork, reason=_why_not(move))
        copied = [step for step in move.steps if step.place and step.place.partition in view.ends]
        partitions = tuple(_partition(step) for step in copied)
        offsets = {p.remote: Committed(p.downstream, "") for p in partitions}
        self._forks.append(fork)  # before it exists: it is deleted after any interruption
        for partition, reason in commit_offsets(self._target, fork, offsets).items():
            return GroupDrill(move.group, fork, partitions, reason=f"{partition}: {reason}")
        return GroupDrill(move.group, fork, partitions)

    def _read_first(self, view: FlowView, drill: GroupDrill) -> GroupDrill:
        """Read what the fork has committed, and the first record from there on."""
        if drill.reason is not None:
            return drill
        began = time.monotonic()
        read, unread = fetch_committed(self._target, [drill.fork])
        if drill.fork in unread:
            return replace(drill, reason=unread[drill.fork])
        committed = read[drill.fork]
        partitions = tuple(
            replace(p, downstream=committed[p.remote].offset)
            for p in drill.partitions
            if p.remote in committed
        )
        if len(partitions) < len(drill.partitions):
            return replace(drill, reason="not all that was committed for its fork is there")
        drill = replace(drill, partitions=partitions)
        for p in partitions:
            for _ in self._copies(p, view.ends[p.remote]):
                return replace(drill, first_record=time.monotonic() - began)
        return replace(drill, at_end=True)

    def _compare(self, plan: FailoverPlan, drill: GroupDrill, records: int) -> GroupDrill:
        if drill.reason is not None:
            return drill
        return replace(
            drill,
            partitions=tuple(
                self._read_on(p, plan.settled.get(p.partition), plan.view.ends[p.remote], records)
                for p in drill.partitions
            ),
        )

    def _read_on(
        self, drill: PartitionDrill, settled: Settled | None, end: int, records: int
    ) -> PartitionDrill:
        """Read on the target what the fork would, and on the source what the group would."""
        if settled is None:
            return replace(drill, read=sum(1 for _ in islice(self._copies(drill, end), records)))
        at = settled.position
        copies = list(islice(self._copies(drill, at.downstream), records))
        originals = list(islice(self._originals(drill, at.upstream), records))
        if copies != originals:
            # Compare all that both sides have from here on, or a shift would look like a loss.
            copies = list(self._copies(drill, at.downstream))
            originals = list(self._originals(drill, at.upstream))
        difference = compare(originals, copies)
        return replace(drill, read=len(copies), difference=difference)

    def _copies(self, drill: PartitionDrill, end: int) -> Iterator[int]:
        return _digests(self._target, drill.remote, drill.downstream, end, committed_only=True)

    def _originals(self, drill: PartitionDrill, end: int) -> Iterator[int]:
        committed_only = self._config.reading.committed_only
        return _digests(
            self._source, drill.partition, drill.upstream, end, committed_only=committed_only
        )

    def _behind(self, plan: FailoverPlan) -> Behind | None:
        """Return what is only on the source."""
        if plan.view.source is None:
            return None
        late = [its for its in plan.settled.values() if its.behind]
        oldest = [its.oldest_ms for its in late if its.oldest_ms is not None]
        offsets = sum(its.behind for its in late)
        return Behind(offsets, len(late), min(oldest, default=None), plan.view.now_ms)


def _partition(step: Step) -> PartitionDrill:
    """Return where a fail-over leaves a partition: a group never moves backwards on the target."""
    assert step.place is not None, "a group that is ready has a place for all its partitions"
    at = step.place.offset if step.there is None else max(step.there, step.place.offset)
    return PartitionDrill(
        step.stand.partition, step.stand.offset, step.place.partition, at, step.missing
    )


def _why_not(move: GroupMove) -> str:
    if move.reason is not None or not move.blocked:
        return move.reason or "it has committed nothing for any partition of this flow"
    first = move.blocked[0]
    return f"{first.stand.partition}: {first.reason}"


def _digests(
    cluster: Cluster, partition: TopicPartition, start: int, end: int, *, committed_only: bool
) -> Iterator[int]:
    if start < end:
        records = read_records(cluster, partition, start, end, committed_only=committed_only)
        yield from map(body_digest, records)
