import json
import logging
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from heliograph.web.app import make_app
from heliograph.web.server import _PATIENCE, Server
from lab.clusters import eventually
from tests.web.flows import Known, flow_config


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(make_app(Known(configs=[flow_config(tmp_path)])))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def client(server: Server) -> Iterator[httpx.Client]:
    limits = httpx.Limits(max_connections=100)
    with httpx.Client(base_url=server.url, timeout=20, limits=limits) as opened:
        yield opened


def events(answer: httpx.Response) -> Iterator[tuple[str, Any]]:
    kind = ""
    for line in answer.iter_lines():
        name, _, value = line.partition(": ")
        if name == "event":
            kind = value
        elif name == "data":
            yield kind, json.loads(value)


def test_a_stream_begins_with_the_overview_and_goes_on_with_what_is_logged(
    client: httpx.Client,
) -> None:
    with client.stream("GET", "/api/live") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-store"
        told = events(answer)
        kind, first = next(told)
        assert kind == "overview"
        assert [flow["flow"] for flow in first["flows"]] == ["A->B"]
        assert {cluster["alias"] for cluster in first["clusters"]} == {"A", "B"}
        logging.getLogger("heliograph").warning("something happened")
        line = next(data for kind, data in told if kind == "log")
        assert line["message"] == "something happened"


def test_fifty_may_listen_at_a_time(client: httpx.Client) -> None:
    told = []  # a stream that nobody holds is closed
    with ExitStack() as open_streams:
        for _ in range(50):
            answer = open_streams.enter_context(client.stream("GET", "/api/live"))
            assert answer.status_code == 200
            told.append(events(answer))
            next(told[-1])
        refused = open_streams.enter_context(client.stream("GET", "/api/live"))
        assert refused.status_code == 503
        refused.read()
        assert "50 listen already" in refused.json()["message"]
        assert client.get("/api/overview").status_code == 200

    def listen() -> bool:
        with client.stream("GET", "/api/live") as answer:
            return answer.status_code == 200

    assert eventually(listen, 10)


def test_streams_end_when_the_server_stops(server: Server, client: httpx.Client) -> None:
    with client.stream("GET", "/api/live") as answer:
        told = events(answer)
        next(told)
        began = time.monotonic()
        server.stop()
        assert all(kind in ("overview", "log") for kind, _ in told)
    assert time.monotonic() - began < _PATIENCE.total_seconds(), "it did not wait for the stream"


def test_history_has_a_column_for_each_number(client: httpx.Client) -> None:
    path = "/api/flows/A->B/history"
    columns = eventually(lambda: (its := client.get(path).json())["time"] and its, 15)
    assert columns.keys() >= {"time", "rate", "lag", "rpo_seconds", "p99_ms"}
    assert len({len(column) for column in columns.values()}) == 1
    assert client.get(f"{path}?seconds=0").status_code == 400
    assert client.get(f"{path}?seconds=3601").status_code == 400
    assert client.get("/api/flows/X->Y/history").status_code == 404


def test_who_asks_is_told_what_they_may_do(client: httpx.Client) -> None:
    me = client.get("/api/me").json()
    assert (me["name"], me["role"], me["read_only"]) == (None, "failover", False)
