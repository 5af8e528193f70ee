"""`heliograph worker`: in place of connect-distributed.sh, for the three mirror connectors."""

import logging
import signal
import threading
from pathlib import Path
from typing import Annotated

import typer

from heliograph.cli.logs import set_up_logs
from heliograph.config.connectors import load_worker
from heliograph.config.listeners import read_listener
from heliograph.control.worker import Worker
from heliograph.errors import MirrorError
from heliograph.web.app import make_app
from heliograph.web.server import Server
from heliograph.web.shapes import version

log = logging.getLogger("heliograph")


def worker(
    file: Annotated[
        Path, typer.Argument(help="A connect-distributed.properties, as Connect takes it.")
    ],
) -> None:
    """Run connectors that come over Connect's REST API until SIGTERM or Ctrl-C, then exit 0."""
    set_up_logs()
    config = load_worker(file)
    for warning in config.warnings:
        log.warning("%s", warning)
    listener = read_listener(config.props)
    herder = Worker(config, listener.url, version())
    server = Server(make_app(herder), listener.host, listener.port)
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    server.start()  # first, so that a port that is taken is told before anything is begun
    herder.start()
    log.info("worker listens at %s, group %s", server.url, config.group_id)
    while not stopping.wait(1.0):
        if not herder.alive():
            raise MirrorError(
                "Spark's JVM is gone, so nothing is mirrored; start heliograph again."
            )
    log.info("stopping: connectors are handed over")
    herder.stop()
    server.stop()
    log.info("stopped")
