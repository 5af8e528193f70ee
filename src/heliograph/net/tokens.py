"""Tokens for OAUTHBEARER, from the source that the settings name, kept until they are due for renewal.

Unsecured ones are written here from the JAAS line, for brokers in their default mode, which is for
development. Others are fetched with a client's id and secret, or read from a file. No token and no
secret ever appears in a message.
"""

import base64
import json
import logging
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from heliograph.errors import ConfigError, TokenRefused
from heliograph.model import Sasl
from heliograph.net.token_endpoint import fetch_token

log = logging.getLogger(__name__)

_URL = "sasl.oauthbearer.token.endpoint.url"
_RETRIEVER = "sasl.oauthbearer.jwt.retriever.class"
_ASSERTION = "JwtBearerJwtRetriever"


@dataclass(frozen=True, slots=True)
class Token:
    """A token and its extensions; `expires` is in seconds since the epoch, None if unknown."""

    text: str = field(repr=False)
    expires: float | None
    extensions: tuple[tuple[str, str], ...] = field(default=(), repr=False)


def token_for(sasl: Sasl) -> Token:
    """Return a token that is valid now; raise TokenRefused if there is none."""
    return _keeper(sasl).current()


class TokenKeeper:
    """The token of one login; thread-safe."""

    def __init__(
        self,
        get: Callable[[], Token],
        options: Mapping[str, str],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._get = get
        self._options = options
        self._clock = clock
        self._lock = threading.Lock()
        self._token: Token | None = None
        self._due = 0.0

    def current(self) -> Token:
        """Return the token, renewed once it is due; if renewal is refused, the old one is used while it is valid."""
        with self._lock:
            now = self._clock()
            if self._token is None or now >= self._due:
                self._renew(now)
            assert self._token is not None
            return self._token

    def _renew(self, now: float) -> None:
        try:
            token = self._get()
        except TokenRefused as exc:
            if self._token is None or now >= (self._token.expires or now):
                raise
            log.warning("%s The token that we have is used on.", exc)
            self._due = now + 1
            return
        self._token = token
        self._due = now if token.expires is None else plan_renewal(now, token, self._options)


def plan_renewal(
    now: float, token: Token, options: Mapping[str, str], jitter: float | None = None
) -> float:
    """Return when a token is due for renewal, by Java's `sasl.login.refresh.*`."""

    def number(name: str, default: float) -> float:
        return float(options.get(f"sasl.login.refresh.{name}", default))

    assert token.expires is not None
    life = token.expires - now
    part = number("window.factor", 0.8)
    part += number("window.jitter", 0.05) * (random.random() if jitter is None else jitter)  # noqa: S311
    due = now + life * part
    least, buffer = number("min.period.seconds", 60), number("buffer.seconds", 300)
    if least + buffer < life:
        due = min(max(due, now + least), token.expires - buffer)
    return due


def unsecured_token(options: Mapping[str, str], now: float) -> Token:
    """Write an unsigned token with the claims of the JAAS line."""
    claims: dict[str, Any] = {}
    for prefix, read in (
        ("unsecuredLoginStringClaim_", str),
        ("unsecuredLoginNumberClaim_", float),
        ("unsecuredLoginListClaim_", _list),
    ):
        for name, value in options.items():
            if name.startswith(prefix):
                claims[name.removeprefix(prefix)] = read(value)
    principal = options.get("unsecuredLoginPrincipalClaimName", "sub")
    if principal not in claims:
        raise ConfigError(
            f"sasl.jaas.config: OAUTHBEARER needs unsecuredLoginStringClaim_{principal}, or {_URL}."
        )
    expires = now + float(options.get("unsecuredLoginLifeSeconds", "3600"))
    claims = {"iat": now, "exp": expires, **claims}
    parts = (_encode({"alg": "none"}), _encode(claims), "")
    return Token(".".join(parts), expires, _extensions(options, "unsecuredLoginExtension_"))


def expiry(text: str) -> float | None:
    """Return when a token says that it expires; None if it does not say or is no JWT."""
    parts = text.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return float(claims["exp"])
    except (ValueError, KeyError, TypeError):
        return None


@lru_cache(maxsize=64)
def _keeper(sasl: Sasl) -> TokenKeeper:
    options = dict(sasl.options)
    return TokenKeeper(_getter(sasl, options), options)


def _getter(sasl: Sasl, options: dict[str, str]) -> Callable[[], Token]:
    """Return the function that gets a token, as the settings define it."""
    if options.get(_RETRIEVER, "").endswith(_ASSERTION):
        raise ConfigError(f"{_RETRIEVER}: signed assertions are not here; use client credentials.")
    if token := options.get("token"):
        return lambda: Token(token, expiry(token))
    url = options.get(_URL)
    if url is None:
        return lambda: unsecured_token(options, time.time())
    extensions = _extensions(options, "extension_")
    if url.startswith("file:"):
        return lambda: _from_file(url, extensions)

    def fetched() -> Token:
        text, lifetime = fetch_token(url, options, sasl.tls)
        return Token(text, expiry(text) or (lifetime and time.time() + lifetime), extensions)

    return fetched


def _from_file(url: str, extensions: tuple[tuple[str, str], ...]) -> Token:
    file = Path(unquote(urlsplit(url).path))
    try:
        text = file.read_text().strip()
    except (OSError, UnicodeDecodeError) as exc:
        why = getattr(exc, "strerror", None) or "it is no text"
        raise TokenRefused(_URL, str(file), why.lower(), retriable=True) from exc
    return Token(text, expiry(text), extensions)


def _extensions(options: Mapping[str, str], prefix: str) -> tuple[tuple[str, str], ...]:
    return tuple(
        (name.removeprefix(prefix), value)
        for name, value in options.items()
        if name.startswith(prefix)
    )


def _list(text: str) -> list[str]:
    """Split a list claim: its first character separates the items, if it is no letter or digit."""
    if not text:
        return []
    return [text] if text[0].isalnum() else text[1:].split(text[0])


def _encode(part: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()
