"""The batches on their way to one remote partition, and the answers of its broker."""

import time
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from heliograph.kafka.cluster import NO_LEADER
from heliograph.model import TopicPartition
from heliograph.net.transport import Part

_MAX_REQUEST_BYTES = 8 << 20
_KNOWN_FOR = 5.0  # seconds after an answer during which a broker certainly knows the producer


@dataclass(slots=True, eq=False)
class Outgoing:
    """One batch on its way; `upstream` is the source position once it is stored.

    `spans` are the upstream offsets of its records: (first, count), in order.
    """

    header: bytes
    payload: Part
    count: int
    upstream: int
    max_timestamp: int
    spans: tuple[tuple[int, int], ...] = ()


class Stored(NamedTuple):
    """A batch that the target has acknowledged; reported in partition order."""

    slot: int
    batch: Outgoing
    base_offset: int


class Refused(NamedTuple):
    """A batch that the target does not accept; its partition cannot continue.

    `may_pass`: the partition was given up after some time. The trouble may pass by itself, and some records may be stored.
    `for_good`: the broker will never accept the same records.
    `forgot`: the broker forgot what was written before. Only reading the partition's end shows what is stored.
    """

    slot: int
    batch: Outgoing
    reason: str
    may_pass: bool = False
    forgot: bool = False
    for_good: bool = False


@dataclass(slots=True, eq=False)
class Lane:
    """One remote partition: `sent` holds unacknowledged batches, `waiting` unsent ones, both in order.

    `size` is how many bytes these are, and `put_off` how many its writer keeps until the lane has room. `trouble` is why
    it makes no progress at the moment; the broker last answered at `known_at`.
    """

    slot: int
    partition: TopicPartition
    leader: int = NO_LEADER
    sent: deque[Outgoing] = field(default_factory=deque)
    waiting: deque[Outgoing] = field(default_factory=deque)
    in_flight: int = 0
    failed: bool = False
    lost_since: float | None = None
    trouble: str | None = None
    known_at: float = float("-inf")
    size: int = 0
    put_off: int = 0

    @property
    def bytes(self) -> int:
        return self.size + self.put_off


Batches: TypeAlias = list[tuple[Lane, Outgoing]]


def gather(lanes: list[Lane]) -> Batches:
    """Take the next batch of each lane, as many as one request may hold."""
    request: Batches = []
    size = 0
    known_since = time.monotonic() - _KNOWN_FOR
    for lane in lanes:
        if lane.in_flight and lane.known_at < known_since:
            continue  # invariant E of produce.py
        if lane.waiting and size < _MAX_REQUEST_BYTES:
            batch = lane.waiting.popleft()
            lane.sent.append(batch)
            lane.in_flight += 1
            size += len(batch.payload)
            request.append((lane, batch))
    return request
