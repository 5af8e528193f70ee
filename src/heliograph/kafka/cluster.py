"""A cluster as one client sees it: its brokers, its topics' leaders, and a channel to each broker.

Retries live here and nowhere else: `patiently` repeats what is retriable until a deadline.
"""

import random
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from kafka.protocol.metadata import MetadataRequest

from heliograph.errors import ClusterUnreachable, CorruptRecord, DeadlinePassed, KafkaFault
from heliograph.model import Endpoint, TopicPartition
from heliograph.net.codecs import misread
from heliograph.net.faults import LOST_TOPIC, fault_for, network_faults
from heliograph.net.transport import Channel

T = TypeVar("T")

NO_LEADER = -1
_SLOW = 2.0  # seconds; a connection that fails later than this was dropped silently, not refused
_AWAY = 10.0
_SILENT = 120.0
_UNTOLD = 1000  # partitions that a broker may not know yet while a topic grows
FOREVER = timedelta(days=36_500)


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as the cluster describes it; `leaders[i]` leads partition i, or is NO_LEADER.

    `in_sync[i]` is the number of its in-sync replicas. `epochs[i]` is its leader epoch: it tells which answer is newer.
    """

    name: str
    topic_id: UUID
    leaders: tuple[int, ...]
    internal: bool
    in_sync: tuple[int, ...] = ()
    epochs: tuple[int, ...] = ()

    def epoch_of(self, index: int) -> int:
        """Return a partition's leader epoch; -1 if the broker does not report it."""
        return self.epochs[index] if index < len(self.epochs) else -1

    def leads(self, index: int) -> bool:
        """Whether partition `index` exists and has a leader."""
        return index < len(self.leaders) and self.leaders[index] != NO_LEADER

    @property
    def partitions(self) -> list[TopicPartition]:
        return [TopicPartition(self.name, index) for index in range(len(self.leaders))]


class Described(NamedTuple):
    """The requested topics that exist, and why others could not be described."""

    found: Mapping[str, Topic]
    refused: Mapping[str, KafkaFault]

    def why_waiting(self, partition: TopicPartition) -> str:
        """Return why nothing is done for a partition: most likely it has no leader."""
        refusal = self.refused.get(partition.topic)
        return str(refusal) if refusal is not None else f"{partition} has no leader"

    def why_missing(self, name: str) -> str:
        """Return why a topic is not among those that were found."""
        refusal = self.refused.get(name)
        return str(refusal) if refusal is not None else f"{name} does not exist"


