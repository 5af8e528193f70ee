from collections.abc import Iterator

import httpx
import pytest

from heliograph.web.app import make_app
from heliograph.web.server import Server
from tests.fakes import InMemoryHerder


@pytest.fixture
def herder() -> InMemoryHerder:
    return InMemoryHerder()


@pytest.fixture
def client(herder: InMemoryHerder) -> Iterator[httpx.Client]:
    """A client of an API over a herder in memory."""
    server = Server(make_app(herder))
    server.start()
    with httpx.Client(base_url=server.url) as opened:
        yield opened
    server.stop()
