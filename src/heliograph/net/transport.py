"""One connection to one broker: frames, TLS, SASL, and kafka-python's codecs on top.

A thread that waits sets it up and sends requests through `call`. Fetch and produce do not wait: `send` queues a list of
buffers and sends what the kernel accepts, `poll_frame` returns a frame once it is complete, and `interest` returns the
events to poll for meanwhile. The two ways may alternate while no answer is owed.
"""

import select
import socket
import ssl
import struct
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from itertools import islice
from typing import Any

from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from heliograph.errors import CorruptRecord, KafkaFault
from heliograph.model import Endpoint, Sasl
from heliograph.net.codecs import decode_answer, misread
from heliograph.net.faults import fault_for
from heliograph.net.sasl import Refused, log_in
from heliograph.net.tls import tls_context

REQUEST_TIMEOUT = timedelta(seconds=30)
CONNECT_TIMEOUT = timedelta(seconds=10)

_SOCKET_BUFFER = 4 << 20
_MAX_PARTS = 512  # buffers per sendmsg; the kernel's limit (IOV_MAX) is 1024
_MAX_FRAME = 512 << 20
_PROMPT_BYTES = 16 << 20  # an answer that is n times as large may take n times the timeout
_LENGTH = struct.Struct(">i")
_REQUEST = struct.Struct(">hhi")
_TRICKLE = 10  # times its patience that an answer may take if it arrives in small parts
_SESSION_PART = 0.8  # fraction of a session's lifetime after which to log in again (KIP-368)
_SESSION_LEAST = 1.1  # seconds; a broker disconnects a client that logs in again within one

Part = bytes | bytearray | memoryview
Room = Callable[[int], memoryview | None]


def no_room(_size: int) -> memoryview | None:
    return None


