"""One start of a flow after another: connect, take the flow, find topics, copy, save, and release."""

import logging
import threading
import time
from contextlib import ExitStack, closing

from heliograph.config.flow import FlowConfig
from heliograph.driving.hands import Rights
from heliograph.driving.job import FlowJob
from heliograph.driving.lease_server import LeaseServer
from heliograph.driving.tally import Tally
from heliograph.errors import FlowFenced, FlowHeld, MirrorError
from heliograph.flows.take_over import check_stopped
from heliograph.flows.upkeep import TopicUpkeep
from heliograph.kafka.cluster import Cluster
from heliograph.model import TopicPartition
from heliograph.running.assigner import Assigner, Desk
from heliograph.running.jobs import make_job, settle_transactions, slices_for
from heliograph.running.keeper import Complaints, Keeper
from heliograph.running.losses import look_into_losses, raise_alarms
from heliograph.running.open_transactions import OpenTransactions
from heliograph.running.patience import DRAIN, LAST_SAVE, UPKEEP
from heliograph.running.positions import resume_returned
from heliograph.running.pruning import Pruning
from heliograph.running.salvage import Salvage
from heliograph.running.standing import Standing
from heliograph.running.tenure import Tenure
from heliograph.saved.group_progress import GroupProgress
from heliograph.saved.holds import HoldStore, LastHold
from heliograph.saved.progress import ProgressStore, open_progress
from heliograph.saved.runs import RunStore, open_runs
from heliograph.spark.engine import Engine

log = logging.getLogger(__name__)

_TICK = 0.25
_SOON = 3.0


