"""Clients of Connect that nobody here wrote live a connector's whole life with a worker: ours, and Kafka's own."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests
from kafka_connect import KafkaConnect  # type: ignore[import-untyped]

from heliograph.embedded.ports import LOOPBACK, pick_port
from lab.clusters import LiveCluster, eventually, unique_name
from lab.mirrors import Mirror, first_difference, seen, unique_alias
from tests.connect_clients import Command, JavaClient, Refused
from tests.contract.brokers import commit
from tests.workers import open_real_connect, wait_until_it_answers, worker_properties

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(400)]

SYSTEMS = ["heliograph", pytest.param("connect", marks=pytest.mark.peer)]
KINDS = ("Source", "Checkpoint", "Heartbeat")
CLASSES = {kind: f"org.apache.kafka.connect.mirror.Mirror{kind}Connector" for kind in KINDS}
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
PARTITIONS = 2
START = 120
CHANGE = 60
NOT_FOUND = ("ResourceNotFoundException", 404)


@dataclass(frozen=True, slots=True)
class Server:
    """A running worker, whoever made it."""

    url: str
    tail: Callable[[], str]

    @property
    def address(self) -> str:
        return self.url.removeprefix("http://")

    def answers(self) -> bool:
        try:
            return requests.get(f"{self.url}/health", timeout=10).ok
        except requests.ConnectionError:
            return False


@dataclass(frozen=True, slots=True)
class Flow:
    """A topic of one cluster that goes to another, and the connectors that a client sends for it."""

    source: LiveCluster
    target: LiveCluster
    topic: str
    alias: str
    configs: dict[str, dict[str, str]]
    """By name, the source connector first; a name is part of a configuration, as users write it."""

    @property
    def remote(self) -> str:
        return f"{self.alias}.{self.topic}"

    @property
    def mirror(self) -> str:
        return next(iter(self.configs))

    def send(self) -> None:
        self.source.produce(self.topic, [b"%d" % n for n in range(100)])

    def send_and_wait(self, server: Server) -> None:
        self.send()
        self.wait(server)

    def wait(self, server: Server) -> None:
        expected = seen(self.source.consume(self.topic))

        def difference() -> str | None:
            if not self.target.partition_count(self.remote):
                return f"there is no {self.remote}"
            return first_difference(expected, seen(self.target.consume(self.remote)))

        eventually(lambda: difference() is None, CHANGE, lambda: f"{difference()}\n{server.tail()}")


@pytest.fixture(scope="module", params=SYSTEMS)
def server(
    request: pytest.FixtureRequest, target: LiveCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("worker")
    properties = worker_properties(target, f"clients-{unique_alias()}")
    if request.param == "connect":
        with open_real_connect(folder, properties) as connect:
            wait_until_it_answers(connect)
            yield Server(connect.url, connect.peer.last_lines)
        return
    url = f"http://{LOOPBACK}:{pick_port()}"
    worker = Mirror(folder, {**properties, "listeners": url})
    worker.command = "worker"
    with worker:
        started = Server(url, worker.tail)
        eventually(started.answers, CHANGE, worker.tail)
        yield started


@pytest.fixture
def flow(source: LiveCluster, target: LiveCluster) -> Flow:
    topic, alias = source.create_topic(PARTITIONS), unique_alias()
    # Without a group Connect's checkpoint connector has no task.
    source.produce(topic, [b"first"])
    commit(source, unique_name(), topic, {0: 0})
    names = {kind: f"{kind.lower()}-{unique_name()[-8:]}" for kind in KINDS}
    configs = {
        name: {
            "name": name,
            "connector.class": CLASSES[kind],
            "source.cluster.alias": alias,
            "source.cluster.bootstrap.servers": source.bootstrap,
            "target.cluster.alias": "B",
            "target.cluster.bootstrap.servers": target.bootstrap,
            "topics": topic,
            "heartbeats.replication.enabled": "false",
            **{f"{what}replication.factor": "1" for what in ("", "offset-syncs.topic.")},
            **{f"{what}.topic.replication.factor": "1" for what in ("checkpoints", "heartbeats")},
            **{f"{what}.converter": BYTES for what in ("key", "value", "header")},
            "tasks.max": "2",
        }
        for kind, name in names.items()
    }
    return Flow(source, target, topic, alias, configs)


@pytest.fixture
def client(server: Server, tmp_path: Path) -> Iterator[JavaClient]:
    with JavaClient(server.url, tmp_path) as started:
        yield started
        for name in started.call("getConnectors"):
            started.call("deleteConnector", name)


def wait_for(state: str, status: Callable[[], Any], server: Server, within: float = CHANGE) -> None:
    """Wait until a connector and its tasks, of which there is one at least, are in a state."""

    def reached() -> bool:
        if (told := status()) is None:
            return False
        states = [told["connector"]["state"], *(task["state"] for task in told["tasks"])]
        return len(states) > 1 and set(states) == {state}

    eventually(reached, within, lambda: f"{status()}\n{server.tail()}")


def java_status(client: JavaClient, name: str) -> Any:
    """Return a connector's status; None where there is none, as shortly after it was made."""
    try:
        return client.call("getConnectorStatus", name)
    except Refused as refused:
        if (refused.thrown, refused.code) == NOT_FOUND:
            return None
        raise


