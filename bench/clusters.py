"""The two clusters of a measurement: one broker each, for one run, in a temporary folder."""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.clusters import LiveCluster, start_live_cluster

# What a round leaves behind is gone before the next begins to write.
_BROKER = {"log.segment.delete.delay.ms": "500", "log.retention.hours": "-1"}


@contextmanager
def open_clusters(kept: Path | None = None) -> Iterator[tuple[LiveCluster, LiveCluster, Path]]:
    """Yield source, target and a folder for logs: `kept`, or one that goes with the clusters."""
    with ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        lives = []
        for name in ("source", "target"):
            live = start_live_cluster(name, work, config=_BROKER)
            stack.callback(live.cluster.stop)
            lives.append(live)
        yield lives[0], lives[1], kept or work
