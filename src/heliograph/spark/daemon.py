"""Spark's worker daemon with our modules already imported: its forks start warm and share the pages.

Spark runs this as `python -m heliograph.spark.daemon pyspark.worker`, once per executor.
"""

import gc

from heliograph.copying import task
from heliograph.spark import privates

PRELOADED = (task, privates.WORKER)
_COLLECT_AFTER = 20_000  # objects; our code creates no reference cycles while it copies

if __name__ == "__main__":
    gc.set_threshold(_COLLECT_AFTER)
    gc.collect()
    gc.freeze()
    privates.run_daemon()
