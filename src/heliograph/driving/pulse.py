"""Whether this process ran all the time: one that was suspended, or swapped out, does not know what it missed."""

import threading
from collections.abc import Callable

from heliograph.policy.elapsed import elapsed

_BEAT = 1.0
_LONGEST = 6.0  # seconds without a beat that a busy machine explains


class Pulse:
    """Beats once a second. After a gap it is irregular until its user has verified the state and calls `resume`."""

    def __init__(self, clock: Callable[[], float] = elapsed) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._beat_at = self._clock()
        self._missed = False
        self._over = threading.Event()

    def start(self) -> None:
        self._beat_at = self._clock()
        threading.Thread(target=self._beat, name="pulse", daemon=True).start()

    def stop(self) -> None:
        self._over.set()

    def is_regular(self) -> bool:
        """Whether there was no gap, up to now. Thread-safe."""
        with self._lock:
            self._look()
            return not self._missed

    def resume(self) -> None:
        """Note that what may have happened in a gap is known now."""
        with self._lock:
            self._beat_at = self._clock()
            self._missed = False

    def _look(self) -> None:
        self._missed = self._missed or self._clock() - self._beat_at > _LONGEST

    def _beat(self) -> None:
        while not self._over.wait(_BEAT):
            with self._lock:
                self._look()
                self._beat_at = self._clock()
