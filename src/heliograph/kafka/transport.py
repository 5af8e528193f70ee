"""One blocking connection to one broker: frames, TLS, SASL, and kafka-python's codecs on top.

The hot path (fetch, produce) sends lists of buffers and receives whole frames; everything else goes
through `Channel.call`, which negotiates the version of each API once per connection.
"""

import socket
import ssl
import struct
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

from kafka.net.sasl import get_sasl_mechanism
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from heliograph.errors import CorruptRecord, KafkaFault
from heliograph.kafka.faults import fault_for
from heliograph.kafka.tls import tls_context
from heliograph.model import Endpoint, Sasl

REQUEST_TIMEOUT = timedelta(seconds=30)
CONNECT_TIMEOUT = timedelta(seconds=10)

_SOCKET_BUFFER = 4 << 20
_MAX_PARTS = 512  # buffers per sendmsg; the kernel's limit (IOV_MAX) is 1024
_MAX_FRAME = 512 << 20
_LENGTH = struct.Struct(">i")

Part = bytes | bytearray | memoryview


class Channel:
    """A connection to one broker; not thread-safe, and dead after the first error."""

    def __init__(
        self, endpoint: Endpoint, host: str, port: int, within: timedelta = REQUEST_TIMEOUT
    ) -> None:
        """Connect; no answer, and no part of the way to the first, is waited for longer than `within`."""
        self.host = host
        self.port = port
        self._client_id = endpoint.client_id
        self.correlation = 0
        self._versions: dict[int, tuple[int, int]] = {}
        self._socket: socket.socket = socket.create_connection(
            (host, port), timeout=min(CONNECT_TIMEOUT, within).total_seconds()
        )
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SOCKET_BUFFER)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BUFFER)
            if endpoint.tls is not None:
                context = tls_context(endpoint.tls)
                self._socket = context.wrap_socket(self._socket, server_hostname=host)
            self._socket.settimeout(min(REQUEST_TIMEOUT, within).total_seconds())
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
        """Give answers that much time from now on, for requests that a broker holds back."""
        self._socket.settimeout(within.total_seconds())

    def pending(self) -> bool:
        """Whether decrypted bytes wait inside TLS, where `select` cannot see them."""
        return isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0

    def supports(self, api_key: int, version: int) -> bool:
        low, high = self._versions.get(api_key, (0, -1))
        return low <= version <= high

    def next_header(self, api_key: int, version: int, *, flexible: bool) -> bytes:
        """Return the header of the next request; its response must be read in this order."""
        self.correlation = (self.correlation + 1) & 0x7FFFFFFF
        name = self._client_id.encode()
        head = struct.pack(">hhih", api_key, version, self.correlation, len(name)) + name
        return head + b"\0" if flexible else head

    def send(self, parts: Sequence[Part]) -> None:
        """Send one frame made of `parts` without joining them."""
        total = sum(map(len, parts))
        queue: list[Part] = [_LENGTH.pack(total), *parts]
        if not self._scatter:
            self._socket.sendall(b"".join(queue))
            return
        at = 0
        left = total + 4
        while left:
            sent = self._socket.sendmsg(queue[at : at + _MAX_PARTS])
            left -= sent
            while sent:
                size = len(queue[at])
                if sent < size:
                    queue[at] = memoryview(queue[at])[sent:]
                    break
                sent -= size
                at += 1

    def receive(self) -> memoryview:
        """Return the next frame, without its length."""
        return self.receive_into(bytearray(0))

    def receive_into(self, buffer: bytearray) -> memoryview:
        """Return the next frame as a view of `buffer`, or of a new one where it is too small."""
        head = bytearray(4)
        self._fill(memoryview(head))
        (size,) = _LENGTH.unpack(head)
        if not 4 <= size <= _MAX_FRAME:
            raise CorruptRecord(f"{self.host}:{self.port} sent a frame of {size} bytes")
        frame = memoryview(buffer if size <= len(buffer) else bytearray(size))[:size]
        self._fill(frame)
        return frame

    def call(self, request: Any, newest: int | None = None) -> Any:
        """Send `request` in the newest version both sides know, at most `newest`; return the response.

        Any, because kafka-python's messages carry no types.
        """
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
        response = request.header.get_response_class().decode(
            self.receive(), version=version, header=True
        )
        if response.header.correlation_id != self.correlation:
            raise CorruptRecord(
                f"{self.host}:{self.port} answered another request than the one sent"
            )
        return response

    def _fill(self, view: memoryview) -> None:
        while view:
            got = self._socket.recv_into(view)
            if got == 0:
                raise ConnectionResetError(f"{self.host}:{self.port} closed the connection")
            view = view[got:]

    def _negotiate(self) -> None:
        request = ApiVersionsRequest(
            client_software_name="heliograph", client_software_version="0.1"
        )
        response: ApiVersionsResponse = self._exchange(request, 3)
        if response.error_code:
            response = self._exchange(ApiVersionsRequest(), 0)
        if response.error_code:
            raise fault_for(f"ask {self.host}:{self.port} for its versions", response.error_code)
        self._versions = {
            api.api_key: (api.min_version, api.max_version) for api in response.api_keys
        }

    def _authenticate(self, sasl: Sasl) -> None:
        doing = f"authenticate to {self.host}:{self.port} by {sasl.mechanism}"
        shaken = self.call(SaslHandshakeRequest(mechanism=sasl.mechanism), newest=1)
        if shaken.error_code:
            raise fault_for(doing, shaken.error_code)
        options = dict(sasl.options)
        mechanism = get_sasl_mechanism(sasl.mechanism)(
            host=self.host,
            sasl_mechanism=sasl.mechanism,
            sasl_plain_username=options.get("username"),
            sasl_plain_password=options.get("password"),
            sasl_kerberos_service_name=options.get("serviceName", "kafka"),
            sasl_kerberos_domain_name=options.get("domainName"),
            sasl_oauth_token_provider=_StaticToken(options.get("token", "")),
        )
        while not mechanism.is_done():
            answer = self.call(SaslAuthenticateRequest(auth_bytes=mechanism.auth_bytes()))
            if answer.error_code:
                raise fault_for(doing, answer.error_code)
            mechanism.receive(bytes(answer.auth_bytes))
        if not mechanism.is_authenticated():
            raise KafkaFault(doing, "SASL_AUTHENTICATION_FAILED", False)


class _StaticToken:
    """Hands kafka-python's OAUTHBEARER the token that the JAAS line holds."""

    def __init__(self, token: str) -> None:
        self._token = token

    def token(self) -> str:
        return self._token

    def extensions(self) -> dict[str, str]:
        return {}
