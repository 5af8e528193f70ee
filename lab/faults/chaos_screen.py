"""What the screen shows during faults: lines of what happens, and what arrives meanwhile."""

import threading
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.status import Status

from lab.faults.bench import Bench

_ON_A_TERMINAL = 0.5
_PLAIN = 5.0


class Screen:
    """Shows what arrives: on a terminal in one line that changes, else in a line every five seconds."""

    def __init__(self, console: Console, bench: Bench) -> None:
        self._console = console
        self._bench = bench
        self._began = time.monotonic()
        self._seen = (self._began, 0)
        self._status: Status | None = console.status("") if console.is_terminal else None
        self._every = _ON_A_TERMINAL if self._status else _PLAIN
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        if self._status:
            self._status.start()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()
        if self._status:
            self._status.stop()

    def begin(self, fault: str) -> None:
        self._console.print(f"\n[bold]{escape(fault)}[/bold]")

    def say(self, what: str) -> None:
        self._console.print(escape(f"  {time.monotonic() - self._began:6.1f} s  {what}"))

    def end(self, counts: str, good: bool) -> None:
        colour = "green" if good else "red"
        self._console.print(
            f"  [{colour}]{'good' if good else 'NOT GOOD'}[/{colour}]: {escape(counts)} "
            "(records | lost | repeated | out of order | recovered after | longest pause)"
        )

    def _run(self) -> None:
        while not self._over.wait(self._every):
            told = self._arriving()
            if told and self._status:
                self._status.update(told)
            elif told:
                self.say(told)

    def _arriving(self) -> str | None:
        scene = self._bench.scene
        if scene is None:
            return None
        (then, before), now = self._seen, time.monotonic()
        records = scene.watch.records
        self._seen = now, records
        if records < before:
            before = 0  # another case, another topic
        stamps = [stamp for stamp in scene.watch.stamps.values() if stamp]
        age = f"the newest is {time.time() - min(stamps):.1f} s old" if stamps else "nothing yet"
        return f"{(records - before) / (now - then):,.0f} records a second arrive, {age}"
