"""The systems that faults are done to: heliograph, and a real MirrorMaker 2 on the same file."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from lab.clusters import eventually
from lab.mirrors import Mirror
from lab.peer import Peer, start_peer
from lab.processes import command_line, daemon, tree, workers


class Copier(Protocol):
    """A system that copies one flow, as processes that can be started again and again."""

    @property
    def pid(self) -> int: ...

    @property
    def is_alive(self) -> bool: ...

    def start(self) -> None:
        """Start it, and return at once."""

    def await_up(self, within: float) -> None:
        """Return when what was started last has come up."""

    def stop(self) -> None: ...

    def kill(self) -> None: ...

    def process(self, name: str) -> int:
        """Return the pid of one of the processes that its system has."""

    def tail(self) -> str: ...


def _jvm(pid: int) -> int:
    return next(p for p in tree(pid) if "org.apache.spark." in command_line(p))


def _cpu_time(pid: int) -> int:
    """Return a process's CPU ticks: among Spark's workers those that copy have most, others wait for work."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


class Heliograph(Mirror):
    """`heliograph run`, its processes by name."""

    PROCESSES: Mapping[str, Callable[[int], int]] = {
        "driver": lambda pid: pid,
        "JVM": _jvm,
        "Python worker": lambda pid: max(workers(pid), key=_cpu_time),
        "Python daemon": daemon,
    }
    _begun = 0

    def start(self) -> None:
        self._begun = self._ups()
        super().start()

    def await_up(self, within: float) -> None:
        eventually(lambda: self._ups() > self._begun, within, self.tail)

    def process(self, name: str) -> int:
        """Return its pid; Spark starts a daemon and workers only when it needs them."""
        return eventually(lambda: self._find(name), 90, self.tail)

    def _find(self, name: str) -> int:
        with suppress(StopIteration, ValueError, OSError):
            return self.PROCESSES[name](self.pid)
        return 0  # none now

    def _ups(self) -> int:
        return len(self.lines("Spark is up")) if self.log.exists() else 0


class MirrorMaker:
    """MirrorMaker 2 in dedicated mode with its defaults; each start has a new folder."""

    PROCESSES = ("JVM",)

    def __init__(self, folder: Path, properties: Mapping[str, str]) -> None:
        self._folder = folder
        self._properties = properties
        self._peer: Peer | None = None
        self._starts = 0

    @property
    def peer(self) -> Peer:
        assert self._peer is not None, "MirrorMaker 2 was not started"
        return self._peer

    @property
    def pid(self) -> int:
        return self.peer.pid

    @property
    def is_alive(self) -> bool:
        return self._peer is not None and self._peer.is_alive

    def start(self) -> None:
        self._starts += 1
        self._peer = start_peer(
            self._folder / f"start-{self._starts}", self._properties, heap="1g", wait=False
        )

    def await_up(self, within: float) -> None:
        eventually(lambda: "Kafka MirrorMaker started" in self._text(), within, self.tail)

    def stop(self) -> None:
        self.peer.stop()

    def kill(self) -> None:
        self.peer.kill()

    def process(self, name: str) -> int:
        assert name in self.PROCESSES, f"MirrorMaker 2 has no {name}"
        return self.pid

    def tail(self) -> str:
        return self.peer.last_lines() if self._peer else ""

    def _text(self) -> str:
        return self.peer.log.read_text(errors="replace")


SYSTEMS: Mapping[str, type[Heliograph] | type[MirrorMaker]] = {
    "heliograph": Heliograph,
    "mm2": MirrorMaker,
}
