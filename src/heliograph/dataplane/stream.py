"""A flow's streaming query in Spark: started, asked how it is, stopped."""

import time
from collections.abc import Mapping

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from heliograph.dataplane.context import start_query
from heliograph.dataplane.session import Engine
from heliograph.model import SparkProgress

_ASK_EVERY = 1.0


class Stream:
    """A query that runs until it is stopped, or fails."""

    def __init__(self, query: StreamingQuery) -> None:
        self._query = query
        self._active_until = 0.0

    def failure(self) -> str | None:
        """Return why Spark gave it up, or None while it runs; the JVM is asked once a second at most."""
        now = time.monotonic()
        if now < self._active_until:
            return None
        if self._query.isActive:
            self._active_until = now + _ASK_EVERY
            return None
        try:
            exception = self._query.exception()
        except PySparkException as exc:
            return str(exc)
        return str(exception) if exception else "the stream ended by itself"

    def progress(self) -> SparkProgress | None:
        """Return what Spark finished last; None before the first, or if it does not tell."""
        try:
            last = self._query.lastProgress
        except (PySparkException, Py4JError):
            return None  # nothing depends on it; whether the stream has failed is asked elsewhere
        if last is None:
            return None
        return SparkProgress(last.batchId, last.numInputRows, last.batchDuration / 1000)

    def stop(self) -> None:
        self._query.stop()


def start_stream(engine: Engine, name: str, options: Mapping[str, str]) -> Stream:
    """Start a flow's query under its name. Its checkpoint folder is scratch: positions are on the target."""
    return Stream(start_query(engine.session(), options, engine.scratch, name))
