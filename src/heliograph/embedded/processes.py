"""Processes that outlive us: known by pid and start time, so that a recycled pid is never taken for one."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

_POLL = 0.05


@dataclass(frozen=True, slots=True)
class Process:
    pid: int
    started: str

    def is_alive(self) -> bool:
        with suppress(ChildProcessError):
            os.waitpid(self.pid, os.WNOHANG)  # reaps it, if it is a dead child of ours
        return _start_time(self.pid) == self.started

    def send(self, number: signal.Signals) -> None:
        if self.is_alive():
            os.kill(self.pid, number)


def spawn(command: list[str], environment: Mapping[str, str], log: Path) -> Process:
    """Start a process in a new session, where our terminal's Ctrl-C does not reach it."""
    append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    pid = os.posix_spawn(
        command[0],
        command,
        dict(environment),
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), append, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )
    return Process(pid, _start_time(pid) or "")


def stop(processes: Sequence[Process], patience: timedelta) -> None:
    """Ask all to end, then kill those that still run after `patience`."""
    for process in processes:
        process.send(signal.SIGTERM)
    if not _wait_for_end(processes, patience):
        for process in processes:
            process.send(signal.SIGKILL)
        _wait_for_end(processes, timedelta(seconds=5))


def _wait_for_end(processes: Sequence[Process], within: timedelta) -> bool:
    deadline = time.monotonic() + within.total_seconds()
    while any(process.is_alive() for process in processes):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL)
    return True


def _start_time(pid: int) -> str | None:
    """Return when a living process started, in the system's own unit, else None."""
    if Path("/proc/self/stat").exists():
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        return None if fields[0] in "ZX" else fields[19]
    shown = subprocess.run(
        ["/bin/ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return shown.stdout.strip() or None
