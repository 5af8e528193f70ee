import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import timedelta

import pytest

from heliograph.embedded.ports import LOOPBACK, pick_port
from lab.clusters import eventually
from lab.proxy import CUT, DEAF, GOOD, ONE_WAY, Line, Proxy


class Echo:
    """A server that sends back what it hears, and keeps count of it."""

    def __init__(self) -> None:
        self._listener = socket.create_server((LOOPBACK, 0))
        self.port: int = self._listener.getsockname()[1]
        self.heard = 0
        self._connections: list[socket.socket] = []
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._connections.append(connection)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            while data := connection.recv(65536):
                self.heard += len(data)
                connection.sendall(data)

    def drop(self) -> None:
        for connection in self._connections:
            linger = struct.pack("ii", 1, 0)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            connection.shutdown(socket.SHUT_RD)  # ends the thread that reads it, which closes it

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@pytest.fixture
def echo() -> Iterator[Echo]:
    with closing(Echo()) as server:
        yield server


@pytest.fixture
def port() -> int:
    return pick_port()


@pytest.fixture
def proxy(echo: Echo, port: int) -> Iterator[Proxy]:
    with Proxy({port: echo.port}) as made:
        yield made


def connect(port: int, timeout: float = 5) -> socket.socket:
    return socket.create_connection((LOOPBACK, port), timeout=timeout)


def ask(client: socket.socket, what: bytes) -> bytes:
    client.sendall(what)
    answer = b""
    while len(answer) < len(what):
        more = client.recv(65536)
        if not more:
            break
        answer += more
    return answer


@pytest.mark.usefixtures("proxy")
def test_a_good_line_brings_all_bytes_both_ways(port: int) -> None:
    payload = bytes(range(256)) * 2000
    with connect(port) as client:
        assert ask(client, payload) == payload


def test_an_end_that_is_closed_closes_the_other(proxy: Proxy, port: int) -> None:
    with connect(port) as client:
        assert ask(client, b"one") == b"one"
        assert proxy.connections == 1
        client.shutdown(socket.SHUT_WR)
        assert client.recv(10) == b""
    eventually(lambda: proxy.connections == 0, 5)


def test_a_delay_is_paid_each_way_and_not_per_chunk(proxy: Proxy, port: int) -> None:
    proxy.set_line(Line(delay=timedelta(milliseconds=100)))
    took = {}
    with connect(port) as client:
        for size in (1, 500_000):
            began = time.monotonic()
            assert ask(client, b"x" * size) == b"x" * size
            took[size] = time.monotonic() - began
    assert took[1] >= 0.2
    assert took[500_000] < 5 * took[1], "eight chunks and more, each way"


def test_a_rate_holds_for_all_connections_together(proxy: Proxy, port: int) -> None:
    proxy.set_line(Line(rate=200_000))
    with connect(port) as one, connect(port) as other:
        began = time.monotonic()
        one.sendall(b"x" * 50_000)
        assert ask(other, b"y" * 50_000) == b"y" * 50_000
        assert time.monotonic() - began > 0.5


def test_a_cut_line_resets_what_is_open_and_refuses_what_is_new(proxy: Proxy, port: int) -> None:
    with connect(port) as client:
        assert ask(client, b"one") == b"one"
        proxy.set_line(CUT)
        with pytest.raises(ConnectionResetError):
            ask(client, b"two")
    with pytest.raises(ConnectionRefusedError):
        connect(port)
    assert proxy.connections == 0
    proxy.set_line(GOOD)
    with connect(port) as client:
        assert ask(client, b"three") == b"three"


def test_a_deaf_line_accepts_says_nothing_and_goes_on_where_it_was(
    proxy: Proxy, echo: Echo, port: int
) -> None:
    with connect(port, timeout=0.3) as old:
        assert ask(old, b"one") == b"one"
        proxy.set_line(DEAF)
        with connect(port, timeout=0.3) as new:
            for client in (old, new):
                with pytest.raises(TimeoutError):
                    ask(client, b"two")
            assert echo.heard == 3
            proxy.set_line(GOOD)
            for client in (old, new):
                client.settimeout(5)
                assert client.recv(10) == b"two"


def test_a_line_of_one_way_loses_the_answer_and_not_the_question(
    proxy: Proxy, echo: Echo, port: int
) -> None:
    proxy.set_line(ONE_WAY)
    with connect(port, timeout=0.3) as client:
        with pytest.raises(TimeoutError):
            ask(client, b"one")
        assert echo.heard == 3
        proxy.reset()
        with pytest.raises(ConnectionResetError):
            client.recv(10)


def test_a_broker_that_is_not_there_resets_the_connection(port: int) -> None:
    with (
        Proxy({port: pick_port(taken=[port])}),
        pytest.raises(ConnectionResetError),
        connect(port) as client,
    ):
        client.recv(10)


def test_an_end_that_is_reset_resets_the_other(proxy: Proxy, echo: Echo, port: int) -> None:
    with connect(port) as client:
        assert ask(client, b"one") == b"one"
        echo.drop()
        with pytest.raises(ConnectionResetError):
            client.recv(10)
    eventually(lambda: proxy.connections == 0, 5)
