"""The engine: one Spark per driver, started in the background, its cores counted, restarted if it ends."""

import logging
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark import SparkContext

from heliograph.errors import MirrorError
from heliograph.spark import privates
from heliograph.spark.context import open_context, plan_settings
from heliograph.spark.cores import GRACE, Cores, describe_shortage
from heliograph.spark.jvm import SPARK_LOG
from heliograph.spark.masters import ENVIRONMENT, is_local
from heliograph.spark.pythons import python_command
from heliograph.spark.slice_task import copy_slice, run_nothing
from heliograph.wire.lease_messages import Claim

log = logging.getLogger(__name__)

_COUNT_EVERY = 5.0
_TOLD_FOR = 1.0
_PLACE = re.compile(r'File "[^"]*/(heliograph/[^"]+)", line (\d+), in')
_NAMED = re.compile(r"(\w+\.)*\w*(Error|Exception|Killed)\b.*")


class Engine:
    """The Spark context that all flows of a driver share, and the scratch folder it works in."""

    def __init__(self, slots: int, extra: Mapping[str, str]) -> None:
        self._settings = plan_settings(slots, extra)
        self.scratch = Path(tempfile.mkdtemp(prefix="heliograph-"))
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._opened: Future[SparkContext] = Future()
        self._context: SparkContext | None = None
        self._failed_at: float | None = None
        self._tasks: dict[str, int] = {}
        self._cores: Cores | None = None
        self._counted_at = 0.0
        self._bare_since: float | None = None
        self._short_since: float | None = None

    def start(self) -> None:
        """Start Spark in the background; that takes seconds."""
        threading.Thread(target=self._open, name="spark", daemon=True).start()

    def wait(self, within: float) -> bool:
        """Return whether Spark is up, after waiting for it; raise if it could not be started.

        A later call restarts a Spark that did not start, or that its cluster has ended.
        """
        with self._lock:
            if self._is_over():
                if self._failed_at is None:
                    self._opened.result().stop()
                self._opened, self._failed_at, self._context = Future(), None, None
                self._cores, self._bare_since, self._short_since = None, None, None
                self.start()
            opened = self._opened
        try:
            opened.result(within)
        except TimeoutError:
            return False
        return True

    def trouble(self) -> str | None:
        """Return why a Spark that is starting makes no progress: its cluster gives it no core."""
        cores, now = self.cores(), time.monotonic()
        with self._lock:
            if cores is None or cores.all:
                self._bare_since = None
            elif self._bare_since is None:
                self._bare_since = now
            since = self._bare_since
        if since is None or now - since < GRACE.total_seconds():
            return None
        return (
            f"{self._settings['spark.master']} has given Spark no core for {GRACE.seconds} s; "
            "check that its workers have cores and memory free"
        )

    def cores(self) -> Cores | None:
        """Return the cores of all present executors; None if Spark does not report them."""
        now = time.monotonic()
        context = self._context
        if context is not None and now - self._counted_at > _COUNT_EVERY:
            self._counted_at = now
            try:
                slots, busy = privates.count_slots(context)
                self._cores = Cores(slots, max(slots - busy, 0))
            except (Py4JError, OSError, AttributeError):
                self._cores = None  # a context that has just ended; `wait` starts another
        return self._cores

    def seat(self, key: str, tasks: int) -> None:
        """Note how many tasks a job wants to run at once; 0 when it ends."""
        with self._lock:
            self._tasks[key] = tasks

    def shortage(self) -> str | None:
        """Return the sentence about a Spark that has had too few cores for its flows for some time."""
        cores, now = self.cores(), time.monotonic()
        with self._lock:
            short = describe_shortage(cores, sum(self._tasks.values())) if cores else None
            if short is None:
                self._short_since = None
            elif self._short_since is None:
                self._short_since = now
            since = self._short_since
        return short if since is not None and now - since > GRACE.total_seconds() else None

    def context(self) -> SparkContext:
        """Wait for Spark's context and return it; raise if it could not be started."""
        return self._opened.result()

    def run_slice(self, claim: Claim, group: str) -> None:
        """Run a job of one task that copies a slice; returns when the task ends, and raises if it failed.

        Blocks the calling thread. Jobs of one `group` are ended by `cancel`.
        """
        context = self.context()
        context.setJobGroup(
            group, f"{claim.flow} slice {claim.slice_index}", interruptOnCancel=True
        )
        context.parallelize([claim], 1).mapPartitions(copy_slice).collect()

    def cancel(self, group: str) -> None:
        """End the jobs of a group by force."""
        if self._opened.done() and self._opened.exception() is None:
            try:
                self._opened.result().cancelJobGroup(group)
            except (Py4JError, OSError, AttributeError) as exc:
                log.debug("jobs of %s could not be cancelled: %s", group, exc)

    def alive(self) -> bool:
        """Whether the JVM runs; a driver whose JVM is gone can only end."""
        if not self._opened.done() or self._opened.exception() is not None:
            return True
        process = privates.process_of(self._opened.result())
        return process is None or process.poll() is None

    def close(self) -> None:
        """Stop Spark and delete its scratch folder, which loses nothing.

        A JVM that is still starting ends with this process: it watches our end of a pipe.
        """
        self._closed.set()
        if self._opened.done() and self._opened.exception() is None:
            self._opened.result().stop()
        shutil.rmtree(self.scratch, ignore_errors=True)

    def _open(self) -> None:
        began = time.monotonic()
        try:
            if self._closed.is_set():
                return
            python = python_command(self._settings, self.scratch)
            context = self._context = open_context(self._settings, self.scratch, python)
            if not is_local(self._settings):
                context.parallelize([0], 1).mapPartitions(run_nothing).collect()
            log.info("Spark is up after %.1f s", time.monotonic() - began)
            self._opened.set_result(context)
        except Exception as exc:  # noqa: BLE001 - the edge: all that wait for Spark get it
            self._failed_at = time.monotonic()
            if self._context is not None:
                self._context.stop()
            told = explain(str(exc))
            failure = SparkNotStarted(told or str(exc), "" if told else self.last_words())
            self._opened.set_exception(failure)

    def _is_over(self) -> bool:
        """Whether it is time to start Spark again; a failure is first reported to all waiting threads."""
        if not self._opened.done():
            return False
        if self._failed_at is not None:
            return time.monotonic() - self._failed_at > _TOLD_FOR
        return self.alive() and privates.is_stopped(self._opened.result())

    def last_words(self) -> str:
        """Return the end of what Spark wrote to its log."""
        try:
            lines = (self.scratch / SPARK_LOG).read_text(errors="replace").splitlines()
        except FileNotFoundError:
            return ""
        return "\n".join(lines[-15:])


