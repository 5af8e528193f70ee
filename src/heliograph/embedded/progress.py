"""How slow preparations are shown: a bar on a terminal, a few plain lines elsewhere."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

_LINE_EVERY = 15


class Report(Protocol):
    def __call__(self, done: int, total: int, what: str) -> None: ...


@contextmanager
def open_progress(title: str) -> Iterator[Report]:
    """Show progress on stderr until the block ends; `total` may be an estimate."""
    console = Console(stderr=True)
    if console.is_terminal:
        with _bar(console, title) as report:
            yield report
        return
    console.print(title, highlight=False, soft_wrap=True)
    last = 0

    def line(done: int, total: int, what: str) -> None:
        nonlocal last
        if done >= last + _LINE_EVERY:
            last = done
            # An empty Maven repository needs Maven's own parts first, and nobody knows how many.
            so_far = f"{done} of about {total}" if done <= total else f"{done}"
            console.print(f"  {so_far}: {what}", highlight=False, soft_wrap=True)

    yield line


@contextmanager
def _bar(console: Console, title: str) -> Iterator[Report]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[what]}", style="dim"),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(title, total=None, what="")

        def draw(done: int, total: int, what: str) -> None:
            progress.update(task, completed=done, total=max(done, total), what=what)

        yield draw
