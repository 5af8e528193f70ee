"""The limit: the same bytes fetched and produced by our own client in one process, nothing between.

    python -m bench.pump SOURCE TARGET TOPIC REMOTE

Batches are passed under new headers, as the data plane passes them. One process, one thread; no positions are
kept and nothing is handed over, so this is what is left when all else costs nothing.
"""

import sys
from contextlib import closing
from datetime import timedelta

from heliograph.kafka.cluster import Cluster
from heliograph.kafka.fencing import fence
from heliograph.kafka.fetch import Fetcher, FetchLimits, Response, Subject
from heliograph.kafka.lane import Lane, Outgoing, Refused, Stored
from heliograph.kafka.produce import Producer
from heliograph.model import Endpoint, ProducerIdentity, TopicPartition
from heliograph.wire.record_batch import (
    HEADER_SIZE,
    BatchHeader,
    find_batches,
    next_sequence,
    read_header,
    restamp,
)

_LIMITS = FetchLimits(wait=timedelta(milliseconds=100))


class Stamper:
    """Gives batches of one writer the next sequence of their partition."""

    def __init__(self, identity: ProducerIdentity, partitions: int) -> None:
        self._identity = identity
        self._sequences = [0] * partitions

    def stamp(self, slot: int, header: BatchHeader, payload: memoryview) -> Outgoing:
        sequence = self._sequences[slot]
        self._sequences[slot] = next_sequence(sequence, header.records)
        return Outgoing(
            restamp(header, payload, self._identity, sequence),
            payload,
            header.records,
            header.next_offset,
            header.max_timestamp,
        )


def open_cluster(name: str, bootstrap: str) -> Cluster:
    host, _, port = bootstrap.split(",", maxsplit=1)[0].rpartition(":")
    return Cluster(Endpoint(name, ((host, int(port)),), client_id="pump"))


def open_fetcher(cluster: Cluster, topic: str) -> Fetcher:
    """Return a fetcher of a whole topic, from its beginning."""
    described = cluster.describe([topic])[topic]
    fetcher = Fetcher(cluster, _LIMITS)
    fetcher.add(
        Subject(partition.index, partition, described.topic_id, 0)
        for partition in described.partitions
    )
    if why := fetcher.place():
        raise RuntimeError(why)
    return fetcher


def open_producer(cluster: Cluster, topic: str) -> tuple[Producer, Stamper]:
    partitions = len(cluster.describe([topic])[topic].leaders)
    lanes = [Lane(index, TopicPartition(topic, index)) for index in range(partitions)]
    producer = Producer(cluster, "pump", lanes, on_stored=_ignore, on_refused=_fail)
    return producer, Stamper(fence(cluster, f"pump-{topic}", ()), partitions)


def offer(response: Response, producer: Producer, stamper: Stamper) -> dict[int, int]:
    """Queue all batches of a response; return each partition's next offset."""
    positions: dict[int, int] = {}
    for section in response.sections:
        if section.error:
            raise RuntimeError(f"partition {section.slot}: error {section.error}")
        for extent in find_batches(response.buffer, section.start, section.end):
            header = read_header(response.buffer, extent.start)
            payload = response.buffer[extent.start + HEADER_SIZE : extent.start + extent.size]
            producer.offer(section.slot, stamper.stamp(section.slot, header, payload))
            positions[section.slot] = header.next_offset
    return positions


def pump(source: str, target: str, topic: str, remote: str) -> None:
    """Copy a topic until killed."""
    with (
        closing(open_cluster("source", source)) as upstream,
        closing(open_cluster("target", target)) as downstream,
    ):
        fetcher = open_fetcher(upstream, topic)
        producer, stamper = open_producer(downstream, remote)
        while True:
            fetcher.ask()
            for session in fetcher.ready(1.0):
                # The response's buffer is the fetcher's own: its batches must be stored before the next.
                response = fetcher.take(session)
                if response is None:
                    raise RuntimeError("the source's session was lost")
                for slot, position in offer(response, producer, stamper).items():
                    fetcher.moved(slot, position)
                fetcher.ask()
                while not producer.idle:
                    producer.pump(1.0)


def _ignore(_: Stored) -> None:
    pass


def _fail(refused: Refused) -> None:
    raise RuntimeError(refused.reason)


if __name__ == "__main__":
    pump(*sys.argv[1:5])
