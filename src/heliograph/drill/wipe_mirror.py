"""`heliograph run` in a separate process, as an operator starts it."""

import json
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import closing
from datetime import timedelta
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote

import heliograph
from heliograph.embedded.ports import LOOPBACK, pick_port
from heliograph.embedded.processes import Process, spawn, stop
from heliograph.errors import MirrorError

_PATIENCE = timedelta(seconds=40)
_ANSWER_LIMIT = 10
_LAST_LINES = 15


class RunningMirror:
    """A mirror configured by a properties file, from start to stop."""

    def __init__(self, file: Path, log: Path) -> None:
        self._log = log
        command = [sys.executable, "-m", "heliograph", "run", str(file)]
        self._port = pick_port()
        command += ["--listen", f"{LOOPBACK}:{self._port}"]
        self._process: Process = spawn(command, _environment(), log)

    def check(self) -> None:
        """Raise if the process has ended by itself."""
        if not self._process.is_alive():
            last = self._log.read_text(errors="replace").splitlines()[-_LAST_LINES:]
            raise MirrorError("the mirror ended by itself. Its last lines:\n" + "\n".join(last))

    def copies(self) -> bool:
        """Whether every flow has begun to copy."""
        try:
            names = [flow["flow"] for flow in self._ask("/api/flows")]
            flows = [self._ask(f"/api/flows/{quote(name)}") for name in names]
        except OSError:
            return False
        return bool(flows) and all(its["state"] == "RUNNING" and its["tasks"] for its in flows)

    def _ask(self, path: str) -> Any:  # Any: JSON
        with closing(HTTPConnection(LOOPBACK, self._port, timeout=_ANSWER_LIMIT)) as http:
            http.request("GET", path)
            return json.load(http.getresponse())

    def ask_to_stop(self) -> None:
        """Ask it to drain and save, and do not wait for it."""
        self._process.send(signal.SIGTERM)

    def stop(self) -> None:
        """Ask it to drain and save; kill it if it does not end in time."""
        stop([self._process], _PATIENCE)


def _environment() -> Mapping[str, str]:
    """Return our environment, extended so that the process imports this same heliograph."""
    (package,) = heliograph.__path__
    paths = [str(Path(package).parent), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
