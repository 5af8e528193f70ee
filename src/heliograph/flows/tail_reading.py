"""Comparison of remote tails with their sources, many partitions and one window of each at a time."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from heliograph.flows.source import Route
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.tail import read_digests
from heliograph.model import Position, TopicPartition
from heliograph.policy.take_over import Digest, TailMatch

_WINDOW = 20_000  # records of one partition held at a time, on either side
_LOT = 200_000  # and of all partitions: some 40 MB


@dataclass(slots=True)
class TailReading:
    """A correct pair of offsets, the ends of both sides, and how far they are read."""

    route: Route
    anchor: Position
    ends: Position
    match: TailMatch = field(init=False)
    read_to: Position = field(init=False)

    def __post_init__(self) -> None:
        self.match = TailMatch(self.anchor)
        self.read_to = self.anchor

    @property
    def size(self) -> int:
        """How many of its records are held at a time."""
        return min(self.ends.downstream - self.anchor.downstream, _WINDOW)

    def take_source(self, records: Iterable[Digest]) -> None:
        self.match.add_source(records)
        if self.read_to.upstream >= self.ends.upstream:
            self.match.end_source()

    def next_copies(self) -> tuple[TopicPartition, tuple[int, int]] | None:
        """Return what to read next from the remote partition, if anything is missing and available."""
        begin, end = self.read_to.downstream, self.ends.downstream
        if not self.match.lacks_copies or begin >= end:
            return None
        upto = min(begin + _WINDOW, end)
        self.read_to = Position(self.read_to.upstream, upto)
        return self.route.remote, (begin, upto)

    def next_source(self) -> tuple[TopicPartition, tuple[int, int]] | None:
        """Return what to read next from the source, if copies wait for it and it is available."""
        begin, end = self.read_to.upstream, self.ends.upstream
        if self.match.lacks_copies or not self.match.lacks_source or begin >= end:
            return None
        upto = min(begin + _WINDOW, end)
        self.read_to = Position(upto, self.read_to.downstream)
        return self.route.source, (begin, upto)


def compare_tails(
    readings: Sequence[TailReading], source: Cluster, target: Cluster, *, committed_only: bool
) -> None:
    """Read each tail to its end, or to the first record that does not fit.

    With `committed_only` the source is read as a read_committed consumer reads it; the target always is.
    """
    for lot in _lots(readings):
        while True:
            copies = dict(filter(None, (r.next_copies() for r in lot)))
            found = read_digests(target, copies, committed_only=True)
            for reading in lot:
                reading.match.add_copies(found.get(reading.route.remote, ()))
            originals = dict(filter(None, (r.next_source() for r in lot)))
            if not copies and not originals:
                break
            read = read_digests(source, originals, committed_only=committed_only)
            for reading in lot:
                reading.take_source(read.get(reading.route.source, ()))
        for reading in lot:
            reading.match.end()


def _lots(readings: Iterable[TailReading]) -> Iterator[list[TailReading]]:
    lot: list[TailReading] = []
    held = 0
    for reading in readings:
        if lot and held + reading.size > _LOT:
            yield lot
            lot, held = [], 0
        lot.append(reading)
        held += reading.size
    if lot:
        yield lot
