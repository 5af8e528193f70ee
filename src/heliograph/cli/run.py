"""`heliograph run`: dedicated mode, in the foreground, in place of connect-mirror-maker.sh."""

import logging
import signal
import sys
import threading
from pathlib import Path
from typing import Annotated

import typer

from heliograph.cli.flows import select_flows
from heliograph.cli.logs import set_up_logs
from heliograph.config.mirror import load_mirror
from heliograph.control.supervisor import Supervisor
from heliograph.errors import MirrorError

log = logging.getLogger("heliograph")


def run(
    file: Annotated[
        Path, typer.Argument(help="An mm2.properties file, as MirrorMaker 2 takes it.")
    ],
    flow: Annotated[
        list[str] | None, typer.Option(help="Run only this flow, such as 'A->B'; may be repeated.")
    ] = None,
) -> None:
    """Mirror what FILE says until SIGTERM or Ctrl-C, then drain, save and exit 0."""
    set_up_logs()
    config = load_mirror(file)
    for warning in config.warnings:
        log.warning("%s", warning)
    beating = () if flow else config.heartbeat_flows
    supervisor = Supervisor(select_flows(config, flow or []), beating)
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    supervisor.start()
    while not stopping.wait(1.0):
        if not supervisor.alive():
            raise MirrorError(
                "Spark's JVM is gone, so nothing is mirrored; start heliograph again."
            )
    log.info("stopping: draining and saving")
    supervisor.stop()
    log.info("stopped")
    sys.exit(0)
