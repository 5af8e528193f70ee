"""A Spark cluster on this machine for one run: a worker per executor, all on loopback."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from heliograph.spark.bundle import build_archive
from heliograph.spark.masters import ENVIRONMENT
from lab.standalone import StandaloneSpark

_CORES = 2
_MEMORY = "512m"  # as much as the driver's own JVM has where there is no cluster


@dataclass(frozen=True, slots=True)
class Executors:
    """The settings that send a flow's tasks to a cluster, and the cluster's processes."""

    settings: Mapping[str, str] = field(default_factory=dict)
    pids: tuple[int, ...] = ()


NO_EXECUTORS = Executors()


@contextmanager
def open_executors(folder: Path, count: int) -> Iterator[Executors]:
    """Yield a cluster of so many executors; with none, nothing is started."""
    if not count:
        yield NO_EXECUTORS
        return
    shutil.rmtree(folder, ignore_errors=True)  # of an earlier run whose logs were kept
    folder.mkdir(parents=True)
    archive = build_archive(folder / f"{ENVIRONMENT}.tar.gz").path
    with StandaloneSpark(folder, count, _CORES) as spark:
        settings = {
            "spark.master": spark.master,
            "spark.executor.memory": _MEMORY,
            "spark.archives": f"{archive.resolve()}#{ENVIRONMENT}",
        }
        yield Executors(settings, tuple(spark.workers()))
