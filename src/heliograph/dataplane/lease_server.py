"""The driver's end of all leases: a listener, a thread per worker process, and whom they belong to.

Leases are few (two per slice), so each gets a thread that blocks; nothing here is on the data's path.
"""

import hmac
import json
import logging
import secrets
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Protocol

from heliograph.dataplane.assignment import Assignment, Claim, encode_line
from heliograph.dataplane.masters import LEASE_PORT, driver_host, lease_place
from heliograph.errors import ConfigError, MirrorError

log = logging.getLogger(__name__)

_MAX_LINE = 64 << 20
_MAX_HELLO = 16 << 10
_HELLO_SECONDS = 10.0
_MAX_STRANGERS = 256


class Landlord(Protocol):
    """Who grants leases of one flow. Called from lease threads; each call may block."""

    def grant(self, line: "Line", claim: Claim) -> Assignment:
        """Return what the claiming worker shall do."""

    def heard(self, line: "Line", claim: Claim, message: dict[str, Any]) -> None:
        """Take a report of a worker that holds a lease."""


class Line:
    """One open lease, as the driver sees it."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self.is_open = True

    def send(self, message: dict[str, Any]) -> None:
        """Say something to the worker; a worker that is gone is noticed where we read."""
        with self._lock, suppress(OSError):
            self._connection.sendall(encode_line(message))

    def hang_up(self) -> None:
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield what the worker says; the first line, which a stranger may have sent, is short."""
        with self._connection.makefile("rb") as stream:
            longest = _MAX_HELLO
            while line := stream.readline(longest):
                yield json.loads(line)
                longest = _MAX_LINE


class LeaseServer:
    """Listens for the workers of all flows of this driver.

    At loopback for a Spark of this process; else where `spark.driver.bindAddress` or `spark.driver.host`
    says. Tasks are told `address`.
    """

    def __init__(self, spark: Mapping[str, str] | None = None) -> None:
        """Take the spark.* keys that the flows' session is given."""
        self.secret = secrets.token_hex(16)
        self._landlords: dict[str, Landlord] = {}
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
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            if not self._strangers.acquire(blocking=False):
                connection.close()
                continue
            threading.Thread(
                target=self._serve, args=(connection,), name="lease", daemon=True
            ).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            with suppress(OSError):  # it may be gone already
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            line = Line(connection)
            try:
                self._converse(line)
            except (OSError, ValueError, KeyError, TypeError, RecursionError) as exc:
                # A peer that breaks off or talks nonsense loses its lease and nothing else.
                log.debug("lease closed: %s", exc)
            except MirrorError as exc:
                # The worker sees its lease end, and Spark tries the task again.
                log.warning("a lease could not be granted: %s", exc)
            finally:
                line.is_open = False

    def _converse(self, line: Line) -> None:
        messages = line.lines()
        claim = self._introduced(line, messages)
        if not hmac.compare_digest(claim.secret, self.secret):
            log.warning("a lease was asked for with a wrong secret and refused")
            return
        landlord = self._landlords[claim.flow]
        line.send({"assignment": landlord.grant(line, claim).encode()})
        for message in messages:
            landlord.heard(line, claim, message)

    def _introduced(self, line: Line, messages: Iterator[dict[str, Any]]) -> Claim:
        """Return who a stranger says it is; one that does not say it soon is hung up on."""
        patience = threading.Timer(_HELLO_SECONDS, line.hang_up)
        patience.daemon = True
        patience.start()
        try:
            return Claim(**next(messages, {})["hello"])
        finally:
            patience.cancel()
            self._strangers.release()
