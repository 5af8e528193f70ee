"""Handing partitions to tasks: those handed over continue at once, the rest once their earlier writers are fenced.

A few threads fence groups of partitions in parallel. A group whose last try failed is left to a thread for such
groups alone, so that a broker that does not answer keeps no others waiting.
"""

import logging
import queue
import threading
from collections.abc import Callable, Container, Hashable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from heliograph.driving.partitions import Attempt, Partition, Stop
from heliograph.driving.pulse import Pulse
from heliograph.driving.roster import Right, Roster
from heliograph.errors import FlowFenced, FlowHeld, MirrorError
from heliograph.kafka.cluster import Cluster
from heliograph.model import Endpoint, TopicPartition
from heliograph.wire.lease_messages import Ledger

log = logging.getLogger(__name__)

_LOOK = 1.0
_THREADS = 3


@dataclass(frozen=True, slots=True)
class Taken:
    """The result of taking rights: the rights, why others have none yet, and what must not be copied."""

    rights: Mapping[Partition, Right]
    refused: Mapping[Partition, str] = field(default_factory=dict)
    stops: Mapping[Partition, Stop] = field(default_factory=dict)


class Rights(Protocol):
    """Gives tasks the right to write, and denies it to all others."""

    @property
    def is_exclusive(self) -> bool:
        """Whether remote partitions have no other writer."""

    def ledger_of(self, slice_index: int) -> Ledger | None:
        """Return where a slice writes its positions, if it does."""

    def group_of(self, attempt: Attempt, partition: Partition) -> Hashable:
        """Return the group that is taken together: for one group, one thread at a time calls `take`."""

    def take(self, target: Cluster, attempt: Attempt, partitions: Sequence[Partition]) -> Taken:
        """Return the rights for partitions of one group that were not handed over."""

    def verify(self, target: Cluster) -> None:
        """Raise FlowFenced if another driver has the flow."""

    def valid_for(self, remotes: Iterable[TopicPartition] = ()) -> float:
        """Return for how many seconds the flow, and the writers to `remotes`, are valid unverified. Thread-safe."""

    def troubles(self) -> list[str]:
        """Return why identities are no longer valid. Thread-safe."""

    def watch(self, on_lost: Callable[[Container[TopicPartition]], None]) -> None:
        """Call `on_lost`, from any thread, when the writers of some remote partitions must end."""


_Errand: TypeAlias = Callable[[Cluster], None]


