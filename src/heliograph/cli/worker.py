"""`heliograph worker`: in place of connect-distributed.sh and connect-standalone.sh."""

import logging
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from heliograph.cli.foreground import ReportsOption, run_until_told
from heliograph.cli.logs import set_up_logs
from heliograph.cli.spark import SparkKeys, parse_spark
from heliograph.config.connectors import (
    WorkerConfig,
    load_connector,
    load_standalone,
    load_worker,
)
from heliograph.config.fields import Part
from heliograph.config.flow import FlowConfig
from heliograph.config.listeners import read_listener
from heliograph.connect.supervisor import Supervisor
from heliograph.connect.worker import Worker
from heliograph.errors import ConfigError
from heliograph.observe.reports import REPORTS
from heliograph.web.app import make_app
from heliograph.web.server import make_server
from heliograph.web.shapes import version

log = logging.getLogger("heliograph")


def worker(
    file: Annotated[
        Path, typer.Argument(help="A connect-distributed.properties, as Connect takes it.")
    ],
    connectors: Annotated[
        list[Path] | None,
        typer.Argument(help="Connector files: then FILE is a connect-standalone.properties."),
    ] = None,
    reports: ReportsOption = REPORTS,
    spark: SparkKeys = None,
) -> None:
    """Run connectors until SIGTERM or Ctrl-C, then exit 0.

    Without connector files they come over Connect's REST API and are shared by all workers of a group.
    """
    set_up_logs()
    config = load_standalone(file) if connectors else load_worker(file)
    config = replace(config, props={**config.props, **parse_spark(spark)})
    for warning in config.warnings:
        log.warning("%s", warning)
    listener = read_listener(config.props)
    herder: Worker | Supervisor
    if connectors:
        herder = Supervisor(_load_all(connectors, config), f"{listener.host}:{listener.port}")
    else:
        herder = Worker(config, listener.url, version())
    app = make_app(herder, read_only=bool(connectors), shelf=reports)
    server = make_server(app, listener, config.props)
    server.start()  # first, so that a port that is taken is told before anything is begun
    log.info("worker listens at %s", server.url)
    run_until_told(herder)
    log.info("stopping: connectors are drained, saved and handed over")
    herder.stop()
    server.stop()
    log.info("stopped")


def _load_all(files: list[Path], config: WorkerConfig) -> dict[str, tuple[Part, FlowConfig]]:
    """Return the connectors of these files by name; two of one name are a mistake."""
    found: dict[str, tuple[Part, FlowConfig]] = {}
    for file in files:
        connector = load_connector(file, config)
        for warning in connector.warnings:
            log.warning("%s", warning)
        if connector.name in found:
            raise ConfigError(f"{file}: a connector {connector.name} was named before. Rename one.")
        found[connector.name] = connector.part, connector.config
    return found
