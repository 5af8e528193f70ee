"""Copying a few records from one partition to another without Spark: what a fail-back replays or sets aside."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from heliograph.admin.configs import topic_configs
from heliograph.errors import KafkaFault
from heliograph.kafka.cluster import Cluster, patiently
from heliograph.kafka.fencing import fence
from heliograph.kafka.lane import Lane, Refused
from heliograph.kafka.offsets import LATEST, list_offsets
from heliograph.kafka.plain import raw_batch
from heliograph.kafka.produce import Producer
from heliograph.kafka.scan import scan
from heliograph.kafka.tail import body_digest
from heliograph.model import ProducerIdentity, TopicPartition
from heliograph.wire.record_batch import next_sequence
from heliograph.wire.records import RawRecord
from heliograph.wire.unpack import unpack

_BATCH_BYTES = 256 << 10
_WAIT = 0.5
_STAMPS = "message.timestamp.type"


def read_records(
    cluster: Cluster,
    partition: TopicPartition,
    start: int,
    end: int,
    *,
    committed_only: bool = False,
) -> Iterator[RawRecord]:
    """Yield the records of a partition from one offset to another."""
    ranges = {partition: (start, end)}
    scanned = scan(cluster, ranges, committed_only=committed_only, on_gap=lambda *_: None)
    for _, batch in scanned:
        for record in unpack(batch):
            if start <= record.offset < end:
                yield record


def count_present(
    copies: Iterable[RawRecord], originals: Iterator[RawRecord], *, stamped: bool
) -> int:
    """Return how many originals, from the first on, are among the copies, in order.

    Timestamps are compared too, unless the copies are `stamped` by their topic.
    """
    present = 0
    wanted = next(originals, None)
    for copy in copies:
        if wanted is None:
            break
        same_time = stamped or copy.timestamp == wanted.timestamp
        if same_time and body_digest(copy) == body_digest(wanted):
            present += 1
            wanted = next(originals, None)
    return present


def complete_copies(
    target: Cluster,
    partition: TopicPartition,
    start: int,
    originals: Callable[[], Iterator[RawRecord]],
    writer: str,
) -> int:
    """Append those originals that are not in `partition` yet from `start` on; return how many.

    `writer` is a transactional id: an earlier process with that id is fenced first.
    """
    identity = fence(target, writer, [partition])
    end = patiently(lambda: list_offsets(target, [partition], LATEST))[partition]
    told = topic_configs(target, [partition.topic], [_STAMPS]).get(partition.topic, {})
    stamped = told.get(_STAMPS) == "LogAppendTime"
    copies = read_records(target, partition, start, end)
    present = count_present(copies, originals(), stamped=stamped)
    return _append(target, partition, islice(originals(), present, None), writer, identity)


def _append(
    target: Cluster,
    partition: TopicPartition,
    records: Iterator[RawRecord],
    writer: str,
    identity: ProducerIdentity,
) -> int:
    refused: list[Refused] = []
    lane = Lane(0, partition)
    producer = Producer(target, writer, [lane], on_stored=lambda _: None, on_refused=refused.append)
    copied = sequence = 0
    try:
        for some in _chunks(records):
            producer.offer(0, raw_batch(some, identity, sequence))
            sequence = next_sequence(sequence, len(some))
            while not producer.idle and not refused:
                producer.pump(_WAIT)
            if refused:
                raise KafkaFault(f"write to {partition}", refused[0].reason, retriable=False)
            copied += len(some)
    finally:
        producer.close()
    return copied


def _chunks(records: Iterator[RawRecord]) -> Iterator[list[RawRecord]]:
    some: list[RawRecord] = []
    size = 0
    for record in records:
        if some and size + len(record.body) > _BATCH_BYTES:
            yield some
            some, size = [], 0
        some.append(record)
        size += len(record.body)
    if some:
        yield some