def refusal(client: JavaClient, *asked: Any) -> tuple[tuple[str, int | None], str]:
    """Return what a client throws, its error code, and its message."""
    with pytest.raises(Refused) as refused:
        client.call(*asked)
    return (refused.value.thrown, refused.value.code), refused.value.message or ""


def test_the_java_client_knows_the_worker_and_its_plugins_and_validates(
    client: JavaClient, flow: Flow
) -> None:
    version = client.call("getConnectServerVersion")
    assert version["version"].startswith("4.3.1")
    assert version["commit"]
    assert version["kafkaClusterId"] == flow.target.admin.list_topics(timeout=30).cluster_id
    plugins = client.call("getConnectorPlugins")
    assert {(plugin["className"], plugin["type"]) for plugin in plugins} == {
        (java_class, "source") for java_class in CLASSES.values()
    }

    def validate(**changes: str) -> Any:
        config = {**flow.configs[flow.mirror], **changes}
        return client.call("validateConnectorPluginConfig", "MirrorSourceConnector", config)

    good, bad = validate(), validate(**{"tasks.max": "many"})
    assert (good["name"], good["errorCount"]) == (CLASSES["Source"], 0)
    keys = {one["definition"]["name"]: one for one in good["configs"]}
    assert keys["topics"]["value"]["value"] == flow.topic
    assert keys["tasks.max"]["definition"]["type"] == "INT"
    assert bad["errorCount"] > 0
    wrong = [one["value"] for one in bad["configs"] if one["value"]["errors"]]
    assert [(value["name"], value["value"]) for value in wrong] == [("tasks.max", None)]


def test_the_java_client_lives_a_connectors_whole_life(
    server: Server, client: JavaClient, flow: Flow
) -> None:
    mirror, remote = flow.mirror, flow.remote

    def wait(state: str, name: str = mirror, within: float = CHANGE) -> None:
        wait_for(state, lambda: java_status(client, name), server, within)

    def topics() -> Any:
        return client.call("getConnectorTopics", mirror)["topics"]

    for name, config in flow.configs.items():
        made = client.call("addConnector", name, config)
        assert (made["name"], made["type"], made["config"]) == (name, "source", config)
    flow.send()
    for name in flow.configs:
        wait("RUNNING", name, START)
    for name, config in flow.configs.items():
        assert client.call("getConnectorConfig", name) == config
        tasks = client.call("getConnectorTasks", name)
        assert [task["id"] for task in tasks] == client.call("getConnector", name)["tasks"]
        task = client.call("getConnectorTaskStatus", name, 0)
        assert (task["state"], task["workerId"]) == ("RUNNING", server.address)
    assert set(client.call("getConnectors")) == set(flow.configs)
    assert set(client.call("getConnectorsWithExpandedStatus")) == set(flow.configs)
    assert set(client.call("getConnectorsWithExpandedInfo")) == set(flow.configs)
    both = client.call("getConnectorsWithAllExpandedMetadata")
    assert both["statuses"][mirror]["connector"]["worker_id"] == server.address
    assert both["definitions"][mirror]["config"]["topics"] == flow.topic
    flow.wait(server)
    eventually(lambda: topics() == [remote], CHANGE)

    assert client.call("pauseConnector", mirror) is True
    wait("PAUSED")
    reached = flow.target.end_offsets(remote)
    flow.send()
    assert client.call("resetConnectorTopics", mirror) is True
    eventually(lambda: topics() == [])
    assert flow.target.end_offsets(remote) == reached
    assert client.call("resumeConnector", mirror) is True
    wait("RUNNING")
    flow.wait(server)
    eventually(lambda: topics() == [remote], CHANGE)

    assert client.call("restartConnector", mirror) is True
    wait("RUNNING")
    assert client.call("restartConnectorTask", mirror, 0) is True
    wait("RUNNING")
    flow.send_and_wait(server)
    for only_failed in (False, True):
        assert client.call("restartConnectorWithTasks", mirror, only_failed) is True
        wait("RUNNING")
    flow.send_and_wait(server)

    changed = {**flow.configs[mirror], "tasks.max": "1"}
    assert client.call("updateConnectorConfig", mirror, changed)["config"] == changed
    eventually(lambda: len(client.call("getConnectorTasks", mirror)) == 1, CHANGE, server.tail)
    wait("RUNNING")
    for name in flow.configs:
        assert client.call("deleteConnector", name) is True
    eventually(lambda: client.call("getConnectors") == [])
    assert refusal(client, "getConnectorStatus", mirror)[0] == NOT_FOUND


