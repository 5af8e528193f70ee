"""What Spark runs for a slice: a job of one task, which copies until the driver ends it."""

from collections.abc import Iterable, Iterator

from pyspark import TaskContext

from heliograph.wire.lease_messages import Claim

_ATTEMPTS = 64  # of Spark's own; there is one, unless spark.task.maxFailures is set


def copy_slice(claims: Iterable[Claim]) -> Iterator[None]:
    """Copy one slice. Called by Spark in a Python worker, once per attempt; returns when the driver ends it.

    It blocks for days. What it leaves behind is on the target, and known to the driver.
    """
    from heliograph.copying.task import copy  # noqa: PLC0415 - the driver imports this file, and never copies

    context = TaskContext.get()
    assert context is not None, "Spark calls this inside a task"
    for claim in claims:
        copy(claim, claim.attempt * _ATTEMPTS + context.attemptNumber() % _ATTEMPTS)
        yield None


def run_nothing(numbers: Iterable[int]) -> Iterator[int]:
    """Return the input: shows whether executors can run our code at all."""
    yield from numbers