class SparkNotStarted(MirrorError):
    """Spark did not start."""

    def __init__(self, reason: str, log: str) -> None:
        super().__init__(reason, log)
        self.reason = reason
        self.log = log

    def __str__(self) -> str:
        told = f"Spark did not start: {self.reason}."
        return f"{told} Its last lines:\n{self.log}" if self.log else told


def cause_of(exc: Exception) -> str:
    """Return the line of a failed job that says why: what its Python task raised, or what Spark said last."""
    lines = [line.strip() for line in str(exc).splitlines() if line.strip()]
    raised = [line for line in lines if line.startswith("heliograph.") and ": " in line]
    if raised:
        return raised[-1].partition(": ")[2]
    named = [line for line in lines if _NAMED.match(line)]
    reason = (named or lines or [type(exc).__name__])[0][:300]
    # Anything but a MirrorError is a bug of ours: a report of it needs its location.
    places = [found for line in lines if (found := _PLACE.search(line)) is not None]
    return f"{reason} ({places[-1][1]}:{places[-1][2]})" if places else reason


def explain(reason: str) -> str | None:
    """Return what a person can do about a Spark that runs but cannot run our code, if its message shows it."""
    if "No module named 'heliograph'" in reason or "No module named heliograph" in reason:
        return (
            "its executors have no heliograph; run `heliograph package`, then set "
            f"spark.archives={ENVIRONMENT}.tar.gz#{ENVIRONMENT}"
        )
    return None
