"""The command against our own REST API; what it keeps is in memory."""

import json
import threading
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from heliograph.cli.connectors import app
from heliograph.cli.deployments import Step, names_of, plan_step, wait_until_running
from heliograph.cli.rest import ConnectApi, NobodyAnswers
from heliograph.cli.standing import Standing, shorten
from heliograph.config.secrets import HIDDEN
from heliograph.connect.herder import RestError, TargetState
from heliograph.embedded.ports import LOOPBACK, pick_port
from heliograph.errors import ConfigError
from heliograph.web.app import make_app
from heliograph.web.server import Server
from tests.fakes import InMemoryHerder

CLASSES = {"msc": "MirrorSource", "cpc": "MirrorCheckpoint", "hbc": "MirrorHeartbeat"}
NAMES = [f"mm2-{letters}-east" for letters in CLASSES]


@pytest.fixture
def herder() -> InMemoryHerder:
    return InMemoryHerder()


@pytest.fixture
def url(herder: InMemoryHerder) -> Iterator[str]:
    server = Server(make_app(herder))
    server.start()
    yield server.url
    server.stop()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for letters in CLASSES:
        write(tmp_path, letters)
    return tmp_path


def write(folder: Path, letters: str, **changes: Any) -> None:
    config = {
        "name": f"mm2-{letters}-east",
        "connector.class": f"org.apache.kafka.connect.mirror.{CLASSES[letters]}Connector",
        "source.cluster.alias": "east",
        "source.cluster.bootstrap.servers": "nowhere:9092",
        "target.cluster.bootstrap.servers": "nowhere:9093",
        "tasks.max": 2,
        "enabled": True,
        **{key.replace("_", "."): value for key, value in changes.items()},
    }
    (folder / f"mm2-{letters}-east.json").write_text(json.dumps(config, indent=1))


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def deployed(folder: Path, url: str, *more: object) -> Result:
    return call("deploy", "east", "--dir", folder, "--url", url, *more)


def test_all_three_connectors_are_deployed_and_then_left_alone(
    folder: Path, url: str, herder: InMemoryHerder
) -> None:
    first = deployed(folder, url)
    assert first.exit_code == 0
    assert first.output.splitlines() == [
        "mm2-msc-east (source): deployed",
        "mm2-cpc-east (checkpoint): deployed",
        "mm2-hbc-east (heartbeat): deployed",
    ]
    assert herder.kept[NAMES[0]].config["tasks.max"] == "2"
    assert herder.kept[NAMES[0]].config["enabled"] == "true"
    second = deployed(folder, url)
    assert second.exit_code == 0
    assert second.output.count("left alone, because it is deployed with this very") == 3


def test_only_what_changed_is_sent(folder: Path, url: str, herder: InMemoryHerder) -> None:
    deployed(folder, url)
    write(folder, "cpc", tasks_max=5)
    told = json.loads(deployed(folder, url, "--json").output)
    assert [(row["name"], row["done"].split(",")[0]) for row in told] == [
        ("mm2-msc-east", "left alone"),
        ("mm2-cpc-east", "changed"),
        ("mm2-hbc-east", "left alone"),
    ]
    assert herder.kept["mm2-cpc-east"].config["tasks.max"] == "5"


def test_a_file_with_name_and_config_is_taken_too(folder: Path, url: str) -> None:
    file = folder / "mm2-hbc-east.json"
    flat = json.loads(file.read_text())
    file.write_text(json.dumps({"name": flat.pop("name"), "config": flat}))
    assert deployed(folder, url).exit_code == 0
    assert "mm2-hbc-east (heartbeat): left alone" in deployed(folder, url).output


def test_missing_files_are_all_named_with_what_they_are_for(folder: Path, url: str) -> None:
    for letters in ("cpc", "hbc"):
        (folder / f"mm2-{letters}-east.json").unlink()
    result = deployed(folder, url)
    told = str(result.exception)
    assert isinstance(result.exception, ConfigError)
    assert "mm2-cpc-east.json, the checkpoint connector, which tells where" in told
    assert "mm2-hbc-east.json, the heartbeat connector, which shows that" in told
    assert "msc" not in told


def test_a_cluster_without_any_file_is_answered_with_those_that_have_some(
    folder: Path, url: str, herder: InMemoryHerder
) -> None:
    result = call("deploy", "west", "--dir", folder, "--url", url)
    assert "there is no cluster west" in str(result.exception)
    assert "only east" in str(result.exception)
    assert not herder.kept


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"name": "another"}, "name=another: this file is for mm2-cpc-east."),
        (
            {"connector_class": "MirrorSourceConnector"},
            "connector.class=MirrorSourceConnector: this file is for the checkpoint connector",
        ),
    ],
)
def test_a_file_that_is_for_something_else_is_told_before_anything_is_sent(
    folder: Path, url: str, herder: InMemoryHerder, changes: dict[str, str], told: str
) -> None:
    write(folder, "cpc", **changes)
    result = deployed(folder, url)
    assert isinstance(result.exception, ConfigError)
    assert told in str(result.exception)
    assert "mm2-cpc-east.json:" in str(result.exception)
    assert not herder.kept


