"""Connectors and their states in Kafka, written and read by us and by a real Connect."""

import logging
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from heliograph.config.connectors import WorkerConfig
from heliograph.connect.config_store import ConfigStore
from heliograph.connect.herder import ConnectorStatus, RunState, TargetState, TaskStatus
from heliograph.connect.status_store import StatusStore
from heliograph.errors import ConfigError
from heliograph.kafka.cluster import Cluster
from heliograph.tables.follow import FollowedTopic
from heliograph.wire.connect_state import RestartRow
from lab.clusters import LiveCluster, Outgoing, eventually
from lab.counting import CountingCluster, endpoint
from tests.workers import (
    open_real_connect,
    wait_until_it_answers,
    worker_config,
    worker_properties,
)

pytestmark = pytest.mark.broker


@pytest.fixture
def worker(source: LiveCluster, tmp_path: Path) -> WorkerConfig:
    return worker_config(tmp_path, worker_properties(source))


@pytest.fixture
def configs(worker: WorkerConfig) -> Iterator[ConfigStore]:
    with closing(ConfigStore(worker)) as store:
        store.open()
        yield store


@pytest.fixture
def states(worker: WorkerConfig) -> Iterator[StatusStore]:
    with closing(StatusStore(worker, "4.3.1")) as store:
        store.open()
        yield store


def test_a_followed_topic_tells_each_row_once_and_asks_little(source: LiveCluster) -> None:
    topic = source.create_topic(3)
    with closing(CountingCluster(source)) as cluster:
        followed = FollowedTopic(cluster, topic)
        rows: list[tuple[bytes, bytes | None]] = [(b"k%d" % n, b"v") for n in range(10)]
        followed.append([*rows, (b"k1", None)])
        assert sorted(followed.refresh(), key=str) == sorted([*rows, (b"k1", None)], key=str)
        cluster.calls.clear()
        assert followed.refresh() == []
        assert cluster.calls == {"Metadata": 2, "ListOffsets": 1}
        source.produce(topic, [Outgoing(b"other", b"k1")])
        assert followed.refresh() == [(b"k1", b"other")]


def test_a_followed_topic_that_is_not_there_has_no_rows_until_it_is_made(
    source: LiveCluster,
) -> None:
    with closing(Cluster(endpoint(source))) as cluster:
        followed = FollowedTopic(cluster, "not-yet-there")
        assert followed.refresh() == []
        followed.ensure(2, 1)
        followed.append([(b"k", b"v")])
        assert followed.refresh() == [(b"k", b"v")]


def test_a_followed_topic_is_followed_on_when_it_is_made_anew(source: LiveCluster) -> None:
    topic = source.create_topic()
    told: list[str] = []
    with closing(Cluster(endpoint(source))) as cluster:
        followed = FollowedTopic(cluster, topic, on_anew=lambda: told.append("anew"))
        followed.append([(b"a", b"1")])
        followed.refresh()
        source.admin.delete_topics([topic])[topic].result(timeout=30)
        eventually(lambda: source.partition_count(topic) == 0)
        assert followed.refresh() == []
        source.create_topic(name=topic)
        source.produce(topic, [Outgoing(b"%d" % n, b"b") for n in range(3)])
        assert told == []
        assert followed.refresh() == [(b"b", b"0"), (b"b", b"1"), (b"b", b"2")]
        assert told == ["anew"]
        followed.append([(b"c", b"3")])
        assert followed.refresh() == [(b"c", b"3")]


