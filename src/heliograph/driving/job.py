"""One flow on Spark: a job of one task for each slice, and the notes of the tasks.

A slice runs until the driver ends it. Each slice starts, fails, backs off and restarts independently; partitions are
handed to its task and taken back over its lease while it runs. Invariants, besides those of the roster:

C  Positions only come from acknowledged batches, so any of them may be saved at any time.
D  Where records went is reported (`on_runs`: upstream, downstream, count) before the position after them.
"""

import logging
import time
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import assert_never

from heliograph.driving.hands import Hands, Rights
from heliograph.driving.lease_server import LeaseServer, Line
from heliograph.driving.ownership import PERMISSION
from heliograph.driving.partitions import Attempt, HeldBack, Partition, stop_from
from heliograph.driving.pulse import Pulse
from heliograph.driving.roster import Roster
from heliograph.driving.slices import SliceRunner
from heliograph.driving.tally import Tally
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.producers import OpenTransaction
from heliograph.model import Endpoint, Flow, StopKind, TopicPartition
from heliograph.spark.cores import describe_missed
from heliograph.spark.engine import Engine
from heliograph.wire.lease_messages import (
    Alive,
    Fenced,
    Foreign,
    Hello,
    Left,
    Limits,
    Note,
    Ping,
    Report,
    SlotWritten,
    Stopped,
    Welcome,
)

log = logging.getLogger(__name__)

_GRACE = 0.5
_MISSED = 30.0

OnRuns = Callable[[TopicPartition, list[tuple[int, int, int]]], None]


