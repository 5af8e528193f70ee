"""The engine: one Spark per driver, started in the background, counted, and started again if it ends."""

import logging
import shutil
import tempfile
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from heliograph.dataplane.attendance import GRACE, Cores, describe_shortage
from heliograph.dataplane.context import open_session, plan_settings, warm_up
from heliograph.dataplane.jvm import SPARK_LOG
from heliograph.dataplane.masters import ENVIRONMENT, is_local
from heliograph.dataplane.pythons import Pythons
from heliograph.errors import MirrorError

log = logging.getLogger(__name__)

_COUNT_EVERY = 5.0
_TOLD_FOR = 1.0
_WARM_UP_AFTER = 5.0


class Engine:
    """The Spark session that all flows of a driver share, and the scratch folder it works in."""

    def __init__(self, slots: int, extra: Mapping[str, str]) -> None:
        self._settings = plan_settings(slots, extra)
        self.scratch = Path(tempfile.mkdtemp(prefix="heliograph-"))
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._opened: Future[SparkSession] = Future()
        self._pythons: Pythons | None = None
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

        A Spark that did not start, or that its cluster has ended, is started again by a later call.
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
        """Return why a Spark that is coming up does not get further: its cluster gives it no core."""
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
        """Return the cores of all executors that are there; None if Spark cannot say."""
        now = time.monotonic()
        context = self._context
        if context is not None and now - self._counted_at > _COUNT_EVERY:
            self._counted_at = now
            try:
                self._cores = _count_cores(context)
            except (Py4JError, OSError, AttributeError):
                self._cores = None  # a context that has just ended; `wait` starts another
        return self._cores

    def seat(self, key: str, tasks: int) -> None:
        """Take note of how many tasks a job wants to run at once; 0 when it ends."""
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

    def session(self) -> SparkSession:
        """Return the session, once it is there, as the calling thread's own."""
        spark = self._opened.result()
        # Registered sources are looked up in the calling thread's active session, and a thread other
        # than the one that started Spark has none.
        jvm = spark._jvm  # noqa: SLF001
        assert jvm is not None, "a session on a JVM of its own, not Spark Connect"
        jvm.SparkSession.setActiveSession(spark._jsparkSession)  # noqa: SLF001
        return spark

    def alive(self) -> bool:
        """Whether the JVM runs; a driver whose JVM is gone can only end."""
        if not self._opened.done() or self._opened.exception() is not None:
            return True
        process = getattr(self._opened.result().sparkContext._gateway, "proc", None)  # noqa: SLF001
        return process is None or process.poll() is None

    def close(self) -> None:
        """Stop Spark and delete its scratch, which loses nothing.

        A JVM that is still coming up ends with this process: it watches our end of a pipe.
        """
        self._closed.set()
        if self._opened.done() and self._opened.exception() is None:
            self._opened.result().stop()
        if self._pythons is not None:
            self._pythons.close()
        shutil.rmtree(self.scratch, ignore_errors=True)

    def _open(self) -> None:
        began = time.monotonic()
        try:
            if self._pythons is None:
                self._pythons = Pythons(self._settings, self.scratch)
            if self._closed.is_set():
                self._pythons.close()
                return
            session = open_session(
                self._settings, self.scratch, self._pythons.command, self._note_context
            )
            log.info("Spark is up after %.1f s", time.monotonic() - began)
            self._opened.set_result(session)
            self._warm_up(session)
        except Exception as exc:  # noqa: BLE001 - the edge: whoever waits for the session gets it
            self._failed_at = time.monotonic()
            told = explain(str(exc))
            failure = SparkNotStarted(told or str(exc), "" if told else self.last_words())
            self._opened.set_exception(failure)

    def _warm_up(self, session: SparkSession) -> None:
        """Walk an empty epoch once the first flows copy, so that none of theirs waits for it at its end."""
        if is_local(self._settings) and not self._closed.wait(_WARM_UP_AFTER):
            try:
                warm_up(session, self.scratch)
            except Exception as exc:  # noqa: BLE001 - it was worth a try
                log.debug("the empty epoch failed: %s", exc)

    def _note_context(self, context: SparkContext) -> None:
        self._context = context

    def _is_over(self) -> bool:
        """Whether it is time to start Spark anew; a failure is first told to all who wait."""
        if not self._opened.done():
            return False
        if self._failed_at is not None:
            return time.monotonic() - self._failed_at > _TOLD_FOR
        context = self._opened.result().sparkContext
        return self.alive() and bool(context._jsc.sc().isStopped())  # noqa: SLF001

    def last_words(self) -> str:
        """Return the end of what Spark wrote to its log."""
        try:
            lines = (self.scratch / SPARK_LOG).read_text(errors="replace").splitlines()
        except FileNotFoundError:
            return ""
        return "\n".join(lines[-15:])


class SparkNotStarted(MirrorError):
    """Spark did not come up."""

    def __init__(self, reason: str, log: str) -> None:
        super().__init__(reason, log)
        self.reason = reason
        self.log = log

    def __str__(self) -> str:
        told = f"Spark did not start: {self.reason}."
        return f"{told} Its last lines:\n{self.log}" if self.log else told


def explain(reason: str) -> str | None:
    """Return what a person can do about a Spark that runs and cannot run us, if its words tell."""
    if "No module named 'heliograph'" in reason or "No module named heliograph" in reason:
        return (
            "its executors have no heliograph; run `heliograph package`, then set "
            f"spark.archives={ENVIRONMENT}.tar.gz#{ENVIRONMENT}"
        )
    return None


def _count_cores(context: SparkContext) -> Cores:
    spark = context._jsc.sc()  # noqa: SLF001
    slots = spark.maxNumConcurrentTasks(spark.resourceProfileManager().defaultResourceProfile())
    busy = sum(info.numRunningTasks() for info in spark.statusTracker().getExecutorInfos())
    return Cores(slots, max(slots - busy, 0))
