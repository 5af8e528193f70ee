"""Spark's worker daemon with our modules already imported: its forks start warm and share the pages.

Spark runs this as `python -m heliograph.dataplane.daemon pyspark.worker`, once per executor.
"""

from pyspark import daemon

from heliograph.dataplane import reader, writer

PRELOADED = (reader, writer)

if __name__ == "__main__":
    daemon.manager()
