"""`heliograph run`: dedicated mode, in the foreground, in place of connect-mirror-maker.sh."""

import logging
import os
import signal
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from heliograph.cli.flows import select_flows
from heliograph.cli.logs import set_up_logs
from heliograph.config.listeners import parse_listen
from heliograph.config.mirror import load_mirror
from heliograph.config.providers import resolve
from heliograph.control.supervisor import Supervisor, dedicated_connectors
from heliograph.errors import ConfigError, MirrorError
from heliograph.web.app import make_app
from heliograph.web.server import make_server

log = logging.getLogger("heliograph")

_LISTEN = "127.0.0.1:8083"


def parse_spark(pairs: Sequence[str]) -> dict[str, str]:
    """Return what `--spark key=value` gave, by key."""
    given = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.startswith("spark."):
            raise ConfigError(
                f"--spark {pair}: write key=value with a key of Spark, such as spark.master=spark://host:7077."
            )
        given[key] = value
    return given


def run(
    file: Annotated[
        Path, typer.Argument(help="An mm2.properties file, as MirrorMaker 2 takes it.")
    ],
    flow: Annotated[
        list[str] | None, typer.Option(help="Run only this flow, such as 'A->B'; may be repeated.")
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(
            help=f"Where REST answers; {_LISTEN} unless told. https://HOST:PORT takes the "
            "certificates that FILE names.",
            metavar="HOST:PORT",
        ),
    ] = None,
    spark: Annotated[
        list[str] | None,
        typer.Option(
            help="A key of Spark as key=value, before what FILE says; may be repeated.",
            metavar="KEY=VALUE",
        ),
    ] = None,
) -> None:
    """Mirror what FILE says until SIGTERM or Ctrl-C, then drain, save and exit 0."""
    set_up_logs()
    config = load_mirror(file)
    for warning in config.warnings:
        log.warning("%s", warning)
    beating = () if flow else config.heartbeat_flows
    given = parse_spark(spark or [])
    flows = [replace(c, spark={**c.spark, **given}) for c in select_flows(config, flow or [])]
    listener = parse_listen(listen or _LISTEN)
    supervisor = Supervisor(
        dedicated_connectors(flows, beating), f"{listener.host}:{listener.port}"
    )
    props = resolve(config.written, os.environ).entries
    server = make_server(make_app(supervisor, read_only=True), listener, props)
    try:
        server.start()
        log.info("REST answers at %s", server.url)
    except ConfigError as exc:
        if listen is not None:
            raise
        log.warning("nobody answers REST, because %s Or give --listen.", exc)
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
    server.stop()
    log.info("stopped")
    sys.exit(0)
