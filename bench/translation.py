"""Where groups land on the target, by their checkpoints: both systems on the same source topics.

    PYTHONPATH=src:. python -m bench.translation --json docs/benchmarks/translation.json

Each system copies the first half of every topic, is stopped, and copies the rest after its restart.
Groups commit anywhere, old and new. One that goes on at its checkpoint repeats the records that lie
there or after it and were before its position on the source, and skips those the other way round.
"""

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

from confluent_kafka import Producer
from rich.console import Console
from rich.table import Table

from bench.clusters import open_clusters
from bench.machine import describe_machine
from bench.systems import SYSTEMS, Running, flow_properties, start
from heliograph.client import MirrorClient
from heliograph.groups.admin import Committed, commit_offsets
from heliograph.kafka.cluster import Cluster
from heliograph.model import Endpoint, TopicPartition
from lab.clusters import LiveCluster, Outgoing, eventually

_LIMIT = 300
_QUIET = 20.0
_PER_TRANSACTION = 100

Offsets = dict[int, int]  # where the source has each numbered record
Write = Callable[[LiveCluster, str, range], Offsets]


@dataclass(frozen=True, slots=True)
class Landing:
    """How the groups of one topic fare with one system; records are counted per group."""

    case: str
    system: str
    records: int
    groups: int
    translated: int
    exact: int
    repeated_median: float
    repeated_max: int
    skipped_max: int


def write_plain(cluster: LiveCluster, topic: str, numbers: range) -> Offsets:
    landed = cluster.produce(topic, (b"%d" % n for n in numbers), linger_ms=50)
    return {n: offset for n, (_, offset) in zip(numbers, landed, strict=True)}


def write_transactions(cluster: LiveCluster, topic: str, numbers: range) -> Offsets:
    """Write in transactions, of which every tenth is aborted."""
    producer = Producer(cluster.client(transactional_id=f"{topic}-{numbers.start}", linger_ms=5))
    producer.init_transactions(30)
    for first in range(numbers.start, numbers.stop, _PER_TRANSACTION):
        producer.begin_transaction()
        for n in range(first, first + _PER_TRANSACTION):
            producer.produce(topic, b"%d" % n)
        assert producer.flush(30) == 0  # librdkafka aborts nothing that was not sent
        if first // _PER_TRANSACTION % 10 == 9:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
    seen = cluster.consume(topic, isolation="read_uncommitted")
    return {int(record.value or b""): record.offset for record in seen}


def write_compacted(cluster: LiveCluster, topic: str, numbers: range) -> Offsets:
    """Write the same keys again and again, and wait until the cleaner has been there."""
    dice = random.Random(numbers.start)
    keys = len(numbers) // 10
    records = (Outgoing(b"%d" % n, key=b"%d" % dice.randrange(keys)) for n in numbers)
    landed = cluster.produce(topic, records)
    offsets = {n: offset for n, (_, offset) in zip(numbers, landed, strict=True)}
    end = landed[-1][1]

    def is_compacted() -> bool:
        # Only an append closes a segment, and only closed ones are compacted.
        cluster.produce(topic, [Outgoing(b"-1", key=b"roll")])
        return sum(record.offset <= end for record in cluster.consume(topic)) < len(numbers) / 2

    eventually(is_compacted, 180)
    return offsets


_COMPACTING = {
    "cleanup.policy": "compact",
    "segment.ms": "500",
    "segment.bytes": str(1 << 20),
    "min.cleanable.dirty.ratio": "0.01",
}
CASES: dict[str, tuple[Write, int, Mapping[str, str]]] = {
    "plain": (write_plain, 1_000_000, {}),
    "transactions": (write_transactions, 200_000, {}),
    "compacted": (write_compacted, 200_000, _COMPACTING),
}


@dataclass(frozen=True, slots=True)
class Rig:
    """The clusters, and the topics with what was written to them."""

    source: LiveCluster
    target: LiveCluster
    folder: Path
    topics: dict[str, str]
    offsets: dict[str, Offsets]

    def alias(self, system: str) -> str:
        return f"stranslation{system[0]}"

    def write_half(self, half: int, scale: float) -> None:
        for case, topic in self.topics.items():
            write, records, _ = CASES[case]
            count = int(records * scale) // 2 // _PER_TRANSACTION * _PER_TRANSACTION
            self.offsets[case] |= write(
                self.source, topic, range(half * count, half * count + count)
            )

    def start(self, system: str) -> Running:
        tag = self.alias(system)[1:]
        properties = flow_properties(self.source, self.target, tag, ",".join(self.topics.values()))
        properties |= {
            "emit.checkpoints.interval.seconds": "5",
            "refresh.groups.interval.seconds": "5",
            "groups": "landing-.*",
            f"{self.alias(system)}.consumer.isolation.level": "read_committed",
        }
        return start(system, self.folder / tag, properties)

    def wait_until_copied(self, system: str, running: Running) -> None:
        for topic in self.topics.values():
            last = self.source.consume(topic, within=180)[-1].value
            remote = f"{self.alias(system)}.{topic}"

            def copied(remote: str = remote, last: bytes | None = last) -> bool:
                time.sleep(1)
                if not self.target.partition_count(remote):
                    return False
                records = self.target.consume(remote, within=180)
                return bool(records) and records[-1].value == last

            eventually(copied, _LIMIT, running.last_lines)