class Hands:
    """The threads that hand out one job's partitions."""

    def __init__(
        self,
        target: Endpoint,
        roster: Roster,
        rights: Rights,
        pulse: Pulse,
        *,
        may_copy: Callable[[Cluster], None],
        on_fatal: Callable[[str, str], None],
        on_silent: Callable[[Attempt], None],
    ) -> None:
        """Take what to hand out; `may_copy` raises FlowHeld if the target says that no driver may copy.

        `on_silent` is called with a task that has sent nothing for long.
        """
        self._endpoint = target
        self._roster = roster
        self._rights = rights
        self._pulse = pulse
        self._may_copy = may_copy
        self._on_fatal = on_fatal
        self._on_silent = on_silent
        self._over = threading.Event()
        self._busy: set[Hashable] = set()
        self._doubts = False
        self.doubt_reason: str | None = None  # why it is not known which driver owns the flow
        self._first: queue.SimpleQueue[_Errand | None] = queue.SimpleQueue()
        self._again: queue.SimpleQueue[_Errand | None] = queue.SimpleQueue()
        self._threads = [threading.Thread(target=self._watch, name="hands", daemon=True)]
        for waiting in (*[self._first] * _THREADS, self._again):
            worker = threading.Thread(target=self._work, args=(waiting,), name="hand", daemon=True)
            self._threads.append(worker)

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Hand out nothing more; the roster has been closed. Does not wait for running errands."""
        self._over.set()
        for _ in range(_THREADS):
            self._first.put(None)
        self._again.put(None)

    def doubt(self) -> None:
        """Request a check that the flow is still ours: one of its writers was fenced."""
        with self._roster.changed:
            self._doubts = True
            self._roster.changed.notify_all()

    def _watch(self) -> None:
        """Find what is due, and verify that the flow is ours. Runs in one thread."""
        with closing(Cluster(self._endpoint)) as target:
            while self._wait():
                try:
                    self._look_around(target)
                except (FlowFenced, FlowHeld) as exc:
                    self._give_up(exc)
                    return
                except MirrorError as exc:
                    self.doubt_reason = str(exc)
                    self._over.wait(_LOOK)
                except Exception as exc:
                    log.exception("partitions are not handed out")
                    self.doubt_reason = f"{type(exc).__name__}: {exc}"
                    self._over.wait(_LOOK)

    def _look_around(self, target: Cluster) -> None:
        self._make_sure(target)
        self.doubt_reason = None
        self._roster.rebalance()
        self._hand_out()
        for attempt in self._roster.find_silent():
            self._on_silent(attempt)

    def _wait(self) -> bool:
        """Wait until something may be due; return whether there is more to do."""
        roster = self._roster
        with roster.changed:
            roster.changed.wait_for(
                lambda: roster.ending or self._doubts or self._ready_groups(), _LOOK
            )
            return not roster.ending

    def _make_sure(self, target: Cluster) -> None:
        if not self._pulse.is_regular() or self._doubts:
            self._rights.verify(target)
            self._doubts = False
            self._pulse.resume()

    def _ready_groups(self) -> bool:
        return any(
            self._rights.group_of(attempt, partition) not in self._busy
            for attempt, partitions in self._roster.find_due()
            for partition in partitions
        )

    def _hand_out(self) -> None:
        """Hand over what needs no right, and queue the rest for threads that take the right."""
        groups: dict[tuple[Attempt, Hashable], list[Partition]] = {}
        with self._roster.changed:
            for attempt, partitions in self._roster.find_due():
                at_once = []
                for partition in partitions:
                    partition.apply_turn()
                    group = self._rights.group_of(attempt, partition)
                    if self._roster.is_handed_over(partition):
                        at_once.append(partition)
                    elif group not in self._busy:
                        groups.setdefault((attempt, group), []).append(partition)
                self._roster.hand(attempt, at_once, {})
            for (attempt, group), members in groups.items():
                if group in self._busy:
                    continue  # wanted by two tasks: one after the other
                self._busy.add(group)
                for partition in members:
                    partition.claimed = True
                waiting = self._again if any(p.pause for p in members) else self._first
                waiting.put(self._errand(attempt, group, members))

    def _errand(self, attempt: Attempt, group: Hashable, members: list[Partition]) -> _Errand:
        def run(target: Cluster) -> None:
            try:
                self._take(target, attempt, members)
            finally:
                with self._roster.changed:
                    self._busy.discard(group)
                    self._roster.changed.notify_all()

        return run

    def _work(self, waiting: "queue.SimpleQueue[_Errand | None]") -> None:
        with closing(Cluster(self._endpoint)) as target:
            while (errand := waiting.get()) is not None:
                errand(
                    target
                )  # it raises nothing: a thread that ends would leave partitions claimed

    def _take(self, target: Cluster, attempt: Attempt, members: list[Partition]) -> None:
        """Take the right to some partitions of one group, and hand them out."""
        if self._roster.ending:
            return
        try:
            taken = self._rights.take(target, attempt, members)
            # Asked now, because a failover says so first and fences afterwards.
            self._may_copy(target)
        except (FlowFenced, FlowHeld) as exc:
            self._give_up(exc)
            return
        except MirrorError as exc:
            target.ask_another()  # this one may be cut off, and know old leaders
            self._roster.put_off(members, str(exc))
            return
        except Exception as exc:
            log.exception(
                "partitions were not handed out: %s", ", ".join(str(p.source) for p in members)
            )
            self._roster.put_off(members, f"{type(exc).__name__}: {exc}")
            return
        self._roster.refuse(taken.stops)
        self._roster.hand(attempt, list(taken.rights), taken.rights)
        for partition, reason in taken.refused.items():
            self._roster.put_off([partition], reason)

    def _give_up(self, exc: FlowFenced | FlowHeld) -> None:
        self._on_fatal("held" if isinstance(exc, FlowHeld) else "fenced", str(exc))
