"""One flow kept going: connect, discover, copy, save, and again after a failure.

A runner never pretends: its state is FAILED, with the reason, from the moment a failure is known
until the flow copies again.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import timedelta

from heliograph.config.flow import FlowConfig
from heliograph.control.flow_status import FlowStatus, PartitionStatus, State, status_at_rest
from heliograph.control.job_status import partition_statuses, with_job, with_tally
from heliograph.control.jobs import make_job, settle_transactions
from heliograph.control.positions import offsets_of, open_partition, resume_returned
from heliograph.driving.job import FlowJob, Rights
from heliograph.driving.lease_server import LeaseServer
from heliograph.driving.ownership import Ownership
from heliograph.driving.tally import Tally
from heliograph.errors import FlowHeld, MirrorError
from heliograph.flows.group_progress import GroupProgress
from heliograph.flows.holds import HoldStore
from heliograph.flows.progress import ProgressStore, open_progress
from heliograph.flows.runs import RunStore, open_runs
from heliograph.flows.schedule import broken_chores
from heliograph.flows.source import Route, refresh_topics
from heliograph.flows.starts import Origin, Start, explain_loss, plan_starts
from heliograph.flows.take_over import (
    StillMirrored,
    StillWritten,
    check_stopped,
    settle_starts,
)
from heliograph.flows.upkeep import TopicUpkeep
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.offsets import EARLIEST, list_offsets
from heliograph.model import StopKind, TopicPartition
from heliograph.spark.engine import Engine
from heliograph.spark.masters import is_local
from heliograph.wire.connect_records import SourceOffset

log = logging.getLogger(__name__)

_TICK = 0.25
_FIRST_BACKOFF = timedelta(seconds=1)
_LONGEST_BACKOFF = timedelta(seconds=15)
_SETTLED = timedelta(seconds=60)
_DRAIN = timedelta(seconds=8)
_SAVE = timedelta(seconds=3)
_LAST_SAVE = timedelta(seconds=2)
_TROUBLE = timedelta(seconds=3)
_UPKEEP = timedelta(seconds=2)
_HELD = timedelta(seconds=2)


def slices_for(config: FlowConfig) -> int:
    """Return how many tasks a flow gets: more than there are cores only helps on a real cluster.

    One where records may be placed by key: then all partitions of a topic share remote ones.
    """
    if config.target_partitions != "source":
        return 1
    if is_local(config.spark):
        return min(config.tasks_max, os.cpu_count() or 1)
    return config.tasks_max


@dataclass(frozen=True, slots=True)
class _Desk:
    """What one start of a flow works with."""

    source: Cluster
    target: Cluster
    store: ProgressStore | GroupProgress
    runs: RunStore
    holds: HoldStore
    upkeep: TopicUpkeep
    job: FlowJob


class FlowRunner(threading.Thread):
    """The thread that runs one flow until it is told to stop."""

    def __init__(
        self,
        config: FlowConfig,
        engine: Engine,
        leases: LeaseServer,
        on_fatal: Callable[[], None] = lambda: None,
    ) -> None:
        """Take what to run; `on_fatal` is told when a retry would only repeat a failure."""
        super().__init__(name=str(config.flow), daemon=True)
        self._told_fatal = on_fatal
        self._config = config
        self._engine = engine
        self._leases = leases
        self._stopping = threading.Event()
        self._fatal: str | None = None
        self._state = State.STARTING
        self._reason: str | None = None
        self._refused: tuple[str, ...] = ()
        self.tally = Tally()
        self._job: FlowJob | None = None
        self._upkeep: TopicUpkeep | None = None
        self._troubled_since: float | None = None
        self._complaints: dict[str, str] = {}
        self._known: dict[TopicPartition, SourceOffset] = {}
        self._spreads: dict[str, tuple[str, int]] = {}
        self._ownership = Ownership(config.transactional_id)

    def run(self) -> None:
        """Work until stopped, with a growing pause after each failure. The supervisor's thread target."""
        backoff = _FIRST_BACKOFF
        while not self._stopping.is_set():
            started = time.monotonic()
            try:
                self._work()
            except (FlowHeld, StillMirrored, StillWritten) as exc:
                (self._held if isinstance(exc, FlowHeld) else self._failed)(str(exc))
                self._stopping.wait(_HELD.total_seconds())
                continue  # it only asks whether it may
            except MirrorError as exc:
                self._failed(str(exc))
            except Exception as exc:
                log.exception("flow=%s failed unexpectedly", self._config.flow)
                self._failed(f"{type(exc).__name__}: {exc}")
            was_held = self._fatal is not None and self._was_held()
            if self._fatal is not None:
                self._told_fatal()
                self._stopping.wait()
                break
            if time.monotonic() - started > _SETTLED.total_seconds():
                backoff = _FIRST_BACKOFF
            over = self._stopping.wait(backoff.total_seconds())
            self.tally.restarts += not (over or was_held)
            backoff = min(backoff * 2, _LONGEST_BACKOFF)
        if self._fatal is None:
            self._state = State.STOPPED

    def stop(self) -> None:
        """Ask the flow to drain, save and end; `join` waits for it."""
        self._stopping.set()

    def status(self) -> FlowStatus:
        job, upkeep = self._job, self._upkeep
        chores = tuple(upkeep.status()) if upkeep else ()
        rest = replace(
            status_at_rest(self._config),
            state=self._state,
            reason=self._reason or "\n".join(broken_chores(chores)) or None,
            refused=self._refused,
            chores=chores,
        )
        counted = with_tally(rest, self.tally)
        return with_job(counted, job) if job else counted

    def partitions(self) -> list[PartitionStatus]:
        job = self._job
        return partition_statuses(job) if job else []

    def _work(self) -> None:
        source = Cluster(self._config.source_admin)
        target = Cluster(self._config.target_admin)
        storage = Cluster(self._config.offset_storage.endpoint)
        try:
            holds = HoldStore(target, self._config)
            target.describe(())  # an unreachable one is told at once, not after some patience
            holds.check()
            for cluster in (source, storage):
                cluster.describe(())
            check_stopped(self._config, storage)
            shared = self._take_over(target)
            store = open_progress(storage, self._config)
            self._known = store.load()
            runs = open_runs(target, self._config)
            runs.load()
            upkeep = TopicUpkeep(self._config)
            job = self._open_job(runs, upkeep, shared)
            desk = _Desk(source, target, store, runs, holds, upkeep, job)
            self._assign(desk)
            while not self._engine.wait(_TICK):
                if self._stopping.is_set():
                    return
                trouble = self._engine.trouble()
                if trouble is not None:
                    self._failed(trouble)
            job.start(self._engine)
            self._job, self._upkeep = job, upkeep
            upkeep.start()
            try:
                self._state, self._reason = State.RUNNING, None
                self._tend(desk)
            finally:
                upkeep.stop(_UPKEEP)
                drained = job.stop(_DRAIN)
                if self._fatal is None:  # else the positions are somebody else's now
                    self._save(desk, _LAST_SAVE)
                if not drained and self._fatal is None:
                    log.warning(
                        "flow=%s stopped before all it had read was written. Nothing is lost: "
                        "the next start finds out from the target.",
                        self._config.flow,
                    )
        finally:
            for cluster in (source, target, storage):
                cluster.close()

    def _take_over(self, target: Cluster) -> Rights | None:
        """Make this driver the one that has the flow; return its rights, if it writes in transactions."""
        if self._config.transactions:
            return settle_transactions(self._config, target, slices_for(self._config))
        self._ownership.open(target)
        return None

    def _tend(self, desk: _Desk) -> None:
        """Look after a running job: save, refresh, and raise if it fails."""
        config, job = self._config, desk.job
        # Whoever reads the run map beside the checkpoints finds it no older than they are.
        save_every = min(
            config.offset_flush_interval, config.checkpoints.emit_interval
        ).total_seconds()
        refresh_every = config.refresh_topics_interval.total_seconds()
        save_at = time.monotonic() + save_every
        refresh_at = time.monotonic() + refresh_every
        while not self._stopping.wait(_TICK):
            if self._fatal is not None:
                raise MirrorError(self._fatal)
            if job.stopped():
                self._look_into_losses(job, desk.source)
                resume_returned(job, desk.source, desk.target)
                self._raise_alarms(job)
            now = time.monotonic()
            self._note_troubles(job, now)
            if now >= save_at:
                self._look_for_hold(desk)
                self._save(desk, _SAVE)
                job.rebalance()
                save_at = now + save_every
            if config.refresh_topics_enabled and now >= refresh_at:
                self._refresh(desk)
                self._prune(desk)
                refresh_at = now + refresh_every

    def _look_for_hold(self, desk: _Desk) -> None:
        """Raise FlowHeld if the flow was failed over; a target that does not answer says nothing."""
        try:
            desk.holds.check()
        except FlowHeld:
            raise
        except MirrorError as exc:
            log.debug("flow=%s it is not known whether it is held: %s", self._config.flow, exc)

    def _save(self, desk: _Desk, within: timedelta) -> None:
        """Save positions, and before them the runs that lead up to them."""
        offsets = offsets_of(desk.job)
        try:
            desk.runs.save(within)
            if not self._config.transactions:  # else writers do, with their records
                desk.store.save(offsets, within)
            self._complaints.pop("progress could not be saved", None)
        except MirrorError as exc:
            # Positions are only a shortcut to the target's tail; they are saved next time.
            self._complain("progress could not be saved", exc)

    def _complain(self, what: str, exc: MirrorError) -> None:
        """Log what goes on being tried, once for each reason."""
        if self._complaints.get(what) != str(exc):
            log.warning("flow=%s %s: %s", self._config.flow, what, exc)
        self._complaints[what] = str(exc)

    def _note_troubles(self, job: FlowJob, now: float) -> None:
        """Call the flow FAILED while its tasks have been waiting for a cluster for some seconds."""
        troubles = job.troubles()
        if not troubles:
            self._troubled_since = None
            self._state, self._reason = State.RUNNING, None
        elif self._troubled_since is None:
            self._troubled_since = now
        elif now - self._troubled_since > _TROUBLE.total_seconds():
            self._state, self._reason = State.FAILED, troubles[0]

    def _refresh(self, desk: _Desk) -> None:
        try:
            self._assign(desk)
            self._complaints.pop("topics could not be refreshed", None)
        except MirrorError as exc:
            # The copying goes on; what is new waits for the next refresh.
            self._complain("topics could not be refreshed", exc)

    def _prune(self, desk: _Desk) -> None:
        """Forget runs of records that the source no longer has."""
        held = {p.source for p in desk.job.partitions()}
        long_ones = [p for p in desk.runs.long_ones() if p in held]
        try:
            if long_ones:
                desk.runs.prune(list_offsets(desk.source, long_ones, EARLIEST))
        except MirrorError as exc:
            # It only saves space, and is tried again at the next refresh.
            log.warning("flow=%s old runs could not be pruned: %s", self._config.flow, exc)

    def _assign(self, desk: _Desk) -> None:
        """Hand the job every partition there is; a new one only once its start is durable."""
        job = desk.job
        inventory = refresh_topics(self._config, desk.source, desk.target)
        for refusal in inventory.refused:
            if refusal not in self._refused:
                log.error("flow=%s %s", self._config.flow, refusal)
        self._refused = inventory.refused
        self._look_at_spreads(inventory.routes, desk.runs)
        held = {p.source: p for p in job.partitions()}
        self._known.update(offsets_of(job))
        fresh = [
            r
            for r in inventory.routes
            if r.source not in held or not held[r.source].is_of(r.topic_id, r.remote_id)
        ]
        is_first = not self._known
        starts = plan_starts(self._config, fresh, self._known, desk.source, desk.target)
        starts = settle_starts(self._config, starts, desk.source, desk.target, is_first=is_first)
        unknown = [
            s
            for s in starts
            if s.origin is Origin.RESUMED
            and not s.route.spread
            and not desk.runs.knows(s.route.source)
        ]
        if unknown:
            log.warning(
                "flow=%s partitions=%d were copied before and no run map of them is there: positions "
                "before are translated from offset syncs only",
                self._config.flow,
                len(unknown),
            )
        for begins in starts:
            self._begin(begins, desk)
        desk.runs.save()
        desk.store.save({start.route.source: start.offset for start in starts if not start.barred})
        begun = {start.route.source: start for start in starts}
        partitions = []
        for route in inventory.routes:
            start = begun.get(route.source)
            partitions.append(
                open_partition(start or Start(route, held[route.source].position, Origin.RESUMED))
            )
        if job.assign(partitions):
            log.info(
                "flow=%s copies topics=%d partitions=%d",
                self._config.flow,
                len({route.source.topic for route in inventory.routes}),
                len(inventory.routes),
            )
        self._raise_alarms(job)

    def _begin(self, start: Start, desk: _Desk) -> None:
        """Prepare the run map for a partition that begins, and tell what was lost if it goes on."""
        source = start.route.source
        if start.barred:
            if start.origin is not Origin.UNTRACKED:
                desk.runs.clear(source)
            return
        if not start.route.spread:
            desk.runs.mend(source, start.position)
            if start.origin is Origin.TAKEN_OVER:
                desk.runs.detach(source, start.begins)
                desk.runs.add(source, start.met)
            elif start.origin is not Origin.RESUMED:
                desk.runs.begin(source, start.position)
        if start.loss is not None:
            desk.upkeep.syncs.forget(source)
            self.tally.alarm(
                source, StopKind.MADE_ANEW.value, (start.route.topic_id, start.route.remote_id)
            )
            log.error(
                "flow=%s partition=%s LOSS: %s. on.loss=continue: it goes on at %d.",
                self._config.flow,
                source,
                start.loss,
                start.position.upstream,
            )

    def _look_at_spreads(self, routes: Sequence[Route], runs: RunStore) -> None:
        """Tell once which topics have records placed by key, and translate no offsets of them."""
        spreads = {r.source.topic: (r.remote.topic, r.spread) for r in routes if r.spread}
        for topic, (remote, spread) in spreads.items():
            if self._spreads.get(topic) != (remote, spread):
                log.info(
                    "flow=%s topic=%s is placed by key into the partitions=%d of %s: at least once after a "
                    "crash, and no offsets of it are translated",
                    self._config.flow,
                    topic,
                    spread,
                    remote,
                )
        self._spreads = spreads
        for route in routes:
            if route.spread and runs.knows(route.source):
                runs.clear(route.source)

    def _open_job(self, runs: RunStore, upkeep: TopicUpkeep, shared: Rights | None) -> FlowJob:
        def on_runs(partition: TopicPartition, told: list[tuple[int, int, int]]) -> None:
            runs.add(partition, told)
            upkeep.syncs.note(partition, told)

        return make_job(
            self._config,
            self._leases,
            slices_for(self._config),
            self._ownership,
            shared,
            on_fatal=self._on_fatal,
            on_runs=on_runs,
            tally=self.tally,
        )

    def _look_into_losses(self, job: FlowJob, source: Cluster) -> None:
        for partition in job.stopped():
            stop = partition.stop
            if stop is None or stop.kind is not StopKind.OUT_OF_RANGE:
                continue
            try:
                loss = explain_loss(source, partition.source, stop.upstream, stop.resume)
            except MirrorError as exc:
                log.warning("flow=%s a loss could not be explained: %s", self._config.flow, exc)
                return
            if loss is None:
                job.reposition(partition.source, stop.upstream)
            elif self._config.on_loss != "continue":
                advice = f"{loss.reason}; set on.loss=continue to go on at {loss.resume}"
                job.explain_stop(partition.source, StopKind.LOSS, advice)
            else:
                job.reposition(partition.source, loss.resume)
                self.tally.losses[StopKind.LOSS.value] += 1
                log.error(
                    "flow=%s partition=%s LOSS: %s. on.loss=continue: it goes on at %d.",
                    self._config.flow,
                    partition.source,
                    loss.reason,
                    loss.resume,
                )

    def _raise_alarms(self, job: FlowJob) -> None:
        """Count partitions that stopped for a loss; one that stops there again is the same alarm."""
        for partition in job.stopped():
            stop = partition.stop
            if stop is not None and stop.kind.is_loss:
                about = partition.topic_id, partition.remote_id, stop.upstream
                self.tally.alarm(partition.source, stop.kind.value, about)

    def _on_fatal(self, kind: str, reason: str) -> None:
        """Take note of a failure that a retry would only repeat. Called from a lease's thread."""
        if self._fatal is None and kind != "held":
            log.error("flow=%s FAILED (%s): %s", self._config.flow, kind, reason)
        self._fatal = reason

    def _was_held(self) -> bool:
        """Return whether the flow was fenced because it was failed over: then it may go on some day."""
        while not self._stopping.is_set():
            try:
                with closing(Cluster(self._config.target_admin)) as target:
                    HoldStore(target, self._config).check()
            except FlowHeld:
                self._fatal = None
                return True
            except MirrorError:
                self._stopping.wait(_HELD.total_seconds())  # the target is away, too
            else:
                return False
        return False

    def _held(self, reason: str) -> None:
        if reason != self._reason:
            log.warning("flow=%s PAUSED: %s", self._config.flow, reason)
        self._state, self._reason = State.PAUSED, reason
        self._job = self._fatal = None

    def _failed(self, reason: str) -> None:
        self._state = State.FAILED
        if reason != self._reason:
            log.error("flow=%s FAILED: %s", self._config.flow, reason)
        self._reason = reason