def test_the_java_client_knows_every_refusal(
    server: Server, client: JavaClient, flow: Flow
) -> None:
    name = flow.mirror
    config = flow.configs[name]
    client.call("addConnector", name, config)
    wait_for("RUNNING", lambda: java_status(client, name), server, START)
    for method in (
        *("getConnector", "getConnectorConfig", "getConnectorStatus", "getConnectorTasks"),
        *("pauseConnector", "resumeConnector", "restartConnector", "deleteConnector"),
    ):
        thrown, message = refusal(client, method, "nobody")
        assert thrown == NOT_FOUND, method
        assert "nobody" in message, method
    assert refusal(client, "getConnectorTaskStatus", name, 77)[0] == NOT_FOUND
    assert refusal(client, "restartConnectorTask", name, 77)[0] == NOT_FOUND
    assert refusal(client, "addConnector", name, config)[0] == (
        "ConcurrentConfigModificationException",
        409,
    )
    broken = {**config, "name": "broken", "tasks.max": "many"}
    thrown, message = refusal(client, "addConnector", "broken", broken)
    assert thrown == ("InvalidRequestException", 400)
    assert "tasks.max" in message


def test_a_python_command_lives_a_connectors_whole_life(
    server: Server, flow: Flow, tmp_path: Path
) -> None:
    mirror, remote = flow.mirror, flow.remote
    kc = Command(server.url)
    # What its command does not have: stop; and validate-config, which sends a text of JSON as a JSON text.
    library = KafkaConnect(server.url)

    def wait(state: str, *names: str, within: float = CHANGE) -> None:
        for name in names or (mirror,):
            wait_for(state, lambda name=name: kc.status(name), server, within)  # type: ignore[misc]

    def topics() -> Any:
        return kc.ask("list-topics", mirror)[mirror]["topics"]

    assert kc.ask("info")["version"].startswith("4.3.1")
    assert {plugin["class"] for plugin in kc.ask("list-plugins")} == set(CLASSES.values())
    checked = library.validate_connector_config("MirrorSourceConnector", flow.configs[mirror])
    assert checked["error_count"] == 0

    for name, config in flow.configs.items():
        file = tmp_path / f"{name}.json"
        file.write_text(json.dumps({"name": name, "config": config}))
        made = kc.ask("create", "--config-file", str(file))
        assert (made["name"], made["config"]) == (name, config)
    flow.send()
    wait("RUNNING", *flow.configs, within=START)
    assert set(kc.ask("list")) == set(flow.configs)
    assert set(kc.ask("list", "--expand", "info")) == set(flow.configs)
    assert set(kc.ask("list", "--expand", "status", "--state", "RUNNING")) == set(flow.configs)
    assert set(kc.ask("list", "--expand", "status", "--pattern", "source-.*")) == {mirror}
    assert kc.ask("config", mirror) == flow.configs[mirror]
    assert [task["id"] for task in kc.ask("list-tasks", mirror)] == kc.ask("get", mirror)["tasks"]
    assert kc.ask("task-status", mirror, "0")["worker_id"] == server.address
    flow.wait(server)
    eventually(lambda: topics() == [remote], CHANGE)

    kc.say("pause", "--all")
    wait("PAUSED", *flow.configs)
    reached = flow.target.end_offsets(remote)
    flow.send()
    kc.say("reset-topics", mirror)
    eventually(lambda: topics() == [])
    assert flow.target.end_offsets(remote) == reached
    kc.say("resume", "--all")
    wait("RUNNING", *flow.configs)
    flow.wait(server)

    assert kc.ask("restart", mirror)["name"] == mirror
    wait("RUNNING")
    kc.say("restart-task", mirror, "0")
    wait("RUNNING")
    assert kc.ask("restart", mirror, "--include-tasks")["name"] == mirror
    wait("RUNNING")
    restarted = kc.ask("restart", "--all", "--include-tasks", "--only-failed")
    assert set(restarted) == set(flow.configs)
    wait("RUNNING", *flow.configs)
    flow.send_and_wait(server)

    library.stop_connector(mirror)
    eventually(
        lambda: kc.ask("status", mirror)["connector"]["state"] == "STOPPED", CHANGE, server.tail
    )
    eventually(lambda: kc.ask("status", mirror)["tasks"] == [], CHANGE, server.tail)
    assert kc.ask("list-tasks", mirror) == []
    reached = flow.target.end_offsets(remote)
    flow.send()
    changed = json.dumps({**flow.configs[mirror], "tasks.max": "1"})
    assert kc.ask("update", mirror, "--config-data", changed)["name"] == mirror
    assert kc.ask("status", mirror)["connector"]["state"] == "STOPPED"
    assert flow.target.end_offsets(remote) == reached
    kc.say("resume", mirror)
    wait("RUNNING")
    eventually(lambda: len(kc.ask("list-tasks", mirror)) == 1, CHANGE, server.tail)
    flow.wait(server)

    assert kc.say("status", "nobody").startswith("404 Client Error")
    assert json.loads(kc.say("restart", "nobody"))["error_code"] == 404
    empty = json.dumps({"name": "empty", "config": {}})
    assert kc.say("create", "--config-data", empty).startswith("400 Client Error")
    again = json.dumps({"name": mirror, "config": flow.configs[mirror]})
    assert kc.say("create", "--config-data", again).startswith("409 Client Error")
    kc.say("delete", "--all")
    eventually(lambda: kc.ask("list") == [])