@dataclass(frozen=True, slots=True)
class JobOptions:
    """The fixed options of a job; `key` distinguishes it from all others of this driver."""

    flow: Flow
    key: str
    source: Endpoint
    target: Endpoint
    limits: Limits
    slices: int


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
        """Take what to do; `may_copy` raises FlowHeld if the target says that no driver may copy.

        With the `tally` of the job before, it continues those counts.
        """
        self._options = options
        self._leases = leases
        self._rights = rights
        self._on_fatal = on_fatal
        self._on_runs = on_runs
        self.tally = tally if tally is not None else Tally()
        self._roster = Roster(
            options.flow, options.slices, self.tally, hands_on=rights.is_exclusive
        )
        self._changed = self._roster.changed
        self._pulse = Pulse()
        self._hands = Hands(
            options.target,
            self._roster,
            rights,
            self._pulse,
            may_copy=may_copy,
            on_fatal=self._give_up,
            on_silent=self._end_silent,
        )
        self._runners: list[SliceRunner] = []
        self._engine: Engine | None = None
        self._missed_since: dict[int, float] = {}
        self._starved_before: str | None = None
        self._given_up = False
        rights.watch(self._end_writers)
        leases.register(options.key, self)

    # Called by the flow

    def assign(self, partitions: Sequence[Partition]) -> bool:
        """Copy these partitions from now on; return whether that changes anything."""
        return self._roster.assign(partitions)

    def start(self, engine: Engine) -> None:
        """Start the slices; their tasks claim their leases a moment later."""
        self._engine = engine
        self._pulse.start()
        self._hands.start()
        self._runners = [
            SliceRunner(
                engine,
                self._leases,
                self._options.key,
                index,
                is_wanted=self._is_wanted,
                on_restart=self._note_restart,
                on_over=self._note_over,
            )
            for index in range(self._options.slices)
        ]
        for runner in self._runners:
            runner.start()

    def stop(self, within: timedelta) -> bool:
        """Drain and end the tasks; return whether each of them finished what it had begun."""
        deadline = time.monotonic() + within.total_seconds()
        attempts = self._roster.attempts
        self._roster.end()
        with self._changed:
            drained = self._changed.wait_for(
                lambda: not any(attempt.slots for attempt in attempts.values()),
                max(deadline - time.monotonic(), 0),
            )
            drained = drained and not self._roster.torn
            # Tasks that have ended close their connections; the others are disconnected.
            self._changed.wait_for(lambda: not attempts, _GRACE)
            for attempt in attempts.values():
                attempt.line.hang_up()
        for runner in self._runners:
            runner.stop(max(deadline - time.monotonic(), _GRACE))
        if self._engine is not None:
            self._engine.seat(self._options.key, 0)
            self._engine = None  # tasks that have ended are not missed
        self._pulse.stop()
        self._hands.stop()
        self._leases.forget(self._options.key, self)
        return drained

    def reposition(self, source: TopicPartition, upstream: int) -> None:
        """Continue a stopped partition from another upstream offset."""
        self._roster.reposition(source, upstream)

    def explain_stop(self, source: TopicPartition, kind: StopKind, reason: str) -> None:
        """Replace the reason of a stopped partition with a better one."""
        self._roster.explain_stop(source, kind, reason)

    def note_transaction(
        self, source: TopicPartition, offset: int, transaction: OpenTransaction | None
    ) -> None:
        """Keep what is known about the transaction that holds a partition back at `offset`."""
        with self._changed:
            partition = self._roster.partitions.get(source)
            if partition is not None:
                partition.note_transaction(offset, transaction)

    # State

    def is_sure(self) -> bool:
        """Whether it is certain that this driver owns the flow, so that it may save what it knows."""
        return not self._given_up and self._pulse.is_regular() and self._rights.valid_for() > 0

    def partitions(self) -> list[Partition]:
        """Return the live state of every partition, for reading only."""
        with self._changed:
            return list(self._roster.partitions.values())

    def stopped(self) -> list[Partition]:
        """Return the stopped partitions: usually none, so this is called often."""
        with self._changed:
            return [p for p in self._roster.partitions.values() if p.stop is not None]

    def held_back(self, now: float) -> list[HeldBack]:
        """Return the partitions that are being read and have an open transaction on the source."""
        with self._changed:
            reading = [p.held_back(now) for p in self._roster.partitions.values() if p.is_read]
        return [held for held in reading if held is not None]

    def slices(self) -> list[tuple[TopicPartition, ...]]:
        """Return which partitions each task works on."""
        with self._changed:
            return list(self._roster.slices)

    def tasks(self) -> int:
        """Return how many tasks hold partitions."""
        with self._changed:
            return sum(bool(attempt.slots) for attempt in self._roster.attempts.values())

    def troubles(self) -> list[str]:
        """Return what keeps all of the flow waiting, such as a cluster that does not answer."""
        with self._changed:
            going = [p for p in self._roster.partitions.values() if p.stop is None]
            all_wait = bool(going) and all(p.waits for p in going)
            reasons = {p.waits for p in going if p.waits} if all_wait else set()
            reasons |= {runner.failure for runner in self._runners if runner.failure}
        reasons.update(self._rights.troubles())
        if not self.is_sure() and self._hands.doubt_reason:
            reasons.add(
                f"nothing is written, because it is not known whether {self._options.flow} is still this driver's: "
                f"{self._hands.doubt_reason}"
            )
        starved = self._starved()
        return sorted(reasons | {starved} if starved else reasons)

    def waiting(self) -> dict[TopicPartition, str]:
        """Return why partitions make no progress for the moment."""
        with self._changed:
            partitions = self._roster.partitions.values()
            return {p.source: p.waits for p in partitions if p.waits and not p.stop}

    def _starved(self) -> str | None:
        """Return the sentence about tasks that Spark does not start."""
        engine = self._engine
        if engine is None:
            return None
        now = time.monotonic()
        with self._changed:
            roster = self._roster
            absent = {
                index
                for index in range(roster.tasks)
                if index not in roster.attempts and roster.partitions and not roster.ending
            }
            engine.seat(self._options.key, roster.tasks)
            self._missed_since = {i: self._missed_since.get(i, now) for i in absent}
            missed = sum(now - since > _MISSED for since in self._missed_since.values())
        starved = engine.shortage()
        cores = engine.cores()
        if starved is None and missed and cores is not None:
            starved = describe_missed(missed, cores)
        if starved is not None and starved != self._starved_before:
            log.warning("flow=%s waits: %s", self._options.flow, starved)
        self._starved_before = starved
        return starved

    # Called by leases

    def grant(self, line: Line, hello: Hello) -> Welcome:
        """Admit a task, which replaces the one that worked on its slice before."""
        attempt = self._roster.let_in(line, hello)
        if self._runners:
            self._runners[attempt.slice_index].note_progress()
        options = self._options
        return Welcome(
            flow=str(options.flow),
            source=options.source,
            target=options.target,
            limits=options.limits,
            ledger=self._rights.ledger_of(hello.slice_index),
        )

    def heard(self, line: Line, note: Note) -> None:
        """Process a note; notes of an attempt that was replaced are ignored."""
        if isinstance(note, Ping):
            self._answer(line, note)
            return
        with self._changed:
            attempt = self._roster.attempt_of(line)
            if attempt is not None:
                self._note(attempt, note)

    def lost(self, line: Line) -> None:
        """Take back what a task held, because its lease has ended."""
        attempt = self._roster.attempt_of(line)
        if attempt is not None:
            self._roster.revoke(attempt)

    def _note(self, attempt: Attempt, note: Note) -> None:
        match note:
            case Report():
                self._note_report(attempt, note)
            case Left():
                self._roster.note_left(attempt, note)
                self._changed.notify_all()
            case Stopped():
                self._roster.note_stop(attempt, note.slot, stop_from(note), spent=note.spent)
                self._changed.notify_all()
            case Foreign():
                self._note_foreign(note)
            case Fenced():
                log.warning("flow=%s a writer was fenced: %s", self._options.flow, note.reason)
                self._hands.doubt()
            case Hello() | Ping():
                pass  # handled before
            case _:
                assert_never(note)

    def _answer(self, line: Line, ping: Ping) -> None:
        """Let a task continue to write, unless another driver may have the flow."""
        with self._changed:
            attempt = self._roster.attempt_of(line)
            if attempt is None:
                return
            attempt.silent_looks = 0
            remotes = [r for partition in attempt.slots.values() for r in partition.remotes]
        if not self.is_sure():
            return
        seconds = min(PERMISSION, self._rights.valid_for(remotes))
        if seconds > 0:
            line.send(Alive(ping.number, seconds))

    def _note_report(self, attempt: Attempt, report: Report) -> None:
        now = time.monotonic()
        attempt.cpu_seconds = report.cpu_seconds
        for read in report.read:
            if read.slot in attempt.slots:
                attempt.slots[read.slot].note_read(read, now)
        for written in report.written:
            if written.slot in attempt.slots:
                self._note_written(attempt.slots[written.slot], written, now)
        self.tally.verdicts.update(report.verdicts or {})
        self.tally.latency.merge(report.latency or self.tally.latency.nothing())
        if report.waits is not None:
            for slot, partition in attempt.slots.items():
                self._roster.note_waits(partition, report.waits.get(slot))

    def _note_written(self, partition: Partition, written: SlotWritten, now: float) -> None:
        if written.runs:
            self._on_runs(partition.source, list(written.runs))
        partition.note_written(written, now)
        self.tally.add(partition.source.topic, written.records, written.size)

    def _note_foreign(self, foreign: Foreign) -> None:
        self.tally.verdicts["foreign"] += 1
        log.error("flow=%s %s", self._options.flow, foreign.reason)

    def _note_restart(self, slice_index: int, reason: str, pause: float) -> None:
        """Note that a slice is restarted. Called from its thread."""
        with self._changed:
            if self._roster.ending:
                return
            self.tally.restarts += 1
        log.warning(
            "flow=%s slice=%d failed: %s. Starting it again in %.1f s; the other slices go on.",
            self._options.flow,
            slice_index,
            reason,
            pause,
        )

    def _note_over(self, slice_index: int) -> None:
        """Disconnect a task that has ended: a task that was cut off from the driver does not do so itself.

        Its last notes are still processed, and then what it held is taken back (`lost`).
        """
        with self._changed:
            attempt = self._roster.attempts.get(slice_index)
            if attempt is not None:
                attempt.line.hang_up()

    def _end_silent(self, attempt: Attempt) -> None:
        """End a task that hangs, or that was cut off; its permission to write has expired by now."""
        log.warning(
            "flow=%s slice=%d has said nothing for long, and is ended and started again. What the task stored is "
            "found on the target.",
            self._options.flow,
            attempt.slice_index,
        )
        attempt.line.hang_up()
        self._runners[attempt.slice_index].interrupt()

    def _end_writers(self, remotes: Container[TopicPartition]) -> None:
        """End the tasks that write to some remote partitions: no driver could fence them later."""
        with self._changed:
            for attempt in self._roster.attempts.values():
                if any(r in remotes for p in attempt.slots.values() for r in p.remotes):
                    log.warning(
                        "flow=%s slice=%d starts again, because its writers have another identity now",
                        self._options.flow,
                        attempt.slice_index,
                    )
                    attempt.line.hang_up()

    def _give_up(self, kind: str, reason: str) -> None:
        """Hand out nothing more: a restarted task must not fence a successor."""
        self._given_up = True
        self._roster.close()
        self._on_fatal(kind, reason)

    def _is_wanted(self, slice_index: int, timeout: float) -> bool | None:
        """Wait until there is work for a slice; return whether there is, None when the flow ends."""
        roster = self._roster

        with self._changed:
            self._changed.wait_for(lambda: roster.ending or roster.is_wanted(slice_index), timeout)
            return None if roster.ending else roster.is_wanted(slice_index)

    def lose(self, reason: str) -> None:
        """Note that another driver has the flow."""
        self._give_up("fenced", reason)
