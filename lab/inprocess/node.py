"""One broker's port, and how it behaves."""

import socket
import struct
from contextlib import suppress

HOST = "127.0.0.1"
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class Node:
    """A broker of an in-process cluster; a closed one keeps its port, and refuses connections."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.is_silent = False
        self.delay = 0.0
        self.is_open = False
        self.socket = self._bind(0)
        self.port: int = self.socket.getsockname()[1]

    def open(self) -> None:
        self.socket.listen()
        self.is_open = True

    def close(self) -> None:
        """Stop listening; the port stays bound, so that nobody else gets it meanwhile."""
        self.socket.close()
        self.socket = self._bind(self.port)
        self.is_open = False

    @staticmethod
    def _bind(port: int) -> socket.socket:
        bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((HOST, port))
        bound.setblocking(False)
        return bound


def reset(opened: socket.socket) -> None:
    """Close a connection at once; its other end sees a reset."""
    with suppress(OSError):
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    opened.close()
