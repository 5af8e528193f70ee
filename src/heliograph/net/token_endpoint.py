"""One request to an identity provider: a client's id and secret for a token."""

import base64
import http.client
import ipaddress
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote_plus, urlencode, urlsplit

from heliograph.errors import ConfigError, TokenRefused
from heliograph.model import Tls
from heliograph.net.tls import tls_context

_URL = "sasl.oauthbearer.token.endpoint.url"
_TIMEOUT_SECONDS = 10.0
_LARGEST = 1 << 20
_TRY_AGAIN = (408, 425, 429)


def fetch_token(url: str, options: Mapping[str, str], tls: Tls | None) -> tuple[str, float | None]:
    """Return an access token, and how many seconds it lives if the provider says so."""
    local = _check(url)
    body: dict[str, str] = {"grant_type": "client_credentials"}
    if scope := _either(options, "scope", "sasl.oauthbearer.scope"):
        body["scope"] = scope
    request = urllib.request.Request(  # noqa: S310 - the scheme is checked
        url,
        data=urlencode(body).encode(),
        headers={"Authorization": _authorization(options), "Accept": "application/json"},
    )
    answer = _ask(_opener(tls, local), request, url, _timeout(options))
    token = answer.get("access_token") or answer.get("id_token")
    if not isinstance(token, str) or not token:
        raise TokenRefused(_URL, url, "no access_token", retriable=False)
    lifetime = answer.get("expires_in")
    return token, float(lifetime) if isinstance(lifetime, int | float) else None


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: one would carry the secret to a host that is not in the settings."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _opener(tls: Tls | None, local: bool) -> urllib.request.OpenerDirector:
    context = ssl.create_default_context() if tls is None else tls_context(tls)
    # A proxy from the environment does not apply to a provider on this machine.
    proxies = urllib.request.ProxyHandler({} if local else None)
    return urllib.request.build_opener(
        proxies, _NoRedirect, urllib.request.HTTPSHandler(context=context)
    )


def _ask(
    opener: urllib.request.OpenerDirector,
    request: urllib.request.Request,
    url: str,
    timeout: float,
) -> dict[str, Any]:
    try:
        with opener.open(request, timeout=timeout) as response:
            answer = json.loads(response.read(_LARGEST))
    except urllib.error.HTTPError as exc:
        exc.close()
        again = exc.code in _TRY_AGAIN or exc.code >= 500
        raise TokenRefused(_URL, url, f"status {exc.code}", retriable=again) from None
    except (OSError, http.client.HTTPException) as exc:
        reason = getattr(exc, "reason", exc)
        why = getattr(reason, "strerror", None) or type(reason).__name__
        raise TokenRefused(_URL, url, f"nothing ({why})", retriable=True) from None
    except ValueError:
        raise TokenRefused(_URL, url, "no JSON", retriable=False) from None
    return answer if isinstance(answer, dict) else {}


def _check(url: str) -> bool:
    """Return whether the provider is on this machine; to any other, a secret is sent over https only."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    try:
        local = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = False
    if parts.username or parts.password:
        raise ConfigError(f"{_URL}: id and secret do not stand in the URL, but in the JAAS line.")
    if not host or parts.scheme not in ("https", "http") or (parts.scheme == "http" and not local):
        raise ConfigError(f"{_URL}={url}: use https; http serves for 127.0.0.1 and localhost only.")
    return local


def _authorization(options: Mapping[str, str]) -> str:
    credentials = "sasl.oauthbearer.client.credentials."
    name = _either(options, "clientId", f"{credentials}client.id")
    secret = _either(options, "clientSecret", f"{credentials}client.secret")
    if name is None or secret is None:
        raise ConfigError(
            f"{_URL} is set, but not who asks: set clientId and clientSecret in sasl.jaas.config, "
            f"or {credentials}client.id and .client.secret."
        )
    if options.get("sasl.oauthbearer.header.urlencode", "false").strip().lower() == "true":
        name, secret = quote_plus(name), quote_plus(secret)
    return "Basic " + base64.b64encode(f"{name}:{secret}".encode()).decode()


def _either(options: Mapping[str, str], jaas: str, key: str) -> str | None:
    """Return a key's value, or else what the JAAS line says, as Java does since 4.1."""
    return options.get(key) or options.get(jaas)


def _timeout(options: Mapping[str, str]) -> float:
    for key in ("sasl.login.read.timeout.ms", "sasl.login.connect.timeout.ms"):
        if raw := options.get(key):
            return max(int(raw) / 1000, 0.1)
    return _TIMEOUT_SECONDS
