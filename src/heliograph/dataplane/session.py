"""The Spark session: one per driver, with the settings that a stream of long epochs needs."""

import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from heliograph.dataplane.source import MirrorDataSource

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


class Engine:
    """The Spark session that all flows of a driver share, and the scratch folder it works in."""

    def __init__(self, slots: int, extra: Mapping[str, str]) -> None:
        self._slots = slots
        self._extra = extra
        self.scratch = Path(tempfile.mkdtemp(prefix="heliograph-"))
        self._lock = threading.Lock()
        self._session: SparkSession | None = None

    def session(self) -> SparkSession:
        """Return the session, starting Spark on the first call; that takes seconds."""
        with self._lock:
            if self._session is None:
                self._session = open_session(self._slots, self._extra, self.scratch)
            # Registered sources are looked up in the calling thread's active session, and a thread
            # other than the one that started Spark has none.
            spark = self._session
            jvm = spark._jvm  # noqa: SLF001
            assert jvm is not None, "a session on a JVM of its own, not Spark Connect"
            jvm.SparkSession.setActiveSession(spark._jsparkSession)  # noqa: SLF001
            return spark

    def alive(self) -> bool:
        """Whether the JVM runs; a driver whose JVM is gone can only end."""
        with self._lock:
            if self._session is None:
                return True
            process = getattr(self._session.sparkContext._gateway, "proc", None)  # noqa: SLF001
            return process is None or process.poll() is None

    def close(self) -> None:
        """Stop Spark and delete its scratch; losing that loses nothing."""
        with self._lock:
            if self._session is not None:
                self._session.stop()
                self._session = None
        shutil.rmtree(self.scratch, ignore_errors=True)


def open_session(slots: int, extra: Mapping[str, str], scratch: Path) -> SparkSession:
    """Start Spark with room for `slots` tasks at once; `extra` are the user's own spark.* keys."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_DIRS", str(scratch))
    settings = {
        "spark.master": f"local[{max(slots, 2)},8]",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        **_SETTINGS,
        **extra,
    }
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    with _errors_to(scratch / SPARK_LOG):
        session = builder.getOrCreate()
    session.dataSource.register(MirrorDataSource)
    return session


@contextmanager
def _errors_to(file: Path) -> Iterator[None]:
    """Send the standard error of processes started meanwhile (the JVM, its workers) to `file`."""
    kept = os.dup(2)
    log = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.dup2(log, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(log)
