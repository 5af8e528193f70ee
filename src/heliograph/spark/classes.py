"""Prepares Spark's JVM: a JVM that maps its classes from an archive starts in a third of the time.

`python -m heliograph.spark.classes` builds the archive, once for an environment: the JVM of an empty job
records what it loaded. The archive belongs to one Spark and one Java; a JVM that it does not fit starts
without it. Next to it is a file with the options with which Spark's script starts a JVM, so that we need not
ask the script each time.
"""

import os
import shlex
import subprocess
import sys
import tempfile
from datetime import timedelta
from pathlib import Path

from heliograph.errors import MirrorError
from heliograph.spark import privates
from heliograph.spark.context import open_context, plan_settings
from heliograph.spark.jvm import SCRIPTED_BY, archive_place, options_place, spark_home
from heliograph.spark.pythons import python_command
from heliograph.spark.slice_task import run_nothing

_LIMIT = timedelta(minutes=2)
_SAID = "Spark Command: "
_SUBMIT = "org.apache.spark.deploy.SparkSubmit"
# Not needed; and a JVM with an additional module cannot map its modules from the archive.
_UNWANTED = ("-Xmx", "--add-modules")


class NotPrepared(MirrorError):
    """The archive could not be built."""

    def __str__(self) -> str:
        return "Java wrote no archive of Spark's classes, so Spark starts more slowly; it works as well."


def prepare() -> Path:
    """Build the archive again and return where it is; takes some 20 seconds."""
    place = archive_place()
    place.parent.mkdir(parents=True, exist_ok=True)
    options_place().write_text("\n".join(_ask_options()))
    with tempfile.TemporaryDirectory(dir=place.parent) as work:
        made = Path(work) / "made.jsa"
        settings = plan_settings(2, {}, f"-XX:ArchiveClassesAtExit={shlex.quote(str(made))}")
        context = open_context(settings, Path(work), python_command(settings, Path(work)))
        context.parallelize([0], 1).mapPartitions(run_nothing).collect()
        context.stop()
        _end_jvm()
        if not made.exists():
            raise NotPrepared
        made.rename(place)
    return place


def _ask_options() -> list[str]:
    """Return what Spark's script puts between `java` and the class to run."""
    told = subprocess.run(
        [spark_home() / "bin" / "spark-submit", "--version"],
        env={**_plain_environment(), "SPARK_PRINT_LAUNCH_COMMAND": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=_LIMIT.total_seconds(),
    ).stderr
    line = next((line for line in told.splitlines() if line.startswith(_SAID)), None)
    if line is None:
        raise NotPrepared
    words = shlex.split(line.removeprefix(_SAID))
    options = [word for word in words[: words.index(_SUBMIT)] if word.startswith("-")]
    return [o for o in options if o != "-cp" and not o.startswith(_UNWANTED)]


def _plain_environment() -> dict[str, str]:
    """Return our environment without the variables that only Spark's script handles."""
    return {key: value for key, value in os.environ.items() if key not in SCRIPTED_BY}


def _end_jvm() -> None:
    """End the JVM, which writes the archive at its exit, and wait for that."""
    gateway = privates.known_gateway()
    assert gateway is not None, "a context was opened"
    process = privates.process_behind(gateway)
    assert process is not None, "it was started here"
    assert process.stdin is not None, "by a pipe"
    gateway.shutdown()
    process.stdin.close()  # the JVM lives as long as our end of this pipe
    process.wait(_LIMIT.total_seconds())


if __name__ == "__main__":
    try:
        prepare()
    except MirrorError as exc:
        sys.exit(f"heliograph: {exc}")
