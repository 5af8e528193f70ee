"""Routes that look at flows, where no cluster answers."""

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from heliograph.config.settings_worker import WorkerSettings
from heliograph.observe.record_view import holds_configs
from heliograph.web.app import make_app
from heliograph.web.server import Server
from tests.web.flows import Known, flow_config


@pytest.fixture
def silent() -> Iterator[tuple[str, list[object]]]:
    """An address that takes connections and says nothing, and those who came."""
    came: list[object] = []
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:

        def take() -> None:
            while True:
                try:
                    came.append(listening.accept()[0])
                except OSError:
                    return

        threading.Thread(target=take, daemon=True).start()
        yield f"127.0.0.1:{listening.getsockname()[1]}", came
        listening.shutdown(socket.SHUT_RDWR)
    for connection in came:
        connection.close()  # type: ignore[attr-defined]


@pytest.fixture
def known(tmp_path: Path) -> Known:
    worker = {"config.storage.topic": "our-configs", "offset.storage.topic": "our-offsets"}
    return Known(configs=[replace(flow_config(tmp_path), working=WorkerSettings(worker))])


@pytest.fixture
def client(known: Known) -> Iterator[httpx.Client]:
    server = Server(make_app(known))
    server.start()
    with httpx.Client(base_url=server.url, timeout=30) as opened:
        yield opened
    server.stop()


@pytest.mark.parametrize(
    "topic", ["our-configs", "mm2-configs.A.internal", "connect-configs", "A.our-configs"]
)
@pytest.mark.parametrize("alias", ["A", "B"])
def test_topics_that_hold_configs_are_not_shown(
    client: httpx.Client, alias: str, topic: str
) -> None:
    answer = client.get(f"/api/clusters/{alias}/messages", params={"topic": topic, "last": 1})
    assert answer.status_code == 403
    assert answer.json()["message"].startswith(f"{topic} holds configs of connectors")


@pytest.mark.parametrize("topic", ["our-offsets", "mm2-status.A.internal", "configs", "orders"])
def test_other_topics_of_a_worker_are_shown(known: Known, topic: str) -> None:
    assert not holds_configs(topic, known.configs)


def test_a_comparison_that_met_trouble_is_shared_and_kept_for_a_while(
    known: Known, tmp_path: Path, client: httpx.Client, silent: tuple[str, list[object]]
) -> None:
    address, came = silent
    known.configs = [flow_config(tmp_path, address, address)]
    with ThreadPoolExecutor(5) as pool:
        told = [pool.submit(client.get, "/api/flows/A->B/drift") for _ in range(5)]
    answers = [future.result().json() for future in told]
    answers.append(client.get("/api/flows/A->B/drift").json())
    assert len(came) == 1
    assert all(answer == answers[0] for answer in answers)
    (trouble,) = answers[0]["troubles"]
    assert trouble.startswith("A: no broker answers")
