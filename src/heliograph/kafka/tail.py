"""What is already in remote partitions after a given offset: counts and fingerprints, no records."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from crc32c import crc32c

from heliograph.kafka.cluster import Cluster
from heliograph.kafka.scan import scan
from heliograph.model import TopicPartition
from heliograph.policy.take_over import Digest
from heliograph.wire.record_batch import HEADER_SIZE, BatchHeader, read_header
from heliograph.wire.records import RawRecord
from heliograph.wire.unpack import unpack


class TailBatch(NamedTuple):
    """A data batch: its number of records, and the size and checksum of its payload."""

    records: int
    size: int
    crc: int


@dataclass(slots=True)
class Tail:
    """The data batches of one partition from an offset to its end; `missing` offsets were deleted."""

    end: int
    batches: list[tuple[int, TailBatch]] = field(default_factory=list)
    missing: int = 0


def fingerprint(header: BatchHeader, payload: memoryview) -> TailBatch:
    """Return what a batch that is passed through has in common with its copy."""
    return TailBatch(header.records, len(payload), crc32c(payload))


def body_digest(record: RawRecord) -> int:
    """Return a digest of key, value and headers; timestamps may have been set by the target."""
    return int(crc32c(record.body)) | len(record.body) << 32


def read_tails(
    cluster: Cluster, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, Tail]:
    """Return the tail of each partition from its start to its end, which was looked up after fencing."""
    tails = {partition: Tail(ends[partition]) for partition in starts}

    def gap(partition: TopicPartition, start: int, first: int) -> None:
        tails[partition].missing = first - start

    ranges = {p: (start, ends[p]) for p, start in starts.items()}
    for partition, batch in scan(cluster, ranges, committed_only=False, on_gap=gap):
        header = read_header(batch, 0)
        seen = fingerprint(header, batch[HEADER_SIZE:])
        tails[partition].batches.append((header.base_offset, seen))
    return tails


def read_bodies(
    cluster: Cluster, partition: TopicPartition, start: int, end: int
) -> list[tuple[int, int]]:
    """Return the offset and the digest of every record in a partition from one offset to another."""
    digests: list[tuple[int, int]] = []
    scanned = scan(cluster, {partition: (start, end)}, committed_only=False, on_gap=lambda *_: None)
    for _, batch in scanned:
        digests += [(r.offset, body_digest(r)) for r in unpack(batch) if start <= r.offset < end]
    return digests


def read_digests(
    cluster: Cluster, ranges: Mapping[TopicPartition, tuple[int, int]], *, committed_only: bool
) -> dict[TopicPartition, list[Digest]]:
    """Return the records of each partition from one offset to another, as digests to compare."""
    found: dict[TopicPartition, list[Digest]] = {partition: [] for partition in ranges}
    scanned = scan(cluster, ranges, committed_only=committed_only, on_gap=lambda *_: None)
    for partition, batch in scanned:
        start, end = ranges[partition]
        found[partition] += [
            Digest(r.offset, r.timestamp, body_digest(r))
            for r in unpack(batch)
            if start <= r.offset < end
        ]
    return found
