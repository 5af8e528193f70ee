"""The two clusters of a measurement: one broker each, for one run, in a temporary folder."""

import tempfile
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from heliograph.embedded.prepared import PROMPT
from lab.clusters import LiveCluster, eventually, start_live_cluster

# What a round leaves behind is gone before the next begins to write. An index of 10 MB, which the broker maps, costs it
# milliseconds of kernel time at its first entry (seen on Linux 6.18 and ext4): seconds, with thousands of partitions.
_BROKER = {
    "log.segment.delete.delay.ms": "500",
    "log.retention.hours": "-1",
    "log.index.size.max.bytes": str(256 << 10),
}


@dataclass(frozen=True, slots=True)
class Bed:
    """Where a case is measured; `folder` is for what the systems say."""

    source: LiveCluster
    target: LiveCluster
    folder: Path

    @property
    def brokers(self) -> list[int]:
        """The pids of all brokers."""
        return [pid for live in (self.source, self.target) for pid in live.cluster.pids.values()]

    def make_remote(self, topic: str, partitions: int) -> None:
        """Make a topic of the target, for those who cannot; returns once its leaders are ready to write.

        A broker takes any sequence number for the first of an unknown producer, so a first batch that comes too early
        may be refused and the second be taken.
        """
        self.target.create_topic(partitions, name=topic)
        eventually(lambda: len(self.target.end_offsets(topic)) == partitions)

    def forget(self, topics: Collection[str]) -> None:
        """Delete topics of the source."""
        delete_topics(self.source, topics)

    def forget_flow(self, tag: str) -> None:
        """Delete all that one run has written, its system's own topics too."""
        aliases = {f"s{tag}", f"t{tag}"}
        for cluster in (self.source, self.target):
            delete_topics(cluster, [t for t in cluster.topics() if aliases & set(t.split("."))])


def delete_topics(cluster: LiveCluster, topics: Collection[str]) -> None:
    for deleted in cluster.admin.delete_topics(list(topics)).values() if topics else ():
        deleted.result(60)


@contextmanager
def open_clusters(kept: Path | None = None) -> Iterator[tuple[LiveCluster, LiveCluster, Path]]:
    """Yield source, target and a folder for logs: `kept`, or one that goes with the clusters."""
    with ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        lives = []
        for name in ("source", "target"):
            live = start_live_cluster(name, work, config=_BROKER, heap="1g", collector=PROMPT)
            stack.callback(live.cluster.stop)
            lives.append(live)
        yield lives[0], lives[1], kept or work
