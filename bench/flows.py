"""What idle flows cost: memory and CPU of the whole process tree, by the number of flows in one driver.

PYTHONPATH=src:. python -m bench.flows --flows 1,2,6 --json flows.json
"""

import argparse
import json
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.clusters import open_clusters
from bench.machine import describe_machine
from bench.systems import start
from bench.trees import Tree
from lab.clusters import LiveCluster, eventually

_TOPICS = 10
_PARTITIONS = 4
_SETTLE = 20.0
_WATCH = 60.0


def _properties(source: LiveCluster, target: LiveCluster, flows: int) -> dict[str, str]:
    """Return that many flows from one source cluster, under as many aliases, into one target."""
    aliases = [f"s{flows}{number}" for number in range(flows)]
    made = {"clusters": ", ".join([*aliases, "t"]), "t.bootstrap.servers": target.bootstrap}
    for alias in aliases:
        made[f"{alias}.bootstrap.servers"] = source.bootstrap
        made[f"{alias}->t.enabled"] = "true"
    return {
        **made,
        "topics": "idle.*",
        "emit.heartbeats.enabled": "false",
        "replication.factor": "1",
        "offset.storage.replication.factor": "1",
        "t.offset.storage.replication.factor": "1",
        "t.config.storage.replication.factor": "1",
        "t.status.storage.replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "checkpoints.topic.replication.factor": "1",
    }


def _measure(
    system: str, source: LiveCluster, target: LiveCluster, flows: int, folder: Path
) -> dict[str, float | str | int]:
    running = start(system, folder / f"{system}-{flows}", _properties(source, target, flows))
    tree = Tree(running.process.pid)
    try:
        last = f"s{flows}{flows - 1}.idle{_TOPICS - 1}"
        eventually(lambda: target.partition_count(last) == _PARTITIONS, 180, running.last_lines)
        time.sleep(_SETTLE)
        before = tree.cpu_seconds()
        time.sleep(_WATCH)
        used = tree.cpu_seconds() - before
        return {
            "system": system,
            "flows": flows,
            "peak PSS MB": round(tree.peak_bytes / 1e6),
            "CPU % of a core, idle": round(100 * used / _WATCH, 1),
        }
    finally:
        tree.close()
        running.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--flows", default="1,2,6")
    parser.add_argument("--systems", default="heliograph,mm2")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    found = []
    with open_clusters() as (source, target, folder):
        for number in range(_TOPICS):
            source.create_topic(_PARTITIONS, name=f"idle{number}")
        for flows in map(int, asked.flows.split(",")):
            for system in asked.systems.split(","):
                found.append(_measure(system, source, target, flows, folder))
                print(found[-1], flush=True)
    table = Table(*found[0])
    for row in found:
        table.add_row(*map(str, row.values()))
    Console().print(table)
    if asked.json:
        asked.json.write_text(
            json.dumps({"machine": describe_machine(), "idle": found}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
