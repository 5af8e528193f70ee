"""When a copied record is worth an offset sync, and which syncs wait to be sent.

MirrorMaker 2 decides this for each acknowledged record; here it is decided for runs. The record at
`upstream`, written at `downstream`, is due a sync if

    1. none was due yet in this state's lifetime;
    2. downstream is more than offset.lag.max past the last record that was due one;
    3. upstream is not one past the record before it (compaction, markers, a rewind);
    4. downstream is before the record before it (the remote partition was truncated or recreated).

Inside a run both offsets grow by one, so only its first record can meet 1, 3 or 4, and rule 2 is met
every 1 + offset.lag.max records after the last one that was due.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from heliograph.model import TopicPartition
from heliograph.wire.mirror_records import OffsetSync

_NONE = -1


@dataclass(slots=True)
class SyncState:
    """What was acknowledged of one source partition, as far as offset syncs need it."""

    lag_max: int
    upstream: int = _NONE
    downstream: int = _NONE
    due_downstream: int = _NONE
    delayed: tuple[int, int] | None = None

    def note(self, upstream: int, downstream: int, count: int) -> tuple[int, int] | None:
        """Return the last pair of this run that is due a sync; a later record stays as `delayed`."""
        assert count > 0, f"a run of {count} records"
        first_is_due = (
            self.due_downstream == _NONE
            or downstream - self.due_downstream > self.lag_max
            or upstream - self.upstream != 1
            or downstream < self.downstream
        )
        period = 1 + self.lag_max
        last = downstream + count - 1
        start = downstream if first_is_due else self.due_downstream
        periods = (last - start) // period
        self.upstream, self.downstream = upstream + count - 1, last
        self.delayed = (self.upstream, self.downstream)
        if not first_is_due and periods == 0:
            return None
        self.due_downstream = start + periods * period
        if self.due_downstream == last:
            self.delayed = None
        return upstream + self.due_downstream - downstream, self.due_downstream


class SyncQueue:
    """The offset syncs of one flow that wait: a partition's first, and its newest. Use from one thread."""

    def __init__(self, lag_max: int) -> None:
        self._lag_max = lag_max
        self._states: dict[TopicPartition, SyncState] = {}
        self._first: dict[TopicPartition, OffsetSync] = {}
        self._pending: dict[TopicPartition, OffsetSync] = {}
        self._delayed: dict[TopicPartition, OffsetSync] = {}
        self._taken: dict[TopicPartition, OffsetSync] = {}
        self._taken_first: dict[TopicPartition, OffsetSync] = {}

    def note(self, partition: TopicPartition, runs: Iterable[tuple[int, int, int]]) -> None:
        """Note acknowledged runs, each (upstream, downstream, count), in the order of the source."""
        is_new = partition not in self._states
        state = self._states.setdefault(partition, SyncState(self._lag_max))
        for upstream, downstream, count in runs:
            if is_new:
                # A reader that translates from syncs alone knows nothing before the first of them.
                self._first[partition] = OffsetSync(partition, upstream, downstream)
                is_new = False
            due = state.note(upstream, downstream, count)
            if due is not None:
                self._delayed.pop(partition, None)
                self._pending[partition] = OffsetSync(partition, *due)
            if state.delayed is not None:
                self._delayed[partition] = OffsetSync(partition, *state.delayed)

    def promote(self) -> None:
        """Make the delayed syncs pending, so that a quiet partition reaches its end (KAFKA-15906)."""
        self._pending.update(self._delayed)
        self._delayed.clear()

    def due(self) -> list[OffsetSync]:
        """Take all pending syncs, the longest waiting one first."""
        firsts = [s for p, s in self._first.items() if self._pending.get(p) != s]
        taken = [*firsts, *self._pending.values()]
        self._taken.update(self._pending)
        self._taken_first = dict(self._first)
        self._first.clear()
        self._pending.clear()
        return taken

    def put_back(self, syncs: Iterable[OffsetSync]) -> None:
        """Queue unsent syncs again, before all others; those overtaken by a newer one are dropped.

        An older sync sent after a newer one would look like a rewind, and every reader would lose its history.
        """
        wanted = list(syncs)
        unsent = {s.partition: s for s in wanted if self._taken.get(s.partition) == s}
        self._pending = {**unsent, **self._pending}
        firsts = {s.partition: s for s in wanted if self._taken_first.get(s.partition) == s}
        self._first = {**self._first, **firsts}

    def recall(self, partition: TopicPartition, upstream: int, downstream: int) -> None:
        """Note a pair that is known from an earlier start of the flow."""
        self._taken[partition] = OffsetSync(partition, upstream, downstream)

    def repeat(self) -> None:
        """Queue the newest sync of every partition again: those that were sent are gone."""
        self._pending = {**self._taken, **self._pending}

    def forget(self, partition: TopicPartition) -> None:
        for per_partition in (
            self._states,
            self._first,
            self._pending,
            self._delayed,
            self._taken,
            self._taken_first,
        ):
            per_partition.pop(partition, None)
