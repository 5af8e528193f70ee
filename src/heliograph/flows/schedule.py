"""The chores of a connector: each at its own interval, one after another; no failure affects the others."""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Protocol

from heliograph.errors import MirrorError

log = logging.getLogger(__name__)

_RETRY = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class Chore:
    """Periodic work; `work` returns a sentence for each thing that it could not do.

    With `delayed` the first run is one interval after the start. A chore that fails as a whole is
    retried after half a minute at most, however long its interval.
    """

    name: str
    every: timedelta
    work: Callable[[], Iterable[str]]
    delayed: bool = False


@dataclass(frozen=True, slots=True)
class ChoreStatus:
    """A chore as it is now; `troubles` is empty after a time in which all went well.

    `failures` is how often in a row it could do nothing, up to the last time; where it is 0, troubles are
    exceptions. `busy` is for how many seconds it has been at work by now, 0 while it is not.
    """

    name: str
    runs: int = 0
    seconds: float = 0.0
    troubles: tuple[str, ...] = ()
    failures: int = 0
    busy: float = 0.0

    @property
    def is_broken(self) -> bool:
        """Whether the chore counts as failed: not after one failure, unless it has never succeeded."""
        return self.failures > 1 or 0 < self.failures == self.runs


def broken_chores(chores: Iterable[ChoreStatus]) -> list[str]:
    """Return what is wrong with the chores that count as failed, a line each."""
    return [f"{c.name}: {trouble}" for c in chores if c.is_broken for trouble in c.troubles]


class Closable(Protocol):
    """Something that holds connections."""

    def close(self) -> None:
        """Close them."""


class Schedule(threading.Thread):
    """Runs chores until it is stopped, then closes what they used."""

    def __init__(
        self, name: str, chores: Sequence[Chore], closing: Sequence[Closable] = ()
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._stopping = threading.Event()
        self._closing = closing
        self._at_work: tuple[Chore | None, float] = None, 0.0
        now = time.monotonic()
        self._due = {c: now + c.every.total_seconds() * c.delayed for c in chores}
        self._status = {c: ChoreStatus(c.name) for c in chores}

    def run(self) -> None:
        """Run what is due, then wait for the next chore. The thread's target."""
        while self._due and not self._stopping.is_set():
            chore = min(self._due, key=self._due.__getitem__)
            if not self._stopping.wait(max(self._due[chore] - time.monotonic(), 0)):
                self._do(chore)
        for used in self._closing:
            used.close()

    def stop(self, within: timedelta = timedelta(0)) -> None:
        """Ask the thread to end after the current chore, and wait for `within`; later it ends by itself."""
        self._stopping.set()
        if self.ident is not None:
            self.join(within.total_seconds())

    def status(self) -> list[ChoreStatus]:
        at_work, since = self._at_work
        busy = time.monotonic() - since
        return [
            replace(status, busy=busy) if chore is at_work else status
            for chore, status in self._status.items()
        ]

    def _do(self, chore: Chore) -> None:
        started = time.monotonic()
        self._at_work = chore, started
        failed = True
        try:
            troubles = tuple(chore.work())
            failed = False
        except MirrorError as exc:
            troubles = (str(exc),)
        except Exception as exc:
            log.exception("%s: %s failed unexpectedly", self.name, chore.name)
            troubles = (f"{type(exc).__name__}: {exc}",)
        again = min(chore.every, _RETRY) if failed else chore.every
        now = time.monotonic()
        self._at_work = None, now
        before = self._status[chore]
        self._tell(chore, before.troubles, troubles)
        self._status[chore] = ChoreStatus(
            chore.name,
            before.runs + 1,
            now - started,
            troubles,
            before.failures + 1 if failed else 0,
        )
        # A fixed rate as long as the thread keeps up; missed runs are not made up for.
        self._due[chore] = max(self._due[chore] + again.total_seconds(), now)

    def _tell(self, chore: Chore, before: tuple[str, ...], now: tuple[str, ...]) -> None:
        for trouble in now:
            if trouble not in before:
                log.warning("%s: %s: %s", self.name, chore.name, trouble)
        if before and not now:
            log.info("%s: %s goes well again", self.name, chore.name)
