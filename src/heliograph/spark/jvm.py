"""Spark's JVM: started by Spark's own script, or without it where a JVM like ours was prepared (see classes.py).

The script asks another JVM for the command line, and Spark's launcher then reads its answer: 0.6 s
until the first record. A prepared environment has the options that do not depend on us in a file for `java @FILE`.
"""

import os
import shlex
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pyspark
from py4j.java_gateway import JavaGateway
from pyspark import SparkConf

from heliograph.errors import MirrorError
from heliograph.spark import privates
from heliograph.spark.masters import is_local

SPARK_LOG = "spark.log"
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
MEMORY = "spark.driver.memory"
_LENGTH = struct.Struct(">i")
_LIMIT = timedelta(minutes=2)
_LOOK_EVERY = 0.01
# Setting one of these requires Spark's own script.
SCRIPTED_BY = (
    *("SPARK_HOME", "SPARK_CONF_DIR", "SPARK_SUBMIT_OPTS", "SPARK_DIST_CLASSPATH"),
    *("PYSPARK_SUBMIT_ARGS", "HADOOP_CONF_DIR"),
)
_SCRIPTED_FOR = (
    *("spark.jars", "spark.driver.extraClass", "spark.driver.extraLibrary"),
    "spark.driver.defaultJava",
)

# For the JVM that Spark's script asks for the command line of the JVM.
_ENVIRONMENT = {
    "SPARK_LAUNCHER_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}


class JvmEnded(MirrorError):
    """The JVM ended before Spark was up."""

    def __str__(self) -> str:
        return "its JVM ended at once"


def archive_place() -> Path:
    """Return where the archive of Spark's classes is, if there is one."""
    return Path(sys.prefix) / "share" / "heliograph" / f"spark-{pyspark.__version__}.jsa"


def options_place() -> Path:
    """Return where the options of Spark's JVM are, if they were prepared."""
    return archive_place().with_suffix(".options")


def open_gateway(conf: SparkConf, settings: Mapping[str, str], scratch: Path) -> JavaGateway:
    """Return a gateway to a JVM: the existing one, which outlives its contexts, or a new one."""
    known = privates.known_gateway()
    before = None if known is None else privates.process_behind(known)
    if before is not None and before.poll() is None:
        return known
    # The JVM and the Python workers below it write errors to a file: what matters in it reaches the
    # driver's own log as one sentence.
    with (scratch / SPARK_LOG).open("ab") as log, _environment(_ENVIRONMENT):
        if not _is_prepared(settings):
            return privates.open_gateway(conf, {"stdout": log, "stderr": log})
        with tempfile.TemporaryDirectory(dir=scratch) as folder:
            told = Path(folder) / "port"
            command = _command(settings)
            environment = {
                **os.environ,
                "SPARK_HOME": str(spark_home()),
                "PYTHONHASHSEED": "0",
                privates.CONNECTION_FILE: str(told),
            }
            jvm = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment
            )
            port, secret = _await_server(jvm, told)
    with _environment({privates.PORT: port, privates.SECRET: secret}):
        gateway = privates.open_gateway(conf)
    privates.adopt(gateway, jvm)
    return gateway


def spark_home() -> Path:
    """Return the Spark that belongs to our pyspark."""
    return Path(pyspark.__file__).parent


def _is_prepared(settings: Mapping[str, str]) -> bool:
    """Whether a JVM may be started without Spark's script; only the script can get jars and the like."""
    return (
        is_local(settings)
        and options_place().exists()
        and not any(key.startswith(_SCRIPTED_FOR) for key in settings)
        and not any(key in os.environ for key in SCRIPTED_BY)
    )


def _command(settings: Mapping[str, str]) -> list[str]:
    home = os.environ.get("JAVA_HOME")
    return [
        # Ctrl-C in a terminal is for the driver, which ends the JVM when it has saved all.
        *("sh", "-c", 'trap "" INT; exec "$@"', "sh"),
        f"{home}/bin/java" if home else "java",
        f"@{options_place()}",
        f"-Xmx{settings[MEMORY]}",
        *shlex.split(settings[JAVA_OPTIONS]),
        *("-cp", _class_path()),
        privates.SERVER,
    ]


def _class_path() -> str:
    return os.pathsep.join(str(jar) for jar in sorted(spark_home().glob("jars/*.jar")))


def _await_server(jvm: "subprocess.Popen[bytes]", told: Path) -> tuple[str, str]:
    """Return the port and the secret that a new JVM writes to a file."""
    until = time.monotonic() + _LIMIT.total_seconds()
    while not told.exists():
        if jvm.poll() is not None or time.monotonic() > until:
            jvm.kill()
            raise JvmEnded
        time.sleep(_LOOK_EVERY)
    content = told.read_bytes()
    (port,) = _LENGTH.unpack_from(content)
    return str(port), content[2 * _LENGTH.size :].decode()


@contextmanager
def _environment(ours: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables that only a new JVM should see."""
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
