"""What never left the old primary: the records of the source after the last one that was copied."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from heliograph.failover.copied import Settled
from heliograph.failover.copy import read_records
from heliograph.kafka.cluster import Cluster
from heliograph.model import TopicPartition
from heliograph.wire.records import RawRecord, decode_body

_SHOWN_BYTES = 60


@dataclass(frozen=True, slots=True)
class Tail:
    """The records of one partition that are only on the source."""

    settled: Settled
    records: int
    bytes: int
    first_ms: int
    last_ms: int

    @property
    def partition(self) -> TopicPartition:
        return self.settled.partition


def find_tails(
    source: Cluster,
    settled: Mapping[TopicPartition, Settled],
    *,
    committed_only: bool,
    on_record: Callable[[TopicPartition, RawRecord], None] = lambda *_: None,
) -> list[Tail]:
    """Return the records of each partition that were not copied; partitions without any are left out."""
    tails = []
    for partition, its in sorted(settled.items()):
        records = size = first_ms = last_ms = 0
        for record in read_tail(source, its, committed_only=committed_only):
            on_record(partition, record)
            first_ms = min(first_ms, record.timestamp) if records else record.timestamp
            last_ms = max(last_ms, record.timestamp)
            records += 1
            size += len(record.body)
        if records:
            tails.append(Tail(its, records, size, first_ms, last_ms))
    return tails


def read_tail(source: Cluster, settled: Settled, *, committed_only: bool) -> Iterator[RawRecord]:
    """Yield the records of a partition that were not copied."""
    yield from read_records(
        source,
        settled.partition,
        settled.position.upstream,
        settled.end,
        committed_only=committed_only,
    )


def tail_line(partition: TopicPartition, record: RawRecord) -> str:
    """Return a record of a tail as a line of JSON; bytes that are not text are escaped."""
    key, value, headers = decode_body(record.body)
    return json.dumps(
        {
            "topic": partition.topic,
            "partition": partition.index,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "key": _text(key),
            "value": _text(value),
            "headers": [[_text(name), _text(content)] for name, content in headers],
        }
    )


def _text(data: bytes | None) -> str | None:
    if data is None:
        return None
    shown = data[:_SHOWN_BYTES].decode(errors="backslashreplace")
    return shown if len(data) <= _SHOWN_BYTES else f"{shown}... ({len(data)} bytes)"
