"""The API on a port, in a thread of this process."""

import asyncio
import logging
import socket
import ssl
import threading
from collections.abc import Mapping
from datetime import timedelta

import uvicorn
from fastapi import FastAPI

from heliograph.config.listeners import Https, Listener, read_https
from heliograph.config.settings_rest import ClientAuth, RestSettings
from heliograph.config.settings_worker import WorkerSettings
from heliograph.errors import ConfigError
from heliograph.web.access import Access, guard
from heliograph.web.certificates import server_context

log = logging.getLogger(__name__)

_PATIENCE = timedelta(seconds=10)
_LOOK_EVERY = timedelta(seconds=0.5)


class _Calm(uvicorn.Server):
    """Checks twice a second whether to end, not ten times: an idle mirror has nothing else to do."""

    async def main_loop(self) -> None:
        while not await self.on_tick(0):  # noqa: ASYNC110 - a flag set by another thread ends it
            await asyncio.sleep(_LOOK_EVERY.total_seconds())


class Server:
    """An app that is served; `url` is known once it has started."""

    def __init__(
        self,
        app: FastAPI,
        host: str = "127.0.0.1",
        port: int = 0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._app = app
        self._host = host
        self._port = port
        self._scheme = "https" if tls else "http"
        config = uvicorn.Config(
            app,
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=int(_PATIENCE.total_seconds()),
        )
        if tls is not None:
            config.load()
            config.ssl = tls
        self._server = _Calm(config)
        self._thread = threading.Thread(target=self._serve, name="rest", daemon=True)
        self._socket: socket.socket | None = None

    @property
    def url(self) -> str:
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{self._scheme}://{host}:{self._port}"

    def start(self) -> None:
        """Listen, and answer from now on; a port that is in use is reported here."""
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        listening = socket.socket(family)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((self._host, self._port))
        except OSError as exc:
            listening.close()
            raise ConfigError(
                f"listeners: {self._host}:{self._port} cannot be listened at ({exc.strerror}). "
                "Choose another port, or stop who has it."
            ) from exc
        listening.listen(128)
        self._socket = listening
        self._port = listening.getsockname()[1]
        self._thread.start()

    def stop(self) -> None:
        """End fail-overs within 30 seconds, answer requests in progress within 10, and release the port."""
        if self._socket is None:
            return
        if (failovers := getattr(self._app.state, "failovers", None)) is not None:
            failovers.close()
        if (live := getattr(self._app.state, "live", None)) is not None:
            live.end()  # a stream does not end by itself, and would be waited for
        self._server.should_exit = True
        self._thread.join(2 * _PATIENCE.total_seconds())
        self._socket.close()
        self._socket = None

    def _serve(self) -> None:
        assert self._socket is not None
        self._server.run(sockets=[self._socket])


def make_server(app: FastAPI, listener: Listener, props: Mapping[str, str]) -> Server:
    """Return a server of this app as the operator's settings say: TLS, logins, pages of other sites."""
    access = guard(app, props, listener)
    https = read_https(props) if listener.is_https else None
    extensions = WorkerSettings.rest_extension_classes
    asked = any("BasicAuth" in name for name in extensions.read(props))
    if access is None and asked:
        log.warning(
            "no login is asked for, because a Java class of %s cannot be loaded; set %s.",
            extensions.name,
            RestSettings.rest_access_file.name,
        )
    elif (warning := _exposed(listener, access, https)) is not None:
        log.warning("%s", warning)
    tls = server_context(https) if https else None
    return Server(app, listener.host, listener.port, tls)


def _exposed(listener: Listener, access: Access | None, https: Https | None) -> str | None:
    """Return what is risky about where the API listens."""
    if listener.is_local:
        return None
    if access is not None:
        return (
            None
            if https
            else (f"logins come to {listener.url} unencrypted; listen at https:// instead.")
        )
    if https is not None and https.client_auth is ClientAuth.REQUIRED:
        return None
    return (
        f"everybody who reaches {listener.host}:{listener.port} can change what is mirrored, because "
        f"no login is asked for; set {RestSettings.rest_access_file.name}, or listen at 127.0.0.1."
    )
