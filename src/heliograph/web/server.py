"""The API on a port, in a thread of this process."""

import socket
import threading
from datetime import timedelta

import uvicorn
from fastapi import FastAPI

from heliograph.errors import ConfigError

_PATIENCE = timedelta(seconds=10)


class Server:
    """An app that is served; `url` is known once it has started."""

    def __init__(self, app: FastAPI, host: str = "127.0.0.1", port: int = 0) -> None:
        self._host = host
        self._port = port
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=int(_PATIENCE.total_seconds()),
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._serve, name="rest", daemon=True)
        self._socket: socket.socket | None = None

    @property
    def url(self) -> str:
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}"

    def start(self) -> None:
        """Listen, and answer from now on; a port that is taken is told here."""
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
        """Answer what is under way, within 10 seconds, and let the port go."""
        if self._socket is None:
            return
        self._server.should_exit = True
        self._thread.join(2 * _PATIENCE.total_seconds())
        self._socket.close()
        self._socket = None

    def _serve(self) -> None:
        assert self._socket is not None
        self._server.run(sockets=[self._socket])
