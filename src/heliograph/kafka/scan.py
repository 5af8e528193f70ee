"""Reading partitions from one offset to another, batch by batch: for tails, tables and audits."""

import time
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import NamedTuple

from heliograph.errors import CorruptRecord, DeadlinePassed, KafkaFault
from heliograph.kafka.cluster import Cluster, patiently
from heliograph.kafka.fetch import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    Fetcher,
    FetchLimits,
    Subject,
)
from heliograph.kafka.offsets import EARLIEST, list_offsets
from heliograph.model import TopicPartition
from heliograph.net.faults import OFFSET_OUT_OF_RANGE, fault_for, is_retriable
from heliograph.policy.batches import AbortedTransactions
from heliograph.wire.fetch_response import Section
from heliograph.wire.record_batch import (
    CONTROL,
    MAGIC_AT,
    find_batches,
    next_offset_of,
    read_header,
)

OnGap = Callable[[TopicPartition, int, int], None]

_WAIT = timedelta(milliseconds=250)
_SILENCE = timedelta(seconds=60)
_PATIENCE = timedelta(seconds=30)
_OPEN_TRANSACTION = timedelta(
    minutes=16
)  # brokers allow a transaction 15 at most, unless configured otherwise
_PAUSE = 0.05


class Scanned(NamedTuple):
    """A batch that a consumer would see; the view is valid until the next one is requested."""

    partition: TopicPartition
    batch: memoryview


def scan(
    cluster: Cluster,
    ranges: Mapping[TopicPartition, tuple[int, int]],
    *,
    committed_only: bool,
    on_gap: OnGap,
    within: timedelta = timedelta.max,
) -> Iterator[Scanned]:
    """Yield the deliverable batches that touch [start, end) of each partition, in order.

    A first or last batch may extend beyond its range. If the start no longer exists, `on_gap` is called
    with the beginning and the end of the gap, and the scan continues after it. DeadlinePassed is raised
    if the ends are not reached `within` that time.
    """
    ends = {p: end for p, (start, end) in ranges.items() if start < end}
    if not ends:
        return
    walk = _Walk(cluster, {p: ranges[p][0] for p in ends}, committed_only, on_gap, within)
    try:
        while ends:
            for partition in walk.exhausted(ends):
                del ends[partition]
            for section, buffer in walk.next_sections():
                partition = walk.order[section.slot]
                batches, position = deliverable(buffer, section, committed_only)
                walk.advance(partition, position)
                for batch in batches:
                    yield Scanned(partition, batch)
                if position is not None and position >= ends[partition]:
                    del ends[partition]
                    walk.fetcher.remove(section.slot)
                elif position is not None:
                    walk.fetcher.moved(section.slot, position)
    finally:
        walk.fetcher.close()


