"""The two systems of the contract behind one face: a configuration file goes in, and Kafka shows what comes out.

What differs by decision is asked of `System.is_exact`: heliograph writes each record once and translates offsets
exactly; MirrorMaker 2 may repeat records when it restarts, and translates to at most where the group was.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from heliograph.wire.mirror_records import (
    Checkpoint,
    OffsetSync,
    decode_checkpoint,
    decode_offset_sync,
)
from lab.clusters import LiveCluster, Record, eventually, start_live_cluster, unique_name
from lab.mirrors import Mirror, Seen, first_difference, seen
from lab.peer import Peer, start_peer
from tests.contract.brokers import commit

T = TypeVar("T")

MM2 = "mm2"
HELIOGRAPH = "heliograph"
PATIENCE = 60  # the slowest is MirrorMaker 2 that starts its tasks anew, on a busy machine
STARTING = 120
LAG_MAX = 10

ONE_BROKER = {
    f"{topic}replication.factor": "1"
    for topic in (
        "",
        "checkpoints.topic.",
        "heartbeats.topic.",
        "offset-syncs.topic.",
        "offset.storage.",
        "status.storage.",
        "config.storage.",
    )
}
EVERY_SECOND = {
    f"{job}.interval.seconds": "1"
    for job in (
        "refresh.topics",
        "refresh.groups",
        "sync.topic.configs",
        "sync.topic.acls",
        "sync.group.offsets",
        "emit.checkpoints",
        "emit.heartbeats",
    )
}


class Program(Protocol):
    """One of the two programs on a file; it can be stopped and started again."""

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def tail(self) -> str: ...


class PeerProgram:
    def __init__(self, folder: Path, properties: Mapping[str, str]) -> None:
        self._folder = folder
        self._properties = properties
        self._peer: Peer | None = None

    def start(self) -> None:
        self._peer = start_peer(self._folder, self._properties)

    def stop(self) -> None:
        if self._peer is not None:
            self._peer.stop()

    def tail(self) -> str:
        return self._peer.last_lines(40) if self._peer else "MirrorMaker 2 was not started"


@dataclass(frozen=True)
class System:
    """Either program between two clusters of its own."""

    kind: str
    program: Program
    a: LiveCluster
    b: LiveCluster

    @property
    def is_exact(self) -> bool:
        return self.kind == HELIOGRAPH

    def flow(self, source: str, target: str, keeps_names: bool = False) -> "Flow":
        """Return the flow between two aliases; its source is cluster `a`, unless it starts at the alias B."""
        here, there = (self.b, self.a) if source == "B" else (self.a, self.b)
        return Flow(self, source, here, target, there, keeps_names)

    def until(self, condition: Callable[[], T], within: float = PATIENCE) -> T:
        """Return the condition's first true value, or fail with the end of the program's log."""
        return eventually(condition, within, self.program.tail)


@dataclass(frozen=True)
class Flow:
    system: System
    source_alias: str
    source: LiveCluster
    target_alias: str
    target: LiveCluster
    keeps_names: bool = False

    def remote(self, topic: str) -> str:
        return topic if self.keeps_names else f"{self.source_alias}.{topic}"

    def create(
        self,
        partitions: int = 1,
        config: Mapping[str, str] | None = None,
        prefix: str = "",
    ) -> str:
        """Create a topic on the source."""
        return self.source.create_topic(partitions, config, name=prefix + unique_name())

    def wait_for(self, topic: str, records: int) -> None:
        """Wait until the remote topic has had as many records; cheaper than reading them."""
        remote = self.remote(topic)
        self.system.until(lambda: sum(self.target.end_offsets(remote)) >= records)

    def assert_copied(self, topic: str) -> None:
        """Wait until the remote topic has as many records as the source has; they must be the same ones."""
        remote = self.remote(topic)
        partitions = self.source.partition_count(topic)
        expected = seen(self.source.consume(topic))
        copied: list[Seen] = []

        def whole() -> bool:
            copied[:] = seen(self.target.consume(remote))
            return len(copied) >= len(expected)

        self.system.until(lambda: self.target.partition_count(remote) >= partitions)
        self.wait_for(topic, len(expected))
        self.system.until(whole)
        difference = first_difference(expected, copied)
        assert difference is None, f"{remote}: {difference}"

    def pass_a_refresh(self, prefix: str = "") -> None:
        """Return when the topics that existed at the call were looked at."""
        remote = self.remote(self.create(prefix=prefix))
        self.system.until(lambda: self.target.partition_count(remote))

    def checkpoints_topic(self) -> str:
        return f"{self.source_alias}.checkpoints.internal"

    def checkpoints(self, group: str, topic: str | None = None) -> list[Checkpoint]:
        """Return a group's checkpoints in the order they were written, of the source topic if given."""
        if not self.target.partition_count(self.checkpoints_topic()):
            return []
        written = (
            decode_checkpoint(record.key, record.value)
            for record in self.target.consume(self.checkpoints_topic())
        )
        return [
            checkpoint
            for checkpoint in written
            if checkpoint.group == group
            and (topic is None or checkpoint.partition.topic == self.remote(topic))
        ]

    def checkpoint_at(self, group: str, topic: str, index: int, upstream: int) -> Checkpoint:
        """Wait for the checkpoint of a group that committed `upstream`, and return it."""

        def found() -> Checkpoint | None:
            return next(
                (
                    checkpoint
                    for checkpoint in reversed(self.checkpoints(group, topic))
                    if (checkpoint.partition.index, checkpoint.upstream) == (index, upstream)
                ),
                None,
            )

        checkpoint = self.system.until(found)
        assert checkpoint is not None
        return checkpoint

    def pass_a_checkpoint(self, topic: str) -> None:
        """Return when groups that existed at the call were seen, and looked at again after that.

        The topic is one of which a record was mirrored: 0 then 1 translate to different offsets.
        """
        group = unique_name()
        for upstream in (0, 1):
            commit(self.source, group, topic, {0: upstream})
            self.checkpoint_at(group, topic, 0, upstream)

    def syncs(self, topic: str, on_target: bool = False) -> list[OffsetSync]:
        """Return the offset syncs of a source topic in the order they were written."""
        host, alias = (
            (self.target, self.source_alias) if on_target else (self.source, self.target_alias)
        )
        written = (
            decode_offset_sync(record.key, record.value)
            for record in host.consume(f"mm2-offset-syncs.{alias}.internal")
        )
        return [sync for sync in written if sync.partition.topic == topic]

    def assert_followed(self, group: str, topic: str, index: int, upstream: int) -> int:
        """Wait for the checkpoint of a group that committed `upstream`, and return where it may continue."""

        def downstream() -> int:
            return self.checkpoint_at(group, topic, index, upstream).downstream

        self.assert_nothing_skipped(topic, index, (upstream, downstream()))
        if self.system.is_exact:
            # heliograph alone: no record is repeated, as soon as the pair of offsets is known.
            self.system.until(lambda: not self.repeated(topic, index, upstream, downstream()))
        return downstream()

    def assert_nothing_skipped(self, topic: str, index: int, *offsets: tuple[int, int]) -> None:
        """A consumer that continues downstream reads all that it would have read from upstream on.

        `offsets` are (upstream, downstream).
        """
        end = self.target.end_offsets(self.remote(topic))[index]
        originals, copies = self._read_both(topic, index)
        for upstream, downstream in offsets:
            left = {record.value for record in originals if record.offset >= upstream}
            offered = {record.value for record in copies if record.offset >= downstream}
            told = f"{topic}-{index}: {upstream} became {downstream}"
            assert not left - offered, told
            assert 0 <= downstream <= end, told

    def repeated(self, topic: str, index: int, upstream: int, downstream: int) -> int:
        """Return how many records a consumer reads twice that continues downstream."""
        originals, copies = self._read_both(topic, index)
        left = sum(record.offset >= upstream for record in originals)
        return sum(record.offset >= downstream for record in copies) - left

    def _read_both(self, topic: str, index: int) -> tuple[list[Record], list[Record]]:
        originals = self.source.consume(topic)
        copies = self.target.consume(self.remote(topic))
        return (
            [record for record in originals if record.partition == index],
            [record for record in copies if record.partition == index],
        )


@contextmanager
def clusters_of_its_own(folder: Path) -> Iterator[tuple[LiveCluster, LiveCluster]]:
    a = start_live_cluster("a", folder)
    try:
        b = start_live_cluster("b", folder)
        try:
            yield a, b
        finally:
            b.cluster.wipe()
    finally:
        a.cluster.wipe()


@contextmanager
def running(
    kind: str, folder: Path, pair: tuple[LiveCluster, LiveCluster], properties: Mapping[str, str]
) -> Iterator[System]:
    """Run a system of the kind; the same file for both."""
    program: Program
    program = PeerProgram(folder, properties) if kind == MM2 else Mirror(folder, properties)
    try:
        program.start()
        yield System(kind, program, *pair)
    finally:
        program.stop()
