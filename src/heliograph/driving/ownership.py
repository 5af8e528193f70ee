"""Which driver may write for a flow: the identities of its writers, and for how long they are known to be valid.

The flow itself has one identity, which decides which driver owns it, and signs the driver's own topics. Remote
partitions belong to groups by their names. Each group has its own identity, so what cannot be fenced in one group
stops no other. Invariants:

A  A driver that starts takes the flow, whichever driver had it. From then on it asks with the identity it holds, so it
   learns of a successor, and never takes a flow back by accident. The flow's own identity decides: a group that
   another driver has taken is taken again only if the flow is still ours.
B  Nothing is written by identities that were not renewed for two thirds of the time after which their coordinator
   forgets them: no writer uses what a coordinator has forgotten.
C  Where a coordinator has forgotten the identity that a predecessor wrote with, nothing is written before the
   predecessor's last permission to write has expired, unless the predecessor reported that it had ended.
D  All writers of a group have its producer id. If that changes, because the old one was forgotten, taken or used up,
   writers that have the old one are ended (`on_group_lost`): no driver could fence them later. So are the writers of a
   group that could not be renewed for half of the time after which its coordinator forgets it.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import NamedTuple
from zlib import crc32

from heliograph.errors import ClusterUnreachable, FlowFenced, KafkaFault, MirrorError
from heliograph.kafka.cluster import Cluster, patiently
from heliograph.kafka.fencing import fence_group, is_used_up, open_identity, was_forgotten
from heliograph.kafka.transactions import NOBODY
from heliograph.model import ProducerIdentity, TopicPartition
from heliograph.policy.elapsed import elapsed
from heliograph.tables.author import Author
from heliograph.wire.owner_records import Owner

log = logging.getLogger(__name__)

GROUPS = 32
PERMISSION = 20.0  # seconds that a task may write without another message from its driver
_MARGIN = 5.0
_LONGEST_BEAT = 60.0
_FENCE = timedelta(seconds=5)
_OPEN = timedelta(seconds=30)
_SIGN = timedelta(seconds=2)
_LONGEST_PAUSE = 30.0  # until a group that could not be renewed is tried again
WEEK = timedelta(days=7)  # Kafka's default
_WAITS = (
    "an earlier writer may still write: the target has forgotten its identity, so it cannot be fenced. Its permission "
    "ends in some seconds"
)


def group_of(remote: TopicPartition) -> int:
    """Return the group of a remote partition: it never changes, and is the same in every driver."""
    return crc32(str(remote).encode()) % GROUPS


def group_id(flow_id: str, group: int) -> str:
    """Return the transactional id of a group."""
    return f"{flow_id}-g{group}"


class Granted(NamedTuple):
    """The identities that may write to remote partitions now, and why others have none."""

    identities: Mapping[TopicPartition, ProducerIdentity]
    refused: Mapping[TopicPartition, str]


class _Held:
    """An identity that is held, and when it was last renewed; changed under its lock.

    Before `wait_until`, a writer that cannot be fenced may still write. If renewal failed, for the reason `trouble`, it
    is retried at `retry_at`.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.identity = NOBODY
        self.renewed_at = float("inf")  # what is not held cannot expire
        self.wait_until = 0.0
        self.retry_at = 0.0
        self.trouble: str | None = None


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
        self.on_group_lost: Callable[[int], None] = lambda _: None

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
        is the time after which coordinators forget an identity.
        """
        self._lifetime = lifetime.total_seconds()
        self._before = before
        with self._flow.lock:
            self._raise(target, self.flow_id, self._flow, _OPEN)
            self._fence_own(target, topics)
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

    def fence_own(self, target: Cluster, partitions: Sequence[TopicPartition]) -> None:
        """Keep earlier owners from partitions that only an owner writes to, in addition to those given to `open`."""
        with self._flow.lock:
            self._fence_own(target, partitions)

    def _fence_own(self, target: Cluster, partitions: Sequence[TopicPartition]) -> None:
        """Fence partitions that are known to exist; a coordinator may not know of a new topic yet."""

        def attempt() -> None:
            held = self._flow
            fenced = fence_group(target, self.flow_id, held.identity, partitions, _OPEN)
            held.identity = fenced.identity
            for reason in fenced.refused.values():
                raise KafkaFault(f"own {self.flow_id}", reason, retriable="UNKNOWN_TOPIC" in reason)

        if partitions:
            patiently(attempt, _OPEN)

    def forget(self) -> None:
        """Stop holding anything: the next `open` takes the flow, whichever driver has it."""
        for held in (self._flow, *self._groups):
            with held.lock:
                held.identity, held.renewed_at = NOBODY, float("inf")

    def verify(self, target: Cluster, within: timedelta = _FENCE) -> None:
        """Raise FlowFenced if another driver has the flow."""
        with self._flow.lock:
            self._raise(target, self.flow_id, self._flow, within)

    def author(self, target: Cluster) -> Author:
        """Return the author that signs this driver's own rows on the target. `target` belongs to the caller."""

        def renew() -> ProducerIdentity:
            self.verify(target, _SIGN)
            return self._flow.identity

        return Author(self._flow.identity, renew, lambda: self._flow.identity.producer_id)

    def record(self, *, released: bool = False) -> Owner:
        """Return what is saved about this owner."""
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
        """Renew what would be forgotten; raises FlowFenced if another driver has the flow. Called at intervals."""
        now = self._clock()
        if now - self._flow.renewed_at >= self.beat_every and now >= self._flow.retry_at:
            self._renew_flow(target)
        for group, held in enumerate(self._groups):
            if now - held.renewed_at >= self._lifetime / 3 and now >= held.retry_at:
                self._renew_group(target, group, held)

    def _renew_flow(self, target: Cluster) -> None:
        """Renew the flow's own identity; if its coordinator does not answer, groups are still renewed."""
        try:
            self.verify(target)
        except FlowFenced:
            raise
        except MirrorError as exc:
            self._flow.trouble = str(exc)
            self._flow.retry_at = self._clock() + self.beat_every / 12
        else:
            self._flow.trouble = None
            self._beat += 1

    def _renew_group(self, target: Cluster, group: int, held: _Held) -> None:
        """Renew one group; a group whose coordinator does not answer holds up no other.

        It is given up before it expires: a task has one permission for all that it writes.
        """
        with held.lock:
            try:
                self._raise(target, group_id(self.flow_id, group), held, _FENCE)
            except FlowFenced:
                self._lose(group, held)
            except MirrorError as exc:
                held.retry_at = self._clock() + min(_LONGEST_PAUSE, self._lifetime / 12)
                log.debug("group %d of %s cannot be renewed: %s", group, self.flow_id, exc)
                if self._clock() - held.renewed_at >= self._lifetime / 2:
                    held.wait_until = self._clock() + PERMISSION + _MARGIN
                    self._lose(group, held)

    def take_all(self, target: Cluster) -> None:
        """Take the groups that are not held yet, so that new topics need no coordinator, which may be away then."""
        for group, held in enumerate(self._groups):
            if held.identity == NOBODY:
                with suppress(KafkaFault, ClusterUnreachable):
                    self.take_group(target, group, ())

    def valid_for(self, remotes: Iterable[TopicPartition] = ()) -> float:
        """Return for how many seconds the identities of the flow and of the groups of `remotes` are valid (B)."""
        oldest = self._flow.renewed_at
        for group in {group_of(remote) for remote in remotes}:
            oldest = min(oldest, self._groups[group].renewed_at)
        return oldest + self._lifetime * 2 / 3 - self._clock()

    def troubles(self) -> list[str]:
        """Return why tasks may no longer write: identities that could not be renewed for too long."""
        silent = self._clock() - self._flow.renewed_at
        if not self._flow.trouble or silent <= self._lifetime * 2 / 3:
            return []
        return [
            f"{self.flow_id} could not be renewed for {silent:.0f} s, so nothing is written: {self._flow.trouble}"
        ]

    # Groups

    def take_group(
        self,
        target: Cluster,
        group: int,
        fence: Sequence[TopicPartition],
        made: Iterable[TopicPartition] = (),
    ) -> Granted:
        """Keep all others from writing to partitions of a group; those that we `made` have had no writer.

        What the coordinator refuses is returned with its reason; raises if it does not answer.
        """
        held, name = self._groups[group], group_id(self.flow_id, group)
        with held.lock:
            if fence or held.identity == NOBODY:
                self._take(target, group, held)
            if self._is_forgotten(name, held.identity):
                held.wait_until = max(held.wait_until, self._safe_at)
            refused: Mapping[TopicPartition, str] = {}
            if fence and self._clock() >= held.wait_until:
                asked_at, before = self._clock(), held.identity
                fenced = fence_group(target, name, before, fence, _FENCE)
                held.identity, held.renewed_at = fenced.identity, asked_at
                refused = fenced.refused
                if was_forgotten(before, fenced.identity):
                    self._use_up(group, held)
            if self._clock() < held.wait_until:
                return Granted({}, dict.fromkeys((*fence, *made), _WAITS))
            own = {remote: held.identity for remote in (*fence, *made) if remote not in refused}
            return Granted(own, refused)

    def open_groups(
        self, target: Cluster, remotes: Iterable[TopicPartition]
    ) -> set[TopicPartition]:
        """Take the groups of partitions that are about to be created, before another writer can find them.

        Returns the partitions whose groups could not be taken: these must be fenced once they exist.
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

    def _take(self, target: Cluster, group: int, held: _Held) -> None:
        """Take the next epoch of a group (invariant A)."""
        name, before = group_id(self.flow_id, group), held.identity
        if before != NOBODY:
            try:
                now = self._raise(target, name, held, _FENCE)
            except FlowFenced:
                self._lose(group, held)
            else:
                if was_forgotten(before, now):
                    self._use_up(group, held)
                return
        self.verify(target)
        self._raise(target, name, held, _FENCE)

    def _lose(self, group: int, held: _Held) -> None:
        """Note that a group is no longer held (invariant D)."""
        held.identity, held.renewed_at = NOBODY, float("inf")
        self.on_group_lost(group)

    def _use_up(self, group: int, held: _Held) -> None:
        """Note that a group's epochs were used up, and that it has another producer id now (invariant D)."""
        held.wait_until = self._clock() + PERMISSION + _MARGIN
        self.on_group_lost(group)

    def _raise(
        self, target: Cluster, name: str, held: _Held, within: timedelta
    ) -> ProducerIdentity:
        asked_at = self._clock()
        before = held.identity
        now = open_identity(target, name, before, within)
        if was_forgotten(before, now) and not is_used_up(before):
            # Another driver may have had it meanwhile, and what we know may be outdated.
            held.identity, held.renewed_at = NOBODY, float("inf")
            held.wait_until = self._clock() + PERMISSION + _MARGIN
            raise FlowFenced(name, "the transaction coordinator, which has forgotten it")
        held.identity, held.renewed_at = now, asked_at
        return now

    def _is_forgotten(self, name: str, now: ProducerIdentity) -> bool:
        """Whether a predecessor's identity of this name can no longer be fenced."""
        before = self._before
        if before is None or before.released or before.driver == self._driver:
            return False
        identity = before.identities.get(name)
        return identity is not None and was_forgotten(identity, now)


class Renewal:
    """Keeps the identities of one flow alive while its job runs, from a separate thread."""

    def __init__(
        self,
        ownership: Ownership,
        connect: Callable[[], Cluster],
        on_lost: Callable[[str], None],
        *,
        takes_all: bool,
    ) -> None:
        """Take what to renew; with `takes_all`, the groups that are not held yet are taken, too."""
        self._takes_all = takes_all
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
        is_first = True
        while not self._over.wait(min(self._ownership.beat_every / 2, 1.0)):
            try:
                self._ownership.renew(target)
                if is_first and self._takes_all:
                    self._ownership.take_all(target)
                is_first = False
            except FlowFenced as exc:
                self._on_lost(str(exc))
                break
            except Exception:
                log.exception("%s could not be renewed", self._ownership.flow_id)
        target.close()
