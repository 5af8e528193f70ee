"""Spark's classes, prepared: a JVM that maps them from an archive starts in a third of the time.

`python -m heliograph.dataplane.classes` makes the archive, once for an environment: the JVM of an empty epoch
writes down what it loaded. The archive belongs to one Spark and one Java; a JVM that it does not fit does
without it.
"""

import sys
import tempfile
from datetime import timedelta
from pathlib import Path

from pyspark import SparkContext

from heliograph.dataplane.context import archive_place, open_session, plan_settings, warm_up
from heliograph.errors import MirrorError

_LIMIT = timedelta(minutes=2)


class NotPrepared(MirrorError):
    """The archive could not be made."""

    def __str__(self) -> str:
        return "Java wrote no archive of Spark's classes, so Spark starts more slowly; it works as well."


def prepare() -> Path:
    """Make the archive anew and return where it is; takes some 20 seconds."""
    place = archive_place()
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as work:
        made = Path(work) / "made.jsa"
        settings = plan_settings(2, {}, f"-XX:ArchiveClassesAtExit={made}")
        session = open_session(settings, Path(work), lambda _: None)
        warm_up(session, Path(work))
        session.stop()
        _end_jvm()
        if not made.exists():
            raise NotPrepared
        made.rename(place)
    return place


def _end_jvm() -> None:
    """End the JVM, which writes the archive at its exit, and wait for that."""
    gateway = SparkContext._gateway  # noqa: SLF001
    assert gateway is not None, "a session was opened"
    gateway.shutdown()
    gateway.proc.stdin.close()  # the JVM lives as long as our end of this pipe
    gateway.proc.wait(_LIMIT.total_seconds())


if __name__ == "__main__":
    try:
        prepare()
    except MirrorError as exc:
        sys.exit(f"heliograph: {exc}")
