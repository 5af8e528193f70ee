"""A broker that speaks just enough Kafka to lie: one topic `t` of one partition, which it leads."""

import socket
import struct
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

from heliograph.model import Endpoint
from tests.fuzz.parsers import batch

FETCH, LIST_OFFSETS, METADATA, VERSIONS = 1, 2, 3, 18
TOPIC_ID = bytes(15) + b"\1"
END = 3
"""Where the partition ends; an honest answer holds all of it in one batch."""

Answer = bytes | Iterable[bytes]
Lie = Callable[["Asked", bytes], Answer]
"""Takes what was asked and the honest body, and returns what to send, its length included."""

_I16, _I32, _I64 = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">q")


class Asked:
    """The head of a request."""

    def __init__(self, frame: bytes) -> None:
        self.key, self.version, self.correlation = struct.unpack_from(">hhi", frame)
        self.earliest = _I64.pack(-2) in frame


def framed(asked: Asked, body: bytes, correlation: int | None = None) -> bytes:
    """Return a body as an answer to that request."""
    head = _I32.pack(asked.correlation if correlation is None else correlation)
    flexible = b"" if asked.key == VERSIONS else b"\0"
    return _I32.pack(len(head + flexible + body)) + head + flexible + body


def uvarint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out) + bytes([number])


def versions() -> bytes:
    apis = [(FETCH, 13), (LIST_OFFSETS, 7), (METADATA, 12), (VERSIONS, 3)]
    rows = b"".join(struct.pack(">hhhb", key, 0, version, 0) for key, version in apis)
    return _I16.pack(0) + uvarint(len(apis) + 1) + rows + _I32.pack(0) + b"\0"


def metadata(port: int, host: bytes = b"127.0.0.1", index: int = 0, leader: int = 1) -> bytes:
    broker = _I32.pack(1) + uvarint(len(host) + 1) + host + _I32.pack(port) + b"\0\0"
    replicas = (uvarint(2) + _I32.pack(1)) * 2 + uvarint(1)
    partition = struct.pack(">hiii", 0, index, leader, 0) + replicas + b"\0"
    topic = _I16.pack(0) + b"\2t" + TOPIC_ID + b"\0" + uvarint(2) + partition + _I32.pack(0) + b"\0"
    cluster = uvarint(2) + broker + b"\5liar" + _I32.pack(1)
    return _I32.pack(0) + cluster + uvarint(2) + topic + b"\0"


def offsets(offset: int = END, index: int = 0, error: int = 0) -> bytes:
    partition = struct.pack(">ihqqi", index, error, -1, offset, -1) + b"\0"
    return _I32.pack(0) + uvarint(2) + b"\2t" + uvarint(2) + partition + b"\0\0"


def section(records: bytes, error: int = 0, index: int = 0) -> bytes:
    status = struct.pack(">ihqqq", index, error, END, END, 0) + uvarint(1) + _I32.pack(-1)
    return status + uvarint(len(records) + 1) + records + b"\0"


def fetched(version: int, *sections: bytes, error: int = 0) -> bytes:
    topic = TOPIC_ID if version >= 13 else b"\2t"
    head = struct.pack(">ihi", 0, error, 0) + uvarint(2) + topic + uvarint(len(sections) + 1)
    return head + b"".join(sections) + b"\0\0"


class Liar:
    """Answers honestly, but for the requests it was told to lie about."""

    def __init__(self, lies: dict[int, Lie]) -> None:
        self._lies = lies
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint("L", (("127.0.0.1", self.port),))

    def close(self) -> None:
        for opened in [self._listener, *self._open]:
            with suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)
            opened.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._open.append(client)
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError), client, client.makefile("rb") as stream:
            while head := stream.read(4):
                asked = Asked(stream.read(*_I32.unpack(head)))
                honest = self._honest(asked)
                lie = self._lies.get(asked.key)
                answer = framed(asked, honest) if lie is None else lie(asked, honest)
                for part in [answer] if isinstance(answer, bytes) else answer:
                    client.sendall(part)

    def _honest(self, asked: Asked) -> bytes:
        match asked.key:
            case 18:
                return versions()
            case 3:
                return metadata(self.port)
            case 2:
                return offsets(0 if asked.earliest else END)
            case _:
                return fetched(asked.version, section(batch()))


@contextmanager
def liar(lies: dict[int, Lie]) -> Iterator[Liar]:
    opened = Liar(lies)
    try:
        yield opened
    finally:
        opened.close()
