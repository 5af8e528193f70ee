"""TLS contexts, rebuilt when the files behind them change.

Certificates come from PEM, in files or in the settings themselves, and from Java's stores.
"""

import logging
import os
import re
import ssl
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from heliograph.errors import ConfigError
from heliograph.model import Tls
from heliograph.net.ciphers import restrict
from heliograph.net.jks import Store, Unreadable
from heliograph.net.stores import NAMES, chain_pem, read_store, trusted_pem

log = logging.getLogger(__name__)

_PEM = "PEM"
_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----([A-Za-z0-9+/=\s]+)-----END \1-----")


def tls_context(tls: Tls) -> ssl.SSLContext:
    """Return a client's context for the current content of the files; ConfigError says which key is wrong."""
    return _keeper(tls).current()


class ContextKeeper:
    """A context that is rebuilt once a file behind it has changed; thread-safe."""

    def __init__(self, tls: Tls, make: Callable[[], ssl.SSLContext]) -> None:
        self._files = [file for file in (tls.truststore_location, tls.keystore_location) if file]
        self._make = make
        self._lock = threading.Lock()
        self._stamp: object = None
        self._context: ssl.SSLContext | None = None

    def current(self) -> ssl.SSLContext:
        """Return the context; if the files have become unusable, the last one is kept."""
        with self._lock:
            stamp = [_stamp(file) for file in self._files]
            if self._context is None:
                self._context = self._make()
            elif stamp != self._stamp:
                try:
                    self._context = self._make()
                except ConfigError as exc:
                    log.warning("%s Until then those read before are used.", exc)
                else:
                    log.info("certificates read anew from %s", ", ".join(self._files))
            self._stamp = stamp
            return self._context


@lru_cache(maxsize=64)
def _keeper(tls: Tls) -> ContextKeeper:
    return ContextKeeper(tls, lambda: _client_context(tls))


def _client_context(tls: Tls) -> ssl.SSLContext:
    check_store_types(tls)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = tls.check_hostname
    restrict(context, tls)
    if not load_trusted(context, tls):
        context.load_default_certs()
    load_chain(context, tls)
    return context


def check_store_types(tls: Tls, prefix: str = "") -> None:
    """Refuse unknown types; `prefix` is what the settings put before the keys of `tls`."""
    for location, kind, key in (
        (tls.truststore_location, tls.truststore_type, "ssl.truststore.type"),
        (tls.keystore_location, tls.keystore_type, "ssl.keystore.type"),
    ):
        if location is not None and kind.upper() not in (*NAMES, _PEM):
            raise ConfigError(f"{prefix}{key}={kind}: use one of {', '.join((*NAMES, _PEM))}.")


def load_trusted(context: ssl.SSLContext, tls: Tls, prefix: str = "") -> bool:
    """Load the trusted certificates; return whether the settings name any."""
    key = f"{prefix}ssl.truststore.location"
    file = tls.truststore_location
    if tls.truststore_certificates is not None:
        pem = reflow(tls.truststore_certificates)
        key = f"{prefix}ssl.truststore.certificates"
        _load(key, "", lambda: context.load_verify_locations(cadata=pem))
    elif file is not None and tls.truststore_type.upper() == _PEM:
        _load(key, file, lambda: context.load_verify_locations(cafile=file))
    elif file is not None:
        store = _open_store(key, file, tls.truststore_password)
        if not store.trusted:
            raise ConfigError(
                f"{key}: {file} holds no certificate. Import the authority's with keytool."
            )
        _load(key, file, lambda: context.load_verify_locations(cadata=trusted_pem(store)))
    else:
        return False
    return True


def load_chain(context: ssl.SSLContext, tls: Tls, prefix: str = "") -> bool:
    """Load our own certificates and their key; return whether the settings name any."""
    with _open_chain(tls, prefix) as file:
        if file is None:
            return False
        # A callback, because without one OpenSSL asks the terminal for the password of a key.
        _load(
            f"{prefix}ssl.keystore",
            tls.keystore_location or "",
            lambda: context.load_cert_chain(file, password=lambda: tls.key_password or ""),
        )
    return True


@contextmanager
def _open_chain(tls: Tls, prefix: str) -> Iterator[Path | None]:
    """Yield a file with our certificates and the key, None where there are none.

    Python loads them only from a file; what is not a PEM file is put into one that only this process can see.
    """
    if tls.keystore_key is not None and tls.keystore_certificate_chain is not None:
        both = (tls.keystore_certificate_chain, tls.keystore_key)
        with _private("\n".join(map(reflow, both))) as file:
            yield file
    elif tls.keystore_location is None:
        yield None
    elif tls.keystore_type.upper() == _PEM:
        yield Path(tls.keystore_location)
    else:
        key = f"{prefix}ssl.keystore.location"
        password = tls.keystore_password
        opens = password if tls.key_password is None else tls.key_password
        chain = _open_store(key, tls.keystore_location, password, opens or "").chain
        if chain is None:
            raise ConfigError(f"{key}: {tls.keystore_location} holds no key with its certificate.")
        with _private(chain_pem(chain)) as file:
            yield file


@contextmanager
def _private(text: str) -> Iterator[Path]:
    """Yield a file of `text`: in memory if the system supports that, else one that is deleted afterwards."""
    if sys.platform == "linux":
        with os.fdopen(os.memfd_create("chain"), "w") as memory:
            memory.write(text)
            memory.flush()
            yield Path(f"/proc/self/fd/{memory.fileno()}")
    else:
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as temporary:
            temporary.write(text)
            temporary.flush()
            yield Path(temporary.name)


def _open_store(
    key: str, file: str, password: str | None, key_password: str | None = None
) -> Store:
    try:
        return read_store(Path(file).read_bytes(), password, key_password)
    except OSError as exc:
        why = (exc.strerror or "no reason given").lower()
        raise ConfigError(f"{key}: {file} is not readable ({why}). Check the path.") from exc
    except Unreadable as exc:
        raise ConfigError(
            f"{key}: {file} is not usable ({exc}). Check the file, its type and its password."
        ) from exc


def reflow(pem: str) -> str:
    """Return PEM with line breaks as OpenSSL expects them: in a properties file it may be one line."""

    def block(match: re.Match[str]) -> str:
        body = "".join(match[2].split())
        lines = [body[at : at + 64] for at in range(0, len(body), 64)]
        return "\n".join((f"-----BEGIN {match[1]}-----", *lines, f"-----END {match[1]}-----\n"))

    return _BLOCK.sub(block, pem)


def _stamp(file: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(file)  # noqa: PTH116 - for each connection, so the cheapest
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _load(key: str, file: str, load: Callable[[], None]) -> None:
    """Load certificates; OpenSSL's error reasons reveal no content of a file."""
    what = f"{key}: {file} is" if file else f"{key}:"
    try:
        load()
    except ssl.SSLError as exc:
        why = exc.reason.replace("_", " ").lower() if exc.reason else "it is no PEM"
        raise ConfigError(f"{what} not usable ({why}). Check the PEM and its password.") from exc
    except (OSError, ValueError) as exc:
        why = getattr(exc, "strerror", None) or "it is no PEM"
        raise ConfigError(f"{what} not readable ({why.lower()}). Check the path.") from exc
