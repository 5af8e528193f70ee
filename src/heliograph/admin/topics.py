"""Topics on a cluster: listing them, and creating or growing what a plan asks for."""

import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NamedTuple, TypeVar

from kafka.protocol.admin import CreatePartitionsRequest, CreateTopicsRequest

from heliograph.errors import KafkaFault
from heliograph.kafka.cluster import NO_LEADER, Cluster, Topic, patiently
from heliograph.net.faults import TOPIC_ALREADY_EXISTS, error_name, fault_for, is_retriable

log = logging.getLogger(__name__)

T = TypeVar("T")

_TIMEOUT_MS = 25_000  # less than the socket's, so that the broker reports the timeout
_PATIENCE = timedelta(seconds=15)
_PATIENCE_PER_PARTITION = timedelta(milliseconds=10)
_FIRST_PAUSE = 0.05
_LAST_PAUSE = 0.8
_TOPICS_PER_REQUEST = 200
# A KRaft controller refuses a request of over 10,000 records: a topic, a partition and a setting are one each.
_PARTITIONS_PER_REQUEST = 2000
_NO_ASSIGNMENT: list[object] = []


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to be created."""

    name: str
    partitions: int
    replication_factor: int
    config: Mapping[str, str] = field(default_factory=dict)


class Created(NamedTuple):
    """The topics that this call has created, and why some could not be; one that existed is in neither."""

    made: frozenset[str]
    refused: dict[str, KafkaFault]


def create_topics(cluster: Cluster, wanted: Iterable[NewTopic]) -> Created:
    """Create topics; one that exists is left as it is."""
    made = set()
    refused = {}
    spec = CreateTopicsRequest.CreatableTopic
    for some in _chunks((topic, topic.partitions) for topic in wanted):
        request = CreateTopicsRequest(
            topics=[
                spec(
                    name=topic.name,
                    num_partitions=topic.partitions,
                    replication_factor=topic.replication_factor,
                    assignments=_NO_ASSIGNMENT,
                    configs=[
                        spec.CreatableTopicConfig(name=key, value=value)
                        for key, value in topic.config.items()
                    ],
                )
                for topic in some
            ],
            timeout_ms=_TIMEOUT_MS,
            validate_only=False,
        )
        for answer in cluster.call(request).topics:
            if answer.error_code == 0:
                made.add(answer.name)
            elif answer.error_code != TOPIC_ALREADY_EXISTS:
                doing = f"create topic {answer.name} on {cluster.endpoint.cluster}"
                refused[answer.name] = _refusal(doing, answer)
    return Created(frozenset(made), refused)


def create_topic(
    cluster: Cluster,
    name: str,
    partitions: int,
    replication_factor: int,
    config: Mapping[str, str] | None = None,
) -> bool:
    """Create a topic, or raise; one that exists already is left as it is. Return whether it was created."""
    new = NewTopic(name, partitions, replication_factor, config or {})
    created = create_topics(cluster, [new])
    for refusal in created.refused.values():
        raise refusal
    return name in created.made


def list_topics(cluster: Cluster, expected: Mapping[str, int]) -> dict[str, Topic]:
    """Return all topics of a cluster.

    A broker may be behind: every broker is asked for `expected` topics that are missing or have fewer partitions.
    """
    topics = cluster.describe()
    doubtful = {name for name, count in expected.items() if _size(topics, name) < count}
    for node in cluster.nodes() if doubtful else ():
        try:
            found = cluster.describe_each(doubtful, node).found
        except KafkaFault as exc:
            log.debug("broker %d of %s: %s", node, cluster.endpoint.cluster, exc)
            continue
        for name, topic in found.items():
            if len(topic.leaders) > _size(topics, name):
                topics[name] = topic
    return topics


def _size(topics: Mapping[str, Topic], name: str) -> int:
    return len(topics[name].leaders) if name in topics else 0


def await_topics(
    cluster: Cluster, wanted: Mapping[str, int], within: timedelta | None = None
) -> dict[str, Topic]:
    """Return these topics once all their partitions have leaders, or what exists of them in time.

    A broker answers for a topic a moment after the controller has created it; for thousands of
    partitions this takes many seconds.
    """
    within = within or _PATIENCE + _PATIENCE_PER_PARTITION * sum(wanted.values())
    deadline = time.monotonic() + within.total_seconds()
    pause = _FIRST_PAUSE
    while True:
        found = patiently(lambda: cluster.describe(wanted), within)
        ready = all(
            name in found and sum(n != NO_LEADER for n in found[name].leaders) >= partitions
            for name, partitions in wanted.items()
        )
        if ready or time.monotonic() > deadline:
            return found
        time.sleep(pause)
        pause = min(2 * pause, _LAST_PAUSE)


def grow_topics(cluster: Cluster, counts: Mapping[str, int]) -> dict[str, KafkaFault]:
    """Raise partition counts to `counts`, and return why some could not be raised."""
    refused = {}
    spec = CreatePartitionsRequest.CreatePartitionsTopic
    for some in _chunks(counts.items()):
        request = CreatePartitionsRequest(
            topics=[spec(name=name, count=counts[name], assignments=None) for name in some],
            timeout_ms=_TIMEOUT_MS,
            validate_only=False,
        )
        for answer in cluster.call(request).results:
            if answer.error_code:
                name, count = answer.name, counts[answer.name]
                doing = f"grow topic {name} to {count} partitions on {cluster.endpoint.cluster}"
                refused[name] = _refusal(doing, answer)
    return refused


def _chunks(topics: Iterable[tuple[T, int]]) -> Iterator[list[T]]:
    """Split topics, each with its partition count, into what a controller accepts in one request."""
    chunk: list[T] = []
    total = 0
    for topic, partitions in topics:
        full = len(chunk) == _TOPICS_PER_REQUEST or total + partitions > _PARTITIONS_PER_REQUEST
        if chunk and full:
            yield chunk
            chunk, total = [], 0
        chunk.append(topic)
        total += partitions
    if chunk:
        yield chunk


def _refusal(doing: str, answer: object) -> KafkaFault:
    code = int(getattr(answer, "error_code"))  # noqa: B009 - kafka-python's messages are untyped
    words = getattr(answer, "error_message", None)
    if words:
        return KafkaFault(doing, f"{error_name(code)}: {words}", is_retriable(code))
    return fault_for(doing, code)
