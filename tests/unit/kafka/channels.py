"""Two brokers whose answers come in pieces, when a test says so."""

import struct
from collections.abc import Iterable, Sequence
from typing import cast
from uuid import UUID

from heliograph.kafka.cluster import Described, Topic
from heliograph.model import Endpoint
from heliograph.net.transport import Channel, Part, Room, no_room


class Pieces:
    """A channel whose answer comes in pieces, received as a `Channel` receives it."""

    expires = False
    heard_at = 0.0
    is_sending = False
    silent_for = 0.0

    def __init__(self, node: int) -> None:
        self.correlation = 0
        self.sent: list[bytes] = []
        self._node = node
        self._answer = b""
        self._got = 0
        self._there = 0
        self._frame: memoryview | None = None

    def answer(self, body: bytes) -> None:
        """Have an answer to the last request on its way, of which nothing is there yet."""
        self._answer = struct.pack(">i", self.correlation) + body
        self._got = self._there = 0

    def arrive(self, part: float = 1.0) -> None:
        """Have that part of the answer be there."""
        self._there = int(len(self._answer) * part)

    def poll_frame(self, buffer: bytearray, room: Room = no_room) -> memoryview | None:
        size = len(self._answer)
        if self._frame is None:
            offered = room(size)
            place = buffer if size <= len(buffer) else bytearray(size)
            self._frame = memoryview(place)[:size] if offered is None else offered[:size]
        self._frame[self._got : self._there] = self._answer[self._got : self._there]
        self._got = self._there
        if self._got < size:
            return None
        frame, self._frame = self._frame, None
        return frame

    def fileno(self) -> int:
        return self._node

    def pending(self) -> bool:
        return False

    def flush(self) -> None:
        pass

    def is_silent(self, _asked_at: float, patience: float) -> bool:
        return self.silent_for > patience

    def supports(self, _key: int, version: int) -> bool:
        return version <= 13

    def next_header(self, _key: int, _version: int, *, flexible: bool) -> bytes:
        del flexible
        self.correlation += 1
        return b""

    def interest(self) -> int:
        return 1

    def send(self, parts: Sequence[Part]) -> None:
        self.sent.append(b"".join(bytes(part) for part in parts))


class Two:
    """A cluster of two brokers, each the leader of one partition: 0 and 1."""

    endpoint = Endpoint("A", (("h", 1),))

    def __init__(self) -> None:
        self.channels = [Pieces(node) for node in range(2)]
        self.may_drop = False
        self.beside = [Pieces(node + 2) for node in range(2)]

    def channel(self, node: int, number: int = 0) -> Channel:
        return cast("Channel", (self.beside if number else self.channels)[node])

    def describe_each(self, names: Iterable[str]) -> Described:
        found = {name: Topic(name, UUID(int=1), (0, 1), internal=False) for name in names}
        return Described(found, {})

    def drop(self, node: int, number: int = 0) -> None:
        assert number or self.may_drop, f"broker {node} did nothing wrong"
