"""Spark's worker daemon with our modules already imported: its forks start warm and share the pages.

Spark runs this as `python -m heliograph.dataplane.daemon pyspark.worker`, once per executor.

Three things are set for the workers. Each batch is flushed when it is written, which pyspark has for workers with a thread
more, so that a row is sent in one piece, and none stays behind. Buffers have an ordinary size here, although the JVM
is told a tiny one: there it says how many bytes must come together before they are handed on. And circles of objects are
looked for less often, since our code makes none on its way.
"""

import gc
import os
from functools import partialmethod

from pyspark import daemon
from pyspark.sql.pandas.serializers import ArrowStreamSerializer

from heliograph.dataplane import placing_writer, reader, transactional_writer, writer

PRELOADED = (reader, writer, placing_writer, transactional_writer)
_BUFFER_BYTES = 64 << 10
_COLLECT_AFTER = 20_000  # objects

if __name__ == "__main__":
    ArrowStreamSerializer.__init__ = partialmethod(  # type: ignore[method-assign, assignment]  # its default is a constructor's
        ArrowStreamSerializer.__init__, flush_per_batch=True
    )
    os.environ["SPARK_BUFFER_SIZE"] = str(_BUFFER_BYTES)
    gc.set_threshold(_COLLECT_AFTER)
    daemon.manager()
