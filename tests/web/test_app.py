import httpx
import pytest

from heliograph.connect.herder import RestError
from heliograph.errors import ClusterUnreachable, ConfigError, MirrorError
from heliograph.web.app import make_app
from heliograph.web.server import Server
from tests.fakes import InMemoryHerder
from tests.golden.connect.story import HEARTBEAT, SOURCE


@pytest.mark.parametrize(
    ("status", "code"), [("healthy", 200), ("starting", 503), ("unhealthy", 500)]
)
def test_health_is_told_by_the_status_code_too(
    client: httpx.Client, herder: InMemoryHerder, status: str, code: int
) -> None:
    herder.health_told = status, "So it is."
    answer = client.get("/health")

    assert (answer.status_code, answer.json()) == (code, {"status": status, "message": "So it is."})


def test_a_body_of_more_than_a_megabyte_is_refused(client: httpx.Client) -> None:
    config = HEARTBEAT | {"topics": "x" * (1 << 20)}
    answer = client.post("/connectors", json={"name": "hbc", "config": config})

    assert answer.status_code == 413
    assert answer.json()["error_code"] == 413


def test_what_follows_the_json_is_not_looked_at(client: httpx.Client) -> None:
    body = b'{"connector.class": "MirrorHeartbeat", "name": "x"} and more'
    answer = client.put(
        "/connector-plugins/MirrorHeartbeat/config/validate",
        content=body,
        headers={"content-type": "application/json; charset=utf-8"},
    )

    assert answer.status_code == 200


@pytest.mark.parametrize(
    "body", [b"\xff{}", b"NaN", b'{"name": NaN}', b"[" * 100_000, b'"\\ud800"']
)
def test_what_cannot_be_read_is_told_and_harms_nothing(client: httpx.Client, body: bytes) -> None:
    answer = client.post("/connectors", content=body, headers={"content-type": "application/json"})

    assert answer.status_code == 400
    assert set(answer.json()) == {"error_code", "message"}


def test_a_number_is_stored_as_it_was_written(client: httpx.Client, herder: InMemoryHerder) -> None:
    body = b'{"name": "hbc", "config": {"connector.class": "MirrorHeartbeat", "source.cluster.alias": "A",'
    body += b'"tasks.max": 2, "enabled": true, "own": 1.50, "other": null}}'
    answer = client.post("/connectors", content=body, headers={"content-type": "application/json"})

    assert answer.status_code == 201
    config = herder.kept["hbc"].config
    assert {key: config.get(key) for key in ("tasks.max", "enabled", "own", "other")} == {
        "tasks.max": "2",
        "enabled": "true",
        "own": "1.50",
        "other": None,
    }


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (RestError(409, "a rebalance is under way"), 409),
        (ConfigError("the file is wrong"), 400),
        (ClusterUnreachable("B", "b:9092", "refused"), 500),
        (MirrorError("no luck"), 500),
        (ZeroDivisionError("a bug"), 500),
    ],
)
def test_every_error_of_a_herder_is_an_error_code_and_a_message(
    error: Exception, status: int
) -> None:
    class Failing(InMemoryHerder):
        def connectors(self) -> list[str]:
            raise error

    server = Server(make_app(Failing()))
    server.start()
    try:
        answer = httpx.get(f"{server.url}/connectors")
    finally:
        server.stop()

    assert answer.status_code == status
    assert answer.json()["error_code"] == status
    assert str(error) in answer.json()["message"]


def test_connectors_of_a_file_can_be_driven_but_not_changed() -> None:
    herder = InMemoryHerder()
    herder.put_config("msc", SOURCE)
    server = Server(make_app(herder, read_only=True))
    server.start()
    try:
        with httpx.Client(base_url=server.url) as client:
            refused = [
                client.post("/connectors", json={"name": "hbc", "config": HEARTBEAT}),
                client.put("/connectors/msc/config", json=SOURCE),
                client.patch("/connectors/msc/config", json={"topics": "t"}),
                client.delete("/connectors/msc"),
            ]
            paused = client.put("/connectors/msc/pause")
    finally:
        server.stop()

    assert [answer.status_code for answer in refused] == [403] * 4
    assert all("Change the file" in answer.json()["message"] for answer in refused)
    assert paused.status_code == 202


def test_a_port_that_is_taken_is_told() -> None:
    first = Server(make_app(InMemoryHerder()))
    first.start()
    port = int(first.url.rsplit(":", 1)[1])
    try:
        with pytest.raises(ConfigError, match=f"127.0.0.1:{port}"):
            Server(make_app(InMemoryHerder()), port=port).start()
    finally:
        first.stop()


def test_a_server_lets_its_port_go() -> None:
    first = Server(make_app(InMemoryHerder()))
    first.start()
    port = int(first.url.rsplit(":", 1)[1])
    first.stop()
    second = Server(make_app(InMemoryHerder()), port=port)
    second.start()
    try:
        assert httpx.get(f"{second.url}/connectors").json() == []
    finally:
        second.stop()
