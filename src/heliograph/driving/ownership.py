"""Which driver may write for a flow: the identities of its writers, and for how long they are known to be good.

The flow has one identity of its own, which says whose it is, and signs the driver's own topics. Remote partitions
belong to groups by their names; each group has an identity of its own, so what cannot be fenced in one stops no other.
Invariants:

A  A driver that starts takes the flow, whoever had it. From then on it asks with the identity it holds, so it
   learns of a successor, and never takes a flow back by accident. The flow's own identity decides: a group that
   somebody else has taken is taken again only if the flow is still ours.
B  Nothing is written by identities that were not renewed for two thirds of the time after which their coordinator
   forgets them: what a coordinator has forgotten is used by nobody.
C  Where a coordinator has forgotten what a predecessor wrote as, nothing is written before the predecessor's last
   permission to write has run out, unless it said that it had ended.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import NamedTuple
from zlib import crc32

from heliograph.errors import ClusterUnreachable, FlowFenced, KafkaFault, MirrorError
from heliograph.kafka.author import Author
from heliograph.kafka.cluster import Cluster, patiently
from heliograph.kafka.fencing import fence_group, open_identity, was_forgotten
from heliograph.kafka.transactions import NOBODY
from heliograph.model import ProducerIdentity, TopicPartition
from heliograph.policy.elapsed import elapsed
from heliograph.wire.owner_records import Owner

log = logging.getLogger(__name__)

GROUPS = 32
PERMISSION = 20.0  # seconds that a task may write without another word from its driver
_MARGIN = 5.0
_LONGEST_BEAT = 60.0
_FENCE = timedelta(seconds=5)
_OPEN = timedelta(seconds=30)
_SIGN = timedelta(seconds=2)
WEEK = timedelta(days=7)  # Kafka's default


def group_of(remote: TopicPartition) -> int:
    """Return the group of a remote partition: the same for ever, in every driver."""
    return crc32(str(remote).encode()) % GROUPS


def group_id(flow_id: str, group: int) -> str:
    """Return the transactional id of a group."""
    return f"{flow_id}-g{group}"


class Granted(NamedTuple):
    """The identities that may write to remote partitions now, and why there is none for others."""

    identities: Mapping[TopicPartition, ProducerIdentity]
    refused: Mapping[TopicPartition, str]


class _Held:
    """An identity that is held, and when it was renewed last; changed under its lock.

    Before `wait_until` somebody may still write who cannot be fenced.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.identity = NOBODY
        self.renewed_at = float("inf")  # what is not held cannot run out
        self.wait_until = 0.0


