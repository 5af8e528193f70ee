"""Spark's worker daemon with our modules already imported: its forks start warm and share the pages.

Spark runs this as `python -m heliograph.dataplane.daemon pyspark.worker`, once per executor.
"""

from pyspark import daemon

from heliograph.dataplane import placing_writer, reader, transactional_writer, writer

PRELOADED = (reader, writer, placing_writer, transactional_writer)

if __name__ == "__main__":
    daemon.manager()
