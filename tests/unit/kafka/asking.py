"""Single requests to a broker, as bytes on a socket, and what it answers: no client state, no retries."""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack, closing
from typing import Any, NamedTuple
from uuid import UUID

from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest
from kafka.protocol.producer import InitProducerIdRequest, ProduceRequest

from heliograph.kafka.cluster import Cluster, patiently
from heliograph.kafka.plain import plain_batch
from heliograph.model import Endpoint, ProducerIdentity, TopicPartition
from heliograph.net.faults import fault_for
from heliograph.net.transport import Channel

NOBODY = ProducerIdentity(-1, -1)
WAIT_MS = 100
_PRODUCE, _FETCH_BY_ID, _FETCH_BY_NAME = 8, 13, 12


class Told(NamedTuple):
    """What a fetch says of one partition."""

    partition: int
    error: int
    end: int
    stable: int
    records: bytes
    aborted: tuple[tuple[int, int], ...]
    parted: tuple[int, int] | None


class Fetched(NamedTuple):
    error: int
    session: int
    told: list[Told]


def a_batch(
    *values: bytes, identity: ProducerIdentity = NOBODY, sequence: int = -1, at: int = 1_000
) -> bytes:
    """Return a whole batch of records without keys."""
    made = plain_batch(((b"key", value) for value in values), at, identity, sequence)
    return made.header + bytes(made.payload)


class Asker:
    """Sends requests to the brokers of a cluster, each over a connection that is kept."""

    def __init__(self, endpoint: Endpoint, stack: ExitStack) -> None:
        self.cluster = stack.enter_context(closing(Cluster(endpoint)))
        self._endpoint = endpoint
        self._stack = stack
        self._channels: dict[int, Channel] = {}

    def channel(self, node: int) -> Channel:
        """Return the connection to a broker."""
        if node not in self._channels:
            self.cluster.nodes()
            opened = Channel(self._endpoint, *self.cluster.addresses()[node])
            self._channels[node] = self._stack.enter_context(closing(opened))
        return self._channels[node]

    def forget(self, node: int) -> None:
        """Connect again at the next request: the connection has ended."""
        self._channels.pop(node, None)

    def topic_id(self, name: str) -> UUID:
        return self.cluster.describe([name])[name].topic_id

    def leader(self, partition: TopicPartition) -> int:
        return self.cluster.describe([partition.topic])[partition.topic].leaders[partition.index]

    def other(self, partition: TopicPartition) -> int:
        """Return a broker that does not lead a partition."""
        leader = self.leader(partition)
        return next(node for node in self.cluster.nodes() if node != leader)

    def new_producer(self) -> ProducerIdentity:
        """Return an identity without a transactional id."""

        def attempt() -> ProducerIdentity:
            request = InitProducerIdRequest(
                transactional_id=None, transaction_timeout_ms=60_000, producer_id=-1
            )
            request.producer_epoch = -1
            answer = self.cluster.call(request, newest=4)
            if answer.error_code:
                raise fault_for("get a producer id", answer.error_code)
            return ProducerIdentity(answer.producer_id, answer.producer_epoch)

        return patiently(attempt)

    def produce(
        self,
        partition: TopicPartition,
        batch: bytes,
        *,
        node: int | None = None,
        owner: str | None = None,
    ) -> tuple[int, int]:
        """Return the error and the base offset of the answer; `owner` is the transactional id that is named."""
        topic = ProduceRequest.TopicProduceData
        entry = topic.PartitionProduceData(index=partition.index, records=batch)
        request = ProduceRequest(
            transactional_id=owner,
            acks=-1,
            timeout_ms=10_000,
            topic_data=[topic(name=partition.topic, partition_data=[entry])],
        )
        asked = self.leader(partition) if node is None else node
        answer = self.channel(asked).call(request, newest=_PRODUCE)
        ((told,),) = [topic.partition_responses for topic in answer.responses]
        return told.error_code, told.base_offset

    def fetch(self, node: int, wanted: Iterable["Want"], **how: Any) -> Fetched:
        """Return what a fetch answers; without a session, unless `epoch` says otherwise."""
        return read_fetched(self.channel(node).call(*fetch_request(wanted, **how)))

    def fetch_one(self, partition: TopicPartition, offset: int, **how: Any) -> Told:
        """Return what the leader says of a partition from an offset on."""
        want = Want(partition.index, self.topic_id(partition.topic), offset)
        return self.fetch(self.leader(partition), [want], **how).told[0]

    def offset(self, partition: TopicPartition, which: int, *, committed: bool = False) -> int:
        """Return the offset that a leader lists for a time, or for -1 (latest) or -2 (earliest)."""
        topic = ListOffsetsRequest.ListOffsetsTopic
        entry = topic.ListOffsetsPartition(
            partition_index=partition.index, current_leader_epoch=-1, timestamp=which
        )
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=int(committed),
            topics=[topic(name=partition.topic, partitions=[entry])],
        )
        answer = self.channel(self.leader(partition)).call(request, newest=7)
        ((told,),) = [topic.partitions for topic in answer.topics]
        assert told.error_code == 0
        return int(told.offset)


class Want(NamedTuple):
    """A partition in a fetch request; a topic by its name is fetched in version 12."""

    partition: int
    topic: UUID | str
    offset: int = 0
    max_bytes: int = 1 << 20
    leader_epoch: int = -1
    fetched_epoch: int = -1


def fetch_request(
    wanted: Iterable[Want],
    *,
    session: int = 0,
    epoch: int = -1,
    forget: Sequence[Want] = (),
    wait_ms: int = WAIT_MS,
    committed: bool = False,
    max_bytes: int = 1 << 20,
) -> tuple[FetchRequest, int]:
    """Return a request and its version."""
    wants = list(wanted)
    by_name = any(isinstance(want.topic, str) for want in [*wants, *forget])
    named = "topic" if by_name else "topic_id"
    topics: dict[UUID | str, list[Any]] = {}
    for want in wants:
        topics.setdefault(want.topic, []).append(
            FetchRequest.FetchTopic.FetchPartition(
                partition=want.partition,
                current_leader_epoch=want.leader_epoch,
                fetch_offset=want.offset,
                last_fetched_epoch=want.fetched_epoch,
                log_start_offset=-1,
                partition_max_bytes=want.max_bytes,
            )
        )
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        isolation_level=int(committed),
        session_id=session,
        session_epoch=epoch,
        topics=[FetchRequest.FetchTopic(**{named: t, "partitions": p}) for t, p in topics.items()],
        forgotten_topics_data=[
            FetchRequest.ForgottenTopic(**{named: want.topic, "partitions": [want.partition]})
            for want in forget
        ],
        rack_id="",
    )
    return request, _FETCH_BY_NAME if by_name else _FETCH_BY_ID


def read_fetched(answer: Any) -> Fetched:
    """Return the parts of a fetch response that clients look at."""
    told = []
    for topic in answer.responses:
        for found in topic.partitions:
            parted = getattr(found, "diverging_epoch", None)
            parts = parted is not None and parted.epoch is not None and parted.epoch >= 0
            told.append(
                Told(
                    found.partition_index,
                    found.error_code,
                    found.high_watermark,
                    found.last_stable_offset,
                    bytes(found.records or b""),
                    tuple(
                        (a.producer_id, a.first_offset) for a in found.aborted_transactions or ()
                    ),
                    (parted.epoch, parted.end_offset) if parts and parted is not None else None,
                )
            )
    return Fetched(answer.error_code, answer.session_id, told)
