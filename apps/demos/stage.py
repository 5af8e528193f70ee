"""Where a demo plays: real clusters, a mirror, the seeds' programs; each step with its time, nothing left behind."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from demos.account import Message, messages_in

import heliograph
from heliograph.drill.report import Step
from heliograph.drill.steps import StepLog
from heliograph.drill.wipe_mirror import RunningMirror
from heliograph.embedded.cluster import Cluster, start_cluster
from heliograph.errors import MirrorError

APPS = Path(__file__).parents[1]
CONFIG = Path(__file__).parent / "config"
_PATIENCE = 240.0
_POLL = 0.25
_LAST_LINES = 15


class Program:
    """A process that somebody would start in a terminal, and what it prints; `codes` are good ends of it."""

    def __init__(
        self,
        command: list[str],
        environment: Mapping[str, str],
        log: Path,
        codes: Collection[int] = (0,),
    ) -> None:
        self._codes = codes
        self.name = " ".join(Path(word).name for word in command[1:4])
        self._log = log
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                command,
                env=environment,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for the demo, which ends them
            )

    def printed(self) -> str:
        return self._log.read_text(errors="replace")

    def messages(self) -> list[Message]:
        return messages_in(self.printed())

    def has_ended(self) -> bool:
        """Whether it has; raise if not well."""
        code = self._process.poll()
        if code is not None and code not in self._codes:
            last = "\n".join(self.printed().splitlines()[-_LAST_LINES:])
            raise MirrorError(f"{self.name} ended with exit code {code}. Its last lines:\n{last}")
        return code is not None

    def ask_to_end(self) -> None:
        """Ask as `kill PID` does."""
        self._process.terminate()

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()


class Stage:
    """Starts what a demo needs; leaving it ends all of that and deletes what it wrote."""

    def __init__(self) -> None:
        self._cleanup = ExitStack()
        self.folder = Path(tempfile.mkdtemp(prefix="heliograph-demo-"))
        self._cleanup.callback(shutil.rmtree, self.folder, ignore_errors=True)
        self._log = StepLog(_Lines())
        self._checks: list[Callable[[], object]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self.step("stop everything, and delete what it wrote"):
            self._cleanup.close()

    def step(self, name: str) -> AbstractContextManager[list[str]]:
        """Time the block, and print a line with what it adds to the list."""
        return self._log.step(name)

    def start_cluster(self, name: str, brokers: int = 1) -> Cluster:
        what = "a real Kafka broker" if brokers == 1 else f"{brokers} real Kafka brokers"
        with self.step(f"start {name}, {what}") as notes:
            cluster = start_cluster(
                name, brokers=brokers, data_root=self.folder / "kafka", heap="256m"
            )
            self._cleanup.callback(_wipe, cluster)
            notes.append(cluster.bootstrap)
        return cluster

    def start_mirror(self, file: Path) -> None:
        """Start `heliograph run`, and return when every flow copies."""
        with self.step(f"heliograph run {file.name}, until it copies"):
            mirror = RunningMirror(file, self.folder / "mirror.log")
            self._cleanup.callback(mirror.stop)
            self._checks.append(mirror.check)
            self.wait(mirror.copies, "the mirror to begin")

    def start_program(self, name: str, *arguments: str) -> Program:
        """Start a program of apps/ in the background."""
        return self._start([sys.executable, str(APPS / name), *arguments])

    def start_command(self, *arguments: str, codes: Collection[int] = (0,)) -> Program:
        """Start a command of heliograph in the background."""
        return self._start([sys.executable, "-m", "heliograph", *arguments], codes)

    def run_program(self, name: str, *arguments: str) -> list[Message]:
        """Run a program of apps/ until it ends, and return the messages it printed."""
        return messages_in(self.finish(self.start_program(name, *arguments)))

    def finish(self, program: Program) -> str:
        """Return all that a program printed, once it has ended by itself."""
        self.wait(program.has_ended, f"{program.name} to end")
        return program.printed()

    def stop(self, program: Program) -> str:
        """Ask a program to end, and return all it printed."""
        program.ask_to_end()
        return self.finish(program)

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + _PATIENCE
        while not condition():
            for check in self._checks:
                check()
            if time.monotonic() > deadline:
                raise MirrorError(f"the demo waited for {what}, in vain for {_PATIENCE:.0f} s.")
            time.sleep(_POLL)

    def write_properties(
        self, name: str, changed: Mapping[str, str], added: Mapping[str, str]
    ) -> Path:
        """Write a seed's file with some values changed and some keys added, and say so."""
        text = change_properties((CONFIG / name).read_text(), changed, added)
        file = self.folder / name
        file.write_text(text)
        say_added(f"{name} is the seed's with our ports in it", added)
        return file

    @property
    def environment(self) -> dict[str, str]:
        """Ours, in which a process finds the same heliograph as we are."""
        (package,) = heliograph.__path__
        paths = [str(Path(package).parent), str(APPS), os.environ.get("PYTHONPATH", "")]
        return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}

    def _start(self, command: list[str], codes: Collection[int] = (0,)) -> Program:
        log = self.folder / f"program-{len(self._checks)}.log"
        program = Program(command, self.environment, log, codes)
        self._cleanup.callback(program.kill)
        self._checks.append(program.has_ended)
        return program


def _wipe(cluster: Cluster) -> None:
    """Kill it, since nothing of it is kept: of two brokers, the last would wait for the first in vain."""
    for broker in cluster.pids:
        cluster.kill(broker)
    cluster.wipe()


def change_properties(text: str, changed: Mapping[str, str], added: Mapping[str, str]) -> str:
    """Return a properties file in which these keys have these values; a key to be changed must be there."""
    lines = text.splitlines()
    keys = [line.partition("=")[0].strip() for line in lines]
    for key, value in changed.items():
        lines[keys.index(key)] = f"{key} = {value}"
    return "\n".join([*lines, *(f"{key} = {value}" for key, value in added.items())]) + "\n"


def say_added(what: str, added: Mapping[str, str]) -> None:
    """Print in how far a file is not the seed's."""
    print(f"          {what}{'; added:' if added else '.'}")
    for key, value in added.items():
        print(f"            {key} = {value}")


def first_and_last(messages: list[Message]) -> str:
    """Return what a step says of messages."""
    if not messages:
        return "no messages"
    return f"{len(messages)} messages, {messages[0]} to {messages[-1]}"


class _Lines:
    """Prints a line per step; on a terminal also while it lasts."""

    def began(self, name: str) -> None:
        if sys.stdout.isatty():
            print(f"          {name} ...", end="\r", flush=True)

    def ended(self, step: Step) -> None:
        note = f" ({step.note})" if step.note else ""
        clear = "\x1b[2K" if sys.stdout.isatty() else ""
        print(f"{clear}{step.start:6.1f} s  {step.name}: {step.seconds:.1f} s{note}", flush=True)
