"""A producer and a fetcher over real sockets, turned by hand, and what they have told."""

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from datetime import timedelta

from heliograph.kafka.background import Background, Bell
from heliograph.kafka.brokers import await_any
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.fetch import Fetcher, FetchLimits, Subject
from heliograph.kafka.lane import Lane, Refused, Stored
from heliograph.kafka.plain import plain_batch
from heliograph.kafka.produce import Producer
from heliograph.model import Endpoint, ProducerIdentity, TopicPartition
from heliograph.wire.fetch_response import Section
from heliograph.wire.record_batch import CONTROL, find_batches, read_header
from heliograph.wire.records import decode_body
from heliograph.wire.unpack import unpack
from lab.clusters import eventually
from lab.inprocess.cluster import InProcessCluster

TURN = 0.05  # seconds that a turn may wait
FAST = timedelta(milliseconds=20)
_TURNS = 20  # between two looks at the clock


def turn_until(turn: Callable[[], None], condition: Callable[[], object]) -> None:
    """Turn a loop until something is so."""

    def turned() -> bool:
        for _ in range(_TURNS):
            if condition():
                return True
            turn()
        return False

    eventually(turned)


def stored_values(cluster: InProcessCluster, partition: TopicPartition) -> list[bytes]:
    """Return the values in a partition, markers left out."""
    values = []
    for data in cluster.batches_of(partition):
        batch = memoryview(data)
        if not read_header(batch, 0).attributes & CONTROL:
            values += [decode_body(record.body)[1] or b"" for record in unpack(batch)]
    return values


class Sending:
    """A producer on some partitions, in a loop that does not wait for connections and leaders."""

    def __init__(
        self, endpoint: Endpoint, partitions: Sequence[TopicPartition], stack: ExitStack
    ) -> None:
        self.bell = stack.enter_context(closing(Bell()))
        brokers = stack.enter_context(closing(Background(endpoint, self.bell)))
        self.stored: list[Stored] = []
        self.refused: list[Refused] = []
        self.identity = ProducerIdentity(7, 0)
        self.sequences = [0] * len(partitions)
        self.producer = Producer(
            brokers,
            "A->B",
            [Lane(slot, partition) for slot, partition in enumerate(partitions)],
            on_stored=self.stored.append,
            on_refused=self.refused.append,
        )
        stack.enter_context(closing(self.producer))

    def offer(self, *values: bytes, slot: int = 0) -> None:
        """Offer a batch for each value."""
        for value in values:
            made = plain_batch(
                [(b"k", value)], 1000, identity=self.identity, sequence=self.sequences[slot]
            )
            self.sequences[slot] += 1
            self.producer.offer(slot, made)

    def turn(self) -> None:
        self.producer.send()
        interest = {self.bell.fileno(): 1, **self.producer.interest()}
        ready = await_any(interest, TURN)
        if self.bell.fileno() in ready:
            self.bell.silence()
            self.producer.retry_now()
        self.producer.collect(ready)

    def until(self, condition: Callable[[], object]) -> None:
        turn_until(self.turn, condition)

    def drain(self) -> None:
        """Turn until everything is stored."""
        self.until(lambda: self.producer.idle)


class Fetching:
    """A fetcher of some partitions, and the values that it has brought, by slot."""

    def __init__(
        self,
        endpoint: Endpoint,
        partitions: Sequence[TopicPartition],
        stack: ExitStack,
        limits: FetchLimits | None = None,
    ) -> None:
        self.cluster = stack.enter_context(closing(Cluster(endpoint)))
        self.fetcher = stack.enter_context(
            closing(Fetcher(self.cluster, limits or FetchLimits(wait=FAST)))
        )
        topics = self.cluster.describe({p.topic for p in partitions})
        self.subjects = [
            Subject(slot, partition, topics[partition.topic].topic_id, 0)
            for slot, partition in enumerate(partitions)
        ]
        self.fetcher.add(self.subjects)
        self.values: dict[int, list[bytes]] = {s.slot: [] for s in self.subjects}
        self.failed: deque[Section] = deque()
        self.why: dict[int, str] = {}

    def turn(self) -> None:
        """Do what a loop does: find leaders, ask, and take what came."""
        if self.fetcher.homeless:
            self.why = self.fetcher.place() or {}
        self.fetcher.ask()
        for session in self.fetcher.ready(TURN):
            response = self.fetcher.take(session)
            for section in response.sections if response is not None else ():
                if section.error or section.parted >= 0:
                    self.failed.append(section)
                elif response is not None:
                    self._read(response.buffer, section)

    def _read(self, buffer: memoryview, section: Section) -> None:
        for start, size in find_batches(buffer, section.start, section.end):
            batch = buffer[start : start + size]
            header = read_header(batch, 0)
            position = self.subjects[section.slot].position
            for record in unpack(batch):
                if record.offset >= position:
                    _, value, _ = decode_body(record.body)
                    self.values[section.slot].append(bytes(value or b""))
            self.fetcher.moved(section.slot, header.next_offset, header.leader_epoch)

    def until(self, condition: Callable[[], object]) -> None:
        turn_until(self.turn, condition)

    def until_read(self, *values: bytes, slot: int = 0) -> None:
        """Turn until exactly these values were read, in this order."""
        self.until(lambda: len(self.values[slot]) >= len(values))
        assert self.values[slot] == list(values)
