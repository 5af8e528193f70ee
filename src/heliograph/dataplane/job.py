"""A flow's stream on Spark: who works on which partition, how far they are, and when an epoch ends.

The job is the landlord of its tasks' leases. For each partition it knows the position that the target
has acknowledged and the producer identity that may write there. Invariants:

A  An identity is handed on without fencing only after the task that held it said `done`, and only for
   partitions whose tail it had met whole.
B  A new attempt at a slice ends the leases of the one before.
C  Positions only come from acknowledged batches, so any of them may be saved at any time.
D  Where records went is told (`on_runs`: upstream, downstream, count) before the position after them.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from heliograph.dataplane.assignment import Assignment, Claim, JobOptions
from heliograph.dataplane.attendance import Attendance, describe_missed
from heliograph.dataplane.latency import Taken
from heliograph.dataplane.lease import LeaseLost
from heliograph.dataplane.lease_server import LeaseServer, Line
from heliograph.dataplane.loads import Loads
from heliograph.dataplane.partitions import LOST_REMOTE, Attempt, Partition, Stop, stop_from
from heliograph.dataplane.session import Engine
from heliograph.dataplane.stream import Stream, start_stream
from heliograph.dataplane.tally import Tally
from heliograph.errors import FlowFenced, FlowHeld, MirrorError
from heliograph.kafka.cluster import Cluster, patiently
from heliograph.kafka.fencing import fence
from heliograph.kafka.offsets import LATEST, list_offsets
from heliograph.model import Position, ProducerIdentity, SparkProgress, TopicPartition
from heliograph.policy.topics import plan_slices

log = logging.getLogger(__name__)

_TURN = 45.0  # seconds that tasks have a core for, while others of the flow have none

OnRuns = Callable[[TopicPartition, list[tuple[int, int, int]]], None]


class FlowJob:
    """Runs one flow. Methods may be called from any thread."""

    reads_tails = True

    def __init__(
        self,
        options: JobOptions,
        leases: LeaseServer,
        on_fatal: Callable[[str, str], None],
        on_runs: OnRuns,
        may_copy: Callable[[Cluster], None] = lambda _: None,
        *,
        tally: Tally | None = None,
    ) -> None:
        """Take what to do; `may_copy` raises FlowHeld if the target says that nobody may.

        With a `tally` the job before has counted in, it counts on.
        """
        self._options = options
        self._leases = leases
        self._on_fatal = on_fatal
        self._on_runs = on_runs
        self._may_copy = may_copy
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._partitions: dict[TopicPartition, Partition] = {}
        self._slices: list[tuple[TopicPartition, ...]] = []
        self._attempts: dict[int, Attempt] = {}
        self._attendance = Attendance(options.slices)
        self._loads = Loads()
        self._engine: Engine | None = None
        self._told_starved: str | None = None
        self._target = Cluster(options.target)
        self._fencing = threading.Lock()
        self._stream: Stream | None = None
        self._ending = False
        self._grant_trouble: str | None = None
        self.tally = tally if tally is not None else Tally()
        self._epoch = 0
        self.spark: SparkProgress | None = None
        self._notes = {
            "read": self._note_read,
            "wrote": self._note_written,
            "done": self._note_done,
            "stopped": self._note_stop,
            "alarm": self._note_alarm,
        }
        leases.register(options.key, self)

    def assign(self, partitions: Sequence[Partition]) -> bool:
        """Work on these partitions from the next epoch on; return whether that changes anything.

        A partition that is known, by its name and the ids of both topics, keeps its state.
        """
        with self._lock:
            kept = {}
            changed = len(partitions) != len(self._partitions)
            for partition in partitions:
                known = self._partitions.get(partition.source)
                if known is None or not known.is_of(partition.topic_id, partition.remote_id):
                    kept[partition.source] = partition
                    changed = True
                else:
                    changed = changed or known.max_message_bytes != partition.max_message_bytes
                    known.max_message_bytes = partition.max_message_bytes
                    kept[partition.source] = known
            if changed:
                self._leave(set(kept.values()))
                self._partitions = kept
                held = [frozenset(members) for members in self._slices]
                self._slices = plan_slices(kept, self._options.slices, held)
                self._end_epoch()
            return changed

    def start(self, engine: Engine) -> None:
        """Start the stream; its tasks come for their leases a moment later."""
        host, port = self._leases.address
        options = {
            "flow": self._options.key,
            "slices": str(self._options.slices),
            "lease.host": host,
            "lease.port": str(port),
            "lease.secret": self._leases.secret,
        }
        self._ending = False
        self._engine = engine
        engine.seat(self._options.key, self._options.slices)
        self._stream = start_stream(engine, self._options.key, options)

    def failure(self) -> str | None:
        """Return why Spark gave the stream up, or None while it runs."""
        stream = self._stream
        return None if stream is None else stream.failure()

    def note_progress(self) -> None:
        """Ask Spark what it finished last; it takes a moment, so `spark` only remembers the answer."""
        if self._stream is not None:
            self.spark = self._stream.progress() or self.spark

    def stop(self, within: timedelta) -> bool:
        """Drain and end the stream; return whether every task finished what it had begun."""
        deadline = time.monotonic() + within.total_seconds()
        with self._changed:
            self._ending = True
            self._end_epoch()
            drained = self._changed.wait_for(
                lambda: all(a.done for a in self._attempts.values()),
                max(deadline - time.monotonic(), 0),
            )
            for attempt in self._attempts.values():
                for line in attempt.lines.values():
                    line.hang_up()
        if self._stream is not None:
            self._stream.stop()
            self._stream = None
        if self._engine is not None:
            self._engine.seat(self._options.key, 0)
            self._engine = None  # tasks that have ended are not missed
        self._leases.forget(self._options.key, self)
        self._target.close()
        return drained

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

    def rebalance(self) -> None:
        """Move partitions from a task that cannot keep up to one that has little to do, if that helps."""
        with self._lock:
            reading = [a for a in self._attempts.values() if not a.done and "reader" in a.lines]
            planned = self._loads.propose(self._slices, self._partitions)
            if planned and len(reading) >= len(self._slices):  # else not all would hear it
                log.info("flow=%s is spread anew", self._options.flow)
                self._slices = planned
                self._end_epoch()

    def make_way(self) -> None:
        """End the epoch if somebody waits for its end: a partition that is tried again, a task without a core."""
        now = time.monotonic()
        with self._lock:
            working = [a for a in self._attempts.values() if not a.done]
            since = min((a.began for a in working), default=now)
            idle = len(working) < self._options.slices and now - since > _TURN
            if idle or any(p.waits(working, now) for p in self._partitions.values()):
                self._end_epoch()

    def reposition(self, source: TopicPartition, upstream: int) -> bool:
        """Go on with a stopped partition from another upstream offset, from the next epoch on.

        Not before all that was read of it is stored (invariant C): returns whether it was done.
        """
        with self._lock:
            partition = self._partitions[source]
            assert partition.stop is not None, "only a stopped partition is repositioned"
            if partition.position.upstream < partition.stop.upstream:
                return False
            partition.position = Position(upstream, partition.position.downstream)
            partition.stop = None
            self._end_epoch()
            return True

    def explain_stop(self, source: TopicPartition, kind: str, reason: str) -> None:
        """Replace the reason of a stopped partition by a better one."""
        with self._lock:
            partition = self._partitions[source]
            assert partition.stop is not None, "only a stopped partition has a reason"
            partition.stop = replace(partition.stop, kind=kind, reason=reason)
            log.error("flow=%s partition=%s stopped: %s", self._options.flow, source, reason)

    def troubles(self) -> list[str]:
        """Return what tasks are waiting for right now, such as a broker that does not answer."""
        with self._lock:
            found = {t for a in self._attempts.values() for t in a.troubles.values()}
            waits = self._grant_trouble
        return sorted(found.union(filter(None, (waits, self._starved()))))

    def _starved(self) -> str | None:
        """Return the sentence about tasks that Spark does not start, or starts by turns."""
        engine = self._engine
        if engine is None:
            return None
        with self._lock:
            missed = self._attendance.missed(self._resting(), time.monotonic())
        starved = engine.shortage()
        cores = engine.cores()
        if starved is None and missed and cores is not None:
            starved = describe_missed(missed, cores)
        if starved is not None and starved != self._told_starved:
            log.warning("flow=%s waits: %s", self._options.flow, starved)
        self._told_starved = starved
        return starved

    def _resting(self) -> set[int]:
        """Return the slices that are done with an epoch in which others are still at work."""
        done = {i for i, a in self._attempts.items() if a.done and a.epoch == self._epoch}
        working = any(not a.done for a in self._attempts.values())
        return done if working else set()

    def grant(self, line: Line, claim: Claim) -> Assignment:
        """Give a task its partitions: once per attempt, the same to its reader and its writer."""
        with self._lock:
            self._attendance.came(claim.slice_index, claim.role, line)
        with self._fencing:
            attempt = self._attempts.get(claim.slice_index)
            if attempt is not None and claim.task < attempt.task:
                # A worker of an attempt that was given up before it got here.
                raise LeaseLost(claim.flow, claim.slice_index)
            if attempt is None or attempt.task != claim.task:
                try:
                    attempt = self._new_attempt(claim)
                except (FlowFenced, FlowHeld) as exc:
                    self._give_up("held" if isinstance(exc, FlowHeld) else "fenced", str(exc))
                    raise
                except MirrorError as exc:
                    self._grant_trouble = str(exc)
                    raise
        with self._lock:
            attempt.lines[claim.role] = line
            attempt.epoch = max(attempt.epoch, claim.epoch)
            self.tally.epochs += max(claim.epoch - self._epoch, 0)
            self._epoch = max(self._epoch, claim.epoch)
            if self._ending:
                line.send({"end": True})
            return self._assignment(attempt, claim.role)

    def heard(self, line: Line, claim: Claim, message: dict[str, Any]) -> None:
        if "failed" in message:
            self._note_failure(line, claim, message["failed"])
            return
        with self._changed:
            attempt = self._attempts.get(claim.slice_index)
            if attempt is None or attempt.lines.get(claim.role) is not line:
                return
            for kind, content in message.items():
                self._notes[kind](attempt, claim.role, content)
            self._changed.notify_all()

    def _new_attempt(self, claim: Claim) -> Attempt:
        """Replace whoever held the slice (invariant B), fencing what was not handed over (A)."""
        with self._lock:
            before = self._attempts.get(claim.slice_index)
            self._revoke(claim.slice_index)
            members = self._due(claim.slice_index)
            unfenced = [p for p in members if not self._handed_over(p)]
        if unfenced:
            lost = self._without_leader(unfenced)
            members = [p for p in members if p not in lost]
            unfenced = [p for p in unfenced if p not in lost]
        if unfenced:
            identity = self._take_over(claim.slice_index, unfenced)
            # Asked now, because who fails a flow over says so first and fences then.
            self._may_copy(self._target)
            with self._lock:
                for partition in unfenced:
                    partition.identity = identity
                    partition.sequence = 0
        with self._lock:
            fenced = set(unfenced)
            resuming = frozenset(i for i, p in enumerate(members) if p in fenced)
            for partition in members:
                partition.clean = False
            attempt = Attempt(claim.task, members, resuming)
            if before is not None:
                # What the last one waited for, until this one says that it need not.
                attempt.troubles.update(before.troubles)
            self._attempts[claim.slice_index] = attempt
            self._grant_trouble = None
            return attempt

    def _take_over(self, _slice_index: int, partitions: Sequence[Partition]) -> ProducerIdentity:
        """Return the identity that alone may write for these partitions from now on."""
        remotes = self._remotes(partitions)
        return fence(self._target, self._options.transactional_id, remotes)

    def _handed_over(self, partition: Partition) -> bool:
        return partition.identity is not None and partition.clean

    def _remotes(self, partitions: Sequence[Partition]) -> list[TopicPartition]:
        """Return all remote partitions that these may write to."""
        return [p.remote for p in partitions]

    def _revoke(self, slice_index: int) -> None:
        """End the leases of the attempt that held a slice, and trust only what it handed over."""
        before = self._attempts.pop(slice_index, None)
        if before is None:
            return
        if before.done:
            self.tally.pause_seconds += time.monotonic() - before.done_at
        else:
            log.warning(
                "flow=%s slice=%d is started again, because its task ended before it was done; "
                "what it stored is found on the target.",
                self._options.flow,
                slice_index,
            )
        for line in before.lines.values():
            line.hang_up()
        for partition in before.slots:
            partition.clean = partition.clean and before.done

    def _due(self, slice_index: int) -> list[Partition]:
        """Return the partitions that a slice may work on now: not stopped, and nobody else's."""
        if self._ending or slice_index >= len(self._slices):
            return []
        now = time.monotonic()
        # Slices may have been planned anew while an attempt of the old plan still drains.
        held = {p.source for a in self._attempts.values() if not a.done for p in a.slots}
        return [
            p
            for p in map(self._partitions.__getitem__, self._slices[slice_index])
            if p.source not in held and (p.stop is None or p.stop.due(now))
        ]

    def _without_leader(self, partitions: list[Partition]) -> set[Partition]:
        """Stop those whose remote partition cannot be written to: fencing would wait for them."""
        topics = patiently(lambda: self._target.describe({p.remote.topic for p in partitions}))
        lost = set()
        for partition in partitions:
            topic = topics.get(partition.remote.topic)
            remotes = self._remotes([partition])
            away = next((r for r in remotes if topic is None or not topic.leads(r.index)), None)
            if away is not None:
                reason = f"{away} does not exist or has no leader"
                stop = Stop(LOST_REMOTE, partition.position.upstream, reason, time.monotonic())
                self._stop(partition, stop)
                lost.add(partition)
        return lost

    def _assignment(self, attempt: Attempt, role: str) -> Assignment:
        options = self._options
        shares = (
            partition.share(slot, resume=self.reads_tails and slot in attempt.resuming)
            for slot, partition in enumerate(attempt.slots)
        )
        return Assignment(
            flow=str(options.flow),
            endpoint=options.source if role == "reader" else options.target,
            limits=options.limits,
            shares=tuple(shares),
            lanes=attempt.lanes if role == "writer" else (),
            ledger=attempt.ledger if role == "writer" else None,
        )

    def _leave(self, kept: set[Partition]) -> None:
        """Have readers fetch no more of partitions that are gone, or belong to other topics now."""
        for attempt in self._attempts.values():
            left = [slot for slot, partition in enumerate(attempt.slots) if partition not in kept]
            reader = attempt.lines.get("reader")
            if left and reader is not None and not attempt.done:
                reader.send({"drop": left})

    def _end_epoch(self) -> None:
        for attempt in self._attempts.values():
            for line in attempt.lines.values():
                line.send({"end": True})

    def _note_read(self, attempt: Attempt, role: str, content: dict[str, Any]) -> None:
        for slot, *read in content["ends"]:
            attempt.slots[slot].note_read(*read)
        for slot, *age in content.get("ages", ()):
            attempt.slots[slot].ages.add(time.monotonic(), Taken(*age))
        self._note_trouble(attempt, role, content["trouble"])

    def _note_written(self, attempt: Attempt, role: str, content: dict[str, Any]) -> None:
        for slot, upstream, downstream, sequence, records, size, runs in content["slots"]:
            partition = attempt.slots[slot]
            if runs:
                self._on_runs(partition.source, runs)
            if partition.stop is not None and upstream > partition.stop.upstream:
                partition.stop = None
            partition.position = Position(upstream, downstream)
            partition.sequence = sequence
            partition.records += records
            partition.bytes += size
            self.tally.add(partition.source.topic, records, size)
        for slot, copied_ms, *took in content.get("taken", ()):
            attempt.slots[slot].copied_ms = copied_ms
            attempt.slots[slot].latencies.add(time.monotonic(), Taken(*took))
        self.tally.verdicts.update(content["verdicts"])
        self.tally.latency.merge(content["latency"])
        self._note_trouble(attempt, role, content["trouble"])

    def _note_trouble(self, attempt: Attempt, role: str, trouble: str | None) -> None:
        if trouble is None:
            attempt.troubles.pop(role, None)
        elif attempt.troubles.get(role) != trouble:
            attempt.troubles[role] = trouble
            log.warning("flow=%s waits: %s", self._options.flow, trouble)

    def _note_stop(self, attempt: Attempt, role: str, content: dict[str, Any]) -> None:
        partition = attempt.slots[content["slot"]]
        if role == "writer":
            # Sequences were spent on batches that were never stored; the next writer starts anew.
            partition.identity = None
            reader = attempt.lines.get("reader")
            if reader is not None:
                reader.send({"drop": [content["slot"]]})
        self._stop(partition, stop_from(content))

    def _stop(self, partition: Partition, stop: Stop) -> None:
        with self._lock:
            partition.stop = stop
        log.error(
            "flow=%s partition=%s stopped at upstream offset %d: %s. The other partitions go on%s.",
            self._options.flow,
            partition.source,
            stop.upstream,
            stop.reason,
            stop.again,
        )

    def _note_failure(self, line: Line, claim: Claim, content: dict[str, Any]) -> None:
        """Take note of why a task ends itself; what a person must see goes to the runner."""
        with self._lock:
            attempt = self._attempts.get(claim.slice_index)
            if attempt is None or attempt.lines.get(claim.role) is not line:
                return
        if content["kind"] != "foreign":
            self._give_up(content["kind"], content["reason"])
            return
        partition = attempt.slots[content["slot"]]
        with self._fencing:  # whoever holds this has the target to itself
            ends = patiently(lambda: list_offsets(self._target, [partition.remote], LATEST))
        with self._lock:
            partition.position = Position(partition.position.upstream, ends[partition.remote])
            self.tally.verdicts["foreign"] += 1
        log.error("flow=%s %s", self._options.flow, content["reason"])

    def _give_up(self, kind: str, reason: str) -> None:
        """Grant nothing any more: Spark starts a task again at once, and it must not fence a successor."""
        with self._lock:
            self._ending = True
        self._on_fatal(kind, reason)

    def _note_done(self, attempt: Attempt, role: str, content: dict[str, Any]) -> None:
        self._note_written(attempt, role, content)
        attempt.done, attempt.done_at = True, time.monotonic()
        for slot, partition in enumerate(attempt.slots):
            partition.clean = partition.identity is not None and slot not in content["behind"]

    def _note_alarm(self, _attempt: Attempt, _role: str, content: dict[str, Any]) -> None:
        self.tally.verdicts["foreign"] += 1
        log.error("flow=%s %s", self._options.flow, content["reason"])
