"""The thread of one flow: it works, and again after a failure, with a growing pause."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from heliograph.config.flow import FlowConfig
from heliograph.driving.lease_server import LeaseServer
from heliograph.driving.tally import Tally
from heliograph.errors import FlowFenced, FlowHeld, MirrorError
from heliograph.flows.schedule import broken_chores
from heliograph.flows.take_over import StillMirrored
from heliograph.observe.flow_status import FlowStatus, PartitionStatus, status_at_rest
from heliograph.running.job_status import partition_statuses, with_job, with_tally
from heliograph.running.standing import Standing
from heliograph.running.work import FlowWork
from heliograph.saved.holds import is_held
from heliograph.spark.engine import Engine

log = logging.getLogger(__name__)

_FIRST_BACKOFF = timedelta(seconds=1)
_LONGEST_BACKOFF = timedelta(seconds=15)
_SETTLED = timedelta(seconds=60)
_HELD = timedelta(seconds=2)


class FlowRunner(threading.Thread):
    """Runs one flow until it is stopped."""

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
        self._stopping = threading.Event()
        self._standing = Standing(config.flow)
        self._work = FlowWork(config, engine, leases, self._standing, self._stopping)

    @property
    def tally(self) -> Tally:
        """The counts of the flow."""
        return self._work.tally

    def count_on(self, tally: Tally) -> None:
        """Continue the counts of an earlier runner of this flow. Called before `start`."""
        self._work.count_on(tally)

    def run(self) -> None:
        """Work until stopped, with a growing pause after each failure. The supervisor's thread target."""
        backoff = _FIRST_BACKOFF
        while not self._stopping.is_set():
            started = time.monotonic()
            if not self._try():
                self._stopping.wait(_HELD.total_seconds())
                continue  # it only asks whether it may begin
            if self._standing.lost is not None:
                self._stand_by()
                continue
            if time.monotonic() - started > _SETTLED.total_seconds():
                backoff = _FIRST_BACKOFF
            over = self._stopping.wait(backoff.total_seconds())
            self.tally.restarts += not over
            backoff = min(backoff * 2, _LONGEST_BACKOFF)
        if self._standing.lost is None:
            self._standing.stop()

    def _try(self) -> bool:
        """Work once, and record how it failed; return False if it was not allowed to begin."""
        try:
            self._work.work()
        except FlowHeld as exc:
            self._work.job = None
            self._standing.hold(str(exc))
            return False
        except StillMirrored as exc:
            self._standing.fail(str(exc))
            return False
        except FlowFenced as exc:
            self._standing.lose("fenced", str(exc))
        except MirrorError as exc:
            if self._standing.lost is None:
                self._standing.fail(str(exc))
        except Exception as exc:
            log.exception("flow=%s failed unexpectedly", self._config.flow)
            self._standing.fail(f"{type(exc).__name__}: {exc}")
        return True

    def _stand_by(self) -> None:
        """Write nothing while another driver has the flow, or while it is held; continue after that."""
        tenure = self._work.tenure
        if self._was_held():
            tenure.ownership.forget()
            return
        self._on_owned(False)
        self._standing.fail(
            f"{tenure.successor()} mirrors this flow now. This driver writes nothing, and goes on when "
            f"that one ends. ({self._standing.lost})"
        )
        if tenure.await_vacancy(self._stopping):
            log.warning(
                "flow=%s the driver that had it is gone. Taking it again.", self._config.flow
            )
            self._standing.lost = None
            self._on_owned(True)

    def _was_held(self) -> bool:
        """Return whether the flow was fenced because it was failed over: then it may continue later."""
        while not self._stopping.is_set():
            try:
                held = is_held(self._config, self._work.last_hold)
            except MirrorError:
                self._stopping.wait(_HELD.total_seconds())  # the target is unreachable, too
                continue
            if held:
                self._standing.lost = None
            return held
        return False

    def stop(self) -> None:
        """Ask the flow to drain, save and end; `join` waits for it."""
        self._stopping.set()

    def status(self) -> FlowStatus:
        work = self._work
        job, upkeep, assigner = work.job, work.upkeep, work.assigner
        chores = tuple(upkeep.status()) if upkeep else ()
        rest = replace(
            status_at_rest(self._config),
            state=self._standing.state,
            reason=self._standing.reason or "\n".join(broken_chores(chores)) or None,
            refused=assigner.refused,
            chores=chores,
        )
        counted = with_tally(rest, self.tally)
        status = with_job(counted, job) if job else counted
        waiting = {*status.waiting, *assigner.unknown.values()}
        return replace(status, waiting=tuple(sorted(waiting)))

    def partitions(self) -> list[PartitionStatus]:
        job = self._work.job
        return partition_statuses(job) if job else []
