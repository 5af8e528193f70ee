"""`heliograph group-offset-sync` on a real broker, with checkpoints as a mirror writes them."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from heliograph.failover.group_offset_sync import GroupOffsetSync, Result
from heliograph.groups.admin import Committed, commit_offsets, fetch_committed
from heliograph.kafka.cluster import Cluster
from heliograph.model import Endpoint, TopicPartition
from heliograph.tables.table import Table
from heliograph.wire.mirror_records import Checkpoint, encode_checkpoint
from lab.clusters import LiveCluster, eventually, unique_name
from lab.commands import run_command, start_command
from lab.mirrors import unique_alias

pytestmark = pytest.mark.broker

AMAZONS = "com.amazonaws.kafka.samples.CustomMM2ReplicationPolicy"


class Remote:
    """A topic of the target that a mirror writes checkpoints of, and one group of it."""

    def __init__(self, target: LiveCluster, cluster: Cluster) -> None:
        self.target = target
        self.cluster = cluster
        self.alias = unique_alias()
        self.group = unique_name()
        self.topic = target.create_topic(2, name=f"{self.alias}.t")
        self._table = Table(cluster, f"{self.alias}.checkpoints.internal")
        self._table.ensure(1, 1)

    def mark(self, index: int, downstream: int, group: str | None = None) -> None:
        place = TopicPartition(self.topic, index)
        checkpoint = Checkpoint(group or self.group, place, downstream, downstream, "noted")
        self._table.write(dict([encode_checkpoint(checkpoint)]))

    def committed(self, group: str | None = None) -> dict[int, Committed]:
        name = group or self.group
        found = fetch_committed(self.cluster, [name])[0][name]
        return {partition.index: its for partition, its in found.items()}

    def open(self) -> GroupOffsetSync:
        properties = {"bootstrap.servers": self.target.bootstrap}
        return GroupOffsetSync(properties, self.alias, [self.group])


@pytest.fixture
def remote(target: LiveCluster) -> Iterator[Remote]:
    host, port = target.bootstrap.split(",")[0].split(":")
    with closing(Cluster(Endpoint("target", ((host, int(port)),)))) as cluster:
        yield Remote(target, cluster)


def test_a_group_is_moved_on_and_never_back(remote: Remote) -> None:
    remote.mark(0, 10)
    remote.mark(1, 20)
    with remote.open() as sync:
        (outcome,) = sync.sync()
        assert outcome.result is Result.MOVED
        assert remote.committed() == {0: Committed(10, "noted"), 1: Committed(20, "noted")}
        assert [o.result for o in sync.sync()] == [Result.IN_STEP]

        remote.mark(0, 15)
        remote.mark(1, 5)
        (outcome,) = sync.sync()
        assert outcome.moved == {TopicPartition(remote.topic, 0): 15}
        assert {index: its.offset for index, its in remote.committed().items()} == {0: 15, 1: 20}


def test_a_group_that_went_on_at_the_target_by_itself_stays_there(remote: Remote) -> None:
    place = {TopicPartition(remote.topic, 0): Committed(50, "")}
    assert commit_offsets(remote.cluster, remote.group, place) == {}
    remote.mark(0, 10)
    with remote.open() as sync:
        assert [o.result for o in sync.sync()] == [Result.IN_STEP]
    assert remote.committed()[0].offset == 50


def test_a_group_in_use_on_the_target_is_left_alone_until_it_is_not(remote: Remote) -> None:
    remote.mark(0, 10)
    settings = remote.target.client(
        group_id=remote.group, enable_auto_commit=False, auto_offset_reset="earliest"
    )
    with remote.open() as sync:
        with closing(Consumer(settings)) as consumer:
            consumer.subscribe([remote.topic])

            def is_assigned() -> bool:
                consumer.poll(0.2)
                return bool(consumer.assignment())

            eventually(is_assigned)
            (outcome,) = sync.sync()
            assert outcome.result is Result.LEFT_ALONE
            assert "in use on the target" in str(outcome)
            assert remote.committed() == {}
        eventually(lambda: sync.sync()[0].result is Result.MOVED)
    assert remote.committed()[0].offset == 10


def test_a_group_without_checkpoints_is_told_what_may_be_wrong(remote: Remote) -> None:
    with remote.open() as sync:
        (outcome,) = sync.sync()
    assert outcome.result is Result.UNKNOWN
    assert "does the mirror run?" in str(outcome)
    properties = {"bootstrap.servers": remote.target.bootstrap}
    with GroupOffsetSync(properties, unique_alias("Z"), ["g"]) as sync:
        (outcome,) = sync.sync()
    assert "there is no topic" in str(outcome)


def flags(file: Path, remote: Remote, groups: str, *more: str) -> list[str]:
    named = ["-cgi", groups, "-src", remote.alias, "-pfp", str(file)]
    return ["group-offset-sync", *named, *more]


def test_the_command_takes_amazons_flags_and_file(remote: Remote, tmp_path: Path) -> None:
    file = tmp_path / "consumer.properties_sync_dest"
    file.write_text(f"BOOTSTRAP_SERVERS_CONFIG={remote.target.bootstrap}\nGROUP_ID_CONFIG=x\n")
    other = f"{remote.group}-2"
    remote.mark(0, 7)
    remote.mark(1, 9, other)
    asked = flags(file, remote, f"{remote.group},{other}", "-rpc", AMAZONS, "-int", "1")
    once = run_command(*asked, "--once")
    assert once.returncode == 0, once.stderr
    assert f"group {remote.group} moved on 1 partitions: {remote.topic}-0 to 7" in once.stderr
    assert remote.committed(other)[1].offset == 9

    with start_command(*asked) as running:
        remote.mark(0, 8)
        eventually(lambda: remote.committed()[0].offset == 8)
        running.terminate()
        _, told = running.communicate(timeout=30)
    assert running.returncode == 0, told
    assert "is where its checkpoints say" in told

    assert run_command(*flags(file, remote, "nobody", "--once")).returncode == 1
    assert run_command(*flags(file, remote, " , ", "--once")).returncode == 2
    assert "-cgi" in run_command("group-offset-sync", "-h").stdout
