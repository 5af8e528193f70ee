"""From produce to visible on the target at a steady rate, for both systems, one after the other.

    PYTHONPATH=src python -m bench.latency --rate 500 --seconds 90 --json latency.json

The largest gap between two arrivals shows pauses that percentiles hide. Producer and consumer share this
process and its clock; both systems bear their cost.
"""

import argparse
import json
import struct
import sys
import threading
import time
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer
from confluent_kafka import TopicPartition as RdPartition
from rich.console import Console
from rich.table import Table

from bench.clusters import Bed, open_clusters
from bench.machine import describe_machine
from bench.systems import SYSTEMS, Running, flow_properties, start
from bench.trees import Tree
from lab.clusters import LiveCluster, eventually

PARTITIONS = 3
_STAMP = struct.Struct(">qd")
_FILLING = b"x" * 149  # with the stamp, the size of a record of the catch-up
_WARM_UP = 10.0
_LAST_ARRIVALS = 10.0
_START_LIMIT = 120
_SHORTEST_SLEEP = 0.0005


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds from produce to arrival, of all records after the warm-up."""

    system: str
    rate: int
    seconds: float
    sent: int
    arrived: int
    repeated: int
    p50_ms: float
    p90_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float
    largest_gap_ms: float
    largest_gap_after_seconds: float
    cpu_seconds: float
    peak_pss_bytes: int


class Arrivals:
    """Reads the remote topic in a thread and notes when each record came."""

    def __init__(self, target: LiveCluster, topic: str) -> None:
        self.seen: list[tuple[float, int, float]] = []
        self._closed = threading.Event()
        settings = target.client(group_id="unused", enable_auto_commit=False)
        settings |= {"fetch.wait.max.ms": 5, "fetch.min.bytes": 1}
        self._consumer = Consumer(settings)
        self._consumer.assign([RdPartition(topic, p, OFFSET_BEGINNING) for p in range(PARTITIONS)])
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    @property
    def last(self) -> int:
        return self.seen[-1][1] if self.seen else -1

    def close(self) -> None:
        self._closed.set()
        self._thread.join()
        self._consumer.close()

    def _read(self) -> None:
        while not self._closed.is_set():
            message = self._consumer.poll(0.2)
            if message is not None and message.error() is None:
                now = time.time()
                number, produced = _STAMP.unpack_from(message.value())
                self.seen.append((now, number, produced))


def measure_latency(
    system: str,
    rate: int,
    seconds: float,
    *,
    source: LiveCluster,
    target: LiveCluster,
    folder: Path,
    round_: int = 1,
) -> Latency:
    """Start a system on a topic of its own, produce at a steady rate, and return what was seen."""
    tag = f"steady{rate}{system[0]}{round_}"
    topic = source.create_topic(PARTITIONS, name=f"steady-{tag}")
    remote = f"s{tag}.{topic}"
    properties = flow_properties(source, target, tag, topic, for_throughput=False)
    producer = Producer({**source.client(acks=1), "linger.ms": 0})
    running = start(system, folder / tag, properties)
    tree = Tree(running.process.pid)
    try:
        # Some systems begin to write only once there is something to write.
        producer.produce(topic, _STAMP.pack(-1, time.time()) + _FILLING)
        producer.flush(10)
        _wait_until_mirrored(running, target, remote)
        with closing(Arrivals(target, remote)) as arrivals:
            produce_steadily(producer, topic, rate, _WARM_UP, first=-1 - int(rate * _WARM_UP))
            cpu = tree.cpu_seconds()
            sent = produce_steadily(producer, topic, rate, seconds, first=0)
            cpu = tree.cpu_seconds() - cpu
            deadline = time.monotonic() + _LAST_ARRIVALS
            while time.monotonic() < deadline and arrivals.last < sent - 1:
                time.sleep(0.1)
            time.sleep(0.5)
            seen = [arrival for arrival in arrivals.seen if arrival[1] >= 0]
    finally:
        running.stop()
        tree.close()
    bed = Bed(source, target, folder)
    bed.forget([topic])
    bed.forget_flow(tag)
    return _summarize(
        system,
        rate,
        seconds,
        sent=sent,
        seen=seen,
        cpu_seconds=cpu,
        peak_bytes=tree.peak_bytes,
    )


def _wait_until_mirrored(running: Running, target: LiveCluster, remote: str) -> None:
    def mirrored() -> bool:
        assert running.process.is_alive(), f"{running.system} ended:\n{running.last_lines()}"
        return target.partition_count(remote) == PARTITIONS and bool(target.consume(remote))

    eventually(mirrored, within=_START_LIMIT, describe=running.last_lines)


def produce_steadily(producer: Producer, topic: str, rate: int, seconds: float, first: int) -> int:
    """Produce numbered and stamped records, and return how many."""
    count = int(rate * seconds)
    began = time.monotonic()
    for index in range(count):
        # Fast ones leave a few at a time: a sleep is never much shorter than this.
        if (ahead := began + index / rate - time.monotonic()) > _SHORTEST_SLEEP:
            time.sleep(ahead)
        value = _STAMP.pack(first + index, time.time()) + _FILLING
        producer.produce(topic, value, partition=index % PARTITIONS)
        producer.poll(0)
    producer.flush(10)
    return count


def _summarize(
    system: str,
    rate: int,
    seconds: float,
    *,
    sent: int,
    seen: list[tuple[float, int, float]],
    cpu_seconds: float,
    peak_bytes: int,
) -> Latency:
    assert seen, f"{system}: nothing arrived"
    numbers = {number for _, number, _ in seen}
    delays = sorted((arrived - produced) * 1000 for arrived, _, produced in seen)
    times = sorted(arrived for arrived, _, _ in seen)
    gaps = [(after - before, before) for before, after in pairwise(times)]
    gap, before = max(gaps)

    def at(share: float) -> float:
        return delays[min(len(delays) - 1, int(len(delays) * share))]

    return Latency(
        system=system,
        rate=rate,
        seconds=seconds,
        sent=sent,
        arrived=len(numbers),
        repeated=len(seen) - len(numbers),
        p50_ms=at(0.5),
        p90_ms=at(0.9),
        p99_ms=at(0.99),
        p999_ms=at(0.999),
        max_ms=delays[-1],
        largest_gap_ms=gap * 1000,
        largest_gap_after_seconds=before - times[0],
        cpu_seconds=cpu_seconds,
        peak_pss_bytes=peak_bytes,
    )


def _print_table(console: Console, found: list[Latency]) -> None:
    table = Table(title="produce to visible on the target, ms")
    for title in ("system", "sent", "arrived", "repeated", "p50", "p90", "p99", "p99.9", "max"):
        table.add_column(title, justify="left" if title == "system" else "right")
    for title in ("largest gap (after s)", "CPU s", "peak PSS MB"):
        table.add_column(title, justify="right")
    for one in found:
        percentiles = (one.p50_ms, one.p90_ms, one.p99_ms, one.p999_ms, one.max_ms)
        table.add_row(
            one.system,
            str(one.sent),
            str(one.arrived),
            str(one.repeated),
            *[f"{value:.1f}" for value in percentiles],
            f"{one.largest_gap_ms:.0f} ({one.largest_gap_after_seconds:.0f})",
            f"{one.cpu_seconds:.1f}",
            str(one.peak_pss_bytes >> 20),
        )
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.latency", description=__doc__)
    parser.add_argument("--rate", type=int, default=500, help="records per second")
    parser.add_argument("--seconds", type=float, default=90)
    parser.add_argument("--systems", default=",".join(SYSTEMS), help="which, in which order")
    parser.add_argument("--json", type=Path, help="where to save all figures")
    parser.add_argument("--logs", type=Path, help="where to keep the systems' logs and files")
    options = parser.parse_args()
    found: list[Latency] = []
    with open_clusters(options.logs) as (source, target, folder):
        for system in options.systems.split(","):
            assert system in SYSTEMS, f"{system} is none of {', '.join(SYSTEMS)}"
            found.append(
                measure_latency(
                    system,
                    options.rate,
                    options.seconds,
                    source=source,
                    target=target,
                    folder=folder,
                )
            )
    _print_table(Console(width=None if sys.stdout.isatty() else 150, highlight=False), found)
    if options.json:
        content = {
            "made": datetime.now(UTC).isoformat(timespec="seconds"),
            "command": f"PYTHONPATH=src python -m bench.latency --rate {options.rate} "
            f"--seconds {options.seconds:g}",
            "machine": describe_machine(),
            "partitions": PARTITIONS,
            "runs": [asdict(one) for one in found],
        }
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(content, indent=1) + "\n")
    sys.exit(0 if all(one.arrived == one.sent for one in found) else 1)


if __name__ == "__main__":
    main()
