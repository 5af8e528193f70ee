"""The mirror's own processes: stopped, killed, doubled, and without a place to write."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from heliograph.embedded.ports import pick_port
from tests.clusters import eventually
from tests.faults.bench import STARTING, Bench, pause
from tests.processes import daemon, is_alive, tree, workers

pytestmark = [pytest.mark.fault, pytest.mark.timeout(600)]


def _driver(bench: Bench) -> int:
    return bench.mirror.pid


def _worker(bench: Bench) -> int:
    return workers(bench.mirror.pid)[0]


PROCESSES: dict[str, Callable[[Bench], int]] = {
    "driver": _driver,
    "JVM": Bench.jvm,
    "Python worker": _worker,
    "Python daemon": lambda bench: daemon(bench.mirror.pid),
}


@pytest.mark.parametrize("name", PROCESSES)
def test_a_process_sleeps(bench: Bench, name: str) -> None:
    with bench.under_load(f"SIGSTOP of the {name} for 20 s") as scene:
        pid = PROCESSES[name](bench)
        os.kill(pid, signal.SIGSTOP)
        pause(20)
        os.kill(pid, signal.SIGCONT)
        scene.recover()


@pytest.mark.parametrize("name", PROCESSES)
def test_a_process_is_killed(bench: Bench, name: str) -> None:
    with bench.under_load(f"kill -9 of the {name}") as scene:
        for _ in range(1 if name in ("driver", "JVM") else 3):
            os.kill(PROCESSES[name](bench), signal.SIGKILL)
            scene.recover_restarting(STARTING)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(place)]
    if os.geteuid() or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("only root can mount a small disk")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_full_disk_for_spark_s_scratch(bench: Bench, small_disk: Path) -> None:
    if bench.mirror.is_alive:
        bench.mirror.stop()
    bench.mirror = bench.new_mirror({"TMPDIR": str(small_disk)})
    with bench.under_load("disk of Spark's scratch folder full for 60 s") as scene:
        filler = small_disk / "filler"
        with filler.open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(1 << 16))
        pause(60)  # longer than an epoch, whose end Spark writes down
        filler.unlink()
        scene.recover_restarting()
    bench.mirror.stop()
    bench.mirror = bench.new_mirror()


def test_a_second_driver_for_one_flow_fences_the_first_which_says_so(bench: Bench) -> None:
    second = bench.new_mirror(port=pick_port())
    with bench.under_load("a second driver started for one flow") as scene:
        first = bench.mirror
        second.start()
        told = eventually(lambda: first.lines("FAILED (fenced)"), 90, second.tail)
        bench.mirror = second
        scene.recover()
        below = tree(first.pid)
        assert "another" in told[0], told
        first.stop()
        eventually(lambda: not any(map(is_alive, below)))
    bench.mirror.stop()
    bench.mirror = bench.new_mirror()
