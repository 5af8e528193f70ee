"""What keeping thousands of topics and groups in step costs: seconds, and requests by kind.

    PYTHONPATH=src:. python -m bench.upkeep --json docs/benchmarks/upkeep.json

Does the chores of one flow in this process, on real brokers, without Spark.
"""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.clusters import open_clusters
from bench.machine import describe_machine
from heliograph.admin.topics import NewTopic, await_topics, create_topics
from heliograph.config.flow import FlowConfig
from heliograph.config.mirror import load_mirror
from heliograph.flows.checkpoint import Checkpointer
from heliograph.flows.group_sync import GroupSync
from heliograph.flows.source import refresh_topics
from heliograph.flows.topic_configs import sync_topic_configs
from heliograph.groups.admin import Committed, commit_offsets
from heliograph.model import TopicPartition
from heliograph.saved.runs import RunStore
from lab.clusters import LiveCluster
from lab.counting import CountingCluster
from lab.mirrors import flow_properties


@dataclass(frozen=True, slots=True)
class Cost:
    """What one chore took."""

    chore: str
    seconds: float
    source: dict[str, int]
    target: dict[str, int]


class Meter:
    """Measures chores between two clusters."""

    def __init__(self, source: LiveCluster, target: LiveCluster) -> None:
        self.source = CountingCluster(source)
        self.target = CountingCluster(target)
        self.costs: list[Cost] = []

    def close(self) -> None:
        self.source.close()
        self.target.close()

    def measure(self, chore: str, work: Callable[[], object]) -> None:
        for cluster in (self.source, self.target):
            cluster.calls.clear()
        began = time.monotonic()
        told = work()
        seconds = time.monotonic() - began
        assert not isinstance(told, list) or not told, told
        self.costs.append(Cost(chore, seconds, dict(self.source.calls), dict(self.target.calls)))


def measure(
    config: FlowConfig, meter: Meter, topics: int, partitions: int, groups: int
) -> list[Cost]:
    source, target = meter.source, meter.target
    names = [f"topic-{n:05}" for n in range(topics)]
    assert not create_topics(source, [NewTopic(name, partitions, 1) for name in names]).refused
    await_topics(source, dict.fromkeys(names, partitions))

    def refresh() -> None:
        found = refresh_topics(config, source, target)
        assert len(found.routes) == topics * partitions, (len(found.routes), found.refused[:3])

    meter.measure("first refresh: all remote topics are made", refresh)
    meter.measure("refresh: nothing changed", refresh)
    meter.measure(
        "config sync: nothing changed", lambda: sync_topic_configs(config, source, target)
    )
    runs = RunStore(target, "mm2-runs.A.internal", 1)
    runs.load()
    for name in names:
        for index in range(partitions):
            runs.add(TopicPartition(name, index), [(0, 0, 1_000_000)])
    meter.measure(f"run maps of {topics * partitions} partitions saved", runs.save)
    for n in range(groups):
        its = {TopicPartition(names[n % topics], i): Committed(n, "") for i in range(partitions)}
        assert not commit_offsets(source, f"group-{n:05}", its)
    with closing(Checkpointer(config, source, target)) as checkpointer:
        sync = GroupSync(config, checkpointer, target)
        meter.measure(f"{groups} groups found", lambda: list(checkpointer.refresh_groups()))
        meter.measure("checkpoints: all are written", lambda: list(checkpointer.emit()))
        meter.measure("checkpoints: nothing changed", lambda: list(checkpointer.emit()))
        meter.measure("group sync: all are moved", lambda: list(sync.sync()))
        meter.measure("group sync: nothing changed", lambda: list(sync.sync()))
    return meter.costs


def show(costs: list[Cost]) -> Table:
    table = Table(title="what upkeep costs")
    for heading in ("chore", "seconds", "requests to the source", "requests to the target"):
        table.add_column(heading, justify="right" if heading == "seconds" else "left")
    for cost in costs:
        table.add_row(cost.chore, f"{cost.seconds:.2f}", words(cost.source), words(cost.target))
    return table


def words(calls: dict[str, int]) -> str:
    return ", ".join(f"{count} {api}" for api, count in Counter(calls).most_common()) or "none"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--topics", type=int, default=2000)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--groups", type=int, default=1000)
    parser.add_argument("--json", type=Path, help="save the figures here")
    asked = parser.parse_args()
    with open_clusters() as (source, target, folder):
        properties = flow_properties(("A", source.bootstrap), ("B", target.bootstrap), "topic-.*")
        properties["sync.group.offsets.enabled"] = "true"
        file = folder / "mm2.properties"
        file.write_text("".join(f"{key} = {value}\n" for key, value in properties.items()))
        config = load_mirror(file, {}).flows[0]
        with closing(Meter(source, target)) as meter:
            costs = measure(config, meter, asked.topics, asked.partitions, asked.groups)
    Console().print(show(costs))
    if asked.json:
        saved = {
            "command": "bench.upkeep " + " ".join(sys.argv[1:]),
            "machine": describe_machine(),
            "costs": [asdict(cost) for cost in costs],
        }
        asked.json.write_text(json.dumps(saved, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
