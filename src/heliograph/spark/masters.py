"""Where Spark runs, and what that requires: in a JVM of this process, or on a cluster's machines.

On a cluster the executors must reach the driver (`spark.driver.host`) and import our code, which they
find in the archive that `heliograph package` builds, or in an image built in advance.
"""

import math
import sys
from collections.abc import Mapping
from urllib.parse import urlsplit

from heliograph.errors import ConfigError

LOOPBACK = "127.0.0.1"
ENVIRONMENT = "heliograph-env"  # the folder that an executor unpacks the archive into
LEASE_PORT = "spark.heliograph.lease.port"
PYTHON = "spark.pyspark.python"

_LOOPBACKS = ("localhost", "127.0.0.1", "::1", "[::1]")
_PYTHONPATH = "spark.executorEnv.PYTHONPATH"

# A silent executor is given up within a minute or so; by default Spark waits for two to three.
_CLUSTER = {
    "spark.executor.heartbeatInterval": "5s",
    "spark.network.timeout": "60s",
    "spark.network.timeoutInterval": "15s",
    "spark.dynamicAllocation.enabled": "false",
}


def is_local(spark: Mapping[str, str]) -> bool:
    """Whether tasks run in the driver's own JVM."""
    master = spark.get("spark.master", "local")
    return master == "local" or master.startswith("local[")


def driver_host(spark: Mapping[str, str]) -> str:
    """Return the address at which executors reach the driver; an address of this machine is never guessed."""
    given = spark.get("spark.driver.host")
    if given:
        return given
    master = spark.get("spark.master", "local")
    if master.startswith("local") or _hosts(master) <= set(_LOOPBACKS):
        return LOOPBACK
    raise ConfigError(
        f"spark.master={master}: the executors must reach this driver, and spark.driver.host is not set. "
        "Set it to an address of this machine that they can connect to."
    )


def lease_place(spark: Mapping[str, str]) -> tuple[str, int]:
    """Return the address and the port to listen at for leases; port 0 is any free port."""
    port = spark.get(LEASE_PORT, "0")
    if not port.isdecimal() or int(port) > 65535:
        raise ConfigError(f"{LEASE_PORT}={port}: set a port, 0 to 65535; 0 takes a free one.")
    return spark.get("spark.driver.bindAddress") or driver_host(spark), int(port)


def plan_cluster(spark: Mapping[str, str], slots: int) -> dict[str, str]:
    """Return the settings of a context whose tasks run on a cluster; what `spark` gives wins."""
    host = driver_host(spark)
    settings = {"spark.driver.host": host, "spark.driver.bindAddress": host, **_CLUSTER}
    if spark["spark.master"].startswith(("yarn", "k8s")):
        cores = spark.get("spark.executor.cores", "1")
        if not cores.isdecimal() or cores == "0":
            raise ConfigError(f"spark.executor.cores={cores}: set a number of cores, such as 2.")
        settings["spark.executor.instances"] = str(math.ceil(slots / int(cores)))
    else:
        settings["spark.cores.max"] = str(slots)
    settings.update(spark)
    if any(name == ENVIRONMENT for _, name in archives(spark)):
        others = spark.get(_PYTHONPATH)
        settings[_PYTHONPATH] = f"./{ENVIRONMENT}:{others}" if others else f"./{ENVIRONMENT}"
    return settings


def archives(spark: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return what `spark.archives` ships: where each archive is, and the folder it becomes."""
    entries = [entry.strip() for entry in spark.get("spark.archives", "").split(",")]
    return [(place, name) for place, _, name in (e.partition("#") for e in entries if e)]


def python_name() -> str:
    """Return the command that runs the same Python on any machine: that of this minor version."""
    return f"python{sys.version_info.major}.{sys.version_info.minor}"


def _hosts(master: str) -> set[str]:
    """Return the hosts of spark://one:7077,two:7077; any other kind of master is returned unchanged."""
    if not master.startswith("spark://"):
        return {master}
    places = master.removeprefix("spark://").split(",")
    return {urlsplit(f"spark://{place}").hostname or place for place in places}
