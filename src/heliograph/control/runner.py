"""One flow kept going: connect, discover, copy, save, and again after a failure.

A runner never pretends: its state is FAILED, with the reason, from the moment a failure is known
until the flow copies again.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from heliograph.config.flow import FlowConfig
from heliograph.control.flow_status import FlowStatus, PartitionStatus, State, status_at_rest
from heliograph.control.job_status import partition_statuses, with_job, with_tally
from heliograph.control.jobs import make_job, settle_transactions
from heliograph.control.keeper import Complaints, Keeper
from heliograph.control.losses import look_into_losses, raise_alarms
from heliograph.control.open_transactions import OpenTransactions
from heliograph.control.patience import DRAIN, LAST_SAVE, UPKEEP
from heliograph.control.positions import offsets_of, open_partition, resume_returned
from heliograph.control.pruning import Pruning
from heliograph.control.salvage import Salvage
from heliograph.control.spreads import Spreads
from heliograph.control.tenure import Tenure
from heliograph.driving.hands import Rights
from heliograph.driving.job import FlowJob
from heliograph.driving.lease_server import LeaseServer
from heliograph.driving.tally import Tally
from heliograph.errors import FlowFenced, FlowHeld, MirrorError
from heliograph.flows.group_progress import GroupProgress
from heliograph.flows.holds import HoldStore, LastHold, is_held
from heliograph.flows.progress import ProgressStore, open_progress
from heliograph.flows.runs import RunStore, open_runs
from heliograph.flows.schedule import broken_chores
from heliograph.flows.source import Route, copied_of, refresh_topics
from heliograph.flows.starts import Origin, Start, find_unknown, plan_starts
from heliograph.flows.take_over import StillMirrored, check_stopped, settle_starts
from heliograph.flows.upkeep import TopicUpkeep
from heliograph.kafka.cluster import Cluster
from heliograph.model import StopKind, TopicPartition
from heliograph.spark.engine import Engine
from heliograph.spark.masters import is_local
from heliograph.wire.connect_records import SourceOffset

log = logging.getLogger(__name__)

_TICK = 0.25
_SOON = 3.0
_FIRST_BACKOFF = timedelta(seconds=1)
_LONGEST_BACKOFF = timedelta(seconds=15)
_SETTLED = timedelta(seconds=60)
_TROUBLE = timedelta(seconds=3)
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
    keeper: Keeper


class FlowRunner(threading.Thread):
    """The thread that runs one flow until it is told to stop."""

    def __init__(
        self,
        config: FlowConfig,
        engine: Engine,
        leases: LeaseServer,
        on_owned: Callable[[bool], None] = lambda _: None,
    ) -> None:
        """Take what to run; `on_owned` is called when another driver has taken the flow, and when it is ours again."""
        super().__init__(name=str(config.flow), daemon=True)
        self._on_owned = on_owned
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
        self._complaints = Complaints(config)
        self._known: dict[TopicPartition, SourceOffset] = {}
        self._spreads = Spreads(config.flow)
        self._tenure = Tenure(config)
        self._transactions = OpenTransactions(config)
        self._unknown: dict[TopicPartition, str] = {}  # why partitions cannot begin yet
        self._unclaimed: set[TopicPartition] = set()  # to be fenced, although we made them
        self._pruning = Pruning(config.flow)
        self._salvage: Salvage | None = None
        self._last_hold = LastHold()

    def run(self) -> None:
        """Work until stopped, with a growing pause after each failure. The supervisor's thread target."""
        backoff = _FIRST_BACKOFF
        while not self._stopping.is_set():
            started = time.monotonic()
            if not self._try():
                self._stopping.wait(_HELD.total_seconds())
                continue  # it only asks whether it may
            if self._fatal is not None:
                self._stand_by()
                continue
            if time.monotonic() - started > _SETTLED.total_seconds():
                backoff = _FIRST_BACKOFF
            over = self._stopping.wait(backoff.total_seconds())
            self.tally.restarts += not over
            backoff = min(backoff * 2, _LONGEST_BACKOFF)
        if self._fatal is None:
            self._state = State.STOPPED

    def _try(self) -> bool:
        """Work once, and take note of how it failed; return False if it was not allowed to begin."""
        try:
            self._work()
        except (FlowHeld, StillMirrored) as exc:
            (self._held if isinstance(exc, FlowHeld) else self._failed)(str(exc))
            return False
        except FlowFenced as exc:
            self._on_fatal("fenced", str(exc))
        except MirrorError as exc:
            if self._fatal is None:
                self._failed(str(exc))
        except Exception as exc:
            log.exception("flow=%s failed unexpectedly", self._config.flow)
            self._failed(f"{type(exc).__name__}: {exc}")
        return True

    def _stand_by(self) -> None:
        """Write nothing while another driver has the flow; go on when it is gone, or hold as long as the flow is held."""
        if self._was_held():
            self._tenure.ownership.forget()
            return
        self._on_owned(False)
        self._failed(
            f"{self._tenure.successor()} mirrors this flow now. This driver writes nothing, and goes on when "
            f"that one ends. ({self._fatal})"
        )
        if self._tenure.await_vacancy(self._stopping):
            log.warning(
                "flow=%s the driver that had it is gone. Taking it again.", self._config.flow
            )
            self._fatal = None
            self._on_owned(True)

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
        status = with_job(counted, job) if job else counted
        waiting = {*status.waiting, *self._unknown.values()}
        return replace(status, waiting=tuple(sorted(waiting)))

    def partitions(self) -> list[PartitionStatus]:
        job = self._job
        return partition_statuses(job) if job else []

    def _work(self) -> None:
        source = Cluster(self._config.source_admin)
        target = Cluster(self._config.target_admin)
        storage = Cluster(self._config.offset_storage.endpoint)
        try:
            holds = HoldStore(target, self._config, self._last_hold)
            target.describe(())  # an unreachable one is told at once, not after some patience
            holds.check()
            for cluster in (source, storage):
                cluster.describe(())
            check_stopped(self._config, storage, target)
            store = open_progress(storage, self._config)
            runs = open_runs(target, self._config)

            def is_ready() -> bool:
                store.load()
                runs.load()
                return self._await_spark()

            if not self._tenure.take(target, storage, store, runs, is_ready):
                return
            shared = self._settle(target, runs)
            self._load(target, store, runs)
            upkeep = TopicUpkeep(self._config)
            upkeep.syncs.recall(runs.last_places())
            job = self._open_job(runs, upkeep, shared)
            keeper = Keeper(self._config, self._tenure, store, runs, self._complaints)
            desk = _Desk(source, target, store, runs, holds, upkeep, job, keeper)
            self._assign(desk)
            if not self._await_spark():
                return
            job.start(self._engine)
            self._tenure.start(job.lose)
            self._job, self._upkeep = job, upkeep
            upkeep.start()
            try:
                self._state, self._reason = State.RUNNING, None
                self._tend(desk)
            finally:
                upkeep.stop(UPKEEP)
                drained = job.stop(DRAIN)
                self._tenure.stop()
                if self._fatal is None:  # else the positions are somebody else's now
                    over = drained and self._stopping.is_set()
                    self._salvage = desk.keeper.save_last(job, LAST_SAVE, released=over)
                if not drained and self._fatal is None:
                    log.warning(
                        "flow=%s stopped before all it had read was written. Nothing is lost: "
                        "the next start finds out from the target.",
                        self._config.flow,
                    )
        finally:
            for cluster in (source, target, storage):
                cluster.close()

    def _load(self, target: Cluster, store: ProgressStore | GroupProgress, runs: RunStore) -> None:
        """Read what is saved, and save what the last start could not."""
        self._known = self._tenure.load(store)
        runs.load()
        if self._salvage is not None:
            self._known |= self._salvage.put_back(target, self._known, store, runs)
            self._salvage = None

    def _await_spark(self) -> bool:
        """Wait until Spark is up, and return whether it is: not if the flow is to stop."""
        while not self._engine.wait(_TICK):
            if self._stopping.is_set():
                return False
            trouble = self._engine.trouble()
            if trouble is not None:
                self._failed(trouble)
        return True

    def _settle(self, target: Cluster, runs: RunStore) -> Rights | None:
        """Settle what a predecessor left open; return the rights of a flow that writes in transactions."""
        if not self._config.transactions:
            return None
        ownership = self._tenure.ownership
        return settle_transactions(self._config, target, ownership, runs, slices_for(self._config))

    def _tend(self, desk: _Desk) -> None:
        """Look after a running job: save, refresh, and raise if it fails."""
        config, job = self._config, desk.job
        # Whoever reads the run map beside the checkpoints finds it no older than they are.
        save_every = min(
            config.offset_flush_interval, config.checkpoints.emit_interval
        ).total_seconds()
        refresh_every = config.refresh_topics_interval.total_seconds()
        save_at = time.monotonic() + save_every
        refresh_at = time.monotonic() + (_SOON if self._unknown else refresh_every)
        while not self._stopping.wait(_TICK):
            if self._fatal is not None:
                raise MirrorError(self._fatal)
            if job.stopped():
                look_into_losses(config, job, desk.source, self.tally)
                resume_returned(job, desk.source, desk.target)
                raise_alarms(job, self.tally)
            now = time.monotonic()
            self._note_troubles(job, now)
            if now >= save_at:
                self._look_for_hold(desk)
                desk.keeper.save(job)
                self._transactions.look(job, now)
                save_at = now + save_every
            if now >= refresh_at and (config.refresh_topics_enabled or self._unknown):
                self._refresh(desk)
                self._pruning.prune(job, desk.runs, desk.source)
                refresh_at = now + (min(refresh_every, _SOON) if self._unknown else refresh_every)

    def _look_for_hold(self, desk: _Desk) -> None:
        """Raise FlowHeld if the flow was failed over; a target that does not answer says nothing."""
        try:
            desk.holds.check()
        except FlowHeld:
            raise
        except MirrorError as exc:
            log.debug("flow=%s it is not known whether it is held: %s", self._config.flow, exc)

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
            self._complaints.clear("topics could not be refreshed")
        except FlowFenced as exc:
            desk.job.lose(str(exc))
        except MirrorError as exc:
            # The copying goes on; what is new waits for the next refresh.
            self._complaints.note("topics could not be refreshed", exc)

    def _assign(self, desk: _Desk) -> None:
        """Hand the job every partition there is; a new one only once its start is durable."""
        job, config = desk.job, self._config
        if not desk.store.is_whole:
            self._known = self._tenure.load(desk.store)
        copied = copied_of(job.partitions())
        inventory = refresh_topics(
            config, desk.source, desk.target, lambda new: self._claim(desk.target, new), copied
        )
        for refusal in inventory.refused:
            if refusal not in self._refused:
                log.error("flow=%s %s", self._config.flow, refusal)
        self._refused = inventory.refused
        self._spreads.look(inventory.routes, desk.runs)
        held = {p.source: p for p in job.partitions()}
        self._known.update(offsets_of(job))
        fresh = [
            r
            for r in inventory.routes
            if r.source not in held or not held[r.source].is_of(r.topic_id, r.remote_id)
        ]
        starts = self._find_starts(desk, fresh, inventory.made)
        for begins in starts:
            self._begin(begins, desk)
        offsets = {start.route.source: start.offset for start in starts if not start.barred}
        self._note_unknown({**self._unknown, **desk.keeper.begin(offsets)})
        begun = {start.route.source: start for start in starts}
        partitions = []
        for route in inventory.routes:
            if route.source in self._unknown:
                continue
            start = begun.get(route.source)
            start = start or Start(route, held[route.source].position, Origin.RESUMED)
            # What was at work before, here or elsewhere, may write to a topic that is there again.
            made = start.origin is Origin.FRESH and route.remote.topic in inventory.made
            made = made and route.remote not in self._unclaimed
            partitions.append(open_partition(start, made=made))
        if job.assign(partitions):
            log.info(
                "flow=%s copies topics=%d partitions=%d",
                self._config.flow,
                len({route.source.topic for route in inventory.routes}),
                len(inventory.routes),
            )
        raise_alarms(job, self.tally)

    def _find_starts(
        self, desk: _Desk, fresh: Sequence[Route], made: Collection[str]
    ) -> list[Start]:
        """Return where partitions begin that the job does not have; those of which nobody knows it wait alone."""
        config, known = self._config, self._known
        unmade = [route.remote for route in fresh if route.remote.topic in made]
        unread = {r.source: why for r in fresh if (why := desk.store.why_unread(r.source))}
        read = [route for route in fresh if route.source not in unread]
        unknown = find_unknown(read, known, desk.source, desk.target, unmade=unmade)
        self._note_unknown({**unread, **unknown})
        sure = [route for route in read if route.source not in unknown]
        starts = plan_starts(config, sure, known, desk.source, desk.target, unmade=unmade)
        is_first = desk.store.is_whole and not known
        starts, waits = settle_starts(config, starts, desk.source, desk.target, is_first=is_first)
        self._note_unknown({**unread, **unknown, **waits})
        mapless = sum(
            start.origin is Origin.RESUMED
            and not start.route.spread
            and not desk.runs.knows(start.route.source)
            for start in starts
        )
        if mapless:
            log.warning(
                "flow=%s partitions=%d were copied before and no run map of them is there: positions "
                "before are translated from offset syncs only",
                config.flow,
                mapless,
            )
        return starts

    def _note_unknown(self, unknown: Mapping[TopicPartition, str]) -> None:
        """Take note of partitions that cannot begin yet; they are looked at again soon."""
        for partition, reason in unknown.items():
            if self._unknown.get(partition) != reason:
                log.warning("flow=%s partition=%s waits: %s", self._config.flow, partition, reason)
        self._unknown = dict(unknown)

    def _claim(self, target: Cluster, new: Sequence[TopicPartition]) -> None:
        """Take the identities for partitions that are about to be made, so that nobody else can write to them."""
        if not self._config.transactions:
            self._unclaimed |= self._tenure.ownership.open_groups(target, new)

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

    def _open_job(self, runs: RunStore, upkeep: TopicUpkeep, shared: Rights | None) -> FlowJob:
        def on_runs(partition: TopicPartition, told: list[tuple[int, int, int]]) -> None:
            (runs.note if self._config.transactions else runs.add)(partition, told)
            upkeep.syncs.note(partition, [run for run in told if run[2] > 0])

        return make_job(
            self._config,
            self._leases,
            slices_for(self._config),
            self._tenure.ownership,
            shared,
            on_fatal=self._on_fatal,
            on_runs=on_runs,
            tally=self.tally,
        )

    def _on_fatal(self, kind: str, reason: str) -> None:
        """Take note of a failure that a retry would only repeat. Called from a lease's thread."""
        if self._fatal is None and kind != "held":
            log.error("flow=%s is fenced: %s", self._config.flow, reason)
        self._fatal = reason

    def _was_held(self) -> bool:
        """Return whether the flow was fenced because it was failed over: then it may go on some day."""
        while not self._stopping.is_set():
            try:
                held = is_held(self._config, self._last_hold)
            except MirrorError:
                self._stopping.wait(_HELD.total_seconds())  # the target is away, too
                continue
            if held:
                self._fatal = None
            return held
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
