"""A client's connection: frames in, answers out, one request after the other, as Kafka does it."""

import socket
import struct
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol

from lab.inprocess.messages import Asked, write_response
from lab.inprocess.node import Node, reset
from lab.inprocess.script import Event, Fate

_LENGTH = struct.Struct(">i")
_CHUNK = 1 << 18


class Answering(Protocol):
    """A request while it is answered; `wait` is how many seconds it may take if there is no news."""

    wait: float

    def attempt(self, *, is_over: bool) -> Any:
        """Return the response; None while there is no news, unless the wait `is_over`."""


class Exchange:
    """A request, what is done for it, and what becomes of its answer."""

    def __init__(self, asked: Asked, answering: Answering, events: Sequence[Event]) -> None:
        self._asked = asked
        self._answering = answering
        self._events = events
        self._over_at = time.monotonic() + answering.wait
        self._ready_at = 0.0
        self._answer: bytes | None = None

    def next_at(self) -> float:
        """Return when something is due without an event."""
        if self._answer is None:
            return self._over_at
        return self._ready_at if self._ready_at > time.monotonic() else float("inf")

    def proceed(self, delay: float) -> bytes | None:
        """Do what was asked, once; return the answer when it is due, empty if the connection ends instead."""
        now = time.monotonic()
        if self._answer is None:
            response = self._answering.attempt(is_over=now >= self._over_at)
            if response is None:
                return None
            self._answer = write_response(self._asked, response)
            self._ready_at = now + delay
            for event in self._events:
                event.after()
                event.happened.set()
            if any(event.fate is Fate.UNANSWERED for event in self._events):
                self._answer = b""
        held = any(e.fate is Fate.HELD and not e.is_released for e in self._events)
        return None if held or now < self._ready_at else self._answer


class Line:
    """One open connection to a node."""

    def __init__(self, node: Node, opened: socket.socket) -> None:
        self.node = node
        self.socket = opened
        self.frames: deque[bytes] = deque()
        self.exchange: Exchange | None = None
        self.is_open = True
        self._in = bytearray()
        self._out = bytearray()

    @property
    def is_sending(self) -> bool:
        return bool(self._out)

    def receive(self) -> bool:
        """Take what came in; return whether the connection goes on."""
        try:
            data = self.socket.recv(_CHUNK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        self._in += data
        while len(self._in) >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(self._in)
            end = _LENGTH.size + size
            if len(self._in) < end:
                break
            self.frames.append(bytes(self._in[_LENGTH.size : end]))
            del self._in[:end]
        return bool(data)

    def send(self, data: bytes = b"") -> bool:
        """Send what the kernel takes; return whether the connection goes on."""
        self._out += data
        try:
            while self._out:
                del self._out[: self.socket.send(self._out)]
        except BlockingIOError:
            return True
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Reset the connection."""
        self.is_open = False
        reset(self.socket)
