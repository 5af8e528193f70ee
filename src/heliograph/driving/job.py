"""One flow on Spark: which task copies which partition, how far each is, and who may write.

A slice is a Spark job of one task, which runs until it is told to end. Each slice is started, fails, backs off and
comes back alone; partitions are handed to its task and taken back over its lease while it runs. Invariants:

A  A partition is handed on without fencing only after the task that held it has said `Left`, and only if that task
   had met its tail.
B  A new attempt at a slice ends the lease of the one before; a partition has one holder at most.
C  Positions only come from acknowledged batches, so any of them may be saved at any time.
D  Where records went is told (`on_runs`: upstream, downstream, count) before the position after them.
"""

import logging
import threading
import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Protocol, assert_never

from heliograph.driving.lease_server import LeaseRefused, LeaseServer, Line
from heliograph.driving.loads import Loads
from heliograph.driving.partitions import Attempt, Partition, Stop, stop_from
from heliograph.driving.pulse import Pulse
from heliograph.driving.slices import SliceRunner
from heliograph.driving.tally import Tally
from heliograph.errors import FlowFenced, FlowHeld, MirrorError
from heliograph.kafka.cluster import Cluster
from heliograph.model import Endpoint, Flow, Position, ProducerIdentity, StopKind, TopicPartition
from heliograph.policy.topics import plan_slices
from heliograph.spark.cores import describe_missed
from heliograph.spark.engine import Engine
from heliograph.wire.lease_messages import (
    Alive,
    End,
    Fenced,
    Foreign,
    Hello,
    LaneShare,
    Leave,
    Ledger,
    Left,
    Limit,
    Limits,
    Note,
    Ping,
    Report,
    Share,
    SlotWritten,
    Stopped,
    Take,
    Welcome,
)

log = logging.getLogger(__name__)

_RETRY = 1.0  # seconds until a partition that could not be handed out is tried again
_LOOK = 1.0
_ALIVE = 20.0  # seconds that a task may write without another word from its driver
_GRACE = 0.5

OnRuns = Callable[[TopicPartition, list[tuple[int, int, int]]], None]


@dataclass(frozen=True, slots=True)
class JobOptions:
    """What a job is given once, when it is made; `key` tells it from all others of this driver."""

    flow: Flow
    key: str
    source: Endpoint
    target: Endpoint
    limits: Limits
    slices: int


@dataclass(frozen=True, slots=True)
class Right:
    """The right to write a partition's remote ones: as whom, and from where, if that is known better now."""

    identities: Mapping[TopicPartition, ProducerIdentity]
    resume: bool
    position: Position | None = None


class Rights(Protocol):
    """Gives tasks the right to write, and keeps everybody else from it. Called from one thread."""

    @property
    def is_exclusive(self) -> bool:
        """Whether nobody else writes to remote partitions."""

    def ledger_of(self, slice_index: int) -> Ledger | None:
        """Return where a slice writes its positions, if it does."""

    def take(
        self, target: Cluster, attempt: Attempt, partitions: Sequence[Partition]
    ) -> tuple[Mapping[Partition, Right], Mapping[Partition, str]]:
        """Return the rights for partitions that were not handed over, and why there is none for others."""

    def verify(self, target: Cluster) -> None:
        """Raise FlowFenced if another driver has the flow."""

    def valid_for(self) -> float:
        """Return for how many seconds identities are good without being verified. For any thread."""


