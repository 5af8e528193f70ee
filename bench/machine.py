"""What the figures depend on: the machine, the versions, the load when the measurement began."""

import os
import platform
import re
import shutil
import subprocess
from importlib.metadata import version
from pathlib import Path

from heliograph.embedded.jars import KAFKA_VERSION
from heliograph.embedded.java import find_java

_HOME = Path(__file__).parents[1]


def describe_machine() -> dict[str, str]:
    cpu = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return {
        "cpu": f"{os.cpu_count()} x {cpu}",
        "memory": f"{memory:.0f} GiB",
        "kernel": platform.release(),
        "load before": " ".join(f"{load:.2f}" for load in os.getloadavg()),
        "python": platform.python_version(),
        "java": find_java().version,
        "kafka": KAFKA_VERSION,
        "spark": version("pyspark"),
        "librdkafka": version("confluent-kafka"),
        "franz-go": _franz_go(),
        "heliograph": _commit(),
    }


def _franz_go() -> str:
    text = (_HOME / "bench" / "go" / "go.mod").read_text()
    found = re.search(r"twmb/franz-go v(\S+)", text)
    return found[1] if found else "none"


def _commit() -> str:
    """Return which commit this is, and whether files differ from it."""
    git = shutil.which("git")
    if git is None or not (_HOME / ".git").exists():
        return "no clone"
    command = [git, "-C", str(_HOME), "describe", "--always", "--dirty", "--exclude", "*"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
