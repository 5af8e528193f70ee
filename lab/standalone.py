"""A standalone Spark cluster of one master and some workers, as an operator of Spark would run it.

Its processes have a separate environment: a bare Python of our version, no PYTHONPATH, folders
outside of the source tree. Our modules that tasks import must be shipped to them.
"""

import os
import re
import signal
import subprocess
import venv
from pathlib import Path
from types import TracebackType
from typing import Self

import pyspark

from heliograph.embedded.java import find_java
from lab.clusters import eventually
from lab.processes import children, command_line, is_alive

_HOME = Path(pyspark.__file__).parent
_HOST = "127.0.0.1"


class StandaloneSpark:
    """One master, `workers` workers of `cores` each, all on loopback."""

    def __init__(self, folder: Path, workers: int, cores: int) -> None:
        self._folder = folder
        self._size = workers
        self._cores = cores
        self._processes: list[subprocess.Popen[bytes]] = []
        self.master = ""

    def __enter__(self) -> Self:
        venv.create(self._folder / "bare", symlinks=True)
        try:
            self._start("master", "--port", "0", "--webui-port", "0")
            log = self._log("master")
            eventually(lambda: "Starting Spark master at" in log.read_text(), 60, log.read_text)
            found = re.search(r"Starting Spark master at (spark://\S+)", log.read_text())
            assert found is not None
            self.master = found[1]
            for number in range(self._size):
                self._start_worker(number)
            eventually(
                lambda: log.read_text().count("Registering worker") == self._size, 60, log.read_text
            )
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def executors(self) -> list[int]:
        """Return the processes that run tasks: JVMs below the workers."""
        below = [pid for worker in self.workers() for pid in children(worker)]
        return [pid for pid in below if "CoarseGrainedExecutorBackend" in command_line(pid)]

    def workers(self) -> list[int]:
        """Return the workers that run."""
        return [p.pid for p in self._processes[1:] if p.poll() is None]

    def kill_worker(self, pid: int) -> None:
        """End a worker as a crash would; its executors see it and end themselves.

        An executor that is still starting would not, so this waits for it first.
        """
        below = children(pid)
        started = [e for e in self.executors() if e in below]
        eventually(lambda: all(map(_is_up, started)), 60, self.logs)
        os.kill(pid, signal.SIGKILL)
        next(p for p in self._processes if p.pid == pid).wait()
        eventually(lambda: not any(map(is_alive, below)), 60, self.logs)

    def logs(self) -> str:
        """Return the ends of all logs, of executors too."""
        files = [*self._folder.glob("*.log"), *self._folder.glob("work-*/*/*/stderr")]
        return "\n".join(
            f"\n{file}:\n" + "\n".join(file.read_text(errors="replace").splitlines()[-15:])
            for file in files
        )

    def _start_worker(self, number: int) -> None:
        self._start(
            f"worker-{number}",
            *("--port", "0", "--webui-port", "0", "--cores", str(self._cores), "--memory", "2g"),
            *("--work-dir", str(self._folder / f"work-{number}"), self.master),
        )

    def _start(self, name: str, *arguments: str) -> None:
        kind = name.partition("-")[0]
        place = self._folder / name
        place.mkdir()
        with self._log(name).open("wb") as log:
            process = subprocess.Popen(
                [
                    str(_HOME / "bin" / "spark-class"),
                    f"org.apache.spark.deploy.{kind}.{kind.capitalize()}",
                    *("--host", _HOST, *arguments),
                ],
                cwd=place,
                env={
                    "PATH": f"{self._folder / 'bare' / 'bin'}:{os.defpath}",
                    "JAVA_HOME": str(find_java().home),
                    "SPARK_HOME": str(_HOME),
                    "SPARK_LOCAL_IP": _HOST,
                    "SPARK_LOCAL_DIRS": str(place),
                    "SPARK_DAEMON_MEMORY": "256m",
                    "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
                },
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._processes.append(process)

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def _end(self) -> None:
        """Stop what was started here, the last first; executors and their Pythons end with their worker."""
        below = self.executors()
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        eventually(lambda: not any(map(is_alive, below)), 60)


def python_of(executor: int) -> list[int]:
    """Return the Python processes of an executor: its daemon and the forks of that."""
    daemons = [pid for pid in children(executor) if "heliograph.spark.daemon" in command_line(pid)]
    return [pid for daemon in daemons for pid in (daemon, *children(daemon))]


def _is_up(executor: int) -> bool:
    """Whether an executor takes tasks, or has ended."""
    try:
        log = Path(f"/proc/{executor}/cwd/stderr").read_text(errors="replace")
    except OSError:
        return True
    return "Starting executor ID" in log
