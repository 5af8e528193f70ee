"""The private parts of pyspark that heliograph uses: here and nowhere else, so that one test notices when they move.

What they are for: a JVM outlives its contexts and is reused; its process is watched; a cluster that ended its
application is noticed; cores are counted; a gateway is opened to a JVM that we started; our modules are imported before
Spark's worker daemon forks.
"""

import subprocess
from collections.abc import Mapping
from typing import IO, Any

from py4j.java_gateway import JavaGateway
from pyspark import SparkConf, SparkContext, daemon, worker
from pyspark.java_gateway import launch_gateway

PORT, SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"  # of a JVM that runs already
CONNECTION_FILE = "_PYSPARK_DRIVER_CONN_INFO_PATH"  # where a JVM writes its port and its secret
SERVER = "org.apache.spark.api.python.PythonGatewayServer"
WORKER = worker  # what a fork of the daemon runs


def known_gateway() -> JavaGateway | None:
    """Return the gateway to the JVM of this process, if there was one."""
    return SparkContext._gateway  # noqa: SLF001


def open_gateway(conf: SparkConf, popen: Mapping[str, IO[bytes]] | None = None) -> JavaGateway:
    """Return a gateway to the JVM that the environment names, or to a new one that Spark's script starts."""
    if popen is None:
        return launch_gateway(conf)  # type: ignore[no-untyped-call]
    return launch_gateway(conf, dict(popen))  # type: ignore[no-untyped-call]


def adopt(gateway: JavaGateway, jvm: "subprocess.Popen[bytes]") -> None:
    """Record which process a gateway leads to."""
    gateway.proc = jvm


def process_behind(gateway: JavaGateway) -> "subprocess.Popen[bytes] | None":
    """Return the process that a gateway leads to; None for one that others started."""
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    return process


def process_of(context: SparkContext) -> "subprocess.Popen[bytes] | None":
    """Return the JVM of a context; None for one that others started."""
    return process_behind(context._gateway)  # noqa: SLF001


def is_stopped(context: SparkContext) -> bool:
    """Whether Spark has ended a context by itself, as when its cluster is gone."""
    return bool(_scala(context).isStopped())


def count_slots(context: SparkContext) -> tuple[int, int]:
    """Return how many tasks all executors can run at once, and how many they run now."""
    spark = _scala(context)
    profile = spark.resourceProfileManager().defaultResourceProfile()
    busy = sum(info.numRunningTasks() for info in spark.statusTracker().getExecutorInfos())
    return int(spark.maxNumConcurrentTasks(profile)), int(busy)


def run_daemon() -> None:
    """Run Spark's worker daemon: fork a worker whenever Spark asks for one."""
    daemon.manager()


def _scala(context: SparkContext) -> Any:
    return context._jsc.sc()  # noqa: SLF001