def commit_groups(rig: Rig, count: int) -> dict[str, tuple[str, int]]:
    """Commit positions all over the topics, and return them: group to (case, offset)."""
    dice = random.Random(4)
    host, port = rig.source.bootstrap.split(":")
    groups = {}
    with closing(Cluster(Endpoint("source", ((host, int(port)),)))) as cluster:
        for case, topic in rig.topics.items():
            end = rig.source.end_offsets(topic)[0]
            chosen = [0, 1, end - 1, end, *(dice.randrange(end) for _ in range(count - 4))]
            for number, offset in enumerate(chosen):
                group = f"landing-{case}-{number}"
                groups[group] = case, offset
                partition = TopicPartition(topic, 0)
                assert not commit_offsets(cluster, group, {partition: Committed(offset, "")})
    return groups


def wait_for_checkpoints(rig: Rig, system: str) -> dict[str, int]:
    """Return each group's place on the target once no checkpoint has come for a while."""
    found: dict[str, int] = {}
    quiet_since = time.monotonic()
    with MirrorClient(rig.target.bootstrap) as client:
        while time.monotonic() - quiet_since < _QUIET:
            time.sleep(1)
            told = client.remote_groups(rig.alias(system))
            now = {group: at.offset for group, its in told.items() for at in its.values()}
            if now != found:
                found, quiet_since = now, time.monotonic()
    return found


def judge(
    rig: Rig, system: str, groups: Mapping[str, tuple[str, int]], places: Mapping[str, int]
) -> list[Landing]:
    landings = []
    for case, topic in rig.topics.items():
        upstream = rig.offsets[case]
        records = rig.target.consume(f"{rig.alias(system)}.{topic}", within=180)
        copied = [(r.offset, upstream[int(r.value or b"")]) for r in records if r.value != b"-1"]
        its = {group: offset for group, (of, offset) in groups.items() if of == case}
        repeated, skipped = [], []
        for group, offset in its.items():
            if group not in places:
                continue
            place = places[group]
            repeated.append(sum(down >= place and up < offset for down, up in copied))
            skipped.append(sum(down < place and up >= offset for down, up in copied))
        exact = sum(r == s == 0 for r, s in zip(repeated, skipped, strict=True))
        landings.append(
            Landing(
                case=case,
                system=system,
                records=len(copied),
                groups=len(its),
                translated=len(repeated),
                exact=exact,
                repeated_median=statistics.median(repeated) if repeated else 0,
                repeated_max=max(repeated, default=0),
                skipped_max=max(skipped, default=0),
            )
        )
    return landings


def measure(rig: Rig, systems: list[str], groups: int, scale: float) -> list[Landing]:
    rig.write_half(0, scale)
    for system in systems:
        running = rig.start(system)
        try:
            rig.wait_until_copied(system, running)
        finally:
            running.stop()
    rig.write_half(1, scale)
    committed = commit_groups(rig, groups)
    landings = []
    for system in systems:
        running = rig.start(system)
        try:
            rig.wait_until_copied(system, running)
            places = wait_for_checkpoints(rig, system)
        finally:
            running.stop()
        landings += judge(rig, system, committed, places)
    return landings


def show(landings: list[Landing]) -> Table:
    table = Table(title="where groups land on the target, by their checkpoints")
    for heading in ("topic", "records", "system", "groups", "with a checkpoint", "exact"):
        table.add_column(heading, justify="left" if heading in ("topic", "system") else "right")
    for heading in ("repeated, median", "repeated, most", "skipped, most"):
        table.add_column(heading, justify="right")
    for landing in landings:
        table.add_row(
            landing.case,
            f"{landing.records:,}",
            landing.system,
            str(landing.groups),
            str(landing.translated),
            str(landing.exact),
            f"{landing.repeated_median:,.0f}",
            f"{landing.repeated_max:,}",
            f"{landing.skipped_max:,}",
        )
    return table


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--groups", type=int, default=200, help="per topic")
    parser.add_argument("--scale", type=float, default=1.0, help="of the million records")
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    parser.add_argument("--json", type=Path, help="save the figures here")
    asked = parser.parse_args()
    with open_clusters() as (source, target, folder):
        topics = {
            case: source.create_topic(1, config, name=f"translation-{case}")
            for case, (_, _, config) in CASES.items()
        }
        rig = Rig(source, target, folder, topics, {case: {} for case in CASES})
        landings = measure(rig, asked.systems.split(","), asked.groups, asked.scale)
    Console().print(show(landings))
    if asked.json:
        saved = {
            "command": "bench.translation " + " ".join(sys.argv[1:]),
            "machine": describe_machine(),
            "landings": [asdict(landing) for landing in landings],
        }
        asked.json.write_text(json.dumps(saved, indent=1) + "\n")
    worst = [x for x in landings if x.system == "heliograph" and x.exact < x.groups]
    return 1 if worst else 0


if __name__ == "__main__":
    sys.exit(main())
