"""Keys and values of a compacted topic, up to its current end."""

import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from typing import NamedTuple

from heliograph.errors import DeadlinePassed
from heliograph.kafka.cluster import Cluster, patiently
from heliograph.kafka.offsets import EARLIEST, LATEST, list_offsets
from heliograph.kafka.scan import scan
from heliograph.model import TopicPartition
from heliograph.tables.append import PATIENCE, Row
from heliograph.wire.records import decode_body
from heliograph.wire.unpack import unpack

LONGEST = timedelta(minutes=10)


class StampedRow(NamedTuple):
    """A row, and when it was written."""

    key: bytes
    value: bytes | None
    timestamp_ms: int


def read_partitions(
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    within: timedelta = LONGEST,
    *,
    past_open: bool = False,
) -> Iterator[Row]:
    """Yield every committed record that has a key, in order; a None deletes its key.

    What was committed after a transaction that is still open is not seen, unless `past_open` waits for the end of
    that transaction. DeadlinePassed is raised if the end is not reached `within` that time.
    """
    for row in read_stamped(cluster, partitions, within, past_open=past_open):
        yield row.key, row.value


def read_stamped(
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    within: timedelta = LONGEST,
    *,
    past_open: bool = False,
) -> Iterator[StampedRow]:
    """Yield what `read_partitions` does, with the timestamp of each row."""
    began = time.monotonic()
    wanted = list(partitions)
    patience = min(within, PATIENCE)
    starts = patiently(lambda: list_offsets(cluster, wanted, EARLIEST), patience)
    ends = patiently(
        lambda: list_offsets(cluster, wanted, LATEST, committed_only=not past_open), patience
    )
    left = within - timedelta(seconds=time.monotonic() - began)
    try:
        yield from _read(cluster, {p: (starts[p], ends[p]) for p in wanted}, left)
    except DeadlinePassed as exc:
        raise DeadlinePassed(exc.doing, within.total_seconds()) from exc


def read_range(cluster: Cluster, partition: TopicPartition, start: int, end: int) -> Iterator[Row]:
    """Yield every committed record that has a key from one offset to another, in order."""
    for row in _read(cluster, {partition: (start, end)}, LONGEST):
        yield row.key, row.value


def read_last(cluster: Cluster, partition: TopicPartition, most: int) -> Iterator[StampedRow]:
    """Yield the rows among the last `most` offsets of a partition, in order."""
    first = patiently(lambda: list_offsets(cluster, [partition], EARLIEST))[partition]
    end = patiently(lambda: list_offsets(cluster, [partition], LATEST))[partition]
    yield from _read(cluster, {partition: (max(first, end - most), end)}, LONGEST)


def _read(
    cluster: Cluster, ranges: Mapping[TopicPartition, tuple[int, int]], within: timedelta
) -> Iterator[StampedRow]:
    batches = scan(cluster, ranges, committed_only=True, on_gap=lambda *_: None, within=within)
    for partition, batch in batches:
        for record in unpack(batch):
            key, value, _ = decode_body(record.body)
            if key is not None and record.offset >= ranges[partition][0]:
                yield StampedRow(key, value, record.timestamp)