class Cluster:
    """Channels and metadata of one cluster; owned by one thread at a time."""

    def __init__(self, endpoint: Endpoint, within: timedelta = FOREVER) -> None:
        """Take the endpoint, and the time for all answers together: DeadlinePassed after that."""
        self.endpoint = endpoint
        self.hurry(within)
        self._channels: dict[tuple[int, int], Channel] = {}
        self._anyone: Channel | None = None
        self._silent: dict[tuple[str, int], float] = {}  # when addresses last failed to answer
        self._addresses: dict[int, tuple[str, int]] = {}
        self._cluster_id = ""
        self._away: dict[int, tuple[float, KafkaFault]] = {}

    def hurry(self, within: timedelta) -> None:
        """Limit the total time of all answers from now on to `within`."""
        self._within = within
        self._deadline = time.monotonic() + within.total_seconds()

    def close(self) -> None:
        for key in list(self._channels):
            self.drop(*key)
        self._leave_anyone()

    def channel(self, node: int, number: int = 0) -> Channel:
        """Return the open channel to broker `node`, connecting if there is none; each `number` is a separate one."""
        channel = self._channels.get((node, number))
        if channel is None:
            if node not in self._addresses:
                self.describe(())
            if node not in self._addresses:
                raise KafkaFault(f"find broker {node} of {self.endpoint.cluster}", "nothing", True)
            host, port = self._addresses[node]
            self._refuse_away(node)
            began = time.monotonic()
            try:
                channel = open_channel(self.endpoint, host, port, self._left())
            except KafkaFault as exc:
                if time.monotonic() - began > _SLOW:
                    self._away[node] = time.monotonic() + _AWAY, exc
                raise
            self._channels[node, number] = channel
        return channel

    def _refuse_away(self, node: int) -> None:
        """Raise at once for a broker that silently dropped a connection just now: a further try would wait as long."""
        until, fault = self._away.get(node, (0.0, None))
        if fault is not None and time.monotonic() < until:
            raise KafkaFault(fault.doing, fault.error, retriable=True)

    def drop(self, node: int, number: int = 0) -> None:
        """Forget a channel to `node`, after an error on it."""
        channel = self._channels.pop((node, number), None)
        if channel is not None:
            channel.close()

    def call(self, request: Any, node: int | None = None, newest: int | None = None) -> Any:
        """Send `request` to broker `node`, or to any broker that answers, and return the response."""
        if node is None:
            return self._call_anyone(request, newest)
        channel = self.channel(node)
        self._hurry(channel)
        try:
            with network_faults(f"call {request.name} on broker {node} of {self.endpoint.cluster}"):
                return channel.call(request, newest)
        except BaseException:
            self.drop(node)
            raise

    def nodes(self) -> list[int]:
        """Return the brokers that the cluster counts as alive now."""
        self.describe(())
        return sorted(self._addresses)

    def addresses(self) -> dict[int, tuple[str, int]]:
        """Return the addresses of the brokers, as of the last `describe`."""
        return dict(self._addresses)

    def describe(self, names: Iterable[str] | None = None) -> dict[str, Topic]:
        """Return the named topics, or all, without those that do not exist. Raises the error of a refused topic."""
        described = self.describe_each(names)
        for refusal in described.refused.values():
            raise refusal
        return dict(described.found)

    def describe_each(self, names: Iterable[str] | None, node: int | None = None) -> Described:
        """Do as `describe`, for what the cluster, or broker `node`, describes; raise only if it does not answer."""
        wanted = (
            None if names is None else [MetadataRequest.MetadataRequestTopic(name=n) for n in names]
        )
        response = self.call(
            MetadataRequest(topics=wanted, allow_auto_topic_creation=False), node, newest=12
        )
        with misread(f"what {self.endpoint.cluster} told of its topics"):
            self._addresses = {b.node_id: (b.host, b.port) for b in response.brokers}
            self._cluster_id = response.cluster_id or ""
            told = [t for t in response.topics if t.error_code not in LOST_TOPIC]
            # A topic whose leaders are being elected has an error, too, but lists its partitions.
            found = {t.name: _topic(t) for t in told if t.partitions or not t.error_code}
            refused = {t.name: t.error_code for t in told if t.name not in found}
        doing = f"describe topic %s of {self.endpoint.cluster}"
        return Described(found, {n: fault_for(doing % n, code) for n, code in refused.items()})

    def cluster_id(self) -> str:
        """Return the id of the cluster."""
        self.describe(())
        return self._cluster_id

    def ask_another(self) -> None:
        """Send the next request to another broker, because the metadata of this one may be outdated."""
        self._leave_anyone()

    def _call_anyone(self, request: Any, newest: int | None) -> Any:
        if self._anyone is not None:
            self._hurry(self._anyone)
            try:
                return self._anyone.call(request, newest)
            except OSError:
                self._leave_anyone()
            except CorruptRecord:
                self._leave_anyone()
                raise
        reasons = []
        candidates = self._candidates()
        for tried, (host, port) in enumerate(candidates):
            left = self._left() / (len(candidates) - tried)
            try:
                self._anyone = Channel(self.endpoint, host, port, left)
                return self._anyone.call(request, newest)
            except OSError as exc:
                self._silent[host, port] = time.monotonic()
                reasons.append(f"{host}:{port} {exc.strerror or str(exc) or type(exc).__name__}")
                self._leave_anyone()
            except CorruptRecord:
                self._leave_anyone()
                raise
        raise ClusterUnreachable(
            self.endpoint.cluster, str(self.endpoint), "; ".join(sorted(set(reasons)))
        )

    def _leave_anyone(self) -> None:
        if self._anyone is not None:
            self._anyone.close()
            self._anyone = None

    def _left(self) -> timedelta:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise DeadlinePassed(f"ask {self.endpoint.cluster}", self._within.total_seconds())
        return timedelta(seconds=left)

    def _hurry(self, channel: Channel) -> None:
        if self._within < FOREVER:
            channel.wait_up_to(self._left())

    def _candidates(self) -> list[tuple[str, int]]:
        """Return the addresses to ask, in this order: any broker, and last those that recently did not answer."""
        known = list(self._addresses.values())
        random.shuffle(known)
        since = time.monotonic() - _SILENT
        places = dict.fromkeys([*known, *self.endpoint.bootstrap])
        return sorted(places, key=lambda place: self._silent.get(place, since) > since)


def _topic(found: Any) -> Topic:
    leaders = {p.partition_index: p.leader_id for p in found.partitions}
    in_sync = {p.partition_index: len(p.isr_nodes) for p in found.partitions}
    epochs = {p.partition_index: getattr(p, "leader_epoch", -1) for p in found.partitions}
    count = max(leaders, default=-1) + 1
    if min(leaders, default=0) < 0 or count > len(leaders) + _UNTOLD:
        raise CorruptRecord(f"topic {found.name} is told to have a partition {count - 1}")
    return Topic(
        name=found.name,
        topic_id=UUID(str(found.topic_id)),
        leaders=tuple(leaders.get(index, NO_LEADER) for index in range(count)),
        internal=bool(found.is_internal),
        in_sync=tuple(in_sync.get(index, 0) for index in range(count)),
        epochs=tuple(epochs.get(index, -1) for index in range(count)),
    )


def open_channel(
    endpoint: Endpoint, host: str, port: int, within: timedelta | None = None
) -> Channel:
    """Connect to a broker and log in; network errors and invalid answers are raised as retriable."""
    doing = f"connect to {endpoint.cluster} at {host}:{port}"
    try:
        with network_faults(doing):
            return (
                Channel(endpoint, host, port)
                if within is None
                else Channel(endpoint, host, port, within)
            )
    except CorruptRecord as exc:
        raise KafkaFault(doing, f"nothing that makes sense ({exc})", retriable=True) from exc


def ask_cluster_id(endpoint: Endpoint) -> str:
    """Return the id of a cluster, over a separate connection."""
    with closing(Cluster(endpoint)) as cluster:
        return cluster.cluster_id()


def patiently(
    attempt: Callable[[], T],
    within: timedelta = timedelta(seconds=30),
    *,
    first_pause: timedelta = timedelta(milliseconds=50),
    sleep: Callable[[float], None] = time.sleep,
) -> T:
    """Return `attempt()`, repeating it while it fails with a retriable error, until `within` is over."""
    deadline = time.monotonic() + within.total_seconds()
    pause = first_pause.total_seconds()
    while True:
        try:
            return attempt()
        except (KafkaFault, ClusterUnreachable) as exc:
            retriable = isinstance(exc, ClusterUnreachable) or exc.retriable
            if not retriable or time.monotonic() + pause > deadline:
                raise
        sleep(pause)
        pause = min(pause * 2, 1.0)
