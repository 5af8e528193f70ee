"""Spark's tasks for finite work: parts are sent out, and the result of each is collected."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException

from heliograph.errors import MirrorError
from heliograph.spark.engine import cause_of
from heliograph.spark.masters import LOOPBACK

P = TypeVar("P")
R = TypeVar("R")


class JobFailed(MirrorError):
    """Spark could not run a job."""

    exit_code = 2

    def __init__(self, job: str, reason: str) -> None:
        super().__init__(job, reason)
        self.job = job
        self.reason = reason

    def __str__(self) -> str:
        return f"Spark could not run {self.job}: {self.reason}. Nothing was proved; run it again."


class TaskPool:
    """The tasks of one Spark."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context

    @property
    def slots(self) -> int:
        """How many tasks run at once."""
        return int(self._context.defaultParallelism)

    @property
    def host(self) -> str:
        """The address at which tasks reach this process."""
        return self._context.getConf().get("spark.driver.host", LOOPBACK) or LOOPBACK

    def run(
        self, job: str, work: Callable[[Iterable[P]], Iterator[R]], parts: Sequence[P]
    ) -> list[R]:
        """Have a task process each part, and return all results; `work` is pickled. Raises JobFailed."""
        try:
            tasks = self._context.parallelize(parts, len(parts))
            return list(tasks.mapPartitions(work).collect())
        except (PySparkException, Py4JError) as exc:
            raise JobFailed(job, cause_of(exc)) from exc