def test_one_that_is_refused_is_told_and_the_others_are_deployed(
    folder: Path, url: str, herder: InMemoryHerder
) -> None:
    write(folder, "msc", tasks_max="many")
    result = deployed(folder, url)
    assert result.exit_code == 1
    assert "mm2-msc-east (source): refused: Connector configuration is invalid" in result.output
    assert sorted(herder.kept) == ["mm2-cpc-east", "mm2-hbc-east"]


def test_a_paused_connector_stays_paused_and_that_is_said(folder: Path, url: str) -> None:
    deployed(folder, url)
    assert call("pause", NAMES[0], "--url", url).exit_code == 0
    result = deployed(folder, url)
    assert "it is PAUSED, and `heliograph connectors resume` ends that" in result.output
    assert deployed(folder, url, "--wait", 0).exit_code == 1


def test_what_holds_secrets_is_sent_again_since_they_are_not_shown(folder: Path, url: str) -> None:
    write(folder, "msc", source_cluster_sasl_jaas_config="word one")
    deployed(folder, url)
    write(folder, "msc", source_cluster_sasl_jaas_config="word two")
    result = deployed(folder, url)
    assert "mm2-msc-east (source): sent again, because secrets cannot be compared" in result.output
    assert "word" not in result.output


def test_undeploying_needs_no_files_and_says_what_was_not_there(
    folder: Path, url: str, herder: InMemoryHerder
) -> None:
    deployed(folder, url)
    herder.delete("mm2-hbc-east")
    result = call("undeploy", "east", "--url", url)
    assert result.exit_code == 0
    assert result.output.splitlines() == [
        "mm2-hbc-east (heartbeat): not deployed",
        "mm2-cpc-east (checkpoint): undeployed",
        "mm2-msc-east (source): undeployed",
    ]
    assert not herder.kept


def test_redeploying_takes_away_and_deploys(folder: Path, url: str, herder: InMemoryHerder) -> None:
    deployed(folder, url)
    result = call("redeploy", "east", "--dir", folder, "--url", url, "--wait", 10)
    assert result.exit_code == 0
    assert result.output.count(": undeployed") == result.output.count(": deployed") == 3
    assert "2 RUNNING" in result.output
    assert sorted(herder.kept) == sorted(NAMES)


def test_status_tells_what_runs_what_does_not_and_what_is_not_there(
    folder: Path, url: str, herder: InMemoryHerder
) -> None:
    deployed(folder, url)
    assert call("status", "east", "--url", url).exit_code == 0
    herder.set_target_state("mm2-cpc-east", TargetState.STOPPED)
    herder.delete("mm2-hbc-east")
    result = call("status", "east", "--url", url, "--json")
    assert result.exit_code == 1
    found = {row["name"]: row for row in json.loads(result.output)}
    assert {name: row["state"] for name, row in found.items()} == {
        "mm2-msc-east": "RUNNING",
        "mm2-cpc-east": "STOPPED",
        "mm2-hbc-east": None,
    }
    assert [task["state"] for task in found["mm2-msc-east"]["tasks"]] == ["RUNNING", "RUNNING"]
    assert "not deployed" in call("status", "east", "--url", url).output


def test_the_list_has_every_connector_with_its_kind_and_why_it_failed(
    folder: Path, url: str, herder: InMemoryHerder
) -> None:
    assert call("list", "--url", url).output == "no connectors\n"
    deployed(folder, url)
    lame = {"connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector"}
    herder.put_config("lame", lame)
    result = call("list", "--url", url)
    assert result.exit_code == 1
    assert "FAILED" in result.output
    rows = {row["name"]: row for row in json.loads(call("list", "--url", url, "--json").output)}
    assert {name: row["kind"] for name, row in rows.items()} == {
        "lame": "source",
        "mm2-cpc-east": "checkpoint",
        "mm2-hbc-east": "heartbeat",
        "mm2-msc-east": "source",
    }
    assert rows["lame"]["trace"] == "no source cluster"


def test_a_connector_that_failed_is_restarted_by_deploying_it_again() -> None:
    config = {"name": "a"}
    failed = {"connector": {"state": "RUNNING"}, "tasks": [{"state": "FAILED"}]}
    assert plan_step(config, config, Standing("a", "source", failed)) is Step.RESTART


def test_secrets_that_a_worker_shows_are_compared() -> None:
    config = {"name": "a", "sasl.password": "one"}
    assert plan_step(config, dict(config), None) is Step.LEAVE
    assert plan_step(config, config | {"sasl.password": "two"}, None) is Step.CHANGE
    assert plan_step(config, config | {"sasl.password": HIDDEN}, None) is Step.SEND_AGAIN


def test_states_are_asked_for_one_by_one(folder: Path, url: str, herder: InMemoryHerder) -> None:
    deployed(folder, url)
    for verb, wanted in (
        ("pause", TargetState.PAUSED),
        ("stop", TargetState.STOPPED),
        ("resume", TargetState.STARTED),
    ):
        assert call(verb, NAMES[0], "--url", url).exit_code == 0
        assert herder.kept[NAMES[0]].state is wanted
    result = call("restart", NAMES[0], "--tasks", "--only-failed", "--url", url, "--json")
    assert result.exit_code == 0
    assert json.loads(result.output)["name"] == NAMES[0]


