"""Keys and values of a compacted topic, up to its end as it is now."""

import time
from collections.abc import Iterable, Iterator
from datetime import timedelta

from heliograph.errors import DeadlinePassed
from heliograph.kafka.append import PATIENCE, Row
from heliograph.kafka.cluster import Cluster, patiently
from heliograph.kafka.offsets import EARLIEST, LATEST, list_offsets
from heliograph.kafka.scan import scan
from heliograph.model import TopicPartition
from heliograph.wire.records import decode_body
from heliograph.wire.unpack import unpack


def read_partitions(
    cluster: Cluster, partitions: Iterable[TopicPartition], within: timedelta = timedelta.max
) -> Iterator[Row]:
    """Yield every committed record that has a key, in order; a None deletes its key.

    DeadlinePassed is raised where the end is not reached `within` that time.
    """
    began = time.monotonic()
    wanted = list(partitions)
    patience = min(within, PATIENCE)
    starts = patiently(lambda: list_offsets(cluster, wanted, EARLIEST), patience)
    ends = patiently(lambda: list_offsets(cluster, wanted, LATEST, committed_only=True), patience)
    batches = scan(
        cluster,
        {p: (starts[p], ends[p]) for p in wanted},
        committed_only=True,
        on_gap=lambda *_: None,
        within=within - timedelta(seconds=time.monotonic() - began),
    )
    try:
        for _, batch in batches:
            for record in unpack(batch):
                key, value, _ = decode_body(record.body)
                if key is not None:
                    yield key, value
    except DeadlinePassed as exc:
        raise DeadlinePassed(exc.doing, within.total_seconds()) from exc


def read_range(cluster: Cluster, partition: TopicPartition, start: int, end: int) -> Iterator[Row]:
    """Yield every committed record that has a key from one offset to another, in order."""
    ranges = {partition: (start, end)}
    for _, batch in scan(cluster, ranges, committed_only=True, on_gap=lambda *_: None):
        for record in unpack(batch):
            key, value, _ = decode_body(record.body)
            if key is not None and start <= record.offset:
                yield key, value
