"""Where a worker's REST API listens, and how others reach it."""

import ipaddress
import re
from collections.abc import Mapping
from typing import NamedTuple

from heliograph.config.clients import read_tls, strip_prefix
from heliograph.config.fields import invalid
from heliograph.config.settings_rest import ClientAuth, RestSettings
from heliograph.config.settings_worker import WorkerSettings
from heliograph.errors import ConfigError
from heliograph.model import Tls

_HTTPS = "listeners.https."
_LOOPBACK = "127.0.0.1"
_URL = re.compile(r"(?P<scheme>https?)://(?P<host>\[[^]]+\]|[^:/]*):(?P<port>\d{1,5})/?", re.I)


class Listener(NamedTuple):
    """An address to listen on, and the URL that is advertised to others."""

    host: str
    port: int
    url: str

    @property
    def is_https(self) -> bool:
        return self.url.startswith("https:")

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        if self.host.lower() == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


class Https(NamedTuple):
    """Certificates of the REST API, and whether clients must have one."""

    tls: Tls
    client_auth: ClientAuth


def read_listener(props: Mapping[str, str]) -> Listener:
    """Return the first listener: on this machine only, unless a host is named.

    `rest.port` and `rest.host.name`, which Kafka 3 dropped, apply if there is no `listeners`.
    """
    declared = RestSettings.listeners
    written = props.get(declared.name)
    host_name, rest_port = WorkerSettings.rest_host_name, WorkerSettings.rest_port
    if written is None and rest_port.name in props:
        written = f"http://{host_name.read(props)}:{rest_port.read(props)}"
    first = declared.kind.parse(written)[0] if written is not None else declared.default[0]
    found = _URL.fullmatch(first)
    if found is None or int(found["port"]) > 65535:
        raise invalid(
            declared.name, written or first, "a URL such as http://127.0.0.1:8083, or http://:8083"
        )
    host = found["host"].strip("[]") or _LOOPBACK
    port = int(found["port"])
    shown = props.get("rest.advertised.host.name") or (
        _LOOPBACK if host in ("0.0.0.0", "::") else host  # noqa: S104 - compared, not bound
    )
    shown_port = props.get("rest.advertised.port") or port
    scheme = found["scheme"].lower()
    return Listener(host, port, f"{scheme}://{_in_url(shown)}:{shown_port}")


def parse_listen(text: str) -> Listener:
    """Return the listener of HOST:PORT, or of a URL."""
    found = _URL.fullmatch(text if "://" in text else f"http://{text}")
    if found is None or not found["host"] or int(found["port"]) > 65535:
        raise ConfigError(
            f"--listen {text}: write HOST:PORT or https://HOST:PORT, such as 127.0.0.1:8083."
        )
    host = found["host"].strip("[]")
    return Listener(
        host, int(found["port"]), f"{found['scheme'].lower()}://{_in_url(host)}:{found['port']}"
    )


def choose_listener(listen: str | None, props: Mapping[str, str]) -> Listener:
    """Return the listener of `--listen` if it was given, else that of the file."""
    return read_listener(props) if listen is None else parse_listen(listen)


def read_https(props: Mapping[str, str]) -> Https:
    """Return the certificates of https listeners.

    As in Connect, a single key under `listeners.https.` disables the bare `ssl.*` keys.
    """
    own = strip_prefix(props, _HTTPS)
    client_auth = RestSettings.ssl_client_auth.read(own or props)
    return Https(read_tls(own or props), client_auth)


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host
