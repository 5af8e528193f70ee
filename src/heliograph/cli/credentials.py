"""How a command reaches a worker that asks who it is."""

import base64
import os
import ssl
from pathlib import Path
from typing import Annotated

import typer

from heliograph.cli.rest import ConnectApi
from heliograph.errors import ConfigError

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


def open_api(
    url: str, user: str | None, token_file: Path | None, cacert: Path | None
) -> ConnectApi:
    """Return the API at a URL, for who these options say."""
    if user is not None and token_file is not None:
        raise ConfigError("log in with --user or with --token-file, not with both.")
    tls = None if cacert is None else _trusting(cacert)
    return ConnectApi(url, authorization=_authorization(user, token_file), tls=tls)


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
