"""What the mirror depends on: the disk of its scratch folder, the clock, Spark's executors."""

import os
import shutil
import signal
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lab.clusters import eventually
from lab.commands import run_command
from lab.faults.bench import STARTING, Bench, Scene, pause
from lab.faults.fault import Fault
from lab.processes import is_alive
from lab.standalone import StandaloneSpark, python_of

OURS = ("heliograph",)
FULL = 60
_CLOCK = Path(__file__).with_name("clock.c")
_HOUR = 3600


def no_small_disk() -> str | None:
    return "only root can mount a small disk" if os.geteuid() else None


@contextmanager
def on_a_small_disk(bench: Bench) -> Iterator[None]:
    place = bench.folder / "small"
    place.mkdir(exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(place)]
    subprocess.run(mount, check=True, capture_output=True)
    try:
        with bench.using(bench.new_mirror({"TMPDIR": str(place)})):
            yield
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def fill_the_disk(scene: Scene) -> None:
    filler = scene.bench.folder / "small" / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(1 << 16))
    scene.say(f"the disk of Spark's scratch folder is full for {FULL} s")
    pause(FULL)
    filler.unlink()
    scene.say("the disk has room again")
    scene.recover_restarting()


def no_compiler() -> str | None:
    return None if shutil.which("cc") else "no C compiler (cc) for lab/faults/clock.c"


def _set_clock(bench: Bench, seconds: int) -> None:
    """Set how far the mirror's clock is ahead; the file is memory-mapped, so it is changed in place."""
    clock = bench.folder / "clock"
    with clock.open("r+b" if clock.exists() else "wb") as file:
        file.write(struct.pack("q", seconds))


@contextmanager
def with_a_clock_of_its_own(bench: Bench) -> Iterator[None]:
    library = bench.folder / "clock.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", library, _CLOCK, "-ldl"], check=True)
    _set_clock(bench, 0)
    environment = {"LD_PRELOAD": str(library), "HELIOGRAPH_CLOCK": str(bench.folder / "clock")}
    with bench.using(bench.new_mirror(environment)):
        yield


def let_the_clock_jump(scene: Scene) -> None:
    for name in ("driver", "JVM", "Python worker"):
        maps = Path(f"/proc/{scene.process(name)}/maps").read_text()
        assert "clock.so" in maps, f"the {name} has the machine's clock"
    for seconds in (_HOUR, 0, -_HOUR, 0):
        scene.say(f"the mirror's clock is set to {seconds:+d} s of the machine's")
        _set_clock(scene.bench, seconds)
        pause(15)  # until every periodic check of the clock has run
        scene.recover()


@contextmanager
def on_a_spark_cluster(bench: Bench) -> Iterator[None]:
    with tempfile.TemporaryDirectory(dir=bench.folder) as folder:
        archive = Path(folder) / "heliograph-env.tar.gz"
        packed = run_command("package", "--output", str(archive), within=300)
        assert packed.returncode == 0, packed.stderr
        with StandaloneSpark(Path(folder) / "spark", workers=2, cores=2) as spark:
            keys = {
                "spark.master": spark.master,
                "spark.executor.memory": "512m",
                "spark.archives": f"{archive}#heliograph-env",
            }
            bench.spark = spark
            arguments = [
                word for key, value in keys.items() for word in ("--spark", f"{key}={value}")
            ]
            with bench.using(bench.new_mirror(arguments=arguments)):
                yield


def lose_executors(scene: Scene) -> None:
    spark = scene.bench.spark
    assert spark is not None
    for _ in range(2):
        victim = spark.executors()[0]
        pythons = python_of(victim)
        scene.say("kill -9 of an executor")
        os.kill(victim, signal.SIGKILL)
        scene.recover(STARTING)
        eventually(lambda: not any(map(is_alive, pythons)), 60, spark.logs)  # noqa: B023 - called at once


FAULTS = (
    Fault(
        "disk-full",
        f"disk of Spark's scratch folder full for {FULL} s",
        fill_the_disk,
        systems=OURS,
        around=on_a_small_disk,
        lacks=no_small_disk,
    ),
    Fault(
        "clock-jumps",
        "clock of the mirror an hour ahead, back, an hour behind, back",
        let_the_clock_jump,
        systems=OURS,
        around=with_a_clock_of_its_own,
        lacks=no_compiler,
    ),
    Fault(
        "kill-executor",
        "kill -9 of a Spark executor (standalone cluster)",
        lose_executors,
        systems=OURS,
        around=on_a_spark_cluster,
        needs_spark_cluster=True,
    ),
)
