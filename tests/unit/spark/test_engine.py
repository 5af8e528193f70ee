import pytest

from heliograph.spark.engine import cause_of, explain

RAISED = """An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 1 times
Traceback (most recent call last):
  File "task.py", line 1, in copy
heliograph.copying.lease.LeaseLost: A->B: slice 0 lost its driver and stops.

\tat org.apache.spark.api.python.BasePythonRunner
"""
KILLED = """An error occurred.
org.apache.spark.SparkException: Job 3 cancelled part of cancelled job group A->B 0
\tat org.apache.spark.scheduler
"""


def test_why_a_slice_failed_is_what_its_task_raised() -> None:
    assert cause_of(RuntimeError(RAISED)) == "A->B: slice 0 lost its driver and stops."


def test_without_words_of_ours_it_is_what_spark_said() -> None:
    told = cause_of(RuntimeError(KILLED))
    assert told.startswith("org.apache.spark.SparkException: Job 3 cancelled")


@pytest.mark.parametrize(
    ("error", "told"),
    [(ValueError(""), "ValueError"), (ValueError("x" * 900), "x" * 300)],
    ids=["silent", "long"],
)
def test_a_failure_without_a_name_is_a_short_line_all_the_same(error: Exception, told: str) -> None:
    assert cause_of(error) == told


def test_executors_without_heliograph_are_told_how_to_get_it() -> None:
    assert "heliograph package" in str(explain("No module named 'heliograph'"))
    assert explain("no space left on device") is None


def test_a_mistake_of_ours_is_told_with_its_place() -> None:
    told = cause_of(
        RuntimeError(
            'x\n  File "/env/heliograph/copying/task.py", line 12, in copy\n'
            '  File "/env/heliograph/copying/copier.py", line 34, in run\nIndexError: list index out of range\n'
        )
    )
    assert told == "IndexError: list index out of range (heliograph/copying/copier.py:34)"
