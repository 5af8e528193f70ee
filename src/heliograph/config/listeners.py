"""Where a worker's REST API listens, and how others reach it."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from heliograph.config.fields import invalid
from heliograph.config.settings_worker import LISTENERS, REST_HOST_NAME, REST_PORT

_LOOPBACK = "127.0.0.1"
_URL = re.compile(r"(?P<scheme>https?)://(?P<host>\[[^]]+\]|[^:/]*):(?P<port>\d{1,5})/?", re.I)


class Listener(NamedTuple):
    """An address to listen at, and the URL that is told to others."""

    host: str
    port: int
    url: str


def read_listener(props: Mapping[str, str]) -> Listener:
    """Return the first listener: of this machine alone, unless a host is named.

    `rest.port` and `rest.host.name`, which Kafka 3 dropped, count where there is no `listeners`.
    """
    written = props.get(LISTENERS.name)
    if written is None and REST_PORT.name in props:
        written = f"http://{REST_HOST_NAME.read(props)}:{REST_PORT.read(props)}"
    first = LISTENERS.kind.parse(written)[0] if written is not None else LISTENERS.default[0]
    found = _URL.fullmatch(first)
    if found is None or int(found["port"]) > 65535:
        raise invalid(
            LISTENERS.name, written or first, "a URL such as http://127.0.0.1:8083, or http://:8083"
        )
    host = found["host"].strip("[]") or _LOOPBACK
    port = int(found["port"])
    shown = props.get("rest.advertised.host.name") or (
        _LOOPBACK if host in ("0.0.0.0", "::") else host  # noqa: S104 - compared, not bound
    )
    shown_port = props.get("rest.advertised.port") or port
    return Listener(host, port, f"http://{f'[{shown}]' if ':' in shown else shown}:{shown_port}")