def test_connectors_are_read_back_by_who_wrote_them_and_by_others(
    configs: ConfigStore, worker: WorkerConfig
) -> None:
    configs.put_connector("c", {"k": "v", "ü": "\U0001f600"})
    configs.put_tasks("c", [{"n": "0"}, {"n": "1"}])
    configs.put_connector("d", {"k": "w"}, TargetState.STOPPED)
    configs.put_target_state("c", TargetState.PAUSED)
    with closing(ConfigStore(worker)) as other:
        other.open()
        for store in (configs, other):
            assert store.connectors() == ["c", "d"]
            assert store.properties("c") == {"k": "v", "ü": "\U0001f600"}
            assert store.tasks("c") == ({"n": "0"}, {"n": "1"})
            assert store.tasks("d") == ()
            assert store.target_state("c") is TargetState.PAUSED
            assert store.target_state("d") is TargetState.STOPPED
        assert configs.take_written() == {"c", "d"}
        assert configs.take_written() == frozenset()
        assert other.take_written() == frozenset(), "what was there before is not for it"
        configs.remove_connector("c")
        assert configs.properties("c") is None
        other.refresh()
        assert other.connectors() == ["d"]
        assert other.target_state("c") is TargetState.STARTED
        configs.put_connector("c", {"k": "v"})
        configs.put_connector("c", {"k": "v"})
        other.refresh()
        assert other.take_written() == {"c"}
        assert (other.births("c"), other.births("d")) == (2, 1)


def test_a_restart_is_told_to_who_was_there_when_it_was_asked_for(
    configs: ConfigStore, worker: WorkerConfig
) -> None:
    configs.request_restart("c", include_tasks=True, only_failed=False)
    with closing(ConfigStore(worker)) as late:
        late.open()
        assert late.take_restarts() == []
        configs.request_restart("d", include_tasks=False, only_failed=True)
        late.refresh()
        assert late.take_restarts() == [RestartRow("d", False, True)]
    assert [row.name for row in configs.take_restarts()] == ["c", "d"]


def test_rows_that_make_no_sense_are_told_and_passed_over(
    configs: ConfigStore,
    source: LiveCluster,
    worker: WorkerConfig,
    caplog: pytest.LogCaptureFixture,
) -> None:
    configs.put_connector("c", {"k": "v"})
    rows = [
        Outgoing(b"not json", b"connector-c"),
        Outgoing(b'{"state":"DANCING"}', b"target-state-c"),
        Outgoing(b'{"key":"AAAA"}', b"session-key"),
    ]
    source.produce(str(worker.props["config.storage.topic"]), rows)
    with caplog.at_level(logging.WARNING):
        configs.refresh()
    assert configs.properties("c") == {"k": "v"}
    assert configs.target_state("c") is TargetState.STARTED
    assert [r.getMessage().split(" ", 1)[1][:20] for r in caplog.records] == [
        "the row connector-c ",
        "passed over a target",
    ]


