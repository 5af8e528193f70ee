"""The data plane in transactions, without Spark: see test_copying.py."""

from collections.abc import Iterable
from contextlib import ExitStack, closing
from dataclasses import dataclass

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from heliograph.driving.hands import Rights
from heliograph.driving.rights import Shared
from heliograph.kafka.cluster import Cluster
from heliograph.model import Position, StopKind, TopicPartition
from heliograph.tables.table import Table
from heliograph.wire.connect_records import decode_source_key, decode_source_offset
from heliograph.wire.lease_messages import Ledger
from lab.clusters import LiveCluster, eventually
from lab.counting import endpoint
from lab.moves import is_moving, rebalance
from tests.broker.test_copying import PARTITIONS, Pair
from tests.guarded import GuardedCluster

pytestmark = pytest.mark.broker

CONNECTOR = "MirrorSourceConnector"


@dataclass
class SharedPair(Pair):
    """A pair whose slices save positions and runs in the transactions of their records."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.offsets, self.map = f"{self.remote}.offsets", f"{self.remote}.runs"
        with closing(Cluster(endpoint(self.target))) as target:
            for name in (self.offsets, self.map):
                Table(target, name).ensure(1, 1)

    def rights(self) -> Rights:
        ledger = Ledger(self.remote, self.offsets, 1, self.map, CONNECTOR, "A", 0.2)
        return Shared(self.ownership, ledger, self)

    def read(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Position]:
        with closing(Cluster(endpoint(self.target))) as target:
            rows = Table(target, self.offsets).read()
        found = {}
        for raw_key, raw_value in rows.items():
            key, value = decode_source_key(raw_key), decode_source_offset(raw_value)
            if key is not None and value is not None and value.downstream is not None:
                found[key.partition] = Position(value.upstream, value.downstream)
        return {p: found[p] for p in partitions if p in found}

    def segment_of(self, _: TopicPartition) -> tuple[int, str] | None:
        return None


def test_a_partition_that_comes_back_to_a_task_goes_on_with_its_sequence(
    source: LiveCluster, target: LiveCluster, stack: ExitStack
) -> None:
    pair = SharedPair(source, target, stack)
    job = pair.start(slices=2)
    sources = [TopicPartition(pair.topic, index) for index in range(PARTITIONS)]
    plans = [[(sources[0],), tuple(sources[1:])], [tuple(sources[:2]), (sources[2],)]]
    eventually(lambda: job.tasks() == 2)
    for number in range(6):
        pair.produce(30 * number, 30)
        pair.check(30 * (number + 1))
        rebalance(job, plans[number % 2])
        eventually(lambda: not is_moving(job))

    for number in range(6):  # and under load
        pair.produce(180 + 2000 * number, 2000)
        rebalance(job, plans[number % 2])
        eventually(lambda: not is_moving(job))

    pair.check(12_180)
    assert job.tally.restarts == 0
    assert not job.stopped()


def test_a_remote_partition_that_must_not_be_written_stops_alone(
    source: LiveCluster, guarded: GuardedCluster, stack: ExitStack
) -> None:
    pair = SharedPair(source, guarded, stack)
    pair.produce(0, 30)
    job = pair.start()
    pair.check(30)
    denied = guarded.create_topic(1)
    guarded.allow_only(ResourceType.TOPIC, denied, AclOperation.DESCRIBE)
    job.assign([pair.elsewhere(0, denied), pair.partition(1), pair.partition(2)])
    pair.produce(30, 300)

    def copied() -> int:
        return sum(partition > 0 for partition, *_ in pair.copied())

    stopped = eventually(job.stopped)
    assert [(p.source.index, p.stop.kind) for p in stopped if p.stop is not None] == [
        (0, StopKind.REFUSED)
    ]
    eventually(lambda: copied() == 220, 30, copied)
    assert job.tally.restarts == 0
