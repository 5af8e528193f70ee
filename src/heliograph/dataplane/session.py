"""The Spark session: one per driver, with the settings that a stream of long epochs needs."""

import logging
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from heliograph.dataplane.source import MirrorDataSource

log = logging.getLogger(__name__)

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
    "spark.speculation": "false",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.minBatchesToRetain": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "true",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=4 -Xss512k",
    "spark.log.level": "ERROR",
}


def open_session(slots: int, extra: Mapping[str, str], scratch: Path) -> SparkSession:
    """Start Spark with room for `slots` tasks at once; `extra` are the user's own spark.* keys."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_DIRS", str(scratch))
    builder = SparkSession.builder.master(extra.get("spark.master", f"local[{max(slots, 2)},8]"))
    for key, value in {
        **_SETTINGS,
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        **extra,
    }.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.dataSource.register(MirrorDataSource)
    return session


def make_scratch() -> Path:
    """Return a folder for Spark's files; losing it loses nothing."""
    return Path(tempfile.mkdtemp(prefix="heliograph-"))
