"""Transactions left open on the source: a read_committed mirror copies nothing that lies behind one.

A flow's runner checks at its save ticks, on its own thread. A check asks no broker while the last stable offsets move;
else it asks the source at most every 30 s, for 2 s at most, over separate connections.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

from heliograph.config.flow import FlowConfig
from heliograph.driving.job import FlowJob
from heliograph.driving.partitions import HeldBack
from heliograph.errors import MirrorError
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.producers import OpenTransaction, find_open_transactions
from heliograph.model import Endpoint, TopicPartition

log = logging.getLogger(__name__)

_EVERY: Final = timedelta(seconds=30)
_PATIENCE: Final = timedelta(seconds=2)
_MOST: Final = 500  # partitions asked about at a time: a leader answers with all producers of each

Answer = Mapping[TopicPartition, OpenTransaction | None]
Ask = Callable[[Endpoint, Mapping[TopicPartition, int]], Answer]


def ask_source(source: Endpoint, stable: Mapping[TopicPartition, int]) -> Answer:
    """Return what the source reports within 2 s on transactions that hold partitions back; nothing if unreachable."""
    try:
        with closing(Cluster(source, _PATIENCE)) as cluster:
            return find_open_transactions(cluster, stable)
    except MirrorError as exc:
        log.debug("cluster=%s open transactions not asked for: %s", source.cluster, exc)
        return {}


class OpenTransactions:
    """Finds what holds the partitions of one flow back, and logs each transaction once; for one thread."""

    def __init__(
        self, config: FlowConfig, ask: Ask = ask_source, every: timedelta = _EVERY
    ) -> None:
        """Take the flow, whose `open.transaction.seconds` says from when on a transaction counts."""
        self._config = config
        self._ask = ask
        self._every = every.total_seconds()
        self._after = config.copying.open_transaction_after.total_seconds()
        self._is_on = config.reading.committed_only and self._after > 0
        self._asked_at = float("-inf")
        self._logged: dict[TopicPartition, int] = {}

    def look(self, job: FlowJob, now: float) -> None:
        """Record in the job which transaction each partition waits for; ask the source about new ones."""
        if not self._is_on or now - self._asked_at < self._every:
            return
        held = [each for each in job.held_back(now) if each.seconds >= self._after]
        unknown = [each for each in held if not _is_known(each)]
        unknown.sort(key=lambda each: each.transaction is not None)  # those never asked about first
        if not unknown:
            return
        self._asked_at = now
        stable = {each.source: each.offset for each in unknown[:_MOST]}
        answer = self._ask(self._config.source_admin, stable)
        noted = {each.source: each.transaction for each in held}
        for source, offset in stable.items():
            noted[source] = answer.get(source, noted[source] or OpenTransaction(offset))
            job.note_transaction(source, offset, noted[source])
        still = [replace(each, transaction=noted[each.source]) for each in held]
        self._log(each for each in still if each.transaction is not None)

    def _log(self, held: Iterable[HeldBack]) -> None:
        for members in group_by_transaction(held):
            first = members[0]
            if not any(self._logged.get(each.source) == each.offset for each in members):
                log.warning(
                    "flow=%s partition=%s offset=%d %s. %s",
                    self._config.flow,
                    first.source,
                    first.offset,
                    describe(members),
                    advise(first, self._config.source),
                )
            self._logged |= {each.source: each.offset for each in members}


def group_by_transaction(held: Iterable[HeldBack]) -> list[list[HeldBack]]:
    """Group what waits for the same producer, because a producer has one transaction at a time."""
    groups: dict[object, list[HeldBack]] = {}
    for each in held:
        transaction = each.transaction
        if transaction is None or transaction.producer_id is None:
            groups[each.source] = [each]
        else:
            groups.setdefault((transaction.producer_id, transaction.epoch), []).append(each)
    return list(groups.values())


def sentences(held: Iterable[HeldBack]) -> tuple[str, ...]:
    """Return the sentence of a flow's status about each transaction."""
    return tuple(
        f"{members[0].source}: {describe(members)}" for members in group_by_transaction(held)
    )


def describe(members: Sequence[HeldBack]) -> str:
    """Return which producer's transaction holds partitions back, and how much waits; the age is that of the first."""
    first = members[0]
    behind = sum(each.behind for each in members)
    where = f" in {len(members)} partitions" if len(members) > 1 else ""
    return (
        f"a transaction from offset {first.offset} on has been open on the source for at least "
        f"{first.seconds:.0f} s ({_whose(first)}); {behind} offsets wait behind it{where}"
    )


def advise(held: HeldBack, source: Endpoint) -> str:
    """Return what a person can do about a transaction."""
    transaction = held.transaction or OpenTransaction(held.offset)
    ends = ""
    if transaction.timeout is not None:
        seconds = transaction.timeout.total_seconds()
        ends = f"Its coordinator aborts it {seconds:g} s after its beginning. "
    return (
        f"{ends}If its producer is gone, abort it: kafka-transactions.sh --bootstrap-server {source} abort "
        f"--topic {held.source.topic} --partition {held.source.index} --start-offset {transaction.start_offset}"
    )


def _whose(held: HeldBack) -> str:
    transaction = held.transaction
    if transaction is None or transaction.producer_id is None:
        return "the source does not say whose it is"
    name = transaction.transactional_id or "unknown"
    producer = f"producer_id={transaction.producer_id} transactional_id={name}"
    if transaction.last_write_ms is None or transaction.last_write_ms < 0:
        return producer
    return f"{producer} last_write={_time(transaction.last_write_ms)}"


def _time(ms: int) -> str:
    """Return a time as text; a producer may have written any number."""
    try:
        return datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return str(ms)


def _is_known(held: HeldBack) -> bool:
    return held.transaction is not None and held.transaction.transactional_id is not None
