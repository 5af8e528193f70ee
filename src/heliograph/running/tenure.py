"""This driver's ownership of one flow: taken at a start, kept while the flow runs, given back at the end.

Every topic of a flow that only its driver writes to (runs, owner, positions) is signed with the identity of the
ownership, so a driver that was replaced can write nothing there when it wakes.
"""

import logging
import os
import secrets
import socket
import threading
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from functools import partial
from typing import NamedTuple

from heliograph.admin.configs import broker_setting, topic_configs
from heliograph.config.flow import FlowConfig
from heliograph.driving.ownership import WEEK, Ownership, Renewal
from heliograph.driving.rights import why_not
from heliograph.errors import KafkaFault, MirrorError
from heliograph.flows.source import MIN_IN_SYNC
from heliograph.kafka.cluster import Cluster, patiently
from heliograph.kafka.fencing import fence, open_identity
from heliograph.model import ProducerIdentity, TopicPartition
from heliograph.policy.elapsed import elapsed
from heliograph.saved.group_progress import GroupProgress
from heliograph.saved.owners import OwnerStore
from heliograph.saved.progress import ProgressStore
from heliograph.saved.runs import RunStore
from heliograph.tables.author import Author
from heliograph.wire.connect_records import SourceOffset
from heliograph.wire.owner_records import Owner

log = logging.getLogger(__name__)

_EXPIRATION = "transactional.id.expiration.ms"
_LOOK = timedelta(seconds=5)
_SILENT_BEATS = 3
_MORE_SILENCE = 10.0
_SIGN = timedelta(seconds=30)


class Tenure:
    """The ownership of a flow by one runner; it outlives the runner's jobs."""

    def __init__(self, config: FlowConfig) -> None:
        self._config = config
        self._name = f"{socket.gethostname()} pid {os.getpid()} ({secrets.token_hex(2)})"
        self.ownership = Ownership(config.transactional_id, self._name)
        self._owners: OwnerStore | None = None
        self._recorded: Owner | None = None
        self._renewal: Renewal | None = None
        self._positions: _Positions | None = None

    def take(
        self,
        target: Cluster,
        storage: Cluster,
        progress: ProgressStore | GroupProgress,
        runs: RunStore,
        is_ready: Callable[[], bool],
    ) -> bool:
        """Take the flow, or make sure that it is still ours; raises FlowFenced if another driver has it.

        From then on `progress` and `runs` are written as its owner. If another driver may have it, `is_ready` is called
        first: a driver that cannot copy, and says so or raises, must not take the flow from one that can.
        """
        config = self._config
        progress.ensure()
        runs.ensure()
        apart = bool(progress.topics()) and storage.cluster_id() != target.cluster_id()
        kept = _look_at(storage, progress.topics())
        own = _partitions(target, runs.topics())
        self._owners = owners = OwnerStore(target, config) if runs.topics() else None
        before = owners.read() if owners is not None else None
        is_others = before is not None and not before.released and before.driver != self._name
        if is_others and not is_ready():
            return False
        lifetime = _find_lifetime(target)
        self.ownership.open(target, before, own if apart else [*own, *kept.good], lifetime)
        author = self.ownership.author(target)
        runs.sign_as(author)
        self._positions = (
            _Positions.apart(storage, f"{config.transactional_id}-positions", kept)
            if apart
            else _Positions(storage, kept, author, partial(self.ownership.fence_own, target))
        )
        progress.sign_as(self._positions.author)
        if owners is not None:
            owners.sign_as(author)
        self.record()
        return True

    def load(self, progress: ProgressStore | GroupProgress) -> dict[TopicPartition, SourceOffset]:
        """Return the saved positions that can be read; where earlier owners may still write, nothing is read."""
        assert self._positions is not None, "the flow was taken"
        self._positions.fence_rest()
        return progress.load(self._positions.barred)

    def start(self, on_lost: Callable[[str], None]) -> None:
        """Keep the flow; `on_lost` is called, from another thread, when another driver has taken it."""
        self._renewal = Renewal(
            self.ownership,
            lambda: Cluster(self._config.target_admin),
            on_lost,
            takes_all=not self._config.transactions,
        )
        self._renewal.start()

    def stop(self) -> None:
        """Stop renewing."""
        if self._renewal is not None:
            self._renewal.stop()

    def record(self, within: timedelta = _SIGN, *, released: bool = False) -> None:
        """Save which driver owns the flow, if that has changed; `released` says that none does any more."""
        now = self.ownership.record(released=released)
        if self._owners is not None and now != self._recorded:
            self._owners.write(now, within)
            self._recorded = now

    def await_vacancy(self, stopping: threading.Event) -> bool:
        """Wait until the driver that has the flow has ended, or was silent for long; return False if `stopping`."""
        silence = _SILENT_BEATS * self.ownership.beat_every + _MORE_SILENCE
        seen: Owner | None = None
        seen_at = elapsed()
        while not stopping.is_set():
            owner, is_known = self._look()
            if owner is not None and (owner.released or owner.driver == self._recorded_name):
                break
            if not is_known or owner != seen:
                seen, seen_at = owner, elapsed()
            elif elapsed() - seen_at > silence:
                break
            stopping.wait(min(_LOOK.total_seconds(), silence / 2))
        self.ownership.forget()
        return not stopping.is_set()

    def successor(self) -> str:
        """Return the name of the driver that has the flow now, for a message."""
        owner, _ = self._look()
        return owner.driver if owner is not None else "another driver"

    @property
    def _recorded_name(self) -> str | None:
        return None if self._recorded is None else self._recorded.driver

    def _look(self) -> tuple[Owner | None, bool]:
        """Return the owner of the flow, and whether it is known."""
        try:
            with closing(Cluster(self._config.target_admin)) as target:
                return OwnerStore(target, self._config).read(), True
        except MirrorError as exc:
            log.debug("flow=%s its owner is not known: %s", self._config.flow, exc)
            return None, False


