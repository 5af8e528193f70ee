"""Certificates: PEM, from files or from the settings themselves."""

import re
import ssl
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from heliograph.errors import ConfigError
from heliograph.model import Tls

_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----([A-Za-z0-9+/=\s]+)-----END \1-----")


def tls_context(tls: Tls) -> ssl.SSLContext:
    """Return a client's context; ConfigError says which key is wrong."""
    check_store_types(tls)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = tls.check_hostname
    if not load_trusted(context, tls):
        context.load_default_certs()
    with open_chain(tls) as file:
        if file is not None:
            load_chain(context, file, tls)
    return context


def check_store_types(tls: Tls, prefix: str = "") -> None:
    """Refuse stores other than PEM; `prefix` is how the settings write the keys of `tls`."""
    for location, kind, key in (
        (tls.truststore_location, tls.truststore_type, "ssl.truststore.type"),
        (tls.keystore_location, tls.keystore_type, "ssl.keystore.type"),
    ):
        if location is not None and kind.upper() != "PEM":
            raise ConfigError(
                f"{location}: a {kind} store cannot be read yet. "
                f"Convert it to PEM with keytool and openssl, and set {prefix}{key}=PEM."
            )


def load_trusted(context: ssl.SSLContext, tls: Tls, prefix: str = "") -> bool:
    """Load the certificates that are believed; return whether the settings name any."""
    if tls.truststore_certificates is not None:
        pem = reflow(tls.truststore_certificates)
        key = f"{prefix}ssl.truststore.certificates"
        _load(key, lambda: context.load_verify_locations(cadata=pem))
    elif tls.truststore_location is not None:
        file = tls.truststore_location
        key = f"{prefix}ssl.truststore.location"
        _load(key, lambda: context.load_verify_locations(cafile=file))
    else:
        return False
    return True


def load_chain(context: ssl.SSLContext, file: Path, tls: Tls, prefix: str = "") -> None:
    """Load our own certificates and their key."""
    # A callback, because without one OpenSSL asks the terminal for the password of a key.
    _load(
        f"{prefix}ssl.keystore",
        lambda: context.load_cert_chain(file, password=lambda: tls.key_password or ""),
    )


@contextmanager
def open_chain(tls: Tls) -> Iterator[Path | None]:
    """Yield a file with our certificates and the key, None where there are none.

    Python takes them from nowhere else; those of the settings are in one that only we can read.
    """
    if tls.keystore_key is not None and tls.keystore_certificate_chain is not None:
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
            file.write(reflow(tls.keystore_certificate_chain) + "\n" + reflow(tls.keystore_key))
            file.flush()
            yield Path(file.name)
    else:
        yield None if tls.keystore_location is None else Path(tls.keystore_location)


def reflow(pem: str) -> str:
    """Return PEM with its lines as OpenSSL wants them: in a properties file they may be one."""

    def block(match: re.Match[str]) -> str:
        body = "".join(match[2].split())
        lines = [body[at : at + 64] for at in range(0, len(body), 64)]
        return "\n".join((f"-----BEGIN {match[1]}-----", *lines, f"-----END {match[1]}-----\n"))

    return _BLOCK.sub(block, pem)


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
