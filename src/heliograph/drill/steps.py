"""What a drill does, step by step, with the time of each."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from heliograph.drill.report import Step


class Watcher(Protocol):
    """Who is told of each step, as it happens."""

    def began(self, name: str) -> None:
        """A step begins; the one before it has ended."""

    def ended(self, step: Step) -> None:
        """That step is done."""


class Silence:
    """Nobody watches."""

    def began(self, name: str) -> None:
        """Say nothing."""

    def ended(self, step: Step) -> None:
        """Say nothing."""


class StepLog:
    """Notes steps, in seconds since it was made."""

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
        """Time the block; what it adds to the list is said of the step. One that fails is noted too."""
        start = self.now
        notes: list[str] = []
        self._watcher.began(name)
        try:
            yield notes
        finally:
            step = Step(name, start, self.now - start, ", ".join(notes))
            self.steps.append(step)
            self._watcher.ended(step)
