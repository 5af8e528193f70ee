"""The Spark context: the settings that a stream of long epochs needs, and its start.

Spark starts Python in two places with one command: for planning on the driver, for tasks on executors. On
a cluster that command is a name, such as `python3.11`, which each side looks up in its own PATH.
"""

import os
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from py4j.java_gateway import JavaGateway
from pyspark import SparkConf, SparkContext
from pyspark import __version__ as spark_version
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from heliograph.dataplane.archive import check_archive
from heliograph.dataplane.masters import (
    ENVIRONMENT,
    LOOPBACK,
    PYTHON,
    archives,
    is_local,
    plan_cluster,
    python_name,
)
from heliograph.dataplane.source import FORMAT, WARM_UP, MirrorDataSource

SPARK_LOG = "spark.log"
_LOG_CONFIG = Path(__file__).with_name("log4j2.properties").as_uri()

# A row must leave the buffers of Python and the JVM as soon as it is there, and a row is a chunk.
_SETTINGS = {
    "spark.app.name": "heliograph",
    "spark.ui.enabled": "false",
    "spark.driver.memory": "512m",
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
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
}

# Rows are few and small, so code that is compiled quickly is worth more than code that is compiled well:
# the second compiler took a third of all CPU until the first record.
_JAVA_OPTIONS = (
    "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xms48m -Xmn24m -XX:MaxHeapFreeRatio=30 "
    f"-XX:MinHeapFreeRatio=10 -Dlog4j2.configurationFile={_LOG_CONFIG}"
)
_JAVA = "spark.driver.extraJavaOptions"

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


def archive_place() -> Path:
    """Return where the archive of Spark's classes is, if there is one: see classes.py."""
    return Path(sys.prefix) / "share" / "heliograph" / f"spark-{spark_version}.jsa"


def plan_settings(slots: int, extra: Mapping[str, str], java: str | None = None) -> dict[str, str]:
    """Return all settings of a session with `slots` tasks at once; `extra` are the user's own keys.

    `java` is one more option for its JVM; without, it starts from the archive of Spark's classes.
    """
    if java is None:
        archive = archive_place()
        java = f"-XX:SharedArchiveFile={archive}" if archive.exists() else ""
    ours = {**_SETTINGS, _JAVA: f"{_JAVA_OPTIONS} {java}"}
    if is_local(extra):
        # One more than there are tasks, which hold theirs for whole epochs: the empty epoch needs one too.
        return {"spark.master": f"local[{slots + 1},8]", **ours, **extra}
    for place, name in archives(extra):
        where = urlsplit(place)
        if name == ENVIRONMENT and where.scheme in ("", "file"):
            check_archive(Path(where.path))
    return {**ours, **plan_cluster(extra, slots)}


def open_session(
    settings: Mapping[str, str], scratch: Path, on_context: Callable[[SparkContext], None]
) -> SparkSession:
    """Start Spark; `on_context` hears of the context before any task ran, which may take long.

    If this process has a JVM of Spark already, the new context runs in that one.
    """
    os.environ.setdefault("SPARK_LOCAL_DIRS", str(scratch))
    python = _choose_python(settings, scratch)
    conf = SparkConf(loadDefaults=False)
    conf.set("spark.sql.warehouse.dir", (scratch / "warehouse").as_uri())
    for key, value in settings.items():
        conf.set(key, value)
    session = SparkSession(SparkContext(conf=conf, gateway=_gateway(conf, scratch)))
    session.sparkContext.pythonExec = python  # not in the environment, which later sessions inherit
    on_context(session.sparkContext)
    try:
        session.dataSource.register(MirrorDataSource)
        if not is_local(settings):
            warm_up(session, scratch)  # tells whether executors can run us at all
    except BaseException:
        session.stop()
        raise
    return session


def _gateway(conf: SparkConf, scratch: Path) -> JavaGateway:
    """Return the way to a JVM: the one there is, which outlives its contexts, or a new one."""
    known = SparkContext._gateway  # noqa: SLF001
    if known is not None and known.proc.poll() is None:
        return known
    # The JVM and the Python workers below it write errors to a file: what matters of them reaches the
    # driver's own log as one sentence.
    with (scratch / SPARK_LOG).open("ab") as log, _launching():
        return launch_gateway(conf, {"stdout": log, "stderr": log})  # type: ignore[no-untyped-call]  # pyspark's own


@contextmanager
def _launching() -> Iterator[None]:
    """Set what only the JVM shall find in its environment.

    Spark asks a JVM of its own for the command line of that JVM. It then looks for data sources among all
    packages of the default Python, which costs a second and 70 MB: ours is registered, so it finds no Python.
    """
    ours = {
        "SPARK_LAUNCHER_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        "PYSPARK_PYTHON": "no-default-python",
    }
    before = {key: os.environ.get(key) for key in ours}
    os.environ.update(ours)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                del os.environ[key]
            else:
                os.environ[key] = value


def _choose_python(settings: Mapping[str, str], scratch: Path) -> str:
    """Return the command that Spark starts Python with, here and on executors."""
    name = python_name()
    quick = _quick_python(scratch / "bin" / name)
    given = settings.get(PYTHON) or os.environ.get("PYSPARK_PYTHON")
    if given is None and not is_local(settings):
        os.environ["PATH"] = os.pathsep.join(
            (str(quick.parent), os.environ.get("PATH", os.defpath))
        )
    return given or (str(quick) if is_local(settings) else name)


def _quick_python(command: Path) -> Path:
    """Write a command that runs this Python without the zipped pyspark that Spark puts first.

    It is the installed one again, but modules in a zip are compiled anew by each process: 0.7 s
    instead of 0.2 s for every daemon that Spark starts, of which there are seven.
    """
    command.parent.mkdir(exist_ok=True)
    command.write_text(_QUICK_PYTHON.format(python=shlex.quote(sys.executable)))
    command.chmod(0o700)
    return command


def warm_up(session: SparkSession, scratch: Path) -> None:
    """Run an empty epoch to its commit: Spark starts a Python process for each step on first use.

    Without it the first epoch of a flow would end with a pause of seconds. It ends by itself: a query that is
    stopped takes Spark's line for accumulators down with it, which prints a traceback.
    """
    options = {"slices": "1", WARM_UP: "true"}
    checkpoint = tempfile.mkdtemp(prefix="warm-up-", dir=scratch)
    (
        session.readStream.format(FORMAT)
        .options(**options)
        .load()
        .writeStream.format(FORMAT)
        .options(**options, checkpointLocation=Path(checkpoint).as_uri())
        .trigger(availableNow=True)
        .start()
        .awaitTermination()
    )
