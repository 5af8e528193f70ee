"""Keeps one slice running: a Spark job of one task, resubmitted after a failure, with a growing pause."""

import logging
import threading
import time
from collections.abc import Callable
from itertools import count

from heliograph.driving.lease_server import LeaseServer
from heliograph.errors import MirrorError
from heliograph.spark.engine import Engine, cause_of
from heliograph.wire.lease_messages import Claim

log = logging.getLogger(__name__)

_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 15.0
_SETTLED = 60.0  # seconds after which a failure counts as the first one again
_LOOK = 60.0

IsWanted = Callable[[int, float], bool | None]
OnRestart = Callable[[int, str, float], None]


class SliceRunner:
    """The thread of one slice."""

    def __init__(
        self,
        engine: Engine,
        leases: LeaseServer,
        key: str,
        index: int,
        *,
        is_wanted: IsWanted,
        on_restart: OnRestart,
        on_over: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Take where to run; `is_wanted` waits for work, and returns None when there will be no more.

        `on_over` is called when Spark reports that a task has ended, or that it is lost.
        """
        self._engine = engine
        self._leases = leases
        self._key = key
        self._index = index
        self._is_wanted = is_wanted
        self._on_restart = on_restart
        self._on_over = on_over
        self._group = f"{key} {index}"
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=self._group, daemon=True)
        self.failure: str | None = None  # why it does not run now, if it keeps failing

    def start(self) -> None:
        self._thread.start()

    def stop(self, within: float) -> None:
        """Wait for the end of the job, which the driver has ordered already; end it by force after that."""
        self._over.set()
        self._thread.join(within)
        if self._thread.is_alive():
            self._engine.cancel(self._group)

    def interrupt(self) -> None:
        """End the job by force; it is restarted. Returns at once."""
        threading.Thread(target=self._engine.cancel, args=(self._group,), daemon=True).start()

    def _run(self) -> None:
        pause = _FIRST_PAUSE
        for attempt in count(1):
            while not (wanted := self._is_wanted(self._index, _LOOK)):
                if wanted is None:
                    return
            began = time.monotonic()
            reason = self._attempt(attempt)
            self._on_over(self._index)
            if self._over.is_set() or self._is_wanted(self._index, 0) is None:
                return
            if reason is None:
                continue
            if time.monotonic() - began > _SETTLED:
                pause = _FIRST_PAUSE
            self.failure = reason if pause > _FIRST_PAUSE else None
            self._on_restart(self._index, reason, pause)
            if self._over.wait(pause):
                return
            pause = min(pause * 2, _LONGEST_PAUSE)

    def _attempt(self, attempt: int) -> str | None:
        """Run the job to its end; return why it failed, if it did."""
        host, port = self._leases.address
        claim = Claim(self._key, self._index, attempt, host, port, self._leases.secret)
        try:
            while not self._engine.wait(1.0):
                if self._over.is_set():
                    return None
            self._engine.run_slice(claim, self._group)
        except MirrorError as exc:
            return str(exc)
        except Exception as exc:  # noqa: BLE001 - the edge: whatever Spark raises is a failed slice
            return cause_of(exc)
        return None

    def note_progress(self) -> None:
        """Note that its task has its lease and copies."""
        self.failure = None
