"""The processes of a running mirror, found in /proc: the driver, the JVM, the daemon, the workers."""

import os
import signal
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


def daemon(pid: int) -> int:
    """Return Spark's Python daemon below a driver, of which the workers are forks: it comes before them."""
    return next(p for p in tree(pid) if "heliograph.spark.daemon" in command_line(p))


def workers(pid: int) -> list[int]:
    """Return Spark's Python workers below a driver: the forks of the daemon."""
    return children(daemon(pid))


def send_to_all(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
