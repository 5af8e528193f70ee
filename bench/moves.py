"""What a move to another task costs a partition, and what it costs the others, from produce to visible on the target.

    PYTHONPATH=src:. python -m bench.moves --moves 60 --rate 2000 --json moves.json

Two tasks of a real Spark, three partitions: one moves to and fro, one stays with each task. After each second with a
move comes one without, which shows what the machine alone does.
"""

import argparse
import json
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from statistics import median

from confluent_kafka import Producer
from rich.console import Console
from rich.table import Table

from bench.clusters import open_clusters
from bench.latency import PARTITIONS, Arrivals, produce_steadily
from bench.machine import describe_machine
from heliograph.driving.job import FlowJob, JobOptions
from heliograph.driving.lease_server import LeaseServer
from heliograph.driving.ownership import Ownership
from heliograph.driving.partitions import Partition
from heliograph.driving.rights import Exclusive
from heliograph.kafka.cluster import Cluster
from heliograph.model import Flow, Position, TopicPartition
from heliograph.spark.engine import Engine
from heliograph.wire.lease_messages import Limits
from lab.clusters import LiveCluster, eventually
from lab.counting import endpoint
from lab.moves import is_moving, rebalance, spread

_LIMITS = Limits(4 << 20, 1 << 20, 5, 256 << 10, read_committed=True)
_SPAN = 1.0  # seconds that are looked at after a move, and without one
_WARM_UP = 5.0


@dataclass(frozen=True, slots=True)
class Look:
    """The longest time from produce to visible, in ms, of records of the next second, by partition; and how long the move took."""

    moved: bool
    moving_ms: float
    longest_ms: dict[int, float]


@contextmanager
def _copying(
    source: LiveCluster, target: LiveCluster, topic: str, remote: str
) -> Iterator[FlowJob]:
    """Copy a topic with two tasks, of which the first begins with one partition more."""
    with ExitStack() as stack:
        leases = stack.enter_context(closing(LeaseServer()))
        engine = stack.enter_context(closing(Engine(2, {})))
        engine.start()
        ownership = Ownership(remote)
        here, there = (
            stack.enter_context(closing(Cluster(endpoint(live)))) for live in (source, target)
        )
        ownership.open(there)
        topic_id = str(here.describe([topic])[topic].topic_id)
        remote_id = str(there.describe([remote])[remote].topic_id)
        ends = endpoint(source), endpoint(target)
        job = FlowJob(
            JobOptions(Flow("A", "B"), remote, *ends, _LIMITS, slices=2),
            leases,
            Exclusive(ownership),
            on_fatal=lambda kind, reason: print(f"{kind}: {reason}"),
            on_runs=lambda _partition, _runs: None,
        )
        pairs = [(TopicPartition(topic, i), TopicPartition(remote, i)) for i in range(PARTITIONS)]
        job.assign(
            [Partition(s, topic_id, r, remote_id, 1 << 20, Position(0, 0)) for s, r in pairs]
        )
        spread(job, [tuple(s for s, _ in pairs[:2]), tuple(s for s, _ in pairs[2:])])
        job.start(engine)
        try:
            yield job
        finally:
            job.stop(timedelta(seconds=20))


def _longest(arrivals: Arrivals, since: float) -> dict[int, float]:
    """Return the longest time of records that were produced in the span after `since`, by partition."""
    found = dict.fromkeys(range(PARTITIONS), 0.0)
    for arrived, number, produced in list(arrivals.seen):
        if since <= produced < since + _SPAN:
            partition = number % PARTITIONS
            found[partition] = max(found[partition], 1000 * (arrived - produced))
    return found


def measure(source: LiveCluster, target: LiveCluster, moves: int, rate: int) -> list[Look]:
    topic = source.create_topic(PARTITIONS, name="moves")
    remote = target.create_topic(PARTITIONS, name="A.moves")
    first, second, third = (TopicPartition(topic, index) for index in range(PARTITIONS))
    plans = [[(first,), (second, third)], [(first, second), (third,)]]
    seconds = _WARM_UP + 2.5 * _SPAN * moves
    producer = Producer({**source.client(acks=1), "linger.ms": 0})
    with _copying(source, target, topic, remote) as job, closing(Arrivals(target, remote)) as seen:
        eventually(lambda: not is_moving(job), 60)
        load = threading.Thread(target=produce_steadily, args=(producer, topic, rate, seconds, 0))
        load.start()
        time.sleep(_WARM_UP)
        moments: list[tuple[float, float]] = []
        for number in range(moves):
            began = time.time()
            rebalance(job, plans[number % 2])
            while is_moving(job):
                time.sleep(0.001)
            moments.append((began, 1000 * (time.time() - began)))
            time.sleep(2 * _SPAN)
        load.join()
        time.sleep(_SPAN)
        assert job.tally.handovers == moves, "each move is one"
        return [
            look
            for began, took in moments
            for look in (
                Look(True, took, _longest(seen, began)),
                Look(False, 0.0, _longest(seen, began + _SPAN)),
            )
        ]


def _table(looks: list[Look]) -> Table:
    table = Table(title="longest time from produce to visible in a second, ms")
    for title in ("partition", "seconds", "count", "median", "p90", "most"):
        table.add_column(title, justify="right")
    names = {1: "the one that moves", 0: "stays with the first task", 2: "stays with the second"}
    for partition, name in names.items():
        for moved in (True, False):
            times = sorted(look.longest_ms[partition] for look in looks if look.moved == moved)
            shown = median(times), times[int(len(times) * 0.9)], times[-1]
            kind = "with a move" if moved else "without"
            table.add_row(name, kind, str(len(times)), *[f"{value:.1f}" for value in shown])
    took = sorted(look.moving_ms for look in looks if look.moved)
    shown = median(took), took[int(len(took) * 0.9)], took[-1]
    table.add_row("the move itself", "", str(len(took)), *[f"{value:.1f}" for value in shown])
    return table


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.moves", description=__doc__)
    parser.add_argument("--moves", type=int, default=60)
    parser.add_argument("--rate", type=int, default=2000, help="records per second")
    parser.add_argument("--json", type=Path, help="where to save all figures")
    asked = parser.parse_args()
    with open_clusters() as (source, target, _):
        looks = measure(source, target, asked.moves, asked.rate)
    Console().print(_table(looks))
    if asked.json:
        content = {
            "command": f"PYTHONPATH=src:. python -m bench.moves --moves {asked.moves} --rate {asked.rate}",
            "machine": describe_machine(),
            "looks": [asdict(look) for look in looks],
        }
        asked.json.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
