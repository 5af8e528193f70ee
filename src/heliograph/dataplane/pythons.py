"""The command that Spark starts Python with, here and on executors.

On one machine it is a small process that lets the nursery fork what is wanted. On a cluster it is a name, such as
`python3.11`, which driver and executors look up in their own PATH.
"""

import logging
import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from heliograph.dataplane import hatch
from heliograph.dataplane.jvm import SPARK_LOG
from heliograph.dataplane.masters import PYTHON, is_local, python_name

log = logging.getLogger(__name__)

_QUICK_PYTHON = """\
#!/bin/sh
kept=
IFS=:
for path in $PYTHONPATH; do
    case $path in *.zip) ;; *) kept="$kept${{kept:+:}}$path" ;; esac
done
unset IFS
PYTHONPATH=$kept exec {python} "$@"
"""
_HATCH = """\
#!/bin/sh
exec {python} -I -S {hatch} {socket} {quick} "$@"
"""


class Pythons:
    """Makes the command, and looks after the nursery for as long as Spark runs."""

    def __init__(self, settings: Mapping[str, str], scratch: Path) -> None:
        self._nursery: subprocess.Popen[bytes] | None = None
        name = python_name()
        quick = _write(scratch / "bin" / name, _QUICK_PYTHON)
        given = settings.get(PYTHON) or os.environ.get("PYSPARK_PYTHON")
        if given is not None:
            self.command = given
        elif is_local(settings):
            self.command = str(self._open_nursery(scratch, quick) or quick)
        else:
            os.environ["PATH"] = os.pathsep.join(
                (str(quick.parent), os.environ.get("PATH", os.defpath))
            )
            self.command = name

    def close(self) -> None:
        """End the nursery; what it has forked ends with Spark."""
        if self._nursery is not None and self._nursery.stdin is not None:
            self._nursery.stdin.close()
            self._nursery.wait()

    def _open_nursery(self, scratch: Path, quick: Path) -> Path | None:
        """Start it and return a command that asks it; None where that cannot be, as with a folder of a long name.

        Who asks early is served when it has imported all.
        """
        try:
            place = self._start_nursery(scratch)
        except OSError as exc:
            log.debug("no nursery: %s", exc)
            return None
        return _write(
            scratch / "bin" / "hatch", _HATCH, hatch=hatch.__file__, socket=place, quick=quick
        )

    def _start_nursery(self, scratch: Path) -> Path:
        os.close(os.pidfd_open(os.getpid()))  # it needs these
        place = scratch / "nursery"
        place.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(str(place))
            listener.listen()
            number = listener.fileno()
            with (scratch / SPARK_LOG).open("ab") as log:
                self._nursery = subprocess.Popen(
                    [sys.executable, "-m", "heliograph.dataplane.nursery", str(number)],
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=log,
                    pass_fds=[number],
                    env={**os.environ, "PYTHONHASHSEED": "0"},
                )
        return place


def _write(command: Path, script: str, **places: Path | str | None) -> Path:
    quoted = {key: shlex.quote(str(place)) for key, place in places.items()}
    command.parent.mkdir(exist_ok=True)
    command.write_text(script.format(python=shlex.quote(sys.executable), **quoted))
    command.chmod(0o700)
    return command
