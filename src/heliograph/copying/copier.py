"""The loop of one slice: one thread waits for brokers, the driver and its own errands, all at once.

Called by Spark once per slice (see task.py), on an executor; it returns when the driver sends `End`, and raises when
the lease is lost or another writer has taken over. Only `_await` waits. Invariants:

A  Nothing is sent to the target unless the driver has confirmed, after this task asked, that the driver owns the flow:
   a process that was suspended writes nothing when it resumes.
B  A partition is left, stopped or handed over only at a position before which everything is stored.
C  Unstored data is bounded: more is fetched only while it is less than two fetch responses.
"""

import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import assert_never

from heliograph.copying.commits import Commits
from heliograph.copying.lease import Lease
from heliograph.copying.meeting import Meeting
from heliograph.copying.reader import Reader
from heliograph.copying.rounds import Met, Outcome, Waits
from heliograph.copying.sections import ChunkSection
from heliograph.copying.slot import join_reports
from heliograph.copying.writer import Writer
from heliograph.errors import FlowFenced
from heliograph.kafka.background import Background, Bell
from heliograph.kafka.brokers import await_any
from heliograph.model import StopKind, TopicPartition
from heliograph.policy.elapsed import elapsed
from heliograph.wire.lease_messages import (
    Alive,
    End,
    Fenced,
    Foreign,
    Leave,
    Left,
    Limit,
    Order,
    Ping,
    Report,
    Share,
    SlotWritten,
    Stopped,
    Take,
    Welcome,
)

_REPORT_EVERY = 1.0
_PING_EVERY = 5.0
_SOON = 0.5
_LONGEST_WAIT = 5.0
_MOST_HELD = 4  # times the room, held for partitions that wait for their brokers
_GOODBYE = 5.0


