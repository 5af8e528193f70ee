"""How a command reaches a worker that asks who it is."""

import base64
import inspect
import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from heliograph.cli.rest import ConnectApi
from heliograph.errors import ConfigError

Url = Annotated[
    str, typer.Option(envvar="HELIOGRAPH_URL", help="A worker; any one of a group will do.")
]
User = Annotated[
    str | None,
    typer.Option(
        envvar="HELIOGRAPH_USER",
        metavar="NAME",
        help="Log in as; the password is asked for, or taken from HELIOGRAPH_PASSWORD.",
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        envvar="HELIOGRAPH_TOKEN_FILE", metavar="FILE", help="Log in with the token in this file."
    ),
]
CaCert = Annotated[
    Path | None,
    typer.Option(
        envvar="HELIOGRAPH_CACERT", metavar="FILE", help="PEM of who vouches for the worker."
    ),
]


Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@dataclass(frozen=True, slots=True)
class Asked:
    """Which worker a command asks, as whom, and how it shows the answer: options of them all."""

    url: Url = "http://localhost:8083"
    user: User = None
    token_file: TokenFile = None
    cacert: CaCert = None
    as_json: Json = False

    def open(self) -> ConnectApi:
        """Return the API for who these options say; a password may be asked for."""
        if self.user is not None and self.token_file is not None:
            raise ConfigError("log in with --user or with --token-file, not with both.")
        tls = None if self.cacert is None else _trusting(self.cacert)
        authorization = _authorization(self.user, self.token_file)
        return ConnectApi(self.url, authorization=authorization, tls=tls)


def asks_a_worker(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with the options of Asked in place of its first parameter, for typer to read."""
    shared = inspect.signature(Asked).parameters
    own = inspect.signature(command).parameters
    parameters = [*list(own.values())[1:], *shared.values()]
    keywords = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters]

    def call(**given: Any) -> None:
        asked = Asked(**{name: given.pop(name) for name in shared})
        command(asked, **given)

    call.__doc__ = command.__doc__
    call.__name__ = command.__name__
    call.__annotations__ = {p.name: p.annotation for p in parameters}
    call.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]  # read by inspect
    return call


def _authorization(user: str | None, token_file: Path | None) -> str | None:
    if token_file is not None:
        return f"Bearer {_read_token(token_file)}"
    if user is None:
        return None
    if ":" in user:
        raise ConfigError(f"--user {user}: a name has no colon; the password is asked for.")
    password = os.environ.get("HELIOGRAPH_PASSWORD")
    if password is None:
        password = str(typer.prompt(f"Password of {user}", hide_input=True, err=True))
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


def _read_token(file: Path) -> str:
    try:
        token = file.read_text().strip()
    except (OSError, ValueError) as exc:
        why = getattr(exc, "strerror", None) or "it is no text"
        raise ConfigError(f"--token-file {file}: it cannot be read ({why}).") from exc
    if not token.isascii() or len(token.split()) != 1:
        raise ConfigError(
            f"--token-file {file}: it must hold one token, as `heliograph access add --token` prints it."
        )
    return token


def _trusting(cacert: Path) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=cacert)
    except (OSError, ValueError) as exc:
        why = "it holds no certificates" if isinstance(exc, ssl.SSLError) else str(exc)
        raise ConfigError(f"--cacert {cacert}: it cannot be used ({why}).") from exc
