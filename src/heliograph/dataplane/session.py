"""The Spark session: one per driver, with the settings that a stream of long epochs needs."""

import os
import shlex
import shutil
import sys
import tempfile
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from heliograph.dataplane.source import FORMAT, WARM_UP, MirrorDataSource
from heliograph.errors import MirrorError

SPARK_LOG = "spark.log"
_LOG_CONFIG = Path(__file__).with_name("log4j2.properties").as_uri()

# A row must leave the buffers of Python and the JVM as soon as it is there, and a row is a chunk.
_SETTINGS = {
    "spark.app.name": "heliograph",
    "spark.ui.enabled": "false",
    "spark.driver.memory": "512m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.buffer.size": "64",
    "spark.sql.execution.python.udf.buffer.size": "64",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.daemon.module": "heliograph.dataplane.daemon",
    "spark.speculation": "false",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.minBatchesToRetain": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "true",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.extraJavaOptions": f"-XX:+UseSerialGC -Dlog4j2.configurationFile={_LOG_CONFIG}",
}


_QUICK_PYTHON = """\
#!/bin/sh
kept=
IFS=:
for path in $PYTHONPATH; do
    case $path in *.zip) ;; *) kept="$kept${{kept:+:}}$path" ;; esac
done
unset IFS
PYTHONPATH=$kept exec {python} "$@"
"""


class Engine:
    """The Spark session that all flows of a driver share, and the scratch folder it works in."""

    def __init__(self, slots: int, extra: Mapping[str, str]) -> None:
        self._slots = slots
        self._extra = extra
        self.scratch = Path(tempfile.mkdtemp(prefix="heliograph-"))
        self._opened: Future[SparkSession] = Future()

    def start(self) -> None:
        """Start Spark in the background; that takes seconds."""
        threading.Thread(target=self._open, name="spark", daemon=True).start()

    def wait(self, within: float) -> bool:
        """Return whether Spark is up, after waiting for it; raise if it could not be started."""
        try:
            self._opened.result(within)
        except TimeoutError:
            return False
        return True

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
        if self._opened.done() and self._opened.exception() is None:
            self._opened.result().stop()
        shutil.rmtree(self.scratch, ignore_errors=True)

    def _open(self) -> None:
        try:
            self._opened.set_result(open_session(self._slots, self._extra, self.scratch))
        except Exception as exc:  # noqa: BLE001 - the edge: whoever waits for the session gets it
            self._opened.set_exception(SparkNotStarted(str(exc), self.last_words()))

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
        return f"Spark did not start: {self.reason}. Its last lines:\n{self.log}"


def open_session(slots: int, extra: Mapping[str, str], scratch: Path) -> SparkSession:
    """Start Spark with room for `slots` tasks at once; `extra` are the user's own spark.* keys."""
    os.environ.setdefault("SPARK_LOCAL_DIRS", str(scratch))
    if extra.get("spark.master", "local").startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", str(_quick_python(scratch)))
    settings = {
        "spark.master": f"local[{max(slots, 2)},8]",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        **_SETTINGS,
        **extra,
    }
    conf = SparkConf(loadDefaults=False)
    for key, value in settings.items():
        conf.set(key, value)
    # The JVM and the Python workers below it write errors to a file: what matters of them reaches the
    # driver's own log as one sentence.
    with (scratch / SPARK_LOG).open("ab") as log:
        gateway = launch_gateway(conf, {"stdout": log, "stderr": log})  # type: ignore[no-untyped-call]  # pyspark's own
    session = SparkSession(SparkContext(conf=conf, gateway=gateway))
    session.dataSource.register(MirrorDataSource)
    _warm_up(session, scratch)
    return session


def _quick_python(scratch: Path) -> Path:
    """Return a command that runs this Python without the zipped pyspark that Spark puts first.

    It is the installed one again, but modules in a zip are compiled anew by each process: 0.7 s
    instead of 0.2 s for every daemon that Spark starts, of which there are seven.
    """
    command = scratch / "python"
    command.write_text(_QUICK_PYTHON.format(python=shlex.quote(sys.executable)))
    command.chmod(0o700)
    return command


def _warm_up(session: SparkSession, scratch: Path) -> None:
    """Run an empty epoch to its commit: Spark starts a Python process for each step on first use.

    Without it the first epoch of a flow would end with a pause of seconds, for the commit's process.
    """
    options = {"slices": "1", WARM_UP: "true"}
    checkpoint = tempfile.mkdtemp(prefix="warm-up-", dir=scratch)
    (
        session.readStream.format(FORMAT)
        .options(**options)
        .load()
        .writeStream.format(FORMAT)
        .options(**options, checkpointLocation=checkpoint)
        .trigger(availableNow=True)
        .start()
        .awaitTermination()
    )
