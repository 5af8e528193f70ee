"""The driver's side of all leases: a listener, a thread per task, and the jobs they belong to.

Leases are few (one per slice), so each gets a thread that blocks; nothing here is on the data path.
"""

import hmac
import logging
import secrets
import socket
import struct
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Protocol

from heliograph.errors import ConfigError, CorruptRecord, MirrorError
from heliograph.spark.masters import LEASE_PORT, driver_host, lease_place
from heliograph.wire.lease_messages import (
    Hello,
    Note,
    Order,
    Welcome,
    decode_note,
    encode_message,
)

log = logging.getLogger(__name__)

_MAX_LINE = 64 << 20
_MAX_HELLO = 16 << 10
_HELLO_SECONDS = 10.0
_MAX_STRANGERS = 256
_PAUSE = 0.2
_SEND_SECONDS = struct.pack("ll", 5, 0)  # for which a task may receive none of what is sent to it


class LeaseRefused(MirrorError):
    """A task that has no more work here."""

    def __init__(self, flow: str, slice_index: int, reason: str) -> None:
        super().__init__(flow, slice_index, reason)
        self.flow = flow
        self.slice_index = slice_index
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.flow}: slice {self.slice_index} gets no lease: {self.reason}."


class Landlord(Protocol):
    """Grants leases of one flow. Called from lease threads; each call may block."""

    def grant(self, line: "Line", hello: Hello) -> Welcome:
        """Return how the claiming task works; its partitions follow."""

    def heard(self, line: "Line", note: Note) -> None:
        """Process a note of a task that holds a lease."""

    def lost(self, line: "Line") -> None:
        """Note that a lease has ended, for any reason."""


class Line:
    """One open lease, as the driver sees it."""

    def __init__(self, connection: socket.socket) -> None:
        with suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _SEND_SECONDS)
        self._connection = connection
        self._lock = threading.Lock()
        self.is_open = True

    def send(self, order: Order) -> None:
        """Send an order; a task that is gone, or does not receive it, is noticed where we read."""
        with self._lock:
            try:
                self._connection.sendall(encode_message(order))
            except OSError:
                self.hang_up()  # it may have received half an order

    def hang_up(self) -> None:
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def notes(self) -> Iterator[Note]:
        """Yield what the task sends; the first line, which a stranger may have sent, is short."""
        with self._connection.makefile("rb") as stream:
            longest = _MAX_HELLO
            while line := stream.readline(longest):
                yield decode_note(line)
                longest = _MAX_LINE


class LeaseServer:
    """Listens for the tasks of all flows of this driver.

    It listens at loopback if Spark runs in this process; otherwise at `spark.driver.bindAddress` or
    `spark.driver.host`. Tasks connect to `address`.
    """

    def __init__(self, spark: Mapping[str, str] | None = None) -> None:
        """Start to listen; `spark` has the spark.* keys of the flows' context."""
        self.secret = secrets.token_hex(16)
        self._landlords: dict[str, Landlord] = {}
        self._closed = False
        place = lease_place(spark or {})
        try:
            self._listener = socket.create_server(place)
        except OSError as exc:
            raise ConfigError(
                f"leases: cannot listen at {place[0]}:{place[1]} ({exc.strerror or exc}). "
                f"Set spark.driver.bindAddress to an address of this machine, and {LEASE_PORT} to a free port."
            ) from exc
        port: int = self._listener.getsockname()[1]
        self.address = (driver_host(spark or {}), port)
        self._strangers = threading.BoundedSemaphore(_MAX_STRANGERS)
        threading.Thread(target=self._accept, name="leases", daemon=True).start()

    def register(self, flow: str, landlord: Landlord) -> None:
        self._landlords[flow] = landlord

    def forget(self, flow: str, landlord: Landlord) -> None:
        """Grant no more leases of a landlord, unless a successor has taken its place."""
        if self._landlords.get(flow) is landlord:
            del self._landlords[flow]

    def close(self) -> None:
        self._closed = True
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        """Accept tasks until this is closed; a failure with one of them ends nothing else."""
        while not self._closed:
            try:
                connection, _ = self._listener.accept()
            except OSError as exc:
                if not self._closed:
                    log.warning("a task could not connect to its driver: %s. Retrying.", exc)
                    time.sleep(_PAUSE)
                continue
            if not self._strangers.acquire(blocking=False):
                connection.close()
                continue
            try:
                threading.Thread(
                    target=self._serve, args=(connection,), name="lease", daemon=True
                ).start()
            except RuntimeError as exc:
                log.warning("no thread for a task's lease: %s. The task tries again.", exc)
                self._strangers.release()
                connection.close()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            with suppress(OSError):  # it may be gone already
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            line = Line(connection)
            landlord: Landlord | None = None
            try:
                notes = line.notes()
                hello = self._introduced(line, notes)
                landlord = self._landlords[hello.flow]
                line.send(landlord.grant(line, hello))
                for note in notes:
                    landlord.heard(line, note)
            except (OSError, KeyError) as exc:
                # A peer that disconnects or sends garbage loses its lease and nothing else.
                log.debug("lease closed: %s", exc)
            except (CorruptRecord, LeaseRefused) as exc:
                log.debug("lease closed: %s", exc)
            except MirrorError as exc:
                # The task sees its lease end, and is restarted.
                log.warning("a lease could not be granted: %s", exc)
            finally:
                line.is_open = False
                if landlord is not None:
                    landlord.lost(line)

    def _introduced(self, line: Line, notes: Iterator[Note]) -> Hello:
        """Return which task a stranger says it is, if it knows the secret; disconnect a silent one."""
        patience = threading.Timer(_HELLO_SECONDS, line.hang_up)
        patience.daemon = True
        patience.start()
        try:
            hello = next(notes, None)
        finally:
            patience.cancel()
            self._strangers.release()
        if not isinstance(hello, Hello):
            raise CorruptRecord("a task did not introduce itself")
        if not hmac.compare_digest(hello.secret, self.secret):
            log.warning("a lease was asked for with a wrong secret and refused")
            raise CorruptRecord("the secret is wrong")
        return hello
