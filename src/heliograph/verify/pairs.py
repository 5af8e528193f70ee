"""What one task of a verify does: read both sides of partition pairs and compare them.

The values here are pickled into tasks. They hold endpoints, so they travel inside the job's function
and never as options, which Spark shows.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from heliograph.errors import ClusterUnreachable, CorruptRecord, KafkaFault, MirrorError
from heliograph.kafka.cluster import Cluster, patiently
from heliograph.kafka.offsets import EARLIEST, LATEST, list_offsets
from heliograph.kafka.scan import scan
from heliograph.model import Endpoint, TopicPartition
from heliograph.verify.comparison import compare
from heliograph.verify.items import item_of
from heliograph.verify.streams import Chunk, Findings, Terms
from heliograph.wire.record_batch import APPEND_TIME, HEADER_SIZE, MAGIC_AT, read_header
from heliograph.wire.records import RawRecord
from heliograph.wire.unpack import unpack

_REPORT_EVERY = 0.25
_ATTEMPTS = 3


class Overtaken(MirrorError):
    """Records were deleted while they were being read."""


@dataclass(frozen=True, slots=True)
class Range:
    """The records of one partition that are judged: [start, end)."""

    partition: TopicPartition
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class PartitionPair:
    """A source partition, its copy, and what is known of both."""

    source: Range
    target: Range
    terms: Terms

    @property
    def span(self) -> int:
        """Return about how many records there are to read."""
        return self.source.end - self.source.start + self.target.end - self.target.start


@dataclass(frozen=True, slots=True)
class Ends:
    """Both clusters, and whether the source is read without open and aborted transactions."""

    source: Endpoint
    target: Endpoint
    committed_only: bool


def compare_pairs(
    ends: Ends, pairs: tuple[PartitionPair, ...], on_progress: Callable[[int], None]
) -> Iterator[tuple[PartitionPair, Findings]]:
    """Yield the findings of each pair; for one that cannot be read, the result is unknown."""
    clusters = _Clusters(ends)
    try:
        for pair in pairs:
            yield pair, _compare_patiently(clusters, pair, on_progress)
    finally:
        clusters.close()


class _Clusters:
    """A cluster object serves one scan at a time: a few may be open on either side."""

    def __init__(self, ends: Ends) -> None:
        self.ends = ends
        self._idle: dict[Endpoint, list[Cluster]] = {ends.source: [], ends.target: []}

    def lend(self, endpoint: Endpoint) -> Cluster:
        idle = self._idle[endpoint]
        return idle.pop() if idle else Cluster(endpoint)

    def give_back(self, endpoint: Endpoint, cluster: Cluster) -> None:
        self._idle[endpoint].append(cluster)

    def close(self) -> None:
        for idle in self._idle.values():
            for cluster in idle:
                cluster.close()


def _compare_patiently(
    clusters: _Clusters, pair: PartitionPair, on_progress: Callable[[int], None]
) -> Findings:
    """Compare a pair, once more if retention deleted its head meanwhile."""
    attempts = _ATTEMPTS
    while True:
        attempts -= 1
        try:
            return _compare_pair(clusters, pair, on_progress)
        except Overtaken as exc:
            if not attempts:
                return _unknown(pair, str(exc))
        except (KafkaFault, ClusterUnreachable, CorruptRecord) as exc:
            return _unknown(pair, str(exc))
        pair = _without_head(clusters, pair)


def _unknown(pair: PartitionPair, reason: str) -> Findings:
    return Findings(None, 0, pair.source.start, pair.target.start, reason=reason)


def _without_head(clusters: _Clusters, pair: PartitionPair) -> PartitionPair:
    source = _start_now(clusters, clusters.ends.source, pair.source)
    target = _start_now(clusters, clusters.ends.target, pair.target)
    terms = replace(pair.terms, source_start=source.start, target_start=target.start)
    return PartitionPair(source, target, terms)


def _start_now(clusters: _Clusters, endpoint: Endpoint, judged: Range) -> Range:
    cluster = clusters.lend(endpoint)
    where = judged.partition
    start = patiently(lambda: list_offsets(cluster, [where], EARLIEST))[where]
    clusters.give_back(endpoint, cluster)
    return replace(judged, start=start)


def _compare_pair(
    clusters: _Clusters, pair: PartitionPair, on_progress: Callable[[int], None]
) -> Findings:
    ends, terms = clusters.ends, pair.terms
    stamped = terms.timestamps
    source = _Side(
        clusters,
        ends.source,
        pair.source,
        committed_only=ends.committed_only,
        timestamps=stamped,
    )
    # An exactly-once mirror writes in transactions: what it aborted is not on the target.
    target = _Side(clusters, ends.target, pair.target, committed_only=True, timestamps=stamped)
    return compare(
        source.chunks,
        target.chunks,
        terms,
        later_source=source.later_keys,
        later_target=target.later_keys,
        on_progress=_sparing(on_progress),
    )


def _sparing(report: Callable[[int], None]) -> Callable[[int], None]:
    """Return a counter that calls `report` a few times a second at most."""
    held = 0
    due = time.monotonic() + _REPORT_EVERY

    def count(records: int) -> None:
        nonlocal held, due
        held += records
        if (now := time.monotonic()) >= due:
            report(held)
            held, due = 0, now + _REPORT_EVERY

    return count


class _Side:
    """One side of a pair as a stream of chunks, which may be opened more than once."""

    def __init__(
        self,
        clusters: _Clusters,
        endpoint: Endpoint,
        judged: Range,
        *,
        committed_only: bool,
        timestamps: bool,
    ) -> None:
        self._clusters = clusters
        self._endpoint = endpoint
        self._range = judged
        self._committed_only = committed_only
        self._timestamps = timestamps

    def chunks(self) -> Iterator[Chunk]:
        return self._chunks(self._range)

    def later_keys(self, keys: set[bytes]) -> set[bytes]:
        """Return which of `keys` come after the judged range."""
        where = self._range.partition
        cluster = self._clusters.lend(self._endpoint)
        end = patiently(
            lambda: list_offsets(cluster, [where], LATEST, committed_only=self._committed_only)
        )[where]
        self._clusters.give_back(self._endpoint, cluster)
        found: set[bytes] = set()
        for chunk in self._chunks(Range(where, self._range.end, end)):
            for record in chunk.unpack():
                key = item_of(record).key
                if key is not None and key in keys:
                    found.add(key)
        return found

    def _chunks(self, judged: Range) -> Iterator[Chunk]:
        cluster = self._clusters.lend(self._endpoint)
        try:
            ranges = {judged.partition: (judged.start, judged.end)}
            for _, batch in scan(
                cluster, ranges, committed_only=self._committed_only, on_gap=_overtaken
            ):
                yield _chunk(bytes(batch), judged, self._timestamps)
        finally:
            self._clusters.give_back(self._endpoint, cluster)


def _overtaken(partition: TopicPartition, start: int, first: int) -> None:
    raise Overtaken(
        f"{partition}: records {start} to {first - 1} were deleted while they were being read. "
        "Run verify again."
    )


def _chunk(batch: bytes, judged: Range, timestamps: bool) -> Chunk:
    """Return a batch as a chunk; only one that is whole, and plain, gets a seal."""
    view = memoryview(batch)
    if view[MAGIC_AT] >= 2:
        header = read_header(view, 0)
        last = header.next_offset - 1
        whole = header.base_offset >= judged.start and last < judged.end
        if whole and not header.has_holes:
            payload = batch[HEADER_SIZE:]
            seal = (header.codec, payload, header.base_timestamp if timestamps else None)
            plain = not (timestamps and header.attributes & APPEND_TIME)
            return Chunk(
                header.records,
                header.base_offset,
                last,
                seal if plain else None,
                lambda: unpack(view),
            )
    records = [r for r in unpack(view) if judged.start <= r.offset < judged.end]
    return _ready(records)


def _ready(records: list[RawRecord]) -> Chunk:
    first, last = (records[0].offset, records[-1].offset) if records else (0, 0)
    return Chunk(len(records), first, last, None, lambda: records)
