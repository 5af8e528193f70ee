import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as RdPartition

from heliograph.config.flow import FlowConfig
from heliograph.config.mirror import load_mirror
from heliograph.spark.engine import Engine
from heliograph.spark.task_pool import TaskPool
from heliograph.verify.flow import Progress, verify_flow
from heliograph.verify.items import Kind
from heliograph.verify.report import Report
from heliograph.verify.streams import Findings
from heliograph.wire.connect_records import SourceOffset, encode_source_key, encode_source_offset
from lab.clusters import LiveCluster, Outgoing, unique_name
from lab.mirrors import flow_properties, unique_alias

pytestmark = pytest.mark.spark

_NOW = time.time_ns() // 1_000_000  # older records would expire while a test runs


@pytest.fixture(scope="module")
def pool() -> Iterator[TaskPool]:
    with closing(Engine(2, {})) as engine:
        engine.start()
        yield TaskPool(engine.context())


class Sides:
    """A topic on both clusters, written by hand where a mirror would write."""

    def __init__(
        self,
        source: LiveCluster,
        target: LiveCluster,
        folder: Path,
        *,
        partitions: int = 1,
        config: dict[str, str] | None = None,
        remote_config: dict[str, str] | None = None,
    ) -> None:
        self.source, self.target = source, target
        self.topic = source.create_topic(partitions, config)
        self.alias = unique_alias()
        self.remote = target.create_topic(
            partitions, remote_config or config, name=f"{self.alias}.{self.topic}"
        )
        self.file = folder / "mm2.properties"
        properties = flow_properties(
            (self.alias, source.bootstrap), ("B", target.bootstrap), self.topic
        )
        self.file.write_text("".join(f"{k} = {v}\n" for k, v in properties.items()))

    @property
    def config(self) -> FlowConfig:
        (config,) = load_mirror(self.file).flows
        return config

    def write(self, upstream: list[Outgoing], downstream: list[Outgoing]) -> None:
        self.source.produce(self.topic, upstream, linger_ms=20)
        self.target.produce(self.remote, downstream, linger_ms=5, compression_type="zstd")

    def save(self, partition: int, upstream: int, downstream: int | None = None) -> None:
        config = self.config
        storage = config.offset_storage.name
        if storage not in self.target.topics():
            self.target.create_topic(1, {"cleanup.policy": "compact"}, name=storage)
        key = encode_source_key(config.connector_name, self.alias, self.topic, partition)
        value = encode_source_offset(SourceOffset(upstream, downstream))
        self.target.produce(storage, [Outgoing(value, key)])

    def verify(self, pool: TaskPool, *, complete: bool = False) -> Report:
        return verify_flow(self.config, pool=pool, complete=complete)

    def found(self, pool: TaskPool) -> Findings:
        (result,) = self.verify(pool).partitions
        return result.findings


@pytest.fixture
def sides(source: LiveCluster, target: LiveCluster, tmp_path: Path) -> Sides:
    return Sides(source, target, tmp_path)


def some(count: int, partition: int = 0, first: int = 0) -> list[Outgoing]:
    return [
        Outgoing(
            b"value %d " % i * 5,
            b"key %d" % (i % 10),
            partition,
            _NOW + i,
            (("h", b"%d" % i), ("none", None)) if i % 3 else (),
        )
        for i in range(first, first + count)
    ]


def test_equal_topics_are_verified_in_every_partition(
    source: LiveCluster, target: LiveCluster, tmp_path: Path, pool: TaskPool
) -> None:
    sides = Sides(source, target, tmp_path, partitions=3)
    records = [record for partition in range(3) for record in some(2000, partition)]
    sides.write(records, records)
    steps: list[Progress] = []
    report = verify_flow(sides.config, pool=pool, on_progress=steps.append)
    assert report.ok is True
    assert report.summary() == "6000 records in 3 partitions of 1 topics: every record verified"
    assert [r.findings.upstream for r in report.partitions] == [2000, 2000, 2000]
    assert steps[-1] == Progress(6000, 6000)
    assert json.loads(report.to_json())["ok"] is True


def test_lag_is_told_and_counts_only_when_asked(sides: Sides, pool: TaskPool) -> None:
    sides.write(some(100), some(60))
    report = sides.verify(pool)
    assert report.ok is True
    assert (report.compared, report.lag) == (60, 40)
    assert sides.verify(pool, complete=True).ok is False


def test_every_kind_of_fault_is_named(sides: Sides, pool: TaskPool) -> None:
    good = some(2000)
    bad = list(good)
    bad[1900] = Outgoing(b"changed", good[1900].key, 0, good[1900].timestamp, good[1900].headers)
    bad[1500], bad[1501] = bad[1501], bad[1500]
    bad.insert(1000, bad[999])
    del bad[500]
    sides.write(good, bad)
    report = sides.verify(pool)
    assert report.ok is False
    found = report.partitions[0].findings
    assert found.counts == {"missing": 1, "repeated": 1, "out of order": 1, "different": 1}
    named = [(d.kind, d.upstream, d.downstream) for d in found.differences]
    assert named == [
        (Kind.MISSING, 500, None),
        (Kind.REPEATED, 999, 999),
        (Kind.OUT_OF_ORDER, 1500, 1501),
        (Kind.DIFFERENT, 1900, 1900),
    ]
    assert found.differences[3].fields == ("value",)
    assert found.upstream == 500
    told = "\n".join(report.lines())
    assert "upstream offset 1900 and downstream offset 1900 differ in value" in told


