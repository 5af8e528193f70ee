import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import httpx
import pytest

from heliograph.config.access import Entry, Role, hash_password, put_entry
from heliograph.config.listeners import parse_listen
from heliograph.connect.herder import Offset, RestError
from heliograph.errors import ClusterUnreachable, KafkaFault
from heliograph.web.app import make_app
from heliograph.web.inquiries import Inquiries
from heliograph.web.server import make_server
from tests.fakes import InMemoryHerder
from tests.golden.connect.story import SOURCE

_LONG = timedelta(seconds=10)


class Silent(InMemoryHerder):
    """A herder whose cluster does not answer until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.let_go = threading.Event()
        self.asked = 0

    def cluster_id(self) -> str:
        self.asked += 1
        self.let_go.wait(30)
        return "found at last"

    def offsets(self, name: str) -> list[Offset]:
        self.let_go.wait(30)
        return super().offsets(name)


def test_a_cluster_that_does_not_answer_keeps_nobody_from_asking_for_the_health(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    file = tmp_path_factory.mktemp("access") / "access"
    put_entry(file, Entry(Role.VIEW, "vera", hash_password("a password")))
    herder = Silent()
    herder.put_config("msc", SOURCE)
    server = make_server(
        make_app(herder), parse_listen("127.0.0.1:0"), {"rest.access.file": str(file)}
    )
    server.start()
    limits = httpx.Limits(max_connections=200)
    try:
        with (
            httpx.Client(base_url=server.url, timeout=30, limits=limits) as client,
            ThreadPoolExecutor(100) as pool,
        ):
            client.auth = ("vera", "a password")
            assert client.get("/connectors").status_code == 200
            roots = [pool.submit(client.get, "/") for _ in range(45)]
            offsets = [pool.submit(client.get, "/connectors/msc/offsets") for _ in range(45)]
            for path in ("/health", "/connectors"):
                assert client.get(path, timeout=3).status_code == 200
            answers = [future.result() for future in roots]
            assert {answer.status_code for answer in answers} == {504}
            assert herder.asked == 1
            herder.let_go.set()
            told = [future.result().status_code for future in offsets]
            assert told.count(200) == 8
            assert told.count(429) == 37
            assert client.get("/").json()["kafka_cluster_id"] == "found at last"
            assert client.get("/").json()["kafka_cluster_id"] == "found at last"
            assert herder.asked == 1
    finally:
        herder.let_go.set()
        server.stop()


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ClusterUnreachable("B", "b:9092", "refused"), 504),
        (KafkaFault("describe", "CLUSTER_AUTHORIZATION_FAILED", False), 502),
    ],
)
def test_what_is_wrong_with_a_cluster_is_told_as_a_gateway_would(
    error: Exception, status: int
) -> None:
    class Failing(InMemoryHerder):
        def cluster_id(self) -> str:
            raise error

        def offsets(self, name: str) -> list[Offset]:  # noqa: ARG002
            raise error

    server = make_server(make_app(Failing()), parse_listen("127.0.0.1:0"), {})
    server.start()
    try:
        for path in ("/", "/connectors/msc/offsets"):
            answer = httpx.get(server.url + path)
            assert (answer.status_code, answer.json()["message"]) == (status, str(error))
    finally:
        server.stop()


def test_an_answer_is_shared_while_it_is_found_out_and_kept_as_long_as_it_says() -> None:
    found: list[int] = []

    def find() -> int:
        found.append(len(found))
        return found[-1]

    let_go = threading.Event()

    def find_slowly() -> int:
        let_go.wait(10)
        return find()

    async def ask() -> list[int]:
        asked = Inquiries[int]()
        kept = [await asked.ask("a", find, _LONG, most=1, keep=lambda _: _LONG) for _ in range(3)]
        both = [asyncio.create_task(asked.ask("b", find_slowly, _LONG, most=1)) for _ in range(2)]
        await asyncio.sleep(0.05)
        let_go.set()
        return [*kept, *await asyncio.gather(*both), await asked.ask("b", find, _LONG, most=1)]

    assert asyncio.run(ask()) == [0, 0, 0, 1, 1, 2]


def test_what_fails_is_asked_anew() -> None:
    errors = [ValueError("once"), None]

    def find() -> str:
        error = errors.pop(0)
        if error is not None:
            raise error
        return "well"

    async def ask() -> str:
        asked = Inquiries[str]()
        with pytest.raises(ValueError, match="once"):
            await asked.ask("a", find, _LONG, most=1)
        return await asked.ask("a", find, _LONG, most=1)

    assert asyncio.run(ask()) == "well"


def test_more_than_so_many_are_refused_and_a_late_answer_is_there_for_who_asks_again() -> None:
    let_go = threading.Event()

    async def ask() -> str:
        asked = Inquiries[str]()
        with pytest.raises(RestError, match=r"within 0.05 s"):
            await asked.ask(
                "a",
                lambda: str(let_go.wait(10)),
                timedelta(seconds=0.05),
                most=1,
                keep=lambda _: _LONG,
            )
        with pytest.raises(RestError, match="too many"):
            await asked.ask("b", str, _LONG, most=1)
        let_go.set()
        return await asked.ask("a", lambda: "asked anew", _LONG, most=1)

    assert asyncio.run(ask()) == "True"
