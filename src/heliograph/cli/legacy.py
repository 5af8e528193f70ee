"""`heliograph legacy`: MirrorMaker 1's command line, in place of kafka-mirror-maker.sh."""

import logging
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from heliograph.cli.foreground import run_until_told
from heliograph.cli.logs import set_up_logs
from heliograph.cli.spark import SparkKeys, parse_spark
from heliograph.config.fields import BOOLEAN, NotAllowed, Part
from heliograph.config.legacy import load_legacy
from heliograph.connect.supervisor import Supervisor
from heliograph.errors import ConfigError, MirrorError
from heliograph.kafka.cluster import Cluster
from heliograph.model import StopKind

log = logging.getLogger("heliograph")

_SEND_FAILURES = {
    kind.value for kind in (StopKind.REFUSED, StopKind.REFUSED_FOR_GOOD, StopKind.TOO_LARGE)
}


def legacy(
    *,
    consumer_config: Annotated[
        Path,
        typer.Option(
            "--consumer.config", help="How to read: the source, and group.id for the offsets."
        ),
    ],
    producer_config: Annotated[
        Path, typer.Option("--producer.config", help="How to write: the target.")
    ],
    whitelist: Annotated[
        str | None,
        typer.Option(help="Java pattern of the topics to mirror; a comma counts as |."),
    ] = None,
    include: Annotated[str | None, typer.Option(help="The newer name of --whitelist.")] = None,
    streams: Annotated[
        int,
        typer.Option(
            "--num.streams", min=1, help="Taken as given; one task does the work of all streams."
        ),
    ] = 1,
    commit_ms: Annotated[
        int,
        typer.Option("--offset.commit.interval.ms", min=1, help="How often offsets are committed."),
    ] = 60000,
    abort: Annotated[
        str,
        typer.Option(
            "--abort.on.send.failure",
            help="End when the target refuses a record; if false, only its partitions stop.",
            metavar="BOOL",
        ),
    ] = "true",
    spark: SparkKeys = None,
) -> None:
    """Mirror topics under their own names, as MirrorMaker 1 did, until SIGTERM or Ctrl-C; then exit 0.

    It goes on from the offsets that MirrorMaker 1 committed in group.id on the source, and commits
    there. A topic keeps its own number of partitions on the target; keys place records where they differ.
    """
    set_up_logs()
    aborts = _boolean("--abort.on.send.failure", abort)
    pattern = whitelist or include
    if pattern is None or (whitelist and include):
        raise ConfigError("give either --whitelist or --include: the pattern of topics to mirror.")
    config = load_legacy(
        consumer_config, producer_config, pattern, timedelta(milliseconds=commit_ms)
    )
    if streams > 1:
        log.info("--num.streams %d: one task reads and writes all partitions", streams)
    with closing(Cluster(config.source_admin)) as source:
        # Two clusters may be mirrored into one under the same group.id: they must not fence each other.
        name = f"legacy-{config.positions_group}@{source.cluster_id()}"
    config = replace(config, connector_name=name, spark={**config.spark, **parse_spark(spark)})
    supervisor = Supervisor({config.connector_name: (Part.SOURCE, config)})
    refused: list[str] = []

    def is_over() -> bool:
        refused.extend(_send_failures(supervisor, str(config.flow)) if aborts else ())
        return bool(refused)

    run_until_told(supervisor, is_over)
    log.info("stopping: draining and committing offsets")
    supervisor.stop()
    log.info("stopped")
    if refused:
        raise MirrorError(f"--abort.on.send.failure: {refused[0]}")


def _send_failures(supervisor: Supervisor, flow: str) -> list[str]:
    """Return which records the target did not take."""
    return [
        f"{partition.topic}-{partition.partition} stopped, because {partition.stopped}."
        for partition in supervisor.partitions(flow)
        if partition.stop_kind in _SEND_FAILURES
    ]


def _boolean(option: str, text: str) -> bool:
    try:
        return BOOLEAN.parse(text)
    except NotAllowed as exc:
        raise ConfigError(f"{option} {text}: write {exc}.") from None
