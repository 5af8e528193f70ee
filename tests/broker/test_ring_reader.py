"""A reader on a real broker, and a writer that keeps what it was lent."""

import socket
from collections.abc import Generator, Iterator
from contextlib import closing
from itertools import islice
from typing import Any, cast

import pyarrow as pa
import pytest
from heliograph.dataplane.reader import SliceReader
from heliograph.dataplane.ring import BUFFERS, Borrower
from heliograph.dataplane.warm import warm_cluster

from heliograph.copying.lease import Lease
from heliograph.copying.sections import Row, open_row
from heliograph.kafka.cluster import Cluster
from heliograph.model import Position, ProducerIdentity, TopicPartition
from heliograph.wire.lease_messages import Assignment, Limits, Share
from heliograph.wire.record_batch import find_batches, read_header
from tests.clusters import LiveCluster
from tests.counting import endpoint

RECORDS, BATCHES = 2000, 20


class Driver:
    """The other end of a lease, which says nothing."""

    def poll(self) -> list[dict[str, Any]]:
        return []

    def send(self, message: dict[str, Any]) -> None:
        assert "stopped" not in message, message

    def __init__(self) -> None:
        self._line, self._ours = socket.socketpair()

    def fileno(self) -> int:
        return self._line.fileno()

    def close(self) -> None:
        self._line.close()
        self._ours.close()


@pytest.fixture
def rows(source: LiveCluster) -> Iterator[Iterator[pa.RecordBatch]]:
    topic = source.create_topic()
    for _ in range(BATCHES):
        source.produce(topic, [b"x" * 1000] * (RECORDS // BATCHES))
    with closing(Cluster(endpoint(source))) as cluster:
        topic_id = str(cluster.describe([topic])[topic].topic_id)
    share = Share(
        slot=0,
        source=TopicPartition(topic, 0),
        topic_id=topic_id,
        remote=TopicPartition(topic, 0),
        position=Position(0, 0),
        identity=ProducerIdentity(1, 0),
        sequence=0,
        resume=False,
        max_message_bytes=1 << 20,
    )
    limits = Limits(
        epoch_seconds=4,
        chunk_bytes=64 << 10,
        partition_bytes=64 << 10,
        in_flight_requests=5,
        merge_bytes=1 << 18,
        read_committed=True,
    )
    assignment = Assignment("A->B", endpoint(source), limits, (share,))
    with closing(Driver()) as driver:
        reader = SliceReader(cast("Lease", driver), assignment)
        with closing(cast("Generator[pa.RecordBatch]", reader.rows())) as its_rows:
            yield its_rows
    warm_cluster(endpoint(source)).close()


def opened(batches: Iterator[pa.RecordBatch], borrower: Borrower) -> Iterator[Row]:
    """Yield all rows; none is kept here."""
    for batch in batches:
        for number in range(batch.num_rows):
            yield open_row(batch, number, borrower)


def test_a_full_ring_ticks_until_something_comes_back_and_then_goes_on(
    rows: Iterator[pa.RecordBatch],
) -> None:
    held: list[memoryview] = []
    ticks = 0
    its_rows = opened(rows, Borrower())
    for row in its_rows:
        if row.chunk is None:
            ticks += 1
            if len(held) == BUFFERS and ticks > 6:
                break
        else:
            held.append(row.chunk)
            ticks = 0
    assert len(held) == BUFFERS

    del row
    held.clear()
    seen = 0
    for row in its_rows:
        for section in row.sections:
            assert row.chunk is not None
            found = find_batches(row.chunk, section.start, section.end)
            seen = sum((read_header(row.chunk, start).records for start, _ in found), seen)
            if section.upstream == RECORDS:
                return
    pytest.fail(f"the epoch ended after {seen} more records")


def test_an_epoch_does_not_end_before_everything_came_back(rows: Iterator[pa.RecordBatch]) -> None:
    its_rows = opened(rows, Borrower())
    held = [row.chunk for row in islice(its_rows, 1)]
    after = 0
    for row in its_rows:
        after = after + 1 if row.chunk is None else 0
        if after > 40:  # only ticks for so long: the epoch is over but for what is held
            held.clear()
    assert not held
