"""A fault every 30 s under a steady load, for ten minutes or as long as somebody wants: ./test -m soak.

HELIOGRAPH_SOAK_SECONDS=3600 makes it an hour; HELIOGRAPH_SOAK_OUT=FILE keeps what was measured as JSON.
"""

import json
import os
import random
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer
from confluent_kafka import TopicPartition as RdPartition

from lab.clusters import LiveCluster, eventually, start_live_cluster
from lab.load import SteadyLoad
from lab.mirrors import Mirror, mesh_properties
from lab.processes import command_line, freeze, send_to_all, tree, workers

SECONDS = int(os.environ.get("HELIOGRAPH_SOAK_SECONDS", "600"))
OUT = os.environ.get("HELIOGRAPH_SOAK_OUT")
RATE = 5000
PARTITIONS = 6
EVERY = 30
TOPIC = "orders"
GROWTH = 1.25
VERIFY = sys.executable, "-m", "heliograph", "verify", "--flow", "A->B", "--complete"

pytestmark = [pytest.mark.soak, pytest.mark.timeout(SECONDS + 1200)]


@dataclass
class Sample:
    """What the mirror holds at one time."""

    second: float
    processes: int
    descriptors: int
    memory: int


@dataclass
class Result:
    """What came of it; a recovery is from the end of a fault to records that arrive again."""

    seconds: int
    rate: int
    faults: list[str] = field(default_factory=list)
    recoveries: list[float] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    produced: int = 0
    lost: int = 0
    repeated: int = 0
    out_of_order: int = 0


class Scene:
    """Two clusters of three brokers, a mirror between them, and what may befall them."""

    def __init__(self, a: LiveCluster, b: LiveCluster, mirror: Mirror) -> None:
        self.a, self.b, self.mirror = a, b, mirror
        self.faults: list[Callable[[random.Random], None]] = [
            self.kill_a_worker,
            self.stop_the_jvm_for_a_while,
            self.kill_a_source_broker,
            self.kill_a_target_broker,
            self.stop_a_target_broker_for_a_while,
            self.kill_the_mirror,
        ]

    def copied(self) -> int:
        with suppress(Exception):  # brokers come and go
            return sum(self.b.end_offsets(f"A.{TOPIC}"))
        return 0

    def kill_a_worker(self, chance: random.Random) -> None:
        send_to_all([chance.choice(workers(self.mirror.pid))], signal.SIGKILL)

    def stop_the_jvm_for_a_while(self, chance: random.Random) -> None:
        java = [p for p in tree(self.mirror.pid) if "org.apache.spark" in command_line(p)]
        self._sleep(java, chance)

    def kill_a_source_broker(self, chance: random.Random) -> None:
        self._bounce(self.a, chance)

    def kill_a_target_broker(self, chance: random.Random) -> None:
        self._bounce(self.b, chance)

    def stop_a_target_broker_for_a_while(self, chance: random.Random) -> None:
        self._sleep([chance.choice(list(self.b.cluster.pids.values()))], chance)

    def kill_the_mirror(self, _: random.Random) -> None:
        send_to_all(tree(self.mirror.pid), signal.SIGKILL)
        self.mirror.wait()
        self.mirror.start()

    def _bounce(self, cluster: LiveCluster, chance: random.Random) -> None:
        broker = chance.choice((1, 2, 3))
        cluster.cluster.kill(broker)
        time.sleep(chance.uniform(1, 8))
        cluster.cluster.start_broker(broker)

    def _sleep(self, pids: list[int], chance: random.Random) -> None:
        freeze(pids)
        time.sleep(chance.uniform(1, 8))
        send_to_all(pids, signal.SIGCONT)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    safe = {"default.replication.factor": "3", "min.insync.replicas": "2"}
    with ExitStack() as stack:
        clusters = []
        for name in ("A", "B"):
            clusters.append(start_live_cluster(name, tmp_path / name, brokers=3, config=safe))
            stack.callback(clusters[-1].cluster.wipe)
        a, b = clusters
        a.create_topic(PARTITIONS, name=TOPIC, replication=3)
        properties = mesh_properties(
            {"A": a.bootstrap, "B": b.bootstrap}, {"A->B": TOPIC}, tasks_max="2"
        )
        thrice = {key: "3" for key in properties if key.endswith("replication.factor")}
        mirror = Mirror(tmp_path / "mirror", {**properties, **thrice})
        yield Scene(a, b, mirror)
        if mirror.is_alive:
            send_to_all(tree(mirror.pid), signal.SIGKILL)


