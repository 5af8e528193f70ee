"""Which task copies what: the partitions of a flow, the slices they are planned for, and the tasks that hold them.

Everything here runs under one lock, and calls no broker. Invariants:

A  A partition is handed on without fencing only after the task that held it has sent `Left`, and only if that task
   had met its tail.
B  A new attempt at a slice ends the lease of the one before; a partition has one holder at most.
"""

import logging
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from heliograph.driving.lease_server import LeaseRefused, Line
from heliograph.driving.loads import Loads
from heliograph.driving.partitions import Attempt, Partition, Stop
from heliograph.driving.tally import Tally
from heliograph.model import Flow, Position, ProducerIdentity, StopKind, TopicPartition
from heliograph.policy.spread import Plan, place
from heliograph.wire.lease_messages import End, Hello, LaneShare, Leave, Left, Limit, Share, Take

log = logging.getLogger(__name__)

_LOOK = 1.0
_SILENT_LOOKS = 30  # without a ping from a task, which pings at least every five seconds
_UNUSED = 30.0  # seconds that a requested task may be without work
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 15.0  # until what could not be handed out is retried


class Right(NamedTuple):
    """The right to write a partition's remote ones: with which identities, and from where, if that is known better now.

    With `resume` the task reads the remote tail first; a task that writes runs continues with their last `segment`.
    """

    identities: Mapping[TopicPartition, ProducerIdentity]
    resume: bool
    position: Position | None = None
    segment: tuple[int, str] | None = None


