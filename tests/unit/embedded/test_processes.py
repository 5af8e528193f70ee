import os
import signal
from datetime import timedelta
from pathlib import Path

from heliograph.embedded.processes import Process, spawn, stop
from lab.clusters import eventually


def test_a_process_is_known_until_it_ends_and_is_reaped(tmp_path: Path) -> None:
    sleeper = spawn(["/bin/sleep", "60"], {}, tmp_path / "log")
    assert sleeper.is_alive()
    assert os.getsid(sleeper.pid) == sleeper.pid

    stop([sleeper], timedelta(seconds=5))

    assert not sleeper.is_alive()
    assert not Path(f"/proc/{sleeper.pid}").exists()


def test_one_that_ignores_the_request_is_killed(tmp_path: Path) -> None:
    script = "trap '' TERM; echo deaf; while :; do sleep 0.1; done"
    deaf = spawn(["/bin/sh", "-c", script], {"PATH": os.environ["PATH"]}, tmp_path / "log")
    eventually(lambda: "deaf" in (tmp_path / "log").read_text())

    stop([deaf], timedelta(seconds=0.3))

    assert not deaf.is_alive()


def test_a_recycled_pid_gets_no_signal() -> None:
    other = Process(os.getpid(), "another time")

    other.send(signal.SIGKILL)

    assert not other.is_alive()
