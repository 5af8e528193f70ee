"""A task's end of the lease: its connection to the driver, without which it must not work.

The driver says what to do (`assignment`), when the epoch ends early (`end`) and which partitions to
leave (`drop`); the task reports. A broken lease raises LeaseLost, which ends the task: a driver that
died leaves nobody writing.
"""

import json
import select
import socket
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from heliograph.dataplane.assignment import Assignment, Claim, decode_assignment, encode_line
from heliograph.errors import MirrorError

_HELLO_TIMEOUT = 120.0  # the driver may have to fence and create before it answers
_SEND_TIMEOUT = 30.0


class LeaseLost(MirrorError):
    """The driver is gone, or has given this slice to another attempt."""

    def __init__(self, flow: str, slice_index: int) -> None:
        super().__init__(flow, slice_index)
        self.flow = flow
        self.slice_index = slice_index

    def __str__(self) -> str:
        return (
            f"{self.flow}: slice {self.slice_index} lost its driver and stops. "
            "Nothing is lost: its successor reads the target's tail and goes on."
        )


class Lease:
    """One worker process's line to the driver."""

    def __init__(self, address: tuple[str, int], claim: Claim) -> None:
        self._claim = claim
        self._pending = b""
        self._early: list[dict[str, Any]] = []
        try:
            self._socket = socket.create_connection(address, timeout=_HELLO_TIMEOUT)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.sendall(encode_line({"hello": asdict(claim)}))
        except OSError as exc:
            raise self._lost() from exc

    def assignment(self) -> Assignment:
        """Wait for the driver's answer to the hello."""
        while True:
            found = None
            for message in self._receive():
                if "assignment" in message:
                    found = message["assignment"]
                else:
                    self._early.append(message)
            if found is not None:
                self._socket.settimeout(_SEND_TIMEOUT)
                return decode_assignment(found)

    def fileno(self) -> int:
        return self._socket.fileno()

    def poll(self) -> list[dict[str, Any]]:
        """Return what the driver has said since the last call, without waiting."""
        messages, self._early = self._early, []
        while select.select([self._socket], [], [], 0)[0]:
            messages += self._receive()
        return messages

    def send(self, message: dict[str, Any]) -> None:
        try:
            self._socket.sendall(encode_line(message))
        except OSError as exc:
            raise self._lost() from exc

    def close(self) -> None:
        with suppress(OSError):
            self._socket.close()

    def _receive(self) -> list[dict[str, Any]]:
        try:
            data = self._socket.recv(1 << 20)
        except OSError as exc:
            raise self._lost() from exc
        if not data:
            raise self._lost()
        *lines, self._pending = (self._pending + data).split(b"\n")
        try:
            return [json.loads(line) for line in lines]
        except (ValueError, RecursionError) as exc:
            raise self._lost() from exc

    def _lost(self) -> LeaseLost:
        return LeaseLost(self._claim.flow, self._claim.slice_index)