class Roster:
    """The partitions of one flow and their holders. Methods may be called from any thread."""

    def __init__(self, flow: Flow, slices: int, tally: Tally, *, hands_on: bool) -> None:
        """Take how many slices there are; with `hands_on`, a task continues where another one left off."""
        self.changed = threading.Condition(threading.RLock())
        self.slices: list[tuple[TopicPartition, ...]] = []
        self.partitions: dict[TopicPartition, Partition] = {}
        self.attempts: dict[int, Attempt] = {}
        self.ending = False
        self.torn = False  # whether a task was lost at the end before it had handed over all
        self.tasks = 0  # how many are wanted, including those that have not connected yet
        self._asked_at = 0.0
        self._looked_at = 0.0
        self._outgoing: set[Partition] = set()  # still held, and no longer wanted
        self._flow = flow
        self._count = slices
        self._tally = tally
        self._hands_on = hands_on
        self._lanes: dict[TopicPartition, tuple[ProducerIdentity, int]] = {}
        self._loads = Loads()

    # What is to be copied

    def assign(self, partitions: Sequence[Partition]) -> bool:
        """Copy these partitions from now on; return whether that changes anything.

        A partition that is known, by its name and the ids of both topics, keeps its state. Only tasks that
        lose or get one are notified.
        """
        with self.changed:
            kept = {}
            changed = len(partitions) != len(self.partitions)
            for partition in partitions:
                known = self.partitions.get(partition.source)
                if known is None or not known.is_of(partition.topic_id, partition.remote_id):
                    kept[partition.source] = partition
                    changed = True
                    continue
                kept[partition.source] = known
                changed = self._update(known, partition) or changed
            if changed:
                for before in self.partitions.values():
                    if before.holder is not None and kept.get(before.source) is not before:
                        self._outgoing.add(before)
                self.partitions = kept
                some = kept or self.attempts  # a task that has nothing for a moment stays
                self.slices = place(kept, self.slices, self._loads.bytes) if some else []
                self.tasks = max(self.tasks, len(self.slices))
                self._withdraw()
                self.changed.notify_all()
            return changed

    def _update(self, known: Partition, wanted: Partition) -> bool:
        """Update what may differ in a partition that is known; return whether anything changed."""
        changed = False
        known.min_in_sync = wanted.min_in_sync
        if known.max_message_bytes != wanted.max_message_bytes:
            known.max_message_bytes = wanted.max_message_bytes
            changed = True
            holder = known.holder
            if holder is not None:
                slot = next(slot for slot, p in holder.slots.items() if p is known)
                holder.line.send(Limit(slot, wanted.max_message_bytes))
        turn = (wanted.remote, wanted.spread)
        if known.spread != wanted.spread and known.turn != turn:
            known.turn = turn
            changed = True
        return changed

    def rebalance(self) -> None:
        """Spread partitions over more tasks, or fewer, or differently, if their load requires it.

        A task is added before it is given anything: if Spark has no core for it, nothing moves.
        """
        with self.changed:
            if self.ending or len(self.attempts) < len(self.slices):
                return
            planned = self._loads.propose(self.slices, self.partitions, self.attempts, self._count)
            if planned and len(planned) > len(self.attempts):
                self.tasks = len(planned)
                self._asked_at = time.monotonic()
                self.changed.notify_all()
            elif planned:
                self._apply(planned)
            elif time.monotonic() - self._asked_at > _UNUSED:
                self.tasks = len(self.slices)
                self._end_idle()

    def _apply(self, planned: Plan) -> None:
        log.info(
            "flow=%s spreads partitions=%d over tasks=%d, which were %d",
            self._flow,
            len(self.partitions),
            len(planned),
            len(self.slices),
        )
        self.slices = planned
        self.tasks = len(planned)
        self._withdraw()
        self.changed.notify_all()

    def _end_idle(self) -> None:
        """End tasks that belong to no slice and no longer hold anything."""
        for index, attempt in self.attempts.items():
            if index >= self.tasks and not attempt.slots and not attempt.is_ending:
                attempt.is_ending = True
                attempt.line.send(End())

    def is_wanted(self, slice_index: int) -> bool:
        """Whether a slice needs a new task: it has something to do, or will get it."""
        if slice_index in self.attempts:
            return False
        return slice_index < self.tasks or bool(self.due_of(slice_index, time.monotonic()))

    def reposition(self, source: TopicPartition, upstream: int) -> None:
        """Continue a stopped partition from another upstream offset."""
        with self.changed:
            partition = self.partitions[source]
            assert partition.stop is not None, "only a stopped partition is repositioned"
            partition.position = Position(upstream, partition.position.downstream)
            partition.stop = None
            self.changed.notify_all()

    def explain_stop(self, source: TopicPartition, kind: StopKind, reason: str) -> None:
        """Replace the reason of a stopped partition with a better one."""
        with self.changed:
            partition = self.partitions[source]
            assert partition.stop is not None, "only a stopped partition has a reason"
            partition.stop = replace(partition.stop, kind=kind, reason=reason)
            log.error("flow=%s partition=%s stopped: %s", self._flow, source, reason)

    # Tasks come and go

    def let_in(self, line: Line, hello: Hello) -> Attempt:
        """Admit a task, which replaces the one that worked on its slice before (invariant B)."""
        with self.changed:
            if self.ending or hello.slice_index >= self._count:
                raise LeaseRefused(hello.flow, hello.slice_index, "the flow is being stopped")
            before = self.attempts.get(hello.slice_index)
            if before is not None and hello.task < before.task:
                raise LeaseRefused(hello.flow, hello.slice_index, "a later task has come")
            if before is not None:
                self.revoke(before)
                before.line.hang_up()
            attempt = Attempt(hello.slice_index, hello.task, line)
            self.attempts[hello.slice_index] = attempt
            self.changed.notify_all()
            return attempt

    def find_silent(self) -> list[Attempt]:
        """Return the tasks that have sent nothing for long. Called every second or so while the flow is ours.

        This counts looks, not seconds: a driver that was suspended itself does not blame its tasks.
        """
        with self.changed:
            now = time.monotonic()
            if now - self._looked_at < _LOOK:
                return []
            self._looked_at = now
            for attempt in self.attempts.values():
                attempt.silent_looks += 1
            return [a for a in self.attempts.values() if a.silent_looks == _SILENT_LOOKS]

    def attempt_of(self, line: Line) -> Attempt | None:
        with self.changed:
            return next((a for a in self.attempts.values() if a.line is line), None)

    def revoke(self, attempt: Attempt) -> None:
        """Take everything from an attempt; what it did not hand over is fenced before it is given again (A)."""
        with self.changed:
            if self.attempts.get(attempt.slice_index) is attempt:
                del self.attempts[attempt.slice_index]
            self.torn = self.torn or bool(attempt.slots and self.ending)
            if attempt.slots and not self.ending:
                log.warning(
                    "flow=%s slice=%d lost its task before it was done. What the task stored is found on the target.",
                    self._flow,
                    attempt.slice_index,
                )
            for slot in list(attempt.slots):
                partition = self._release(attempt, slot)
                if partition is not None:
                    partition.clean = False
            for topic in attempt.lane_topics:
                self._forget_lanes(topic)
            self.changed.notify_all()

    def end(self) -> None:
        """Tell all tasks to leave what they hold, and to end."""
        with self.changed:
            self.ending = True
            for attempt in self.attempts.values():
                attempt.is_ending = True
                attempt.line.send(End())
            self.changed.notify_all()

    def close(self) -> None:
        """Hand out nothing more."""
        with self.changed:
            self.ending = True
            self.changed.notify_all()

    def note_left(self, attempt: Attempt, left: Left) -> None:
        for slot in left.slots:
            partition = self._release(attempt, slot)
            if partition is not None:
                partition.clean = partition.identity is not None and not left.behind
                if left.trouble:
                    partition.retry_at = time.monotonic() + _FIRST_PAUSE
                    self.note_waits(partition, f"{left.trouble}. Its remote tail is read again")
        for topic, index, sequence in left.lanes:
            remote = TopicPartition(topic, index)
            identity, _ = self._lanes[remote]
            self._lanes[remote] = identity, sequence
        # The task has dropped these lanes; what was given to it meanwhile for them comes back.
        attempt.lane_topics -= {topic for topic, _, _ in left.lanes}
        self._end_lanes(attempt)
        self._end_idle()

    def _end_lanes(self, attempt: Attempt) -> None:
        """Take back the lanes that a task no longer uses; they are fenced before they are used again."""
        used = {p.remote.topic for p in attempt.slots.values() if p.spread}
        for topic in attempt.lane_topics - used:
            attempt.lane_topics.discard(topic)
            self._forget_lanes(topic)

    def note_stop(self, attempt: Attempt, slot: int, stop: Stop, *, spent: bool) -> None:
        """Note that a partition has stopped; with `spent`, it used sequences that were never stored."""
        partition = self._release(attempt, slot)
        if partition is None:
            return
        if spent or partition.spread:
            # The next writer starts with new sequences. Lanes that other partitions write to are intact: where one
            # is not, all partitions of its topic stop.
            partition.identity = None
            self._end_lanes(attempt)
        partition.clean = partition.identity is not None
        self.stop(partition, stop)

    def _release(self, attempt: Attempt, slot: int) -> Partition | None:
        partition = attempt.release(slot)
        if partition is not None:
            self._outgoing.discard(partition)
        return partition

    def stop(self, partition: Partition, stop: Stop) -> None:
        partition.stop, partition.waits = stop, None
        log.error(
            "flow=%s partition=%s stopped at upstream offset %d: %s. The other partitions go on%s.",
            self._flow,
            partition.source,
            stop.upstream,
            stop.reason,
            stop.again,
        )

    def note_waits(self, partition: Partition, reason: str | None) -> None:
        if reason is not None and partition.waits != reason:
            log.warning("flow=%s partition=%s waits: %s", self._flow, partition.source, reason)
        partition.waits = reason

    def _forget_lanes(self, topic: str) -> None:
        """Have the lanes of a topic fenced before they are used again: their sequences are not known."""
        self._lanes = {r: lane for r, lane in self._lanes.items() if r.topic != topic}

    # Handing out

    def due_of(self, slice_index: int, now: float) -> list[Partition]:
        """Return what a slice should be given."""
        if slice_index >= len(self.slices):
            return []
        # What a task still writes for another topic of the same name must be left first: fencing it fences us.
        taken = {partition.remote for partition in self._outgoing}
        members = (self.partitions[source] for source in self.slices[slice_index])
        return [p for p in members if p.is_due(now) and p.remote not in taken]

    def find_due(self) -> list[tuple[Attempt, list[Partition]]]:
        """Return what tasks should be given now, and do not have yet."""
        now = time.monotonic()
        due = []
        for index, attempt in self.attempts.items():
            partitions = [] if attempt.is_ending else self.due_of(index, now)
            if partitions:
                due.append((attempt, partitions))
        return due

    def is_handed_over(self, partition: Partition) -> bool:
        """Whether a partition needs no right: its last writer has handed it over (invariant A)."""
        if not self._hands_on:
            return False
        if not partition.spread:
            return partition.identity is not None and partition.clean
        return all(remote in self._lanes for remote in partition.remotes)

    def hand(
        self, attempt: Attempt, partitions: Sequence[Partition], rights: Mapping[Partition, Right]
    ) -> None:
        """Hand partitions to a task, unless it is gone: what was fenced for it is fenced again then."""
        with self.changed:
            for partition in partitions:
                partition.claimed = False
            is_there = self.attempts.get(attempt.slice_index) is attempt and not attempt.is_ending
            if not is_there or self.ending or attempt.slice_index >= len(self.slices):
                return
            members = set(self.slices[attempt.slice_index])
            given = [
                p
                for p in partitions
                if p.holder is None and p.source in members and self.partitions.get(p.source) is p
            ]
            for partition in given:
                if partition in rights:
                    self._note_right(partition, rights[partition])
            shares = tuple(self._share(attempt, p, rights.get(p)) for p in given)
            if shares:
                attempt.line.send(Take(shares, self._give_lanes(attempt, given)))
            self.changed.notify_all()

    def _share(self, attempt: Attempt, partition: Partition, right: Right | None) -> Share:
        if partition.spread and partition.identity is None:
            partition.identity = self._lanes[partition.remotes[0]][0]
        slot = attempt.take(partition)
        partition.clean, partition.pause = False, 0.0
        resume = right is not None and right.resume
        share = partition.share(slot, resume=resume, ours=self._hands_on)
        return share if right is None else replace(share, segment=right.segment)

    def put_off(self, partitions: Iterable[Partition], reason: str) -> None:
        """Retry partitions after a pause, which grows."""
        with self.changed:
            for partition in partitions:
                partition.claimed = False
                if partition.holder is None:
                    partition.pause = min(max(2 * partition.pause, _FIRST_PAUSE), _LONGEST_PAUSE)
                    partition.retry_at = time.monotonic() + partition.pause
                    self.note_waits(partition, reason)

    def refuse(self, stops: Mapping[Partition, Stop]) -> None:
        """Stop partitions that must not be handed out."""
        with self.changed:
            for partition, stop in stops.items():
                partition.claimed = False
                self.stop(partition, stop)

    def _note_right(self, partition: Partition, right: Right) -> None:
        partition.identity, partition.sequence = right.identities[partition.remotes[0]], 0
        if right.position is not None:
            partition.position = right.position
        if partition.spread:
            for remote in partition.remotes:
                self._lanes[remote] = right.identities[remote], 0

    def _give_lanes(
        self, attempt: Attempt, partitions: Iterable[Partition]
    ) -> tuple[LaneShare, ...]:
        """Return the lanes that a task needs for partitions and does not have."""
        given: dict[TopicPartition, LaneShare] = {}
        for partition in partitions:
            if not partition.spread or partition.remote.topic in attempt.lane_topics:
                continue
            for remote in partition.remotes:
                identity, sequence = self._lanes[remote]
                given[remote] = LaneShare(remote, identity, sequence, partition.max_message_bytes)
        attempt.lane_topics.update(remote.topic for remote in given)
        return tuple(given.values())

    def _withdraw(self) -> None:
        """Take from tasks what they should no longer hold."""
        planned = {source: i for i, members in enumerate(self.slices) for source in members}
        for index, attempt in self.attempts.items():
            leave = []
            for slot, partition in attempt.slots.items():
                stays = self.partitions.get(partition.source) is partition
                stays = stays and planned.get(partition.source) == index and partition.turn is None
                if not stays and slot not in attempt.leaving:
                    leave.append(slot)
            if leave:
                attempt.leaving.update(leave)
                self._tally.handovers += len(leave)
                attempt.line.send(Leave(tuple(leave)))
