"""The mirror's own processes: stopped, killed and doubled."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from heliograph.embedded.ports import pick_port
from lab.clusters import eventually
from lab.faults.bench import STARTING, Bench, Scene, pause
from lab.faults.fault import Fault
from lab.processes import is_alive, tree

ASLEEP = 20
PROCESSES = {
    "driver": "driver",
    "jvm": "JVM",
    "worker": "Python worker",
    "daemon": "Python daemon",
}


def sleep(process: str) -> Callable[[Scene], None]:
    def act(scene: Scene) -> None:
        pid = scene.process(process)
        scene.say(f"SIGSTOP of the {process} for {ASLEEP} s")
        os.kill(pid, signal.SIGSTOP)
        try:
            pause(ASLEEP)
        finally:
            os.kill(pid, signal.SIGCONT)
        scene.say("SIGCONT")
        scene.recover()

    return act


def kill(process: str, times: int) -> Callable[[Scene], None]:
    def act(scene: Scene) -> None:
        for _ in range(times):
            scene.say(f"kill -9 of the {process}")
            os.kill(scene.process(process), signal.SIGKILL)
            scene.recover_restarting(STARTING)

    return act


def kill_the_daemon(scene: Scene) -> None:
    """Its workers continue without it; it is missed only when one of them is."""
    worker = scene.process("Python worker")
    scene.say("kill -9 of the Python daemon")
    os.kill(scene.process("Python daemon"), signal.SIGKILL)
    scene.recover_restarting(STARTING)
    scene.say("kill -9 of a worker that it leaves behind")
    os.kill(worker, signal.SIGKILL)
    scene.recover_restarting(STARTING)
    scene.process("Python daemon")


@contextmanager
def replaced_at_the_end(bench: Bench) -> Iterator[None]:
    yield
    bench.copier.stop()
    bench.copier = bench.new_copier()


def start_a_second(scene: Scene) -> None:
    bench = scene.bench
    first, second = bench.mirror, bench.new_mirror(port=pick_port())
    scene.say("a second driver is started for the same flow")
    second.start()
    bench.copier = second
    try:
        told = eventually(lambda: first.lines("is fenced"), 90, second.tail)
        scene.say(told[0])
        assert "another" in told[0], told
        scene.recover()
        below = tree(first.pid)
        first.stop()
        eventually(lambda: not any(map(is_alive, below)))
    finally:
        if first.is_alive:
            first.kill()


FAULTS = (
    *(
        Fault(f"sleep-{name}", f"SIGSTOP of the {process} for {ASLEEP} s", sleep(process), process)
        for name, process in PROCESSES.items()
    ),
    *(
        Fault(
            f"kill-{name}",
            f"kill -9 of the {process}",
            kill(process, 3 if name == "worker" else 1),
            process,
            common=name == "jvm",
        )
        for name, process in PROCESSES.items()
        if name != "daemon"
    ),
    Fault(
        "kill-daemon",
        "kill -9 of the Python daemon, then of a worker that it leaves behind",
        kill_the_daemon,
        "Python daemon",
    ),
    Fault(
        "second-driver",
        "a second driver started for one flow",
        start_a_second,
        systems=("heliograph",),
        around=replaced_at_the_end,
    ),
)
