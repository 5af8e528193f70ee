"""CPU and memory of this process and of all below it: Spark's JVM and the Python processes of its tasks."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Process:
    """One process; `ticks` are its own and those of its children that have ended."""

    pid: int
    parent: int
    command: str
    ticks: int
    pages: int


@dataclass(frozen=True, slots=True)
class Usage:
    """What the processes of one part use."""

    processes: int
    cpu_seconds: float
    resident_bytes: int


def read_usage(root: int | None = None) -> dict[str, Usage]:
    """Return what the driver, the JVM and Python below it use; nothing where there is no /proc."""
    return sum_up(root or os.getpid(), list(_read_processes()))


def sum_up(root: int, processes: list[Process]) -> dict[str, Usage]:
    """Return the use of a process and of all below it, by part."""
    below: dict[int, list[Process]] = {}
    for process in processes:
        below.setdefault(process.parent, []).append(process)
    found: dict[str, list[Process]] = {}
    left = [process for process in processes if process.pid == root]
    while left:
        process = left.pop()
        found.setdefault(_part(process, root), []).append(process)
        left += below.get(process.pid, ())
    return {
        part: Usage(len(its), sum(p.ticks for p in its) / _TICKS, sum(p.pages for p in its) * _PAGE)
        for part, its in found.items()
    }


def parse_stat(text: str) -> Process:
    """Return a process by its /proc/PID/stat; its name is in brackets, and may hold any character."""
    head, _, rest = text.rpartition(")")
    pid, _, command = head.partition("(")
    fields = rest.split()
    return Process(int(pid), int(fields[1]), command, sum(map(int, fields[11:15])), int(fields[21]))


def _part(process: Process, root: int) -> str:
    if process.pid == root:
        return "driver"
    return "jvm" if process.command == "java" else "python"


def _read_processes() -> Iterator[Process]:
    if not _PROC.is_dir():
        return
    for folder in _PROC.iterdir():
        if folder.name.isdigit():
            try:
                yield parse_stat((folder / "stat").read_text(errors="replace"))
            except OSError:
                continue  # it has just ended, or is hidden from us