class Copier:
    """Copies the partitions that the driver hands to one slice."""

    def __init__(self, lease: Lease, welcome: Welcome) -> None:
        self._lease = lease
        self._welcome = welcome
        self._bell = Bell()
        self._source = Background(welcome.source, self._bell)
        self._target = Background(welcome.target, self._bell)
        self._reader = Reader(self._source, welcome.limits, self._halt)
        self._writer = Writer(
            self._target, welcome, self._note_stop, self._note_foreign, self._note_forgotten
        )
        self._meeting = Meeting(
            welcome.source,
            welcome.target,
            self._note_outcome,
            committed_only=welcome.limits.read_committed,
        )
        self._outcomes: deque[Outcome] = deque()  # of tails; filled by the threads that meet them
        self._meets: dict[int, Share] = {}
        self._meeting_waits: dict[int, str] = {}
        self._commits: Commits | None = None
        self._kept: list[tuple[memoryview, ChunkSection]] = []  # while a transaction is not ready
        self._committed: dict[int, SlotWritten] = {}
        self._leaving: set[int] = set()
        self._stopped: list[Stopped] = []
        self._forgotten: dict[int, str] = {}
        self._paused: set[int] = set()
        self._ending = False
        self._room = 2 * welcome.limits.chunk_bytes
        self._may_write_until = 0.0
        self._permission = 0.0  # how many seconds the last one was valid
        self._pinged = 0
        self._pings: deque[tuple[int, float]] = deque()
        self._ping_at = self._report_at = 0.0
        self._waits: dict[int, str] = {}

    def run(self, orders: Iterable[Order] = ()) -> None:
        """Copy until the driver sends `End`; `orders` are those that came with the welcome."""
        try:
            self._obey(orders)
            while not self._is_over():
                self._turn()
            self._report()
            self._lease.finish(_GOODBYE)
        except FlowFenced as exc:
            # A coordinator also aborts what took too long, and that fences nobody: there the driver finds out.
            if self._welcome.ledger is None:
                self._lease.send(Fenced(str(exc)))
                self._lease.finish(_GOODBYE)
            raise
        finally:
            self.close()

    def close(self) -> None:
        """Close everything, without waiting for answers that are still due."""
        self._meeting.close()
        self._reader.close()
        self._writer.close()
        if self._commits is not None:
            self._commits.close()
        self._source.close()
        self._target.close()
        self._bell.close()

    def _is_over(self) -> bool:
        return self._ending and not self._writer.slots and not self._meets

    def _turn(self) -> None:
        ready = self._await()
        if self._bell.fileno() in ready:
            self._bell.silence()
            self._reader.retry_now()
            self._writer.producer.retry_now()
        self._obey(self._lease.poll())
        self._take_outcomes()
        if self._commits is not None:
            self._commits.settle()
            # Between two transactions: kept sections begin the next one at once.
            self._tell_stops()
            self._hand_over()
            self._go_on()
        if not self._may_write:
            self._writer.producer.cut()  # invariant A
        self._writer.producer.collect(ready)
        self._tell_stops()
        self._return_forgotten()
        self._reader.collect(ready, self._deliver, room=self._has_room)
        self._send()
        self._reader.ask(room=self._has_room)
        self._hand_over()
        self._ping()
        if time.monotonic() >= self._report_at:
            self._report()

    def _await(self) -> set[int]:
        """Wait until there is something to do."""
        producer = self._writer.producer
        interest = {
            self._lease.fileno(): self._lease.interest(),
            self._bell.fileno(): 1,
            **self._reader.interest(),
            **producer.interest(),
        }
        until = min(self._report_due(), self._ping_at, self._reader.next_at(room=self._has_room))
        retry = producer.retry_in() if self._may_write else None
        if self._commits is not None and not self._commits.is_busy and producer.idle:
            until = min(until, self._commits.due_at())
        until = min(until, producer.silent_at())
        left = until - time.monotonic()
        if retry is not None:
            left = min(left, retry)
        if producer.is_ready() or self._reader.is_ready() or self._outcomes or self._may_go_on:
            left = 0.0
        return await_any(interest, min(max(left, 0.0), _LONGEST_WAIT))

    # Orders

    def _obey(self, orders: Iterable[Order]) -> None:
        for order in orders:
            self._obey_one(order)

    def _obey_one(self, order: Order) -> None:
        match order:
            case Take():
                self._take(order)
            case Leave():
                self._leave(order.slots)
            case Limit():
                self._limit(order)
            case Alive():
                self._note_alive(order)
            case End():
                self._ending = True
                self._leave((*self._writer.slots, *self._meets))
            case Welcome():
                pass  # only the first one counts
            case _:
                assert_never(order)

    def _take(self, order: Take) -> None:
        self._writer.take_lanes(order.lanes)
        unmet = [share for share in order.shares if share.resume]
        for share in order.shares:
            if share.spread and not self._writer.has_lanes(share.remote.topic):
                # The driver sent it before it learned that the last partition of this topic had left.
                self._lease.send(Left((share.slot,), behind=True))
                continue
            if self._welcome.ledger is not None and self._commits is None:
                self._commits = Commits(
                    self._welcome.ledger, self._welcome.target, self._bell, share.identity
                )
            if not share.resume:
                self._writer.take(share, share.position)
                self._reader.take(share, share.position.upstream, share.leader_epoch)
        if unmet:
            self._meets.update({share.slot: share for share in unmet})
            self._meeting.start(unmet)

    def _limit(self, limit: Limit) -> None:
        meets = self._meets.get(limit.slot)
        if meets is not None:
            self._meets[limit.slot] = replace(meets, max_message_bytes=limit.max_message_bytes)
        self._writer.limit(limit.slot, limit.max_message_bytes)

    def _leave(self, slots: Iterable[int]) -> None:
        """Stop reading some slots; each is handed over once what was read is stored."""
        for slot in slots:
            if slot in self._meets:
                # Its tail was not compared yet: the next writer compares it.
                self._meeting.forget(slot)
                self._forget_meeting(slot)
                self._lease.send(Left((slot,), behind=True))
            elif slot in self._writer.slots:
                self._reader.leave(slot)
                self._leaving.add(slot)

    def _note_alive(self, alive: Alive) -> None:
        while self._pings and self._pings[0][0] <= alive.number:
            number, asked_at = self._pings.popleft()
            if number == alive.number:
                self._permission = alive.seconds
                self._may_write_until = max(self._may_write_until, asked_at + alive.seconds)

    def _ping(self) -> None:
        now = time.monotonic()
        if now >= self._ping_at:
            self._pinged += 1
            self._pings.append((self._pinged, elapsed()))
            self._lease.send(Ping(self._pinged))
            self._ping_at = now + min(_PING_EVERY, max(self._permission / 3, _SOON))

    # Tails

    def _note_outcome(self, outcome: Outcome) -> None:
        """Take the outcome of a tail. Called by the threads that meet them."""
        self._outcomes.append(outcome)
        self._bell.ring()

    def _take_outcomes(self) -> None:
        while self._outcomes:
            outcome = self._outcomes.popleft()
            match outcome:
                case Waits():
                    self._meeting_waits.update(
                        {slot: outcome.reason for slot in outcome.slots if slot in self._meets}
                    )
                case Met():
                    share = self._forget_meeting(outcome.slot)
                    if share is not None:
                        self._begin(share, outcome)
                case Stopped():
                    if self._forget_meeting(outcome.slot) is not None:
                        self._stopped.append(outcome)
                case _:
                    assert_never(outcome)

    def _forget_meeting(self, slot: int) -> Share | None:
        self._meeting_waits.pop(slot, None)
        return self._meets.pop(slot, None)

    def _begin(self, share: Share, met: Met) -> None:
        if met.foreign is not None:
            self._note_foreign(met.foreign)
        self._writer.take(share, met.position)
        for run in met.runs:
            self._writer.slots[share.slot].ran(*run)
        epoch = share.leader_epoch if met.position.upstream == share.position.upstream else -1
        self._reader.take(share, met.position.upstream, epoch)

    # Sections

    @property
    def _has_room(self) -> bool:
        if self._kept or (self._commits is not None and self._commits.is_busy):
            return False
        return self._writer.producer.unstored_bytes - self._writer.producer.held_bytes < self._room

    def _deliver(self, chunk: memoryview, section: ChunkSection) -> None:
        if self._commits is None:
            self._writer.write(chunk, section)
            return
        self._kept.append((chunk, section))

    @property
    def _may_go_on(self) -> bool:
        """Whether there are kept sections that can be processed at once."""
        commits = self._commits
        if commits is None or commits.is_busy or not self._kept:
            return False
        return not (commits.is_open and self._is_commit_due(commits)) or self._writer.producer.idle

    def _go_on(self) -> None:
        """In transactions: commit when due, add partitions to the transaction, write kept sections."""
        commits = self._commits
        assert commits is not None, "asked in transactions only"
        if commits.is_busy:
            return
        if commits.is_open and self._is_commit_due(commits):
            if self._writer.producer.idle:
                self._commit(commits)
            return
        remotes = self._remotes_of_kept()
        if commits.lacks(remotes):
            commits.join(remotes, self._join)
            return
        self._write_kept(commits)

    def _is_commit_due(self, commits: Commits) -> bool:
        return (
            bool(self._leaving or self._stopped)
            or self._ending
            or time.monotonic() >= commits.due_at()
        )

    def _remotes_of_kept(self) -> set[TopicPartition]:
        slots = self._writer.slots
        return {
            slots[section.slot].share.remote
            for _, section in self._kept
            if section.slot in slots and slots[section.slot].halt is None
        }

    def _join(self, refused: Mapping[TopicPartition, str]) -> None:
        """Write kept sections of partitions that are in the transaction now; stop those that were refused."""
        assert self._commits is not None, "asked in transactions only"
        for number, slot in list(self._writer.slots.items()):
            reason = refused.get(slot.share.remote)
            if reason is not None:
                self._writer.halt(Stopped(number, slot.upstream, StopKind.REFUSED, reason))
        # At once: if the next commit is already due, writing would be put off forever.
        self._write_kept(self._commits)

    def _write_kept(self, commits: Commits) -> None:
        kept, self._kept = self._kept, []
        for chunk, section in kept:
            slot = self._writer.slots.get(section.slot)
            if slot is not None and slot.halt is None and commits.lacks({slot.share.remote}):
                self._kept.append((chunk, section))
            else:
                self._writer.write(chunk, section)

    def _commit(self, commits: Commits) -> None:
        news = self._writer.news()

        def committed() -> None:
            for row in news:
                self._committed[row.slot] = join_reports(self._committed.get(row.slot), row)

        commits.commit(self._writer.slots, news, committed)

    def _halt(self, stop: Stopped) -> None:
        """Stop a partition that cannot be read further, once what was read of it is stored."""
        self._writer.halt(stop)

    def _note_stop(self, stop: Stopped) -> None:
        self._stopped.append(stop)

    def _note_forgotten(self, slot: int, reason: str) -> None:
        self._forgotten[slot] = reason

    def _note_foreign(self, foreign: Foreign) -> None:
        self._lease.send(foreign)

    @property
    def _may_write(self) -> bool:
        """Whether it is certain that the driver owns the flow."""
        return elapsed() < self._may_write_until

    def _send(self) -> None:
        """Send what may be sent (invariant A); pause reading partitions whose batches are stuck."""
        producer = self._writer.producer
        if self._may_write:
            producer.send()
            while self._writer.go_on():
                producer.send()
        if producer.troubled or self._paused:
            stuck = {slot for slot, _ in self._writer.waits()}
            for slot in stuck - self._paused:
                self._reader.pause(slot)
                self._writer.unpin(slot)
            for slot in self._paused - stuck:
                self._reader.resume(slot)
            self._paused = stuck
            if self._commits is None:  # else the whole task waits, and reads nothing more
                self._writer.give_back(_MOST_HELD * self._room)
                self._return_forgotten()

    # Notes

    def _tell_stops(self) -> None:
        """Report what has stopped, after all that it has stored."""
        if not self._stopped or self._in_transaction:
            return
        stopped, self._stopped = self._stopped, []
        self._report()
        for stop in stopped:
            if stop.slot in self._writer.slots:
                self._reader.leave(stop.slot)
                self._writer.leave(stop.slot)
            self._forget(stop.slot)
            self._lease.send(stop)

    def _return_forgotten(self) -> None:
        """Give back slots whose broker forgot what was written: the next writer reads their tails."""
        if not self._forgotten:
            return
        self._report()
        forgotten, self._forgotten = self._forgotten, {}
        for slot, reason in forgotten.items():
            if slot in self._writer.slots:
                self._reader.leave(slot)
                self._writer.leave(slot)
                self._forget(slot)
                self._lease.send(Left((slot,), behind=True, trouble=reason))

    def _hand_over(self) -> None:
        """Hand over the slots that are leaving and have everything stored."""
        if not self._leaving or self._in_transaction:
            return
        self._leaving &= self._writer.slots.keys()  # others have stopped meanwhile
        kept = {section.slot for _, section in self._kept}
        settled = [s for s in self._leaving if s not in kept and self._writer.is_settled(s)]
        if not settled:
            return
        self._report()
        lanes: list[tuple[str, int, int]] = []
        for slot in settled:
            lanes += self._writer.leave(slot)
            self._forget(slot)
        self._lease.send(Left(tuple(settled), tuple(lanes)))

    @property
    def _in_transaction(self) -> bool:
        """Whether there may be stored records that are not committed."""
        return self._commits is not None and (self._commits.is_busy or self._commits.is_open)

    def _forget(self, slot: int) -> None:
        self._leaving.discard(slot)
        self._paused.discard(slot)
        if self._commits is not None:
            self._commits.forget(slot)

    def _report_due(self) -> float:
        return self._report_at if self._has_news() else float("inf")

    def _has_news(self) -> bool:
        waits = self._reader.has_waits or self._writer.producer.troubled or self._meeting_waits
        return bool(
            self._writer.changed or self._reader.has_news or self._committed or waits or self._waits
        )

    def _report(self) -> None:
        """Report progress to the driver; in transactions, only committed positions."""
        self._report_at = time.monotonic() + _REPORT_EVERY
        waits = self._find_waits()
        read = self._reader.news()
        if self._commits is None:
            written = self._writer.news()
        else:
            if not self._in_transaction:
                for row in self._writer.news():
                    self._committed[row.slot] = join_reports(self._committed.get(row.slot), row)
            written, self._committed = tuple(self._committed.values()), {}
        verdicts = dict(self._writer.verdicts)
        self._writer.verdicts.clear()
        latency = tuple(self._writer.latency.drain())
        if read or written or verdicts or any(latency) or waits != self._waits:
            self._waits = waits
            cpu = round(time.process_time(), 3)
            self._lease.send(Report(read, written, verdicts, latency, waits, cpu))

    def _find_waits(self) -> dict[int, str]:
        waits = dict(self._meeting_waits)
        waits.update(self._reader.waits())
        waits.update(self._writer.waits())
        return waits
