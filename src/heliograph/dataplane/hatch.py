"""What Spark starts in place of Python: hands its task to the nursery, and stays for as long as that takes.

Run as `python -I -S hatch.py SOCKET PYTHON -m MODULE ...`, by path and without packages: it is there once
for each of Spark's Pythons, so it must be small. Without a nursery, or if that cannot, it
becomes PYTHON.
"""

import os
import socket
import sys

_STANDARD = (0, 1, 2)
_SEPARATOR = "\0"
_LONGEST = 8


def hatch(place: str, python: str, arguments: list[str]) -> int:
    """Return how the process ended that did the work."""
    environment = [f"{key}={value}" for key, value in os.environ.items()]
    message = _SEPARATOR.join([str(len(arguments)), *arguments, *environment])
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as line:
        try:
            line.connect(place)
            socket.send_fds(line, [os.fsencode(message)], _STANDARD)
            forked = line.recv(_LONGEST)
        except OSError:
            forked = b""
        if not forked:
            os.execv(python, [python, *arguments])  # noqa: S606 - the same command as before
        for number in _STANDARD:
            os.close(number)  # Spark watches these: they are the other's now
        return int(line.recv(_LONGEST) or b"1")


if __name__ == "__main__":
    sys.exit(hatch(sys.argv[1], sys.argv[2], sys.argv[3:]))