def test_a_lost_tail_is_missing_once_it_was_saved_as_copied(sides: Sides, pool: TaskPool) -> None:
    sides.write(some(50), some(40))
    sides.save(0, 45)
    found = sides.found(pool)
    assert found.counts == {"missing": 5}
    assert found.lag == 5


def test_records_that_expired_on_one_side_are_not_missed(sides: Sides, pool: TaskPool) -> None:
    sides.write(some(500), some(400))
    _delete_before(sides.source, sides.topic, 300)
    found = sides.found(pool)
    assert (found.equal, found.expired, found.compared, found.lag) == (True, 300, 100, 100)
    _delete_before(sides.target, sides.remote, 350)
    found = sides.found(pool)
    assert (found.equal, found.trimmed, found.compared, found.lag) == (True, 50, 50, 100)


def test_aborted_and_open_transactions_are_not_expected(sides: Sides, pool: TaskPool) -> None:
    kept = some(30)
    for number, (records, commit) in enumerate(
        [(kept[:10], True), (some(10, first=90), False), (kept[10:], True)]
    ):
        _transact(sides.source, sides.topic, records, commit=commit, name=f"{number}")
    sides.target.produce(sides.remote, kept)
    holder = Producer(sides.source.client(transactional_id=unique_name()))
    holder.init_transactions(30)
    holder.begin_transaction()
    holder.produce(sides.topic, b"open", partition=0)
    holder.flush(30)
    found = sides.found(pool)
    holder.abort_transaction(30)
    assert found == Findings(True, 30, 42, 30)


def test_timestamps_set_by_the_target_are_not_compared(
    source: LiveCluster, target: LiveCluster, tmp_path: Path, pool: TaskPool
) -> None:
    stamped = {"message.timestamp.type": "LogAppendTime"}
    sides = Sides(source, target, tmp_path, remote_config=stamped)
    sides.write(some(100), some(100))
    report = sides.verify(pool)
    assert report.ok is True
    assert report.partitions[0].timestamps is False


def test_what_compaction_drops_is_not_missed(
    source: LiveCluster, target: LiveCluster, tmp_path: Path, pool: TaskPool
) -> None:
    sides = Sides(source, target, tmp_path, config={"cleanup.policy": "compact"})
    records = some(100)
    # As compaction leaves it: only the last record of most keys.
    sides.write(records, [r for i, r in enumerate(records) if i >= 60 or i % 10 == 7])
    sides.save(0, 100)
    found = sides.found(pool)
    assert (found.equal, found.compared, found.vanished) == (True, 46, 54)


def test_a_topic_without_a_copy_differs_once_it_has_records(
    source: LiveCluster, target: LiveCluster, tmp_path: Path, pool: TaskPool
) -> None:
    topic = source.create_topic()
    properties = flow_properties((unique_alias(), source.bootstrap), ("B", target.bootstrap), topic)
    file = tmp_path / "mm2.properties"
    file.write_text("".join(f"{k} = {v}\n" for k, v in properties.items()))
    (config,) = load_mirror(file).flows
    assert verify_flow(config, pool=pool).ok is True
    source.produce(topic, [b"one"])
    report = verify_flow(config, pool=pool)
    assert report.ok is False
    assert list(report.lines()) == [f"{topic}-0: has records and is not mirrored yet"]


def test_the_command_says_it_with_its_exit_code(sides: Sides) -> None:
    sides.write(some(20), some(20))
    code, out = _command(sides, "--json")
    assert (code, json.loads(out)["records"]) == (0, 20)
    (kept,) = sides.file.parent.glob("verify-*.json")
    assert json.loads(kept.read_text()).items() >= json.loads(out).items()
    sides.target.produce(sides.remote, [b"foreign"])
    code, out = _command(sides)
    assert code == 1
    assert "downstream offset 20" in out
    assert "NOT equal" in out
    assert _command(sides, flow="X->Y")[0] == 2


def _command(sides: Sides, *options: str, flow: str | None = None) -> tuple[int, str]:
    named = flow or f"{sides.alias}->B"
    command = [sys.executable, "-m", "heliograph", "verify", "--config", str(sides.file)]
    done = subprocess.run(
        [*command, "--flow", named, "--report", str(sides.file.parent), *options],
        env={**os.environ, "PYTHONPATH": "src"},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def _delete_before(cluster: LiveCluster, topic: str, offset: int) -> None:
    for deleted in cluster.admin.delete_records([RdPartition(topic, 0, offset)]).values():
        deleted.result(timeout=30)


def _transact(
    cluster: LiveCluster, topic: str, records: list[Outgoing], *, commit: bool, name: str
) -> None:
    producer = Producer(cluster.client(transactional_id=f"{topic}-{name}"))
    producer.init_transactions(30)
    producer.begin_transaction()
    for record in records:
        producer.produce(
            topic,
            record.value,
            record.key,
            partition=0,
            timestamp=record.timestamp,
            headers=list(record.headers),
        )
    producer.flush(30)
    if commit:
        producer.commit_transaction(30)
    else:
        producer.abort_transaction(30)
