"""What a process and all its descendants cost, from /proc: CPU time, and proportional set size."""

import ctypes
import os
import platform
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")
_EVERY = 0.2
_SIZE_EVERY = 5  # a sample of the size walks all pages, so only each fifth sample takes it
_LIBC = ctypes.CDLL(None)
_COMPARE = {"x86_64": 312, "aarch64": 272}  # the number of the system call `kcmp`
_THEIR_MEMORY = 1
_PARENT, _USER, _SYSTEM, _STARTED = 1, 11, 12, 19

Identity = tuple[int, str]  # pid and start time: a recycled pid is another process


class Tree:
    """Samples a tree in a thread until closed; what ended counts with its last sample.

    `beside` are processes that ran before and belong to it too: what they had used by now is not counted.
    """

    def __init__(self, root: int, beside: Sequence[int] = ()) -> None:
        self._roots = set(beside)
        self._cpu: dict[Identity, float] = {}
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._before = 0.0
        self._before = self.cpu_seconds()
        self._roots.add(root)
        self.peak_bytes = 0
        self._thread = threading.Thread(target=self._sample_until_closed, daemon=True)
        self._thread.start()

    def cpu_seconds(self) -> float:
        """Return what the tree has used since it began."""
        with self._lock:
            self._sample_cpu()
            return sum(self._cpu.values()) - self._before

    def size_bytes(self) -> int:
        """Return the proportional set size of those that live now."""
        with self._lock:
            alive = self._sample_cpu()
        return sum(map(_size, alive))

    def close(self) -> None:
        self._closed.set()
        self._thread.join()

    def _sample_until_closed(self) -> None:
        count = 0
        while not self._closed.wait(_EVERY):
            with self._lock:
                alive = self._sample_cpu()
            if count % _SIZE_EVERY == 0:
                self.peak_bytes = max(self.peak_bytes, sum(map(_size, alive)))
            count += 1

    def _sample_cpu(self) -> list[int]:
        """Note the CPU time of all that live, and return their pids."""
        stats = _read_stats()
        children: dict[int, list[int]] = {}
        for pid, fields in stats.items():
            children.setdefault(int(fields[_PARENT]), []).append(pid)
        # A child whose parent ended has another parent now, so those seen before are roots too.
        known = {pid for pid, started in self._cpu if _is_same(stats, pid, started)}
        waiting = [pid for pid in known | self._roots if pid in stats]
        found: set[int] = set()
        while waiting:
            pid = waiting.pop()
            if pid not in found:
                found.add(pid)
                waiting += children.get(pid, [])
        for pid in found:
            fields = stats[pid]
            used = (int(fields[_USER]) + int(fields[_SYSTEM])) / _TICK
            self._cpu[pid, fields[_STARTED]] = used
        return list(found)


def cpu_seconds_of(pids: Iterable[int]) -> float:
    """Return what these processes have used, without those below them."""
    used = 0.0
    for pid in pids:
        with suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            used += (int(fields[_USER]) + int(fields[_SYSTEM])) / _TICK
    return used


def _read_stats() -> dict[int, list[str]]:
    """Return the fields after the command's name of every process."""
    stats: dict[int, list[str]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - hundreds of names, several times a second
        if name.isdigit():
            with suppress(OSError):
                text = Path(f"/proc/{name}/stat").read_text()
                stats[int(name)] = text.rpartition(")")[2].split()
    return stats


def _is_same(stats: dict[int, list[str]], pid: int, started: str) -> bool:
    return pid in stats and stats[pid][_STARTED] == started


def _size(pid: int) -> int:
    """Return the bytes of a process, shared pages divided among those that share them."""
    if _is_in_its_parent(pid):
        return 0
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def _is_in_its_parent(pid: int) -> bool:
    """Whether a process has no memory of its own yet: a JVM that starts a program would else count twice."""
    number = _COMPARE.get(platform.machine())
    if number is None:
        return False
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return bool(_LIBC.syscall(number, pid, int(fields[_PARENT]), _THEIR_MEMORY, 0, 0) == 0)
    return False
