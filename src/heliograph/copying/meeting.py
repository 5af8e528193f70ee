"""Meeting the tail: comparing what a predecessor stored after the saved position with the source, to skip it.

This happens before a partition is copied, in one thread for all partitions with the same leader on the target, so
that an unavailable broker keeps no others waiting. A tail is skipped batch by batch where a source batch and its
copy are the same bytes. Otherwise (merged, re-encoded, or written by MirrorMaker 2) it is skipped record by record:
the bodies of the rest of the tail are read, some thousand at a time, and compared.
"""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing

from heliograph.copying.rounds import Outcome, Round, Waits
from heliograph.errors import MirrorError
from heliograph.kafka.cluster import NO_LEADER, Cluster, Topic
from heliograph.model import Endpoint
from heliograph.wire.lease_messages import Share

_PAUSE = 1.0
_NO_THREAD = "the tail is not read yet: this process can start no more threads. Raise its limit of processes."

Tell = Callable[[Outcome], None]


class Meeting:
    """The meetings of one slice; `tell` is called from their threads."""

    def __init__(
        self, source: Endpoint, target: Endpoint, tell: Tell, *, committed_only: bool
    ) -> None:
        self._source = source
        self._target = target
        self._tell = tell
        self._committed_only = committed_only
        self._unwanted: set[int] = set()
        self._closed = threading.Event()

    def start(self, shares: Sequence[Share]) -> None:
        """Meet the tails of these partitions; returns at once."""
        threading.Thread(
            target=self._divide, args=(list(shares),), name="tails", daemon=True
        ).start()

    def forget(self, slot: int) -> None:
        """Report nothing more about a partition."""
        self._unwanted.add(slot)

    def close(self) -> None:
        self._closed.set()

    def _divide(self, shares: list[Share]) -> None:
        """Start one thread per leader, which meets the tails of its partitions."""
        with closing(Cluster(self._target)) as target:
            while shares := self._wanted(shares):
                try:
                    described = target.describe_each({share.remote.topic for share in shares})
                except MirrorError as exc:
                    self._wait(shares, str(exc))
                    continue
                waiting: dict[int, str] = {}
                for leader, members in _by_leader(shares, described.found).items():
                    if leader == NO_LEADER:
                        waiting.update((m.slot, described.why_waiting(m.remote)) for m in members)
                    elif not self._start_thread(members):
                        waiting.update(dict.fromkeys((m.slot for m in members), _NO_THREAD))
                for slot, why in waiting.items():
                    self._tell(Waits((slot,), why))
                shares = [share for share in shares if share.slot in waiting]
                self._closed.wait(_PAUSE if shares else 0)

    def _start_thread(self, members: list[Share]) -> bool:
        """Start a thread that meets the tails of one leader; return whether this process could."""
        meets = threading.Thread(
            target=self._meet_patiently, args=(members,), name="tails", daemon=True
        )
        try:
            meets.start()
        except RuntimeError:
            return False
        return True

    def _wanted(self, shares: Iterable[Share]) -> list[Share]:
        if self._closed.is_set():
            return []
        return [share for share in shares if share.slot not in self._unwanted]

    def _wait(self, shares: Sequence[Share], reason: str) -> None:
        self._tell(Waits(tuple(share.slot for share in shares), reason))
        self._closed.wait(_PAUSE)

    def _meet_patiently(self, shares: list[Share]) -> None:
        """Meet the tails of partitions with one leader, until all are met, stopped, or no longer wanted."""
        left = {share.slot: share for share in shares}
        while left := {share.slot: share for share in self._wanted(left.values())}:
            try:
                with (
                    closing(Cluster(self._source)) as source,
                    closing(Cluster(self._target)) as target,
                ):
                    tries = Round(source, target, self._tell, committed_only=self._committed_only)
                    for slot, outcome in tries.run(list(left.values()), self._wanted):
                        del left[slot]
                        self._tell(outcome)
                if left:
                    self._closed.wait(_PAUSE)
            except MirrorError as exc:
                self._wait(list(left.values()), str(exc))
            except Exception as exc:  # noqa: BLE001 - a thread that ends would leave its partitions waiting
                self._wait(list(left.values()), str(exc) or type(exc).__name__)


def _by_leader(shares: Iterable[Share], topics: Mapping[str, Topic]) -> dict[int, list[Share]]:
    by_leader: dict[int, list[Share]] = {}
    for share in shares:
        topic, index = topics.get(share.remote.topic), share.remote.index
        leads = topic is not None and index < len(topic.leaders)
        leader = topic.leaders[index] if topic is not None and leads else NO_LEADER
        by_leader.setdefault(leader, []).append(share)
    return by_leader
