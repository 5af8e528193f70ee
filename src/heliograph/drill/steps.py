"""What a drill does, step by step, with the time of each."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from heliograph.drill.report import Step


class Watcher(Protocol):
    """Is notified of each step, as it happens."""

    def began(self, name: str) -> None:
        """A step begins; the one before it has ended."""

    def ended(self, step: Step) -> None:
        """That step is done."""


class Silence:
    """A watcher that ignores every step."""

    def began(self, name: str) -> None:
        """Say nothing."""

    def ended(self, step: Step) -> None:
        """Say nothing."""


class StepLog:
    """Records steps, in seconds since its creation."""

    def __init__(self, watcher: Watcher, clock: Callable[[], float] = time.monotonic) -> None:
        self.steps: list[Step] = []
        self._watcher = watcher
        self._clock = clock
        self._zero = clock()

    @property
    def now(self) -> float:
        return self._clock() - self._zero

    @contextmanager
    def step(self, name: str) -> Iterator[list[str]]:
        """Time the block; what it adds to the list becomes the note of the step. A failed step is recorded too."""
        start = self.now
        notes: list[str] = []
        self._watcher.began(name)
        try:
            yield notes
        finally:
            step = Step(name, start, self.now - start, ", ".join(notes))
            self.steps.append(step)
            self._watcher.ended(step)