class _Walk:
    """A fetcher over some partitions that recovers from errors on the way where possible."""

    def __init__(
        self,
        cluster: Cluster,
        starts: Mapping[TopicPartition, int],
        committed_only: bool,
        on_gap: OnGap,
        within: timedelta,
    ) -> None:
        self._cluster = cluster
        self._starts = starts
        self._on_gap = on_gap
        self._within = within
        self._deadline = time.monotonic() + within.total_seconds()
        self.order = sorted(starts)
        self._resumed: dict[TopicPartition, int] = {}
        self._positions = dict(starts)
        self._stuck_since: float | None = None
        # After an open transaction there is nothing to read until it is given up.
        self._stuck_for = _OPEN_TRANSACTION if committed_only else _SILENCE
        isolation = READ_COMMITTED if committed_only else READ_UNCOMMITTED
        self.fetcher = Fetcher(cluster, FetchLimits(wait=_WAIT, isolation=isolation))
        topics = patiently(
            lambda: cluster.describe({p.topic for p in starts}), self._left(_PATIENCE)
        )
        for slot, partition in enumerate(self.order):
            if partition.topic not in topics:
                raise KafkaFault(f"read {partition}", "UNKNOWN_TOPIC_OR_PARTITION", False)
            topic_id = topics[partition.topic].topic_id
            self.fetcher.add([Subject(slot, partition, topic_id, starts[partition])])

    def next_sections(self) -> Iterator[tuple[Section, memoryview]]:
        """Yield the sections without errors of the next responses."""
        self._check_progress()
        if self.fetcher.homeless:
            patiently(self._place, self._left(_PATIENCE))
        self.fetcher.ask()
        sessions = self.fetcher.ready(self._left(_SILENCE).total_seconds())
        if not sessions and not self.fetcher.homeless and not self.fetcher.empty:
            self._left(_SILENCE)
            raise KafkaFault("read a topic", f"nothing for {_SILENCE.seconds} s", retriable=True)
        for session in sessions:
            response = self.fetcher.take(session)
            if response is None:
                continue
            for section in response.sections:
                if not self.fetcher.fetches(section.slot):
                    continue  # listed twice in one answer
                if section.error:
                    self._mend(section)
                else:
                    yield section, response.buffer

    def advance(self, partition: TopicPartition, position: int | None) -> None:
        """Note how far a section reaches; one that does not advance would be requested again and again."""
        if position is None:
            return
        if position <= self._positions[partition]:
            raise CorruptRecord(
                f"{partition}: asked for offset {self._positions[partition]}, a broker sent what "
                f"ends before {position}"
            )
        self._positions[partition] = position
        self._stuck_since = None

    def _check_progress(self) -> None:
        now = time.monotonic()
        if self._stuck_since is None:
            self._stuck_since = now
        elif now - self._stuck_since > self._stuck_for.total_seconds():
            seconds = self._stuck_for.total_seconds()
            raise KafkaFault("read a topic", f"nothing new for {seconds:.0f} s", retriable=True)

    def _left(self, most: timedelta) -> timedelta:
        """Return how long one step may take, or raise if there is no time left for any."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            topics = ", ".join(sorted({p.topic for p in self.order}))
            raise DeadlinePassed(f"read {topics}", self._within.total_seconds())
        return timedelta(seconds=min(left, most.total_seconds()))

    def _place(self) -> None:
        why = self.fetcher.place()
        if why:
            reason = next(iter(why.values()))
            raise KafkaFault("read a topic", f"nothing ({reason})", retriable=True)

    def exhausted(self, ends: Mapping[TopicPartition, int]) -> list[TopicPartition]:
        """Return the partitions with nothing left to read, because all of it was deleted."""
        gone = [p for p, first in self._resumed.items() if p in ends and first >= ends[p]]
        for partition in gone:
            self.fetcher.remove(self.order.index(partition))
        return gone

    def _mend(self, section: Section) -> None:
        partition = self.order[section.slot]
        if section.error == OFFSET_OUT_OF_RANGE:
            first = patiently(lambda: list_offsets(self._cluster, [partition], EARLIEST))[partition]
            self._on_gap(partition, self._starts[partition], first)
            self._resumed[partition] = self._positions[partition] = first
            self.fetcher.moved(section.slot, first)
        elif is_retriable(section.error):
            time.sleep(_PAUSE)
            self.fetcher.lost_leader([section.slot])
        else:
            raise fault_for(f"read {partition}", section.error)


def deliverable(
    buffer: memoryview, section: Section, committed_only: bool
) -> tuple[list[memoryview], int | None]:
    """Return the batches a consumer would see, and the offset after the last one of any kind."""
    transactions = AbortedTransactions(section.aborted if committed_only else ())
    batches = []
    position = None
    for start, size in find_batches(buffer, section.start, section.end):
        position = next_offset_of(buffer, start)
        header = read_header(buffer, start) if buffer[start + MAGIC_AT] >= 2 else None
        if header is None or (
            transactions.delivers(header) if committed_only else not header.attributes & CONTROL
        ):
            batches.append(buffer[start : start + size])
    return batches, position
