"""The Spark context: the settings that a stream of long epochs needs, and its start."""

import os
import shlex
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Lock
from urllib.parse import urlsplit

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from heliograph.dataplane.archive import check_archive
from heliograph.dataplane.jvm import JAVA_OPTIONS, MEMORY, archive_place, open_gateway
from heliograph.dataplane.masters import ENVIRONMENT, LOOPBACK, archives, is_local, plan_cluster
from heliograph.dataplane.source import FORMAT, WARM_UP, MirrorDataSource

_registering = Lock()
_LOG_CONFIG = Path(__file__).with_name("log4j2.properties").as_uri()

# A row must leave the buffers of Python and the JVM as soon as it is there, and a row is a chunk.
_SETTINGS = {
    "spark.app.name": "heliograph",
    "spark.ui.enabled": "false",
    MEMORY: "512m",
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
    "spark.buffer.size": "64",
    "spark.sql.execution.python.udf.buffer.size": "64",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "2",  # chunks.ROWS_PER_BATCH
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.daemon.module": "heliograph.dataplane.daemon",
    "spark.speculation": "false",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.minBatchesToRetain": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.ui.showConsoleProgress": "false",
}

# Rows are few and small, so code that is compiled quickly is worth more than code that is compiled well:
# the second compiler took a third of all CPU until the first record.
_JAVA_OPTIONS = (
    "-XX:+UnlockDiagnosticVMOptions -XX:ArchiveRelocationMode=0 -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xms48m -Xmn24m -XX:MaxHeapFreeRatio=30 "
    f"-XX:MinHeapFreeRatio=10 -Dlog4j2.configurationFile={_LOG_CONFIG}"
)


def plan_settings(slots: int, extra: Mapping[str, str], java: str | None = None) -> dict[str, str]:
    """Return all settings of a session with `slots` tasks at once; `extra` are the user's own keys.

    `java` is one more option for its JVM; without, it starts from the archive of Spark's classes.
    """
    if java is None:
        archive = archive_place()
        java = f"-XX:SharedArchiveFile={shlex.quote(str(archive))}" if archive.exists() else ""
    ours = {**_SETTINGS, JAVA_OPTIONS: f"{_JAVA_OPTIONS} {java}"}
    if is_local(extra):
        # One more than there are tasks, which hold theirs for whole epochs: the empty epoch needs one too.
        return {"spark.master": f"local[{slots + 1},8]", **ours, **extra}
    for place, name in archives(extra):
        where = urlsplit(place)
        if name == ENVIRONMENT and where.scheme in ("", "file"):
            check_archive(Path(where.path))
    return {**ours, **plan_cluster(extra, slots)}


def open_session(
    settings: Mapping[str, str],
    scratch: Path,
    python: str,
    on_context: Callable[[SparkContext], None],
) -> SparkSession:
    """Start Spark, which starts Python by that command.

    `on_context` hears of the context before any task ran, which may take long.

    If this process has a JVM of Spark already, the new context runs in that one.
    """
    os.environ.setdefault("SPARK_LOCAL_DIRS", str(scratch))
    conf = SparkConf(loadDefaults=False)
    conf.set("spark.sql.warehouse.dir", (scratch / "warehouse").as_uri())
    for key, value in settings.items():
        conf.set(key, value)
    session = SparkSession(SparkContext(conf=conf, gateway=open_gateway(conf, settings, scratch)))
    session.sparkContext.pythonExec = python  # not in the environment, which later sessions inherit
    on_context(session.sparkContext)
    try:
        if not is_local(settings):
            warm_up(session, scratch)  # tells whether executors can run us at all
    except BaseException:
        session.stop()
        raise
    return session


def warm_up(session: SparkSession, scratch: Path) -> None:
    """Run an empty epoch to its commit: Spark starts a Python process for each step on first use.

    Without it the first epoch of a flow would end with a pause of seconds. It ends by itself: a query that is
    stopped takes Spark's line for accumulators down with it, which prints a traceback.
    """
    options = {"slices": "1", WARM_UP: "true"}
    start_query(session, options, scratch, to_its_end=True).awaitTermination()


def start_query(
    session: SparkSession,
    options: Mapping[str, str],
    scratch: Path,
    name: str | None = None,
    *,
    to_its_end: bool = False,
) -> StreamingQuery:
    """Start a query of ours with a registration of its own; its checkpoint folder is scratch.

    What belongs to a registration (a `HashMap` of the environment) Spark changes whenever it plans, and sends to
    tasks: two queries that start at once would leave it in a state that no task can read.
    """
    checkpoint = tempfile.mkdtemp(prefix="epochs-", dir=scratch)
    with _registering:
        session.dataSource.register(MirrorDataSource)
        writer = (
            session.readStream.format(FORMAT)
            .options(**options)
            .load()
            .writeStream.format(FORMAT)
            .options(**options, checkpointLocation=Path(checkpoint).as_uri())
        )
        if to_its_end:
            writer = writer.trigger(availableNow=True)
        return writer.start(queryName=name)