def test_an_unknown_connector_is_told_in_connects_words(url: str) -> None:
    result = call("pause", "nobody/none", "--url", url)
    assert isinstance(result.exception, RestError)
    result = call("pause", "nobody", "--url", url)
    assert isinstance(result.exception, RestError)
    assert str(result.exception) == "Unknown connector nobody"
    assert result.exception.exit_code == 1


def test_offsets_are_shown_set_from_what_was_shown_and_reset(
    folder: Path, url: str, herder: InMemoryHerder, tmp_path: Path
) -> None:
    deployed(folder, url)
    table = call("offsets", NAMES[0], "--url", url)
    assert table.output.split()[:4] == ["cluster", "partition", "topic", "offset"]
    shown = call("offsets", NAMES[0], "--url", url, "--json").output
    file = tmp_path / "offsets.json"
    file.write_text(shown.replace("9", "4"))
    refused = call("offsets", NAMES[0], "--set", file, "--url", url)
    assert "must be in the STOPPED state" in str(refused.exception)
    call("stop", NAMES[0], "--url", url)
    assert call("offsets", NAMES[0], "--set", file, "--url", url).exit_code == 0
    assert {entry["offset"]["offset"] for entry in herder.offsets(NAMES[0])} == {4}
    assert call("offsets", NAMES[0], "--reset", "--url", url).exit_code == 0
    assert herder.offsets(NAMES[0]) == []


@pytest.mark.parametrize("content", ["{", "{}", '"text"'])
def test_a_file_without_offsets_is_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "offsets.json"
    file.write_text(content)
    result = call("offsets", "any", "--set", file)
    assert isinstance(result.exception, ConfigError)
    assert str(file) in str(result.exception)


def test_nobody_at_the_url_is_exit_code_3_and_hides_the_password() -> None:
    port = pick_port()
    result = call("list", "--url", f"http://me:hush@{LOOPBACK}:{port}")
    assert isinstance(result.exception, NobodyAnswers)
    assert result.exception.exit_code == 3
    assert str(result.exception).startswith(
        f"nobody answers at http://{LOOPBACK}:{port} (connection refused)"
    )


@pytest.mark.parametrize("url", ["ftp://localhost:1", "http://", "http://localhost:port"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(ConfigError):
        ConnectApi(url)


class Scripted(BaseHTTPRequestHandler):
    """Answers what stands on the server's list, one after the other."""

    def do_GET(self) -> None:
        server: Any = self.server
        server.seen.append(self.headers.get("Authorization"))
        status, body = server.answers.pop(0)
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def scripted() -> Iterator[Any]:
    server: Any = HTTPServer((LOOPBACK, 0), Scripted)
    server.answers, server.seen = [], []
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_worker_that_rebalances_is_asked_again(scripted: Any) -> None:
    busy = 409, b'{"error_code": 409, "message": "rebalance"}'
    scripted.answers = [busy, busy, (200, b'["a"]')]
    slept: list[float] = []
    api = ConnectApi(f"http://me:hush@{LOOPBACK}:{scripted.server_port}", slept.append)
    assert api.names() == ["a"]
    assert slept == [0.5, 1]
    assert scripted.seen == ["Basic bWU6aHVzaA=="] * 3
    scripted.answers = [busy] * 5
    with pytest.raises(RestError, match="rebalance"):
        api.names()


@pytest.mark.parametrize("answer", [(404, b"<html>"), (200, b"<html>"), (500, b"[]")])
def test_a_server_that_is_not_connect_is_told_to_be_none(
    scripted: Any, answer: tuple[int, bytes]
) -> None:
    scripted.answers = [answer]
    with pytest.raises(RestError, match="Check that --url is the address of a worker"):
        ConnectApi(f"{LOOPBACK}:{scripted.server_port}").names()


def test_waiting_ends_when_all_run_or_when_the_time_is_over(
    folder: Path, url: str, herder: InMemoryHerder
) -> None:
    deployed(folder, url)
    shown: list[int] = []
    api = ConnectApi(url)
    found = wait_until_running(api, names_of("east"), timedelta(seconds=5), shown.append)
    assert [standing.is_running for standing in found] == [True] * 3
    herder.set_target_state(NAMES[1], TargetState.PAUSED)
    found = wait_until_running(api, names_of("east"), timedelta(), shown.append)
    assert shown == [3, 2]


def test_one_that_runs_without_tasks_is_waited_for_and_is_no_failure(
    folder: Path, url: str, herder: InMemoryHerder
) -> None:
    deployed(folder, url)
    herder.kept[NAMES[0]].tasks = 0
    shown: list[int] = []
    wait_until_running(ConnectApi(url), names_of("east"), timedelta(), shown.append)
    assert shown == [2]
    assert deployed(folder, url, "--wait", 0).exit_code == 0


def test_a_trace_is_cut_to_its_first_line() -> None:
    assert shorten("the reason\n\tat somewhere") == "the reason"
    assert len(shorten("x" * 500)) == 160
