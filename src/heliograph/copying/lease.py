"""The task's side of the lease: its connection to the driver. Without it the task must not work.

The driver sends orders, the task sends notes. A broken lease raises LeaseLost, which ends the task: after a driver
dies, none of its tasks keeps writing. Only three calls block: making one, `await_welcome` and `finish`.
"""

import select
import socket
import time
from collections import deque
from contextlib import suppress

from heliograph.errors import MirrorError
from heliograph.wire.lease_messages import (
    Claim,
    Hello,
    Note,
    Order,
    Welcome,
    decode_order,
    encode_message,
)

_CONNECT_TIMEOUT = 30.0
_SILENCE = 60.0  # seconds without a message from the driver, after which it counts as gone
_MOST_UNSENT = 64 << 20


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
    """One task's connection to the driver."""

    def __init__(self, claim: Claim, task: int) -> None:
        self._claim = claim
        self._pending = bytearray()
        self._unsent: deque[memoryview] = deque()
        self._unsent_bytes = 0
        self._heard_at = time.monotonic()
        try:
            self._socket = socket.create_connection(
                (claim.host, claim.port), timeout=_CONNECT_TIMEOUT
            )
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.setblocking(False)
        except OSError as exc:
            raise self._lost() from exc
        self.send(Hello(claim.flow, claim.slice_index, task, claim.secret))

    def fileno(self) -> int:
        return self._socket.fileno()

    def interest(self) -> int:
        """Return the events to poll for."""
        return select.POLLIN | select.POLLOUT if self._unsent else select.POLLIN

    def await_welcome(self) -> tuple[Welcome, list[Order]]:
        """Wait for the answer to the hello; return it, and the orders that came with it or even before it."""
        orders: list[Order] = []
        while True:
            select.select([self._socket], [], [], _SILENCE)
            orders += self.poll()
            for at, order in enumerate(orders):
                if isinstance(order, Welcome):
                    return order, orders[:at] + orders[at + 1 :]
            self._check_silence()

    def poll(self) -> list[Order]:
        """Return the orders received since the last call; send what is still queued."""
        self._flush()
        while True:
            try:
                data = self._socket.recv(1 << 20)
            except BlockingIOError:
                break
            except OSError as exc:
                raise self._lost() from exc
            if not data:
                raise self._lost()
            self._heard_at = time.monotonic()
            self._pending += data
        self._check_silence()
        if b"\n" not in self._pending:
            return []
        *lines, rest = self._pending.split(b"\n")
        self._pending = bytearray(rest)
        return [decode_order(bytes(line)) for line in lines]

    def send(self, note: Note) -> None:
        """Queue a note, and send what the kernel takes."""
        line = encode_message(note)
        self._unsent.append(memoryview(line))
        self._unsent_bytes += len(line)
        if self._unsent_bytes > _MOST_UNSENT:
            raise self._lost()
        self._flush()

    def finish(self, within: float) -> None:
        """Send what is queued, and wait until the driver has read it."""
        until = time.monotonic() + within
        while self._unsent and time.monotonic() < until:
            select.select([], [self._socket], [], until - time.monotonic())
            self._flush()
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
            while (left := until - time.monotonic()) > 0:
                if select.select([self._socket], [], [], left)[0] and not self._socket.recv(
                    1 << 20
                ):
                    break  # the driver has read all, and closed its side

    def close(self) -> None:
        with suppress(OSError):
            self._socket.close()

    def _flush(self) -> None:
        while self._unsent:
            try:
                sent = self._socket.send(self._unsent[0])
            except BlockingIOError:
                return
            except OSError as exc:
                raise self._lost() from exc
            self._unsent_bytes -= sent
            rest = self._unsent.popleft()[sent:]
            if rest:
                self._unsent.appendleft(rest)

    def _check_silence(self) -> None:
        if time.monotonic() - self._heard_at > _SILENCE:
            raise self._lost()

    def _lost(self) -> LeaseLost:
        return LeaseLost(self._claim.flow, self._claim.slice_index)