class Ownership:
    """The identities of one flow; it outlives the flow's jobs. Methods may be called from any thread."""

    def __init__(
        self, flow_id: str, driver: str = "", clock: Callable[[], float] = elapsed
    ) -> None:
        self.flow_id = flow_id
        self._driver = driver
        self._clock = clock
        self._flow = _Held()
        self._groups = [_Held() for _ in range(GROUPS)]
        self._lifetime = WEEK.total_seconds()
        self._before: Owner | None = None
        self._safe_at = 0.0
        self._beat = 0

    # The flow

    def open(
        self,
        target: Cluster,
        before: Owner | None = None,
        topics: Sequence[TopicPartition] = (),
        lifetime: timedelta = WEEK,
    ) -> None:
        """Take the flow, or make sure that it is still ours; raises FlowFenced if another driver has it.

        `before` is the owner before us, `topics` are the partitions that only an owner writes to, and `lifetime`
        is after which time coordinators forget an identity.
        """
        self._lifetime = lifetime.total_seconds()
        self._before = before
        with self._flow.lock:
            identity = self._raise(target, self.flow_id, self._flow, _OPEN)
            if topics:
                self._flow.identity = patiently(
                    lambda: _fence_all(target, self.flow_id, identity, topics), _OPEN
                )
        self._beat = max(self._beat, before.beat if before else 0) + 1
        if before is None or before.released or before.driver == self._driver:
            self._safe_at = 0.0
            return
        self._safe_at = self._clock() + PERMISSION + _MARGIN
        if self._is_forgotten(self.flow_id, self._flow.identity):
            log.warning(
                "%s: the target had forgotten the driver before (%s), so it cannot be fenced. Nothing is written "
                "for %.0f s, until it cannot write any more.",
                self.flow_id,
                before.driver,
                PERMISSION + _MARGIN,
            )

    def forget(self) -> None:
        """Hold nothing any more: the next `open` takes the flow, whoever has it."""
        for held in (self._flow, *self._groups):
            with held.lock:
                held.identity, held.renewed_at = NOBODY, float("inf")

    def verify(self, target: Cluster, within: timedelta = _FENCE) -> None:
        """Raise FlowFenced if another driver has the flow."""
        with self._flow.lock:
            self._raise(target, self.flow_id, self._flow, within)

    def author(self, target: Cluster) -> Author:
        """Return the one who signs this driver's own rows on the target. `target` is the caller's own."""

        def renew() -> ProducerIdentity:
            self.verify(target, _SIGN)
            return self._flow.identity

        return Author(self._flow.identity, renew)

    def record(self, *, released: bool = False) -> Owner:
        """Return what is saved of this owner."""
        identities = {self.flow_id: self._flow.identity}
        for group, held in enumerate(self._groups):
            if held.identity != NOBODY:
                identities[group_id(self.flow_id, group)] = held.identity
        return Owner(self._driver, self._beat, released, identities)

    # Time

    @property
    def beat_every(self) -> float:
        """Return how often an owner renews the identity of its flow."""
        return min(_LONGEST_BEAT, self._lifetime / 3)

    def renew(self, target: Cluster) -> None:
        """Renew what would be forgotten; raises FlowFenced if another driver has the flow. Called every now and then."""
        now = self._clock()
        if now - self._flow.renewed_at >= self.beat_every:
            self.verify(target)
            self._beat += 1
        for group, held in enumerate(self._groups):
            if now - held.renewed_at >= self._lifetime / 3:
                with held.lock, suppress(FlowFenced):  # it is taken again when it is needed
                    self._raise(target, group_id(self.flow_id, group), held, _FENCE)

    def valid_for(self) -> float:
        """Return for how many seconds the identities are good without being renewed (invariant B)."""
        oldest = min(held.renewed_at for held in (self._flow, *self._groups))
        return oldest + self._lifetime * 2 / 3 - self._clock()

    # Groups

    def take_group(
        self,
        target: Cluster,
        group: int,
        fence: Sequence[TopicPartition],
        made: Iterable[TopicPartition] = (),
    ) -> Granted:
        """Keep everybody else from writing to partitions of a group; those that we `made` nobody has written to.

        What the coordinator refuses stays with its reason; raises if it does not answer.
        """
        held, name = self._groups[group], group_id(self.flow_id, group)
        with held.lock:
            if fence or held.identity == NOBODY:
                self._take(target, name, held)
            if self._is_forgotten(name, held.identity):
                held.wait_until = max(held.wait_until, self._safe_at)
            if self._clock() < held.wait_until:
                reason = (
                    f"waits until the driver before ({self._before.driver if self._before else ''}) cannot "
                    "write any more: the target has forgotten it, so it cannot be fenced"
                )
                return Granted({}, dict.fromkeys((*fence, *made), reason))
            refused: Mapping[TopicPartition, str] = {}
            if fence:
                asked_at = self._clock()
                fenced = fence_group(target, name, held.identity, fence, _FENCE)
                held.identity, held.renewed_at = fenced.identity, asked_at
                refused = fenced.refused
            own = {remote: held.identity for remote in (*fence, *made) if remote not in refused}
            return Granted(own, refused)

    def open_groups(
        self, target: Cluster, remotes: Iterable[TopicPartition]
    ) -> set[TopicPartition]:
        """Take the groups of partitions that are about to be made: before somebody else can find them.

        Returns the partitions whose groups could not be taken: these must be fenced when they are there.
        """
        by_group: dict[int, set[TopicPartition]] = {}
        for remote in remotes:
            by_group.setdefault(group_of(remote), set()).add(remote)
        missed: set[TopicPartition] = set()
        for group, members in by_group.items():
            try:
                self.take_group(target, group, ())
            except (KafkaFault, ClusterUnreachable) as exc:
                log.debug("group %d of %s was not taken: %s", group, self.flow_id, exc)
                missed |= members
        return missed

    def _take(self, target: Cluster, name: str, held: _Held) -> None:
        """Take the next epoch of a group (invariant A)."""
        if held.identity != NOBODY:
            try:
                self._raise(target, name, held, _FENCE)
            except FlowFenced:
                held.identity = NOBODY
            else:
                return
        self.verify(target)
        self._raise(target, name, held, _FENCE)

    def _raise(
        self, target: Cluster, name: str, held: _Held, within: timedelta
    ) -> ProducerIdentity:
        asked_at = self._clock()
        before = held.identity
        now = open_identity(target, name, before, within)
        if was_forgotten(before, now):
            # Somebody else may have had it meanwhile, and what we know may be old.
            held.identity, held.renewed_at = NOBODY, float("inf")
            held.wait_until = self._clock() + PERMISSION + _MARGIN
            raise FlowFenced(name, "the transaction coordinator, which has forgotten it")
        held.identity, held.renewed_at = now, asked_at
        return now

    def _is_forgotten(self, name: str, now: ProducerIdentity) -> bool:
        """Whether a predecessor's identity of this name cannot be fenced any more."""
        before = self._before
        if before is None or before.released or before.driver == self._driver:
            return False
        identity = before.identities.get(name)
        return identity is not None and was_forgotten(identity, now)


def _fence_all(
    target: Cluster,
    name: str,
    identity: ProducerIdentity,
    partitions: Sequence[TopicPartition],
) -> ProducerIdentity:
    """Fence partitions that are known to be there; a coordinator may not have heard of a new topic yet."""
    fenced = fence_group(target, name, identity, partitions, _OPEN)
    for reason in fenced.refused.values():
        raise KafkaFault(f"own {name}", reason, retriable="UNKNOWN_TOPIC" in reason)
    return fenced.identity


class Renewal:
    """Keeps the identities of one flow alive while its job runs, from a thread of its own."""

    def __init__(
        self, ownership: Ownership, connect: Callable[[], Cluster], on_lost: Callable[[str], None]
    ) -> None:
        self._ownership = ownership
        self._connect = connect
        self._on_lost = on_lost
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="renewal", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._over.set()

    def _run(self) -> None:
        target = self._connect()
        while not self._over.wait(min(self._ownership.beat_every / 2, 1.0)):
            try:
                self._ownership.renew(target)
            except FlowFenced as exc:
                self._on_lost(str(exc))
                break
            except MirrorError as exc:
                log.debug("%s cannot be renewed: %s", self._ownership.flow_id, exc)
        target.close()
