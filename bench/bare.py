"""The same copier without Spark: `python -m bench.bare FILE` runs a mirror whose slices are plain processes.

It shows what Spark costs and gives. A process that ends is started again here, too; what is lacking is everything
that Spark does on a cluster: placing slices on other machines, and starting them elsewhere when one is lost.
"""

import pickle
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path

from heliograph.cli.main import main
from heliograph.connect import instances
from heliograph.errors import MirrorError
from heliograph.spark.cores import Cores
from heliograph.wire.lease_messages import Claim

_RUN = (
    "import pickle, sys; from heliograph.copying.task import copy; "
    "claim = pickle.load(sys.stdin.buffer); copy(claim, claim.attempt)"
)


class Bare:
    """What flows ask of an engine, with processes in place of Spark."""

    def __init__(self, slots: int, extra: Mapping[str, str]) -> None:
        del extra
        self._slots = slots
        self._lock = threading.Lock()
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self.scratch = Path(tempfile.mkdtemp(prefix="bare-"))

    def start(self) -> None:
        """There is nothing to start."""

    def wait(self, within: float) -> bool:
        del within
        return True

    def trouble(self) -> str | None:
        return None

    def cores(self) -> Cores | None:
        return None

    def seat(self, key: str, tasks: int) -> None:
        del key, tasks

    def shortage(self) -> str | None:
        return None

    def run_slice(self, claim: Claim, group: str) -> None:
        """Run a process that copies a slice; returns when it ends, and raises if it failed."""
        process = subprocess.Popen([sys.executable, "-c", _RUN], stdin=subprocess.PIPE)
        with self._lock:
            self._running[group] = process
        assert process.stdin is not None, "it was asked for"
        process.stdin.write(pickle.dumps(claim))
        process.stdin.close()
        code = process.wait()
        if code:
            raise MirrorError(f"{group} ended with exit code {code}")

    def cancel(self, group: str) -> None:
        with self._lock:
            process = self._running.get(group)
        if process is not None:
            process.kill()

    def alive(self) -> bool:
        return True

    def close(self) -> None:
        for process in self._running.values():
            process.kill()
        self.scratch.rmdir()


if __name__ == "__main__":
    instances.Engine = Bare  # type: ignore[assignment, attr-defined]  # that is what this is for
    sys.argv = ["heliograph", "run", *sys.argv[1:]]
    main()