def test_many_threads_may_write_and_read_at_once(configs: ConfigStore) -> None:
    def work(n: int) -> None:
        configs.put_connector(f"c{n}", {"n": str(n)})
        assert configs.properties(f"c{n}") == {"n": str(n)}

    threads = [threading.Thread(target=work, args=[n]) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert configs.connectors() == [f"c{n}" for n in range(8)]


@pytest.mark.usefixtures("configs", "states")
def test_the_topics_are_made_as_connect_makes_them(
    source: LiveCluster, worker: WorkerConfig
) -> None:
    assert source.partition_count(str(worker.props["config.storage.topic"])) == 1
    assert source.partition_count(str(worker.props["status.storage.topic"])) == 5


@pytest.mark.parametrize(
    ("partitions", "config", "told"),
    [
        (2, {"cleanup.policy": "compact"}, "has 2 partitions"),
        (1, {}, "cleanup.policy is delete"),
    ],
)
def test_a_config_topic_that_would_lose_connectors_is_refused(
    source: LiveCluster, worker: WorkerConfig, partitions: int, config: dict[str, str], told: str
) -> None:
    source.create_topic(partitions, config, name=str(worker.props["config.storage.topic"]))
    with (
        closing(ConfigStore(worker)) as store,
        pytest.raises(ConfigError, match=f"{told}.*config.storage.topic"),
    ):
        store.open()


def test_states_are_told_and_forgotten(states: StatusStore, worker: WorkerConfig) -> None:
    running = ConnectorStatus("c", RunState.RUNNING, "w:1")
    assert states.status("c") is None
    assert states.put_connector_status(running, 3)
    states.put_task_status("c", TaskStatus(1, RunState.FAILED, "w:1", "why"), 3)
    states.put_task_status("c", TaskStatus(0, RunState.RUNNING, "w:1"), 3)
    for topic in ("u", "t", "t"):
        states.put_topic("c", topic)
    with closing(StatusStore(worker, "4.3.1")) as other:
        other.open()
        for store in (states, other):
            tasks = (
                TaskStatus(0, RunState.RUNNING, "w:1"),
                TaskStatus(1, RunState.FAILED, "w:1", "why"),
            )
            assert store.status("c") == ConnectorStatus("c", RunState.RUNNING, "w:1", tasks)
            assert store.topics("c") == ["t", "u"]
        states.delete_connector("c")
        states.delete_topics("c")
        other.refresh()
        for store in (states, other):
            assert store.status("c") is None
            assert store.topics("c") == []


def test_a_worker_that_gave_a_connector_away_does_not_overrule_its_new_one(
    states: StatusStore,
) -> None:
    states.put_connector_status(ConnectorStatus("c", RunState.RUNNING, "new:1"), 5)
    late = ConnectorStatus("c", RunState.UNASSIGNED, "old:1")
    assert not states.put_connector_status(late, 4, unless_newer=True)
    assert states.put_connector_status(late, 5, unless_newer=True)
    task = TaskStatus(0, RunState.RUNNING, "new:1")
    states.put_task_status("c", task, 6)
    late_task = TaskStatus(0, RunState.UNASSIGNED, "old:1")
    assert not states.put_task_status("c", late_task, 5, unless_newer=True)
    found = states.status("c")
    assert found is not None
    assert found.tasks == (task,)


@pytest.mark.peer
@pytest.mark.timeout(400)
def test_a_real_connect_reads_our_topics_and_we_read_its(
    source: LiveCluster, target: LiveCluster, tmp_path: Path
) -> None:
    properties = worker_properties(source)
    worker = worker_config(tmp_path, properties)
    heartbeats = {
        "connector.class": "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector",
        "name": "ours",
        "source.cluster.alias": "A",
        "target.cluster.alias": "B",
        "source.cluster.bootstrap.servers": source.bootstrap,
        "target.cluster.bootstrap.servers": target.bootstrap,
        "heartbeats.topic.replication.factor": "1",
    }
    with (
        closing(ConfigStore(worker)) as configs,
        closing(StatusStore(worker, "4.3.1")) as states,
    ):
        configs.open()
        states.open()
        configs.put_connector("ours", heartbeats, TargetState.STOPPED)
        configs.put_connector("gone", heartbeats)
        configs.remove_connector("gone")
        states.put_connector_status(ConnectorStatus("ours", RunState.STOPPED, "w:1"), 1)
        with open_real_connect(tmp_path / "connect", properties) as connect:
            wait_until_it_answers(connect)
            assert connect.ask("/connectors") == ["ours"]
            assert connect.ask("/connectors/ours/config") == heartbeats
            assert connect.ask("/connectors/ours/status")["connector"]["state"] == "STOPPED"
            connect.ask("/connectors/theirs/config", "PUT", {**heartbeats, "name": "theirs"})
            connect.ask("/connectors/ours/resume", "PUT")

            def running() -> bool:
                configs.refresh()
                states.refresh()
                found = [states.status(name) for name in ("ours", "theirs")]
                return all(s and [t.state for t in s.tasks] == [RunState.RUNNING] for s in found)

            eventually(running, within=60, describe=connect.peer.last_lines)
            assert configs.properties("theirs") == {**heartbeats, "name": "theirs"}
            assert len(configs.tasks("theirs")) == 1
            assert configs.target_state("ours") is TargetState.STARTED
            configs.take_restarts()
            connect.ask("/connectors/theirs/restart?includeTasks=true&onlyFailed=false", "POST")
            configs.refresh()
            assert configs.take_restarts() == [RestartRow("theirs", True, False)]
            connect.ask("/connectors/theirs/stop", "PUT")
            configs.put_target_state("ours", TargetState.PAUSED)
            eventually(
                lambda: connect.ask("/connectors/ours/status")["connector"]["state"] == "PAUSED"
            )
            configs.refresh()
            assert configs.target_state("theirs") is TargetState.STOPPED
            assert configs.tasks("theirs") == ()
            connect.ask("/connectors/theirs", "DELETE")

            def deleted() -> bool:
                configs.refresh()
                return configs.connectors() == ["ours"]

            eventually(deleted)