class Channel:
    """A connection to one broker; not thread-safe, and unusable after the first error."""

    def __init__(
        self, endpoint: Endpoint, host: str, port: int, within: timedelta = REQUEST_TIMEOUT
    ) -> None:
        """Connect; no answer, and no step towards the first, may take longer than `within`."""
        self.host = host
        self.port = port
        self._client_id = endpoint.client_id
        name = self._client_id.encode()
        self._name = struct.pack(">h", len(name)) + name
        self.correlation = 0
        self._versions: dict[int, tuple[int, int]] = {}
        self._hurried = False
        self._sasl = endpoint.sasl
        self._owed = 0
        self._patience = min(REQUEST_TIMEOUT, within).total_seconds()
        self._waits = True
        self._out: deque[Part] = deque()
        self._head = bytearray(4)
        self._got = 0
        self._wanted = 0
        self._frame: memoryview | None = None
        self.heard_at = time.monotonic()
        self._log_in_again_at = float("inf")
        self._socket = _connect(host, port, min(CONNECT_TIMEOUT, within))
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SOCKET_BUFFER)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BUFFER)
            if endpoint.tls is not None:
                self._socket = _shake_hands(self._socket, tls_context(endpoint.tls), host)
            self._socket.settimeout(self._patience)
            self._negotiate()
            if endpoint.sasl is not None:
                self._authenticate(endpoint.sasl)
        except BaseException:
            self.close()
            raise
        self._scatter = endpoint.tls is None

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        with suppress(OSError):
            self._socket.close()

    def wait_up_to(self, within: timedelta) -> None:
        """Let answers take up to `within` from now on, for requests that a broker holds back."""
        self._hurried = True
        self._patience = within.total_seconds()
        if self._waits:
            self._socket.settimeout(self._patience)

    def interest(self) -> int:
        """Return the events to poll for."""
        return select.POLLIN | select.POLLOUT if self._out else select.POLLIN

    def pending(self) -> bool:
        """Whether TLS has buffered bytes, which `poll` cannot see."""
        return isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0

    def is_silent(self, asked_at: float, patience: float) -> bool:
        """Whether an answer requested at `asked_at` is overdue: no byte for `patience` seconds, or too few in all."""
        now = time.monotonic()
        return now - max(asked_at, self.heard_at) > patience or now - asked_at > _TRICKLE * patience

    @property
    def is_sending(self) -> bool:
        """Whether some queued bytes have not been accepted by the kernel."""
        return bool(self._out)

    @property
    def owes(self) -> bool:
        """Whether an answer is still to come."""
        return self._owed > 0

    @property
    def expires(self) -> bool:
        """Whether the SASL session ends soon: a broker closes a connection that continues without one."""
        return time.monotonic() >= self._log_in_again_at

    def supports(self, api_key: int, version: int) -> bool:
        low, high = self._versions.get(api_key, (0, -1))
        return low <= version <= high

    def next_header(self, api_key: int, version: int, *, flexible: bool) -> bytes:
        """Return the header of the next request; its response must be read in this order."""
        self.correlation = (self.correlation + 1) & 0x7FFFFFFF
        head = _REQUEST.pack(api_key, version, self.correlation) + self._name
        return head + b"\0" if flexible else head

    def send(self, parts: Sequence[Part]) -> None:
        """Queue one frame made of `parts`, without joining them, and send what the kernel accepts now."""
        self._set_waiting(waits=False)
        self._owed += 1
        total = sum(map(len, parts))
        if self._scatter:
            self._out.append(_LENGTH.pack(total))
            self._out.extend(parts)
        else:
            self._out.append(b"".join([_LENGTH.pack(total), *parts]))
        self.flush()

    def flush(self) -> None:
        """Send as much of the queue as the kernel accepts."""
        out = self._out
        try:
            while out:
                if self._scatter:
                    self._sent(self._socket.sendmsg([*islice(out, _MAX_PARTS)]))
                else:
                    self._sent(self._socket.send(out[0]))
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            pass

    def _sent(self, count: int) -> None:
        out = self._out
        while count:
            size = len(out[0])
            if count < size:
                # TLS wants the same bytes again after it had to wait, so a joined frame is cut only here.
                out[0] = memoryview(out[0])[count:]
                return
            count -= size
            out.popleft()

    def poll_frame(self, buffer: bytearray, room: Room = no_room) -> memoryview | None:
        """Return the next frame if it is complete: in what `room` offers for its size, in `buffer`, or in a new one."""
        self._set_waiting(waits=False)
        if self._frame is None:
            if not self._receive(memoryview(self._head)):
                return None
            self._wanted = self._size()
            self._frame = self._place_for(self._wanted, buffer, room)
            self._got = 0
        while True:
            if not self._receive(self._frame):
                return None
            if len(self._frame) == self._wanted:
                break
            grown = bytearray(min(self._wanted, 2 * len(self._frame)))
            grown[: len(self._frame)] = self._frame
            self._frame = memoryview(grown)
        frame, self._frame, self._got = self._frame, None, 0
        self._owed -= 1
        return frame

    def _receive(self, view: memoryview) -> bool:
        """Receive the available bytes into a view; return whether it is full."""
        while self._got < len(view):
            try:
                got = self._socket.recv_into(view[self._got :])
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return False
            if got == 0:
                raise ConnectionResetError(f"{self.host}:{self.port} closed the connection")
            self._got += got
            self.heard_at = time.monotonic()
        return True

    def _place_for(self, size: int, buffer: bytearray, room: Room) -> memoryview:
        offered = room(size)
        if offered is not None:
            return offered[:size]
        if size <= len(buffer):
            return memoryview(buffer)[:size]
        # Memory is not allocated yet for what is only announced.
        return memoryview(bytearray(min(size, _PROMPT_BYTES)))

    def _size(self) -> int:
        (size,) = _LENGTH.unpack(self._head)
        if not 4 <= size <= _MAX_FRAME:
            raise CorruptRecord(f"{self.host}:{self.port} sent a frame of {size} bytes")
        return int(size)

    def _set_waiting(self, *, waits: bool) -> None:
        if waits is not self._waits:
            self._waits = waits
            self._socket.settimeout(self._patience if waits else 0.0)

    def receive(self) -> memoryview:
        """Return the next frame, without its length; waits for it."""
        self._set_waiting(waits=True)
        self._owed -= 1
        return self._read_whole()

    def _read_whole(self) -> memoryview:
        self._fill(memoryview(self._head))
        size = self._size()
        # Memory is not allocated yet for what is only announced.
        buffer = bytearray(min(size, _PROMPT_BYTES))
        got = len(buffer)
        deadline = self._deadline(size)
        self._fill(memoryview(buffer), deadline)
        while got < size:
            buffer += bytes(min(got, size - got))
            self._fill(memoryview(buffer)[got:], deadline)
            got = len(buffer)
        return memoryview(buffer)

    def _deadline(self, size: int) -> float:
        """Return the time by which an answer of `size` must be complete; a large one may take longer."""
        patience = self._patience
        if not self._hurried:
            patience *= max(1.0, size / _PROMPT_BYTES)
        return time.monotonic() + patience

    def call(self, request: Any, newest: int | None = None) -> Any:
        """Send `request` in the newest version both sides know, at most `newest`; return the response.

        Any, because kafka-python's messages carry no types.
        """
        self._set_waiting(waits=True)
        if self._sasl is not None and self.expires:
            self._log_in_again(self._sasl)
        low, high = self._versions.get(request.API_KEY, (0, -1))
        version = min(high, request.max_version if newest is None else newest)
        if version < low:
            raise KafkaFault(f"call {request.name}", "UNSUPPORTED_VERSION", False)
        return self._exchange(request, version)

    def _exchange(self, request: Any, version: int) -> Any:
        self.correlation = (self.correlation + 1) & 0x7FFFFFFF
        request.API_VERSION = version
        request.with_header(correlation_id=self.correlation, client_id=self._client_id)
        self._socket.sendall(request.encode(header=True, framed=True))
        frame = self._read_whole()
        response = decode_answer(request, version, frame, f"{self.host}:{self.port}")
        if response.header.correlation_id != self.correlation:
            raise CorruptRecord(
                f"{self.host}:{self.port} answered another request than the one sent"
            )
        return response

    def _fill(self, view: memoryview, deadline: float | None = None) -> None:
        """Receive as many bytes as `view` has; most arrive at once, so a deadline is set only for those that do not."""
        while True:
            got = self._socket.recv_into(view)
            if got == len(view):
                return
            if got == 0:
                raise ConnectionResetError(f"{self.host}:{self.port} closed the connection")
            view = view[got:]
            if deadline is None:
                deadline = self._deadline(len(view))
            if time.monotonic() > deadline:
                # A socket's timeout applies to each part: bytes that trickle in never reach it.
                raise TimeoutError(f"{self.host}:{self.port} did not finish an answer in time")

    def _negotiate(self) -> None:
        request = ApiVersionsRequest(
            client_software_name="heliograph", client_software_version="0.1"
        )
        response: ApiVersionsResponse = self._exchange(request, 3)
        if response.error_code:
            response = self._exchange(ApiVersionsRequest(), 0)
        if response.error_code:
            raise fault_for(f"ask {self.host}:{self.port} for its versions", response.error_code)
        with misread(f"what {self.host}:{self.port} said of its versions"):
            self._versions = {
                api.api_key: (api.min_version, api.max_version) for api in response.api_keys
            }

    def _log_in_again(self, sasl: Sasl) -> None:
        try:
            self._authenticate(sasl)
        except KafkaFault as exc:
            # The connection ends here; the next attempt to open it fails with the reason.
            raise ConnectionAbortedError(str(exc)) from exc

    def _authenticate(self, sasl: Sasl) -> None:
        doing = f"authenticate to {self.host}:{self.port} by {sasl.mechanism}"
        self._log_in_again_at = float("inf")
        began = time.monotonic()
        login = log_in(sasl, self.host)
        shaken = self.call(SaslHandshakeRequest(mechanism=sasl.mechanism), newest=1)
        if shaken.error_code:
            offered = ", ".join(map(str, shaken.mechanisms)) or "none"
            raise KafkaFault(doing, f"that it offers {offered}", retriable=False)
        lifetime_ms = 0
        try:
            message = next(login)
            while True:
                answer = self.call(SaslAuthenticateRequest(auth_bytes=message), newest=2)
                if answer.error_code:
                    raise fault_for(doing, answer.error_code)
                lifetime_ms = getattr(answer, "session_lifetime_ms", 0) or 0
                message = login.send(bytes(answer.auth_bytes))
        except StopIteration:
            pass
        except Refused as exc:
            raise KafkaFault(doing, f"what no honest broker does: {exc}", False) from exc
        if lifetime_ms > 0:
            life = max(lifetime_ms / 1000 * _SESSION_PART, _SESSION_LEAST)
            self._log_in_again_at = began + life


def _connect(host: str, port: int, within: timedelta) -> socket.socket:
    try:
        return socket.create_connection((host, port), timeout=within.total_seconds())
    except (
        ValueError,
        OverflowError,
        TypeError,
    ) as exc:  # a broker may report any address for another one
        raise ConnectionAbortedError(f"{str(host)[:100]!r}:{port} is no address") from exc


def _shake_hands(plain: socket.socket, context: ssl.SSLContext, host: str) -> ssl.SSLSocket:
    """Return the encrypted socket; for an untrusted broker, the error names the reason and the key to set."""
    try:
        return context.wrap_socket(plain, server_hostname=host)
    except ssl.SSLCertVerificationError as exc:
        raise ConnectionAbortedError(
            f"is not believed ({exc.verify_message}); see ssl.truststore.location"
        ) from exc
    except ssl.SSLError as exc:
        why = (exc.reason or "no reason given").replace("_", " ").lower()
        raise ConnectionAbortedError(
            f"TLS failed ({why}); see security.protocol and ssl.*"
        ) from exc