def test_nothing_is_lost_repeated_or_grows_under_a_fault_every_30_s(scene: Scene) -> None:
    result = Result(SECONDS, RATE)
    chance = random.Random(SECONDS)
    with SteadyLoad(scene.a, TOPIC, PARTITIONS, RATE) as load:
        scene.mirror.start()
        wait_for_progress(scene)
        began = time.monotonic()
        while (passed := time.monotonic() - began) < SECONDS:
            result.samples.append(measure(scene.mirror.pid, passed))
            fault = chance.choice(scene.faults)
            fault(chance)
            healed = time.monotonic()
            wait_for_progress(scene)
            result.faults.append(fault.__name__)
            result.recoveries.append(round(time.monotonic() - healed, 1))
            time.sleep(max(EVERY - (time.monotonic() - began - passed), 0))
        result.produced = load.stop()
    arrived = eventually(lambda: all_arrived(scene, result.produced), 180, scene.mirror.tail)
    assert arrived is not None
    result.lost, result.repeated, result.out_of_order = arrived
    scene.mirror.stop()
    verified = subprocess.run(
        [*VERIFY, "--config", str(scene.mirror.file), "--report", str(scene.mirror.file.parent)],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": "src"},
    )
    if OUT:
        Path(OUT).write_text(json.dumps(asdict(result)))
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert (result.lost, result.repeated, result.out_of_order) == (0, 0, 0)
    assert max(result.recoveries) < 60, list(zip(result.faults, result.recoveries, strict=True))
    for name in ("descriptors", "memory"):
        assert growth(result.samples, name) < GROWTH, [getattr(s, name) for s in result.samples]


def wait_for_progress(scene: Scene) -> None:
    before = scene.copied()
    eventually(lambda: scene.copied() > before + RATE // 2, 180, scene.mirror.tail)


def growth(samples: list[Sample], name: str) -> float:
    """Return the last third's median by the first's; the very first look is before it is warm."""
    numbers = [getattr(sample, name) for sample in samples[1:]]
    third = max(len(numbers) // 3, 1)
    return float(statistics.median(numbers[-third:]) / statistics.median(numbers[:third]))


def measure(pid: int, second: float) -> Sample:
    pids = tree(pid)
    return Sample(
        round(second, 1),
        len(pids),
        sum(count_descriptors(p) for p in pids),
        sum(proportional_memory(p) for p in pids),
    )


def count_descriptors(pid: int) -> int:
    with suppress(OSError):
        return len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208 - a folder of the kernel's
    return 0


def proportional_memory(pid: int) -> int:
    """Return a process's memory in bytes; what it shares counts by its part."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def all_arrived(scene: Scene, produced: int) -> tuple[int, int, int] | None:
    """Return lost, repeated and out of order once the last numbers are there; the numbers are not held."""
    counts = [0, 0, 0]
    settings = scene.b.client(**{"group.id": "soak", "enable.partition.eof": True})
    with closing(Consumer({**settings, "auto.offset.reset": "earliest"})) as consumer:
        places = [RdPartition(f"A.{TOPIC}", p, OFFSET_BEGINNING) for p in range(PARTITIONS)]
        consumer.assign(places)
        due = list(range(PARTITIONS))
        ended: set[int] = set()
        while len(ended) < PARTITIONS:
            for message in consumer.consume(5000, 10):
                if message.error():
                    ended.add(message.partition())
                    continue
                place, number = message.partition(), int(message.value())
                if number == due[place]:
                    due[place] += PARTITIONS
                elif number > due[place]:
                    counts[0] += (number - due[place]) // PARTITIONS
                    due[place] = number + PARTITIONS
                else:
                    counts[1 if number == due[place] - PARTITIONS else 2] += 1
    whole = all(nxt >= produced for nxt in due)
    return (counts[0], counts[1], counts[2]) if whole else None
