"""Batches that Heliograph itself builds: rows of its tables, rows of a demonstration."""

import time
from collections.abc import Iterable, Sequence

from heliograph.kafka.lane import Outgoing
from heliograph.model import ProducerIdentity
from heliograph.wire.record_batch import build_header
from heliograph.wire.records import RawRecord, RecordsBuilder, encode_body, join_records

_ANONYMOUS = ProducerIdentity(-1, -1)


def plain_batch(
    rows: Iterable[tuple[bytes, bytes | None]],
    timestamp_ms: int | None = None,
    identity: ProducerIdentity = _ANONYMOUS,
    sequence: int = -1,
) -> Outgoing:
    """Return an uncompressed batch of keys and values; by default without a producer id and with the current time."""
    now = time.time_ns() // 1_000_000 if timestamp_ms is None else timestamp_ms
    builder = RecordsBuilder()
    for key, value in rows:
        builder.add(now, 0, encode_body(key, value))
    payload = builder.finish()
    header = build_header(
        payload,
        attributes=0,
        count=builder.count,
        base_timestamp=now,
        max_timestamp=now,
        identity=identity,
        sequence=sequence,
    )
    return Outgoing(header, payload, builder.count, 0, now)


def raw_batch(records: Sequence[RawRecord], identity: ProducerIdentity, sequence: int) -> Outgoing:
    """Return an uncompressed batch of records as they are, headers and timestamps included."""
    payload, base_timestamp, max_timestamp = join_records(records)
    header = build_header(
        payload,
        attributes=0,
        count=len(records),
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        identity=identity,
        sequence=sequence,
    )
    return Outgoing(header, payload, len(records), records[-1].offset + 1, max_timestamp)
