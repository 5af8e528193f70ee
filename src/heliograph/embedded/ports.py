import random
import socket
from collections.abc import Collection

from heliograph.errors import Missing

LOOPBACK = "127.0.0.1"
# Below the range from which Linux picks ports for outgoing connections, so that a stopped cluster finds
# its port free again.
_RANGE = range(20_000, 32_000)


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def pick_port(taken: Collection[int] = ()) -> int:
    """Return a port that is free now and not in `taken`."""
    for port in random.sample(_RANGE, k=200):
        if port not in taken and is_free(port):
            return port
    raise Missing(f"no free port between {_RANGE.start} and {_RANGE.stop}: stop what uses them.")
