import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from heliograph.spark.context import plan_settings
from heliograph.dataplane.nursery import Order, read_order
from heliograph.dataplane.pythons import Pythons
from tests.clusters import eventually
from tests.processes import children, command_line, is_alive, nursery

pytestmark = pytest.mark.spark

PROBE = """
import os, sys
print(os.getppid(), os.environ["MARK"], sys.argv[1:], "pyspark.worker" in sys.modules)
print(sys.stdin.read(), file=sys.stderr)
sys.exit(7)
"""
SLEEPER = "import time\nprint('up', flush=True)\ntime.sleep(60)"


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder whose modules Python finds."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *filter(None, sys.path)]))
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    return tmp_path


@pytest.fixture
def pythons(modules: Path) -> Iterator[Pythons]:
    with closing(Pythons(plan_settings(2, {}), modules)) as made:
        # A new process has a moment without a command line, by which the tests know it.
        eventually(lambda: any("nursery" in command_line(p) for p in children(os.getpid())))
        yield made


def test_what_spark_starts_is_a_fork_that_has_its_arguments_streams_and_environment(
    pythons: Pythons, modules: Path
) -> None:
    (modules / "probe.py").write_text(PROBE)

    told = subprocess.run(
        [pythons.command, "-m", "probe", "a", "b c"],
        env={**os.environ, "MARK": "x=y"},
        input="asked",
        capture_output=True,
        text=True,
        check=False,
    )

    assert told.stdout == f"{nursery(os.getpid())} x=y ['a', 'b c'] True\n"
    assert told.stderr == "asked\n"
    assert told.returncode == 7


def test_a_fork_ends_with_the_process_that_spark_knows(pythons: Pythons, modules: Path) -> None:
    (modules / "sleeper.py").write_text(SLEEPER)
    with subprocess.Popen([pythons.command, "-m", "sleeper"], stdout=subprocess.PIPE) as hatch:
        assert hatch.stdout is not None
        assert hatch.stdout.readline() == b"up\n"
        (fork,) = children(nursery(os.getpid()))

        hatch.terminate()
        eventually(lambda: not is_alive(fork), 5)


def test_the_process_that_spark_knows_tells_that_its_fork_was_killed(
    pythons: Pythons, modules: Path
) -> None:
    (modules / "sleeper.py").write_text(SLEEPER)
    with subprocess.Popen([pythons.command, "-m", "sleeper"], stdout=subprocess.PIPE) as hatch:
        assert hatch.stdout is not None
        assert hatch.stdout.readline() == b"up\n"
        (fork,) = children(nursery(os.getpid()))

        os.kill(fork, signal.SIGKILL)

        assert hatch.wait(5) == 128 + signal.SIGKILL


def test_without_a_nursery_it_is_an_ordinary_python(pythons: Pythons, modules: Path) -> None:
    (modules / "probe.py").write_text(PROBE)
    os.kill(nursery(os.getpid()), signal.SIGKILL)

    told = subprocess.run(
        [pythons.command, "-m", "probe"],
        env={**os.environ, "MARK": "z"},
        input="",
        capture_output=True,
        text=True,
        check=False,
    )

    assert told.stdout == f"{os.getpid()} z [] False\n"
    assert told.returncode == 7


def test_an_order_names_a_module() -> None:
    assert read_order(b"3\0-m\0a.b\0c\0K=v=w") == Order("a.b", ["c"], {"K": "v=w"})


@pytest.mark.parametrize("message", [b"", b"x", b"2\0-c\0print()", b"1\0-m", b"\xff\xfe\0-m\0a"])
def test_anything_else_is_no_order(message: bytes) -> None:
    assert read_order(message) is None


def test_what_is_no_module_is_run_by_an_ordinary_python(pythons: Pythons) -> None:
    told = subprocess.run(
        [pythons.command, "-c", "import os; print(os.getppid())"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert told.stdout == f"{os.getpid()}\n"


def test_a_folder_with_a_long_name_has_no_nursery(modules: Path) -> None:
    far = modules / ("x" * 100)
    far.mkdir()
    with closing(Pythons(plan_settings(2, {}), far)) as pythons:
        told = subprocess.run(
            [pythons.command, "-c", "print('here')"], capture_output=True, text=True, check=True
        )

    assert told.stdout == "here\n"
