"""The Spark context: the settings for tasks that run for days, and its start."""

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from pyspark import SparkConf, SparkContext

from heliograph.spark.bundle import check_archive
from heliograph.spark.jvm import JAVA_OPTIONS, MEMORY, archive_place, open_gateway
from heliograph.spark.masters import ENVIRONMENT, LOOPBACK, archives, is_local, plan_cluster

_LOG_CONFIG = Path(__file__).with_name("log4j2.properties").as_uri()

_SETTINGS = {
    "spark.app.name": "heliograph",
    "spark.ui.enabled": "false",
    MEMORY: "512m",
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.daemon.module": "heliograph.spark.daemon",
    "spark.speculation": "false",
    "spark.task.maxFailures": "1",  # we restart a slice that fails, with a pause that grows
    "spark.ui.showConsoleProgress": "false",
}

# The JVM starts tasks and waits, so code that is compiled quickly is worth more than code that is compiled well.
_JAVA_OPTIONS = (
    "-XX:+UnlockDiagnosticVMOptions -XX:ArchiveRelocationMode=0 -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xms24m -Xmn12m "
    f"-XX:MaxHeapFreeRatio=30 -XX:MinHeapFreeRatio=10 -Dlog4j2.configurationFile={_LOG_CONFIG}"
)


def plan_settings(slots: int, extra: Mapping[str, str], java: str | None = None) -> dict[str, str]:
    """Return all settings of a context with `slots` tasks at once; `extra` are the user's own keys.

    `java` is one more option for its JVM; without it, the JVM starts from the archive of Spark's classes.
    """
    if java is None:
        archive = archive_place()
        java = f"-XX:SharedArchiveFile={shlex.quote(str(archive))}" if archive.exists() else ""
    ours = {**_SETTINGS, JAVA_OPTIONS: f"{_JAVA_OPTIONS} {java}"}
    if is_local(extra):
        return {"spark.master": f"local[{slots}]", **ours, **extra}
    for place, name in archives(extra):
        where = urlsplit(place)
        if name == ENVIRONMENT and where.scheme in ("", "file"):
            check_archive(Path(where.path))
    return {**ours, **plan_cluster(extra, slots)}


def open_context(settings: Mapping[str, str], scratch: Path, python: str) -> SparkContext:
    """Start Spark, which starts Python with the command `python`.

    If this process already has a JVM of Spark, the new context runs in that one.
    """
    os.environ.setdefault("SPARK_LOCAL_DIRS", str(scratch))
    conf = SparkConf(loadDefaults=False)
    for key, value in settings.items():
        conf.set(key, value)
    context = SparkContext(conf=conf, gateway=open_gateway(conf, settings, scratch))
    context.pythonExec = python  # not in the environment, which later contexts inherit
    return context
