"""The run maps of one topic, for a single read."""

import time
from dataclasses import dataclass
from datetime import timedelta

from heliograph.config.flow import FlowConfig
from heliograph.config.naming import naming_of
from heliograph.kafka.cluster import Cluster
from heliograph.model import Position, TopicPartition
from heliograph.policy.naming import runs_topic
from heliograph.policy.runs import RunMap, read_run_maps
from heliograph.tables.rows import read_partitions
from heliograph.wire.primitives import encode_string
from heliograph.wire.run_records import Run


@dataclass(frozen=True, slots=True)
class TopicRuns:
    """The run maps of one topic's partitions; `broken` ones exist but cannot be read."""

    maps: dict[int, RunMap]
    broken: frozenset[int]


def read_topic_runs(
    config: FlowConfig, target: Cluster, topic: str, within: timedelta
) -> TopicRuns | None:
    """Return where the records of a source topic went; None where this flow keeps no run maps."""
    began = time.monotonic()
    name = runs_topic(naming_of(config), config.flow.source)
    found = target.describe([name]).get(name)
    if found is None:
        return None
    prefix = encode_string(topic)
    left = within - timedelta(seconds=time.monotonic() - began)
    rows = read_partitions(target, [TopicPartition(name, p.index) for p in found.partitions], left)
    # Rows replace one another, so all must be seen; only those of this topic are kept.
    maps, broken = read_run_maps(row for row in rows if row[0].startswith(prefix))
    return TopicRuns(
        {p.index: its for p, its in maps.items() if p.topic == topic},
        frozenset(p.index for p in broken if p.topic == topic),
    )


def prolong(found: RunMap, now: Position) -> None:
    """Extend the last run to the current position of copying: it is only saved from time to time.

    Not if offsets have shifted since: only the next save shows where.
    """
    last = found.end
    if last is not None:
        more = now.upstream - last.upstream_end
        if more > 0 and more == now.downstream - last.downstream_end:
            found.add(last.upstream_end, last.downstream_end, more)


def newest_runs(found: RunMap, most: int) -> list[Run]:
    """Return the last runs that hold records, newest first."""
    kept = [run for segment in found.segments() for run in segment.runs if run.length]
    return kept[: -most - 1 : -1]


def count_runs(found: RunMap) -> int:
    """Return how many runs hold records."""
    return sum(1 for segment in found.segments() for run in segment.runs if run.length)