class FlowWork:
    """The work of one flow. For one thread; `job` and `upkeep` may be read from others."""

    def __init__(
        self,
        config: FlowConfig,
        engine: Engine,
        leases: LeaseServer,
        standing: Standing,
        stopping: threading.Event,
    ) -> None:
        """Take what to work on, and where to report its state; the work ends when `stopping` is set."""
        self._config = config
        self._engine = engine
        self._leases = leases
        self._standing = standing
        self._stopping = stopping
        self._complaints = Complaints(config)
        self._transactions = OpenTransactions(config)
        self._pruning = Pruning(config.flow)
        self._salvage: Salvage | None = None
        self.last_hold = LastHold()
        self.tally = Tally()
        self.tenure = Tenure(config)
        self.assigner = Assigner(config, self.tenure, self.tally)
        self.job: FlowJob | None = None
        self.upkeep: TopicUpkeep | None = None

    def count_on(self, tally: Tally) -> None:
        """Continue the earlier counts of the flow."""
        self.tally = self.assigner.tally = tally

    def work(self) -> None:
        """Start the flow, and look after it until it is to stop; raises if it cannot continue."""
        config = self._config
        with ExitStack() as stack:
            source = stack.enter_context(closing(Cluster(config.source_admin)))
            target = stack.enter_context(closing(Cluster(config.target_admin)))
            storage = stack.enter_context(closing(Cluster(config.offset_storage.endpoint)))
            holds = HoldStore(target, config, self.last_hold)
            target.describe(())  # fails at once if it is unreachable, not after some patience
            holds.check()
            for cluster in (source, storage):
                cluster.describe(())
            check_stopped(config, storage, target)
            store = open_progress(storage, config)
            runs = open_runs(target, config)

            def is_ready() -> bool:
                store.load()
                runs.load()
                return self._await_spark()

            if not self.tenure.take(target, storage, store, runs, is_ready):
                return
            shared = self._settle(target, runs)
            self._load(target, store, runs)
            upkeep = TopicUpkeep(config)
            upkeep.syncs.recall(runs.last_places())
            job = self.open_job(runs, upkeep, shared)
            keeper = Keeper(config, self.tenure, store, runs, self._complaints)
            desk = Desk(source, target, store, runs, upkeep.syncs, job, keeper)
            self.assigner.assign(desk)
            if self._await_spark():
                self._copy(desk, upkeep, holds)

    def _copy(self, desk: Desk, upkeep: TopicUpkeep, holds: HoldStore) -> None:
        """Run the job until the flow is to stop, and save its results."""
        job = desk.job
        job.start(self._engine)
        self.tenure.start(job.lose)
        self.job, self.upkeep = job, upkeep
        upkeep.start()
        try:
            self._standing.run()
            self._tend(desk, holds)
        finally:
            upkeep.stop(UPKEEP)
            is_drained = job.stop(DRAIN)
            self.tenure.stop()
            if self._standing.lost is None:  # else another driver owns the positions now
                is_over = is_drained and self._stopping.is_set()
                self._salvage = desk.keeper.save_last(job, LAST_SAVE, released=is_over)
            if not is_drained and self._standing.lost is None:
                log.warning(
                    "flow=%s stopped before all it had read was written. Nothing is lost: "
                    "the next start finds out from the target.",
                    self._config.flow,
                )

    def _load(self, target: Cluster, store: ProgressStore | GroupProgress, runs: RunStore) -> None:
        """Read what is saved, and save what the last start could not."""
        known = self.tenure.load(store)
        runs.load()
        if self._salvage is not None:
            known |= self._salvage.put_back(target, known, store, runs)
            self._salvage = None
        self.assigner.known = known

    def _await_spark(self) -> bool:
        """Wait until Spark is up, and return whether it is: not if the flow is to stop."""
        while not self._engine.wait(_TICK):
            if self._stopping.is_set():
                return False
            trouble = self._engine.trouble()
            if trouble is not None:
                self._standing.fail(trouble)
        return True

    def _settle(self, target: Cluster, runs: RunStore) -> Rights | None:
        """Settle what a predecessor left open; return the rights of a flow that writes in transactions."""
        if not self._config.transactions:
            return None
        ownership = self.tenure.ownership
        return settle_transactions(self._config, target, ownership, runs, slices_for(self._config))

    def _tend(self, desk: Desk, holds: HoldStore) -> None:
        """Look after a running job: save, refresh, and raise if it fails."""
        config, job = self._config, desk.job
        # A reader of the run map and the checkpoints finds the map no older than the checkpoints.
        save_every = min(
            config.working.offset_flush_interval, config.checkpoints.emit_checkpoints_interval
        ).total_seconds()
        refresh_every = config.mirroring.refresh_topics_interval.total_seconds()
        save_at = time.monotonic() + save_every
        refresh_at = time.monotonic() + (_SOON if self.assigner.unknown else refresh_every)
        while not self._stopping.wait(_TICK):
            if self._standing.lost is not None:
                raise MirrorError(self._standing.lost)
            if job.stopped():
                look_into_losses(config, job, desk.source, self.tally)
                resume_returned(job, desk.source, desk.target)
                raise_alarms(job, self.tally)
            now = time.monotonic()
            self._standing.note_troubles(job, now)
            if now >= save_at:
                self._look_for_hold(holds)
                desk.keeper.save(job)
                self._transactions.look(job, now)
                save_at = now + save_every
            is_waiting = bool(self.assigner.unknown)
            if now >= refresh_at and (config.mirroring.refreshes_topics or is_waiting):
                self._refresh(desk)
                self._pruning.prune(job, desk.runs, desk.source)
                is_waiting = bool(self.assigner.unknown)
                refresh_at = now + (min(refresh_every, _SOON) if is_waiting else refresh_every)

    def _look_for_hold(self, holds: HoldStore) -> None:
        """Raise FlowHeld if the flow was failed over; a target that does not answer says nothing."""
        try:
            holds.check()
        except FlowHeld:
            raise
        except MirrorError as exc:
            log.debug("flow=%s it is not known whether it is held: %s", self._config.flow, exc)

    def _refresh(self, desk: Desk) -> None:
        try:
            self.assigner.assign(desk)
            self._complaints.clear("topics could not be refreshed")
        except FlowFenced as exc:
            desk.job.lose(str(exc))
        except MirrorError as exc:
            # Copying continues; what is new waits for the next refresh.
            self._complaints.note("topics could not be refreshed", exc)

    def open_job(self, runs: RunStore, upkeep: TopicUpkeep, shared: Rights | None) -> FlowJob:
        """Return a job for the flow that is not started."""

        def on_runs(partition: TopicPartition, news: list[tuple[int, int, int]]) -> None:
            (runs.note if self._config.transactions else runs.add)(partition, news)
            upkeep.syncs.note(partition, [run for run in news if run[2] > 0])

        return make_job(
            self._config,
            self._leases,
            slices_for(self._config),
            self.tenure.ownership,
            shared,
            on_fatal=self._standing.lose,
            on_runs=on_runs,
            tally=self.tally,
        )
