"""Commands that run until they are told to end."""

import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Protocol

import typer

from heliograph.errors import MirrorError

_TICK = 1.0

ReportsOption = Annotated[
    Path,
    typer.Option(
        metavar="DIR", help="Where drills and verifies keep their reports: the page shows them."
    ),
]


class Runs(Protocol):
    """What such a command starts."""

    def start(self) -> None:
        """Begin; returns at once."""

    def alive(self) -> bool:
        """Whether it can still do its work."""


def run_until_told(work: Runs, is_over: Callable[[], bool] = lambda: False) -> None:
    """Start it, and return on SIGTERM, on Ctrl-C, or when `is_over`, which is asked once a second."""
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    work.start()
    while not stopping.wait(_TICK):
        if not work.alive():
            raise MirrorError(
                "Spark's JVM is gone, so nothing is mirrored; start heliograph again."
            )
        if is_over():
            return