class FlowJob:
    """Runs one flow. Methods may be called from any thread."""

    def __init__(
        self,
        options: JobOptions,
        leases: LeaseServer,
        rights: Rights,
        *,
        on_fatal: Callable[[str, str], None],
        on_runs: OnRuns,
        may_copy: Callable[[Cluster], None] = lambda _: None,
        tally: Tally | None = None,
    ) -> None:
        """Take what to do; `may_copy` raises FlowHeld if the target says that nobody may.

        With a `tally` that the job before has counted in, it counts on.
        """
        self._options = options
        self._leases = leases
        self._rights = rights
        self._on_fatal = on_fatal
        self._on_runs = on_runs
        self._may_copy = may_copy
        self._changed = threading.Condition(threading.RLock())
        self._lock = self._changed
        self._partitions: dict[TopicPartition, Partition] = {}
        self._slices: list[tuple[TopicPartition, ...]] = []
        self._attempts: dict[int, Attempt] = {}
        self._lanes: dict[TopicPartition, tuple[ProducerIdentity, int]] = {}
        self._runners: list[SliceRunner] = []
        self._loads = Loads()
        self._engine: Engine | None = None
        self._missed_since: dict[int, float] = {}
        self._starved_before: str | None = None
        self._target = Cluster(options.target)
        self._hands: threading.Thread | None = None
        self._pulse = Pulse()
        self._ending = False
        self._given_up = False
        self.tally = tally if tally is not None else Tally()
        leases.register(options.key, self)

    # What the flow asks for

    def assign(self, partitions: Sequence[Partition]) -> bool:
        """Copy these partitions from now on; return whether that changes anything.

        A partition that is known, by its name and the ids of both topics, keeps its state. Only tasks that
        lose or get one hear of it.
        """
        with self._changed:
            kept = {}
            changed = len(partitions) != len(self._partitions)
            for partition in partitions:
                known = self._partitions.get(partition.source)
                if known is None or not known.is_of(partition.topic_id, partition.remote_id):
                    kept[partition.source] = partition
                    changed = True
                    continue
                kept[partition.source] = known
                changed = self._update(known, partition) or changed
            if changed:
                self._partitions = kept
                held = [frozenset(members) for members in self._slices]
                self._slices = plan_slices(kept, self._options.slices, held)
                self._withdraw()
                self._changed.notify_all()
            return changed

    def _update(self, known: Partition, wanted: Partition) -> bool:
        """Take over what may differ in a partition that is known; return whether anything does."""
        changed = False
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

    def start(self, engine: Engine) -> None:
        """Start the slices; their tasks come for their leases a moment later."""
        self._engine = engine
        engine.seat(self._options.key, self._options.slices)
        self._pulse.start()
        self._hands = threading.Thread(
            target=self._hand_out, name=f"{self._options.flow} hands", daemon=True
        )
        self._hands.start()
        self._runners = [
            SliceRunner(
                engine,
                self._leases,
                self._options.key,
                index,
                is_wanted=self._is_wanted,
                on_restart=self._note_restart,
            )
            for index in range(self._options.slices)
        ]
        for runner in self._runners:
            runner.start()

    def stop(self, within: timedelta) -> bool:
        """Drain and end the tasks; return whether every one finished what it had begun."""
        deadline = time.monotonic() + within.total_seconds()
        with self._changed:
            self._ending = True
            for attempt in self._attempts.values():
                attempt.is_ending = True
                attempt.line.send(End())
            self._changed.notify_all()
            drained = self._changed.wait_for(
                lambda: not any(attempt.slots for attempt in self._attempts.values()),
                max(deadline - time.monotonic(), 0),
            )
            # Tasks that have ended close their lines; the others are hung up on.
            self._changed.wait_for(lambda: not self._attempts, _GRACE)
            for attempt in self._attempts.values():
                attempt.line.hang_up()
        for runner in self._runners:
            runner.stop(max(deadline - time.monotonic(), _GRACE))
        if self._engine is not None:
            self._engine.seat(self._options.key, 0)
            self._engine = None  # tasks that have ended are not missed
        self._pulse.stop()
        if self._hands is not None:
            self._hands.join(max(deadline - time.monotonic(), _GRACE))
        self._leases.forget(self._options.key, self)
        if self._hands is None or not self._hands.is_alive():
            self._target.close()
        return drained

    # What may be looked at

    def partitions(self) -> list[Partition]:
        """Return the live state of every partition, for looking at."""
        with self._lock:
            return list(self._partitions.values())

    def stopped(self) -> list[Partition]:
        """Return the partitions that do not go on: none, as a rule, so it is asked often."""
        with self._lock:
            return [p for p in self._partitions.values() if p.stop is not None]

    def slices(self) -> list[tuple[TopicPartition, ...]]:
        """Return which partitions each task works on."""
        with self._lock:
            return list(self._slices)

    def tasks(self) -> int:
        """Return how many tasks hold partitions."""
        with self._lock:
            return sum(bool(attempt.slots) for attempt in self._attempts.values())

    def troubles(self) -> list[str]:
        """Return what keeps all of the flow waiting, such as a cluster that does not answer."""
        with self._lock:
            going = [p for p in self._partitions.values() if p.stop is None]
            all_wait = bool(going) and all(p.waits for p in going)
            reasons = {p.waits for p in going if p.waits} if all_wait else set()
            reasons |= {runner.failure for runner in self._runners if runner.failure}
        starved = self._starved()
        return sorted(reasons | {starved} if starved else reasons)

    def waiting(self) -> dict[TopicPartition, str]:
        """Return why partitions do not get further for the moment."""
        with self._lock:
            return {p.source: p.waits for p in self._partitions.values() if p.waits and not p.stop}

    def _starved(self) -> str | None:
        """Return the sentence about tasks that Spark does not start."""
        engine = self._engine
        if engine is None:
            return None
        now = time.monotonic()
        with self._lock:
            absent = {
                index
                for index, members in enumerate(self._slices)
                if members and index not in self._attempts and not self._ending
            }
            self._missed_since = {i: self._missed_since.get(i, now) for i in absent}
            missed = sum(now - since > 30 for since in self._missed_since.values())
        starved = engine.shortage()
        cores = engine.cores()
        if starved is None and missed and cores is not None:
            starved = describe_missed(missed, cores)
        if starved is not None and starved != self._starved_before:
            log.warning("flow=%s waits: %s", self._options.flow, starved)
        self._starved_before = starved
        return starved

    # What a runner decides

    def rebalance(self) -> None:
        """Move partitions from a task that cannot keep up to one that has little to do, if that helps."""
        with self._changed:
            if len(self._attempts) < len(self._slices):
                return
            planned = self._loads.propose(self._slices, self._partitions)
            if planned:
                log.info("flow=%s moves partitions between its tasks", self._options.flow)
                self._slices = planned
                self._withdraw()
                self._changed.notify_all()

    def reposition(self, source: TopicPartition, upstream: int) -> None:
        """Go on with a stopped partition from another upstream offset."""
        with self._changed:
            partition = self._partitions[source]
            assert partition.stop is not None, "only a stopped partition is repositioned"
            partition.position = Position(upstream, partition.position.downstream)
            partition.stop = None
            self._changed.notify_all()

    def explain_stop(self, source: TopicPartition, kind: StopKind, reason: str) -> None:
        """Replace the reason of a stopped partition by a better one."""
        with self._lock:
            partition = self._partitions[source]
            assert partition.stop is not None, "only a stopped partition has a reason"
            partition.stop = replace(partition.stop, kind=kind, reason=reason)
            log.error("flow=%s partition=%s stopped: %s", self._options.flow, source, reason)

    # What tasks say

    def grant(self, line: Line, hello: Hello) -> Welcome:
        """Let a task in, in place of the one that worked on its slice before (invariant B)."""
        with self._changed:
            if self._ending or hello.slice_index >= self._options.slices:
                raise LeaseRefused(hello.flow, hello.slice_index, "the flow is being stopped")
            before = self._attempts.get(hello.slice_index)
            if before is not None and hello.task < before.task:
                raise LeaseRefused(hello.flow, hello.slice_index, "a later task has come")
            if before is not None:
                self._revoke(before)
                before.line.hang_up()
            attempt = Attempt(hello.slice_index, hello.task, line)
            self._attempts[hello.slice_index] = attempt
            if self._runners:
                self._runners[hello.slice_index].note_progress()
            self._changed.notify_all()
        options = self._options
        return Welcome(
            flow=str(options.flow),
            source=options.source,
            target=options.target,
            limits=options.limits,
            ledger=self._rights.ledger_of(hello.slice_index),
        )

    def heard(self, line: Line, note: Note) -> None:
        """Take a note; one of an attempt that was replaced counts no more."""
        if isinstance(note, Ping):
            self._answer(line, note)
            return
        with self._changed:
            attempt = self._attempt_of(line)
            if attempt is not None:
                self._note(attempt, note)
                self._changed.notify_all()

    def _note(self, attempt: Attempt, note: Note) -> None:
        match note:
            case Report():
                self._note_report(attempt, note)
            case Left():
                self._note_left(attempt, note)
            case Stopped():
                self._note_stop(attempt, note)
            case Foreign():
                self._note_foreign(note)
            case Fenced():
                self._give_up("fenced", note.reason)
            case Hello() | Ping():
                pass  # heard before
            case _:
                assert_never(note)

    def lost(self, line: Line) -> None:
        """Take back what a task held whose lease has ended."""
        with self._changed:
            attempt = self._attempt_of(line)
            if attempt is not None:
                self._revoke(attempt)
                self._changed.notify_all()

    def _attempt_of(self, line: Line) -> Attempt | None:
        return next((a for a in self._attempts.values() if a.line is line), None)

    def _answer(self, line: Line, ping: Ping) -> None:
        """Let a task write on, unless somebody else may have the flow."""
        if self._given_up or not self._pulse.is_regular():
            return
        seconds = min(_ALIVE, self._rights.valid_for())
        if seconds > 0:
            line.send(Alive(ping.number, seconds))

    def _revoke(self, attempt: Attempt) -> None:
        """Take all from an attempt; what it did not hand over is fenced before it is given again (A)."""
        if self._attempts.get(attempt.slice_index) is attempt:
            del self._attempts[attempt.slice_index]
        if attempt.slots and not self._given_up:
            log.warning(
                "flow=%s slice=%d lost its task before it was done. What the task stored is found on the target.",
                self._options.flow,
                attempt.slice_index,
            )
        for slot in list(attempt.slots):
            partition = attempt.release(slot)
            if partition is not None:
                partition.clean = False
        for topic in attempt.lane_topics:
            self._forget_lanes(topic)

    def _note_report(self, attempt: Attempt, report: Report) -> None:
        now = time.monotonic()
        for read in report.read:
            if read.slot in attempt.slots:
                attempt.slots[read.slot].note_read(read, now)
        for written in report.written:
            if written.slot in attempt.slots:
                self._note_written(attempt.slots[written.slot], written, now)
        self.tally.verdicts.update(report.verdicts or {})
        self.tally.latency.merge(report.latency or self.tally.latency.nothing())
        for slot, partition in attempt.slots.items() if report.waits is not None else ():
            self._note_waits(partition, (report.waits or {}).get(slot))

    def _note_written(self, partition: Partition, written: SlotWritten, now: float) -> None:
        if written.runs:
            self._on_runs(partition.source, list(written.runs))
        partition.note_written(written, now)
        self.tally.add(partition.source.topic, written.records, written.size)

    def _note_waits(self, partition: Partition, reason: str | None) -> None:
        if reason is not None and partition.waits != reason:
            log.warning(
                "flow=%s partition=%s waits: %s", self._options.flow, partition.source, reason
            )
        partition.waits = reason

    def _note_left(self, attempt: Attempt, left: Left) -> None:
        for slot in left.slots:
            partition = attempt.release(slot)
            if partition is not None:
                partition.clean = partition.identity is not None and not left.behind
        for topic, index, sequence in left.lanes:
            remote = TopicPartition(topic, index)
            identity, _ = self._lanes[remote]
            self._lanes[remote] = identity, sequence
        self._end_lanes(attempt, {topic for topic, _, _ in left.lanes})

    def _end_lanes(self, attempt: Attempt, told: Container[str] = ()) -> None:
        """Take back the lanes that a task has no use for; those not `told` of are fenced before they are used again."""
        used = {p.remote.topic for p in attempt.slots.values() if p.spread}
        for topic in attempt.lane_topics - used:
            attempt.lane_topics.discard(topic)
            if topic not in told:
                self._forget_lanes(topic)

    def _forget_lanes(self, topic: str) -> None:
        """Have the lanes of a topic fenced before they are used again: their sequences are not known."""
        self._lanes = {r: lane for r, lane in self._lanes.items() if r.topic != topic}

    def _note_stop(self, attempt: Attempt, stopped: Stopped) -> None:
        partition = attempt.release(stopped.slot)
        if partition is None:
            return
        if stopped.spent or partition.spread:
            # Sequences were given to batches that were never stored; the next writer starts with new ones.
            # Lanes that other partitions write to are whole: where one is not, all of its topic stop.
            partition.identity = None
            self._end_lanes(attempt)
        partition.clean = partition.identity is not None
        self._stop(partition, stop_from(stopped))

    def _stop(self, partition: Partition, stop: Stop) -> None:
        partition.stop, partition.waits = stop, None
        log.error(
            "flow=%s partition=%s stopped at upstream offset %d: %s. The other partitions go on%s.",
            self._options.flow,
            partition.source,
            stop.upstream,
            stop.reason,
            stop.again,
        )

    def _note_foreign(self, foreign: Foreign) -> None:
        self.tally.verdicts["foreign"] += 1
        log.error("flow=%s %s", self._options.flow, foreign.reason)

    def _note_restart(self, slice_index: int, reason: str, pause: float) -> None:
        """Take note that a slice is started again. Called from its thread."""
        with self._lock:
            if self._ending or self._given_up:
                return
            self.tally.restarts += 1
        log.warning(
            "flow=%s slice=%d failed: %s. Starting it again in %.1f s; the other slices go on.",
            self._options.flow,
            slice_index,
            reason,
            pause,
        )

    def _give_up(self, kind: str, reason: str) -> None:
        """Hand out nothing any more: a task that is started again must not fence a successor."""
        with self._changed:
            self._given_up = self._ending = True
            self._changed.notify_all()
        self._on_fatal(kind, reason)

    # Handing out

    def _is_wanted(self, slice_index: int, timeout: float) -> bool | None:
        """Wait until there is work for a slice; return whether there is, None when the flow ends."""

        def has_work() -> bool:
            return self._ending or bool(self._due_of(slice_index, time.monotonic()))

        with self._changed:
            self._changed.wait_for(has_work, timeout)
            if self._ending:
                return None
            return has_work()

    def _due_of(self, slice_index: int, now: float) -> list[Partition]:
        if slice_index >= len(self._slices):
            return []
        members = (self._partitions[source] for source in self._slices[slice_index])
        return [partition for partition in members if partition.is_due(now)]

    def _withdraw(self) -> None:
        """Take from tasks what is not theirs any more."""
        planned = {
            source: index for index, members in enumerate(self._slices) for source in members
        }
        for index, attempt in self._attempts.items():
            leave = []
            for slot, partition in attempt.slots.items():
                stays = self._partitions.get(partition.source) is partition
                stays = stays and planned.get(partition.source) == index and partition.turn is None
                if not stays and slot not in attempt.leaving:
                    leave.append(slot)
            if leave:
                attempt.leaving.update(leave)
                self.tally.handovers += len(leave)
                attempt.line.send(Leave(tuple(leave)))

    def _hand_out(self) -> None:
        """Hand partitions to tasks as they become due. The thread that has the target to itself."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._ending or self._find_due(), _LOOK)
                if self._ending:
                    return
                due = self._find_due()
            try:
                if not self._pulse.is_regular():
                    self._rights.verify(self._target)
                    self._pulse.resume()
                for attempt, partitions in due:
                    self._hand_to(attempt, partitions)
            except (FlowFenced, FlowHeld) as exc:
                self._give_up("held" if isinstance(exc, FlowHeld) else "fenced", str(exc))
                return
            except MirrorError as exc:
                self._put_off([p for _, partitions in due for p in partitions], str(exc))

    def _find_due(self) -> list[tuple[Attempt, list[Partition]]]:
        now = time.monotonic()
        due = []
        for index, attempt in self._attempts.items():
            partitions = [] if attempt.is_ending else self._due_of(index, now)
            if partitions:
                due.append((attempt, partitions))
        return due

    def _put_off(self, partitions: Iterable[Partition], reason: str) -> None:
        """Try partitions again in a while."""
        with self._lock:
            for partition in partitions:
                if partition.holder is None:
                    partition.retry_at = time.monotonic() + _RETRY
                    self._note_waits(partition, reason)

    def _hand_to(self, attempt: Attempt, partitions: Sequence[Partition]) -> None:
        """Hand partitions to a task: as they were handed over, or after keeping everybody else from them (A)."""
        with self._lock:
            for partition in partitions:
                partition.apply_turn()
            unowned = [p for p in partitions if not self._is_handed_over(p)]
        rights: Mapping[Partition, Right] = {}
        refused: Mapping[Partition, str] = {}
        if unowned:
            rights, refused = self._rights.take(self._target, attempt, unowned)
            # Asked now, because who fails a flow over says so first and fences then.
            self._may_copy(self._target)
        with self._lock:
            if self._attempts.get(attempt.slice_index) is not attempt or self._ending:
                return  # what was fenced is fenced again for the next task
            for partition, right in rights.items():
                self._note_right(partition, right)
            given = [p for p in partitions if p not in refused]
            shares = tuple(self._share(attempt, p, rights.get(p)) for p in given)
            if shares:
                attempt.line.send(Take(shares, self._give_lanes(attempt, given)))
        for partition, reason in refused.items():
            self._put_off([partition], reason)

    def _is_handed_over(self, partition: Partition) -> bool:
        if not self._rights.is_exclusive:
            return False  # in transactions: sequences start anew with each attempt
        if not partition.spread:
            return partition.identity is not None and partition.clean
        return all(remote in self._lanes for remote in partition.remotes)

    def _note_right(self, partition: Partition, right: Right) -> None:
        partition.identity, partition.sequence = right.identities[partition.remotes[0]], 0
        if right.position is not None:
            partition.position = right.position
        if partition.spread:
            for remote in partition.remotes:
                self._lanes[remote] = right.identities[remote], 0

    def _share(self, attempt: Attempt, partition: Partition, right: Right | None) -> Share:
        if partition.spread and partition.identity is None:
            partition.identity = self._lanes[partition.remotes[0]][0]
        slot = attempt.take(partition)
        partition.clean = False
        resume = right is not None and right.resume
        return partition.share(slot, resume=resume, ours=self._rights.is_exclusive)

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
