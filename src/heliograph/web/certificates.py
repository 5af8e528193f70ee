"""The certificates of the REST API: PEM, from files or from the settings themselves."""

import re
import ssl
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from heliograph.config.listeners import Https
from heliograph.errors import ConfigError
from heliograph.model import Tls

_PREFIX = "listeners.https."
_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----([A-Za-z0-9+/=\s]+)-----END \1-----")
_VERIFY = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


def server_context(https: Https) -> ssl.SSLContext:
    """Return a server's context; ConfigError says which key is wrong."""
    tls = https.tls
    _check_types(tls)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with _chain(tls) as file:
        # A callback, because without one OpenSSL asks the terminal for the password of a key.
        _load(
            f"{_PREFIX}ssl.keystore",
            lambda: context.load_cert_chain(file, password=lambda: tls.key_password or ""),
        )
    context.verify_mode = _VERIFY[https.client_auth]
    if https.client_auth != "none":
        _trust(context, tls)
    return context


def reflow(pem: str) -> str:
    """Return PEM with its lines as OpenSSL wants them: in a properties file they may be one."""

    def block(match: re.Match[str]) -> str:
        body = "".join(match[2].split())
        lines = [body[at : at + 64] for at in range(0, len(body), 64)]
        return "\n".join((f"-----BEGIN {match[1]}-----", *lines, f"-----END {match[1]}-----\n"))

    return _BLOCK.sub(block, pem)


def _check_types(tls: Tls) -> None:
    for location, kind, key in (
        (tls.keystore_location, tls.keystore_type, "ssl.keystore.type"),
        (tls.truststore_location, tls.truststore_type, "ssl.truststore.type"),
    ):
        if location is not None and kind.upper() != "PEM":
            raise ConfigError(
                f"{location}: a {kind} store cannot be read yet. "
                f"Convert it to PEM with keytool and openssl, and set {_PREFIX}{key}=PEM."
            )


@contextmanager
def _chain(tls: Tls) -> Iterator[Path]:
    """Yield a file with the certificates and the key; Python takes them from nowhere else."""
    if tls.keystore_key is not None and tls.keystore_certificate_chain is not None:
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
            file.write(reflow(tls.keystore_certificate_chain) + "\n" + reflow(tls.keystore_key))
            file.flush()
            yield Path(file.name)
    elif tls.keystore_location is not None:
        yield Path(tls.keystore_location)
    else:
        raise ConfigError(
            f"{_PREFIX}ssl.keystore.location is missing: https needs a PEM file with certificate "
            f"chain and key, and {_PREFIX}ssl.keystore.type=PEM."
        )


def _trust(context: ssl.SSLContext, tls: Tls) -> None:
    key = f"{_PREFIX}ssl.truststore"
    if tls.truststore_certificates is not None:
        pem = reflow(tls.truststore_certificates)
        _load(f"{key}.certificates", lambda: context.load_verify_locations(cadata=pem))
    elif tls.truststore_location is not None:
        file = tls.truststore_location
        _load(f"{key}.location", lambda: context.load_verify_locations(cafile=file))
    else:
        raise ConfigError(
            f"{key}.location is missing: ssl.client.auth needs the certificates to believe."
        )


def _load(key: str, load: Callable[[], None]) -> None:
    """Load certificates; the reasons of OpenSSL name no content of a file."""
    try:
        load()
    except ssl.SSLError as exc:
        why = exc.reason.replace("_", " ").lower() if exc.reason else "it is no PEM"
        raise ConfigError(f"{key}: not usable ({why}). Check the PEM and its password.") from exc
    except (OSError, ValueError) as exc:
        why = getattr(exc, "strerror", None) or "it is no PEM"
        raise ConfigError(f"{key}: not readable ({why.lower()}). Check the path.") from exc