class _Places(NamedTuple):
    """Partitions of our own topics: those that can be fenced now, and why others cannot."""

    good: list[TopicPartition]
    trouble: dict[TopicPartition, str]


class _Positions:
    """The partitions that hold positions; some may have to wait until they can be fenced."""

    def __init__(
        self,
        storage: Cluster,
        places: _Places,
        author: Author,
        fence_more: Callable[[list[TopicPartition]], None],
    ) -> None:
        """Take the partitions, of which the good ones are fenced, and the author that writes to them."""
        self._storage = storage
        self._trouble = places.trouble
        self.author = author
        self._fence = fence_more

    @classmethod
    def apart(cls, storage: Cluster, name: str, places: _Places) -> "_Positions":
        """Return positions that are kept on another cluster than the records, which another flow may do, too."""

        def renew() -> ProducerIdentity:
            author.identity = open_identity(storage, name, author.identity, _SIGN)
            return author.identity

        def fence_more(partitions: list[TopicPartition]) -> None:
            author.identity = fence(storage, name, partitions, author.identity)
            author.give_up(places.good)  # they know another epoch

        author = Author(fence(storage, name, places.good), renew)
        return cls(storage, places, author, fence_more)

    @property
    def barred(self) -> dict[int, str]:
        """Return why partitions could not be fenced."""
        return {partition.index: reason for partition, reason in self._trouble.items()}

    def fence_rest(self) -> None:
        """Fence what can be fenced now."""
        if not self._trouble:
            return
        looked = _look_at(self._storage, sorted({p.topic for p in self._trouble}))
        good = [partition for partition in looked.good if partition in self._trouble]
        if good:
            self._fence(good)
            self.author.give_up(good)  # the next row there needs the identity that fenced
        self._trouble = {p: why for p, why in looked.trouble.items() if p in self._trouble}


def _look_at(cluster: Cluster, topics: list[str]) -> _Places:
    """Check partitions before they are fenced: a marker that cannot be written would hold up all of them."""
    if not topics:
        return _Places([], {})
    found = patiently(lambda: cluster.describe(topics))
    limits = topic_configs(cluster, topics, [MIN_IN_SYNC])
    places = _Places([], {})
    for name, topic in found.items():
        least = int(limits.get(name, {}).get(MIN_IN_SYNC) or 1)
        for partition in topic.partitions:
            why = why_not(partition, topic, least)
            if why is None:
                places.good.append(partition)
            else:
                places.trouble[partition] = why
    return places


def _partitions(cluster: Cluster, topics: list[str]) -> list[TopicPartition]:
    found = patiently(lambda: cluster.describe(topics)) if topics else {}
    return [partition for topic in found.values() for partition in topic.partitions]


def _find_lifetime(target: Cluster) -> timedelta:
    """Return the time after which the target's coordinators forget an unused identity."""
    try:
        told = broker_setting(target, _EXPIRATION)
    except KafkaFault as exc:
        log.debug("%s of the target is not known: %s", _EXPIRATION, exc)
        return WEEK
    return WEEK if told is None else timedelta(milliseconds=int(told))
