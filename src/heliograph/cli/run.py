"""`heliograph run`: dedicated mode, in the foreground, in place of connect-mirror-maker.sh."""

import logging
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from heliograph.cli.flows import select_flows
from heliograph.cli.foreground import ReportsOption, run_until_told
from heliograph.cli.logs import set_up_logs
from heliograph.cli.spark import SparkKeys, parse_spark
from heliograph.config.listeners import choose_listener
from heliograph.config.mirror import load_mirror
from heliograph.config.providers import resolve
from heliograph.connect.supervisor import Supervisor, dedicated_connectors
from heliograph.errors import ConfigError
from heliograph.observe.reports import REPORTS

if TYPE_CHECKING:
    from heliograph.web.server import Server

log = logging.getLogger("heliograph")


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
            help="Where REST answers; unless told, at the first of `listeners` in FILE, else at "
            "127.0.0.1:8083. https://HOST:PORT takes the certificates that FILE names.",
            metavar="HOST:PORT",
        ),
    ] = None,
    reports: ReportsOption = REPORTS,
    spark: SparkKeys = None,
) -> None:
    """Mirror what FILE says until SIGTERM or Ctrl-C, then drain, save and exit 0."""
    set_up_logs()
    config = load_mirror(file)
    for warning in config.warnings:
        log.warning("%s", warning)
    beating = () if flow else config.heartbeat_flows
    given = parse_spark(spark)
    flows = [replace(c, spark={**c.spark, **given}) for c in select_flows(config, flow or [])]
    props = resolve(config.written, os.environ).entries
    listener = choose_listener(listen, props)
    supervisor = Supervisor(
        dedicated_connectors(flows, beating), f"{listener.host}:{listener.port}"
    )
    supervisor.start_spark()
    try:
        # Imported while Spark comes up, which takes longer: a second sooner to the first record.
        from heliograph.web.app import make_app  # noqa: PLC0415
        from heliograph.web.server import make_server  # noqa: PLC0415

        server = make_server(make_app(supervisor, read_only=True, shelf=reports), listener, props)
        _start_server(server, told=listen is not None)
    except BaseException:
        supervisor.stop()
        raise
    run_until_told(supervisor)
    log.info("stopping: draining and saving")
    supervisor.stop()
    server.stop()
    log.info("stopped")
    sys.exit(0)


def _start_server(server: "Server", *, told: bool) -> None:
    """Answer REST; whoever did not ask for a listener can do without."""
    try:
        server.start()
        log.info("REST answers at %s", server.url)
    except ConfigError as exc:
        if told:
            raise
        log.warning("nobody answers REST, because %s Or give --listen.", exc)
