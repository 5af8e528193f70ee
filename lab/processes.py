"""The processes of a running mirror, found in /proc: the driver, the JVM, the daemon, the workers."""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path


def children(pid: int) -> list[int]:
    """Return the direct children of a process."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            found += [int(child) for child in task.read_text().split()]
    return found


def tree(pid: int) -> list[int]:
    """Return a process and all below it, parents first."""
    found = [pid]
    for child in children(pid):
        found += tree(child)
    return found


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def is_alive(pid: int) -> bool:
    """Whether a process still runs; one that ended and was not waited for counts as dead."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def catches(pid: int, number: signal.Signals) -> bool:
    """Return whether a process handles a signal: one that has only just started would be ended by it."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    (caught,) = (line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught, 16) >> (number - 1) & 1)


def name(pid: int) -> str:
    """Return the short name, which a process gives itself."""
    return Path(f"/proc/{pid}/comm").read_text().strip()


def daemon(pid: int) -> int:
    """Return Spark's Python daemon for tasks below a driver, whose forks are the workers."""
    return next(p for p in tree(pid) if "heliograph.spark.daemon" in command_line(p))


def workers(pid: int) -> list[int]:
    """Return Spark's Python workers below a driver: the forks of the daemon."""
    return children(daemon(pid))


def send_to_all(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def freeze(pids: list[int]) -> None:
    """Stop processes, and return when no thread of them runs any more: a signal takes its time on a busy machine."""
    send_to_all(pids, signal.SIGSTOP)
    until = time.monotonic() + 30
    while any(_runs(pid) for pid in pids):
        assert time.monotonic() < until, f"{pids} do not stop"
        time.sleep(0.005)


def _runs(pid: int) -> bool:
    """Whether some thread of a process is not stopped."""
    for thread in Path(f"/proc/{pid}/task").glob("*/stat"):
        with suppress(OSError):
            if thread.read_text().rsplit(")", 1)[1].split()[0] not in "TtZX":
                return True
    return False
