"""A client of Connect's REST API, with what its users expect of one: sentences, and patience while it rebalances."""

import base64
import json
import ssl
import time
import urllib.request
from collections.abc import Callable, Mapping
from datetime import timedelta
from http import HTTPStatus
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import SplitResult, quote, unquote, urlsplit

from heliograph.connect.herder import RestError
from heliograph.errors import ConfigError, MirrorError

_PATIENCE = timedelta(seconds=90)  # Connect itself gives a request that long
_PAUSES = (timedelta(seconds=0.5), timedelta(seconds=1), timedelta(seconds=2), timedelta(seconds=4))


class NobodyAnswers(MirrorError):
    """There is no REST API at a URL."""

    exit_code = 3

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(url, reason)
        self.url = url
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"nobody answers at {self.url} ({self.reason}). "
            "Start a worker with `heliograph worker FILE`, or give the address of one with --url."
        )


class ConnectApi:
    """A worker's REST API. A refusal is a RestError; a name that is not known is one with status 404."""

    def __init__(
        self,
        url: str,
        sleep: Callable[[float], None] = time.sleep,
        *,
        authorization: str | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Take the address, which may hold a user and a password: they are sent and never shown."""
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme not in ("http", "https") or not parts.hostname or not _has_port(parts):
            raise ConfigError("--url: write an address such as http://localhost:8083.")
        self.url = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl().rstrip("/")
        self._headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if parts.username is not None:
            who = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers["Authorization"] = f"Basic {base64.b64encode(who.encode()).decode()}"
        if authorization is not None:
            self._headers["Authorization"] = authorization
        self._tls = tls
        self._sleep = sleep

    def get(self, path: str, within: timedelta = _PATIENCE) -> Any:
        """Return what one of our own routes tells."""
        return self._send("GET", path, None, within)

    def names(self) -> list[str]:
        return sorted(self._ask("GET", "/connectors"))

    def status(self, name: str) -> dict[str, Any] | None:
        """Return what a connector and its tasks do, None where there is none."""
        return self._find(_path(name, "status"))

    def config(self, name: str) -> dict[str, str] | None:
        return self._find(_path(name, "config"))

    def put_config(self, name: str, config: Mapping[str, str]) -> None:
        self._ask("PUT", _path(name, "config"), dict(config))

    def delete(self, name: str) -> None:
        self._ask("DELETE", _path(name))

    def set_state(self, name: str, verb: str) -> None:
        """Pause, resume or stop a connector."""
        self._ask("PUT", _path(name, verb))

    def restart(self, name: str, *, tasks: bool, only_failed: bool) -> None:
        query = f"?includeTasks={tasks}&onlyFailed={only_failed}".lower()
        self._ask("POST", _path(name, "restart") + query)

    def offsets(self, name: str) -> list[dict[str, Any]]:
        return list(self._ask("GET", _path(name, "offsets"))["offsets"])

    def alter_offsets(self, name: str, offsets: list[Any] | None) -> str:
        """Set positions of a stopped connector, or reset all with None; return what it says to that."""
        if offsets is None:
            answer = self._ask("DELETE", _path(name, "offsets"))
        else:
            answer = self._ask("PATCH", _path(name, "offsets"), {"offsets": offsets})
        return str(answer["message"])

    def _find(self, path: str) -> dict[str, Any] | None:
        try:
            return dict(self._ask("GET", path))
        except RestError as exc:
            if exc.status != HTTPStatus.NOT_FOUND:
                raise
            return None

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        """Send a request, and again for some seconds while the answer is 409: the workers rebalance."""
        for pause in _PAUSES:
            try:
                return self._send(method, path, body)
            except RestError as exc:
                if exc.status != HTTPStatus.CONFLICT:
                    raise
            self._sleep(pause.total_seconds())
        return self._send(method, path, body)

    def _send(self, method: str, path: str, body: object, within: timedelta = _PATIENCE) -> Any:
        sent = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(  # noqa: S310 - the scheme was checked
            self.url + path, sent, self._headers, method=method
        )
        try:
            with urllib.request.urlopen(  # noqa: S310
                request, timeout=within.total_seconds(), context=self._tls
            ) as answer:
                text = answer.read()
        except HTTPError as exc:
            with exc:
                raise RestError(exc.code, self._why(exc.code, exc.read())) from exc
        except (OSError, HTTPException) as exc:  # URLError is an OSError
            reason = getattr(exc, "reason", None) or exc
            if isinstance(reason, ssl.SSLCertVerificationError):
                raise ConfigError(
                    f"{self.url}: its certificate is not trusted ({reason.verify_message}). "
                    "Name who vouches for it with --cacert, and the host as the certificate does."
                ) from exc
            told = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
            raise NobodyAnswers(self.url, str(told).lower()) from exc
        return self._parse(text) if text.strip() else None

    def _why(self, status: int, content: bytes) -> str:
        """Return Connect's own sentence; what is not Connect's gets one of ours."""
        try:
            message = json.loads(content)["message"]
        except (ValueError, KeyError, TypeError):
            return (
                f"{self.url} answers {status} {_phrase(status)}, and not as Connect does. "
                "Check that --url is the address of a worker."
            )
        told = str(message).strip() or f"{self.url} answers {status} {_phrase(status)}."
        hint = " Give --user or --token-file." if status == HTTPStatus.UNAUTHORIZED else ""
        return told + hint

    def _parse(self, content: bytes) -> Any:
        try:
            return json.loads(content)
        except ValueError as exc:
            raise RestError(
                HTTPStatus.OK,
                f"{self.url} answers something that is not JSON. "
                "Check that --url is the address of a worker.",
            ) from exc


def _path(name: str, *below: str) -> str:
    return "/".join(("/connectors", quote(name, safe=""), *below))


def _has_port(parts: SplitResult) -> bool:
    try:
        return parts.port != 0
    except ValueError:
        return False


def _phrase(status: int) -> str:
    return HTTPStatus(status).phrase if status in {known.value for known in HTTPStatus} else ""
