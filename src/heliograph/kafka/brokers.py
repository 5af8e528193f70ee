"""The brokers of one cluster as fetch and produce need them, in a loop that does not wait or in one that may."""

import select
from collections.abc import Iterable, Mapping
from typing import Protocol

from heliograph.kafka.cluster import Described
from heliograph.model import Endpoint
from heliograph.net.transport import Channel


class Brokers(Protocol):
    """Connections and leaders. A `Cluster` waits for both; `Background` never waits and returns None meanwhile."""

    @property
    def endpoint(self) -> Endpoint: ...

    def channel(self, node: int, number: int = 0) -> Channel | None:
        """Return the open channel to a broker; raise KafkaFault if it could not be opened.

        Each `number` is a separate connection to that broker.
        """

    def describe_each(self, names: Iterable[str]) -> Described | None:
        """Return the named topics as the cluster describes them now, and why it does not describe others."""

    def drop(self, node: int, number: int = 0) -> None:
        """Forget the channel to a broker, after an error on it."""


def await_any(interest: Mapping[int, int], timeout: float) -> set[int]:
    """Return the descriptors that have one of their events; none after `timeout` seconds."""
    poll = select.poll()
    for descriptor, events in interest.items():
        poll.register(descriptor, events)
    return {descriptor for descriptor, _ in poll.poll(max(timeout, 0.0) * 1000)}
