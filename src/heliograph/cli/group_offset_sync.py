"""`heliograph group-offset-sync`: Amazon's MM2GroupOffsetSync, flag for flag. 0 told to end, 1 not all is in step."""

import logging
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Annotated

import typer

from heliograph.cli.logs import set_up_logs
from heliograph.config.properties import read_properties
from heliograph.config.providers import resolve
from heliograph.errors import ConfigError, MirrorError
from heliograph.failover.group_offset_sync import GroupOffsetSync, GroupOutcome, client_properties

log = logging.getLogger("heliograph")

_SECURITY_PROTOCOL = "security.protocol"


def group_offset_sync(
    *,
    groups: Annotated[
        str,
        typer.Option(
            "-cgi", "--consumerGroupID", metavar="GROUP,...", help="The consumer groups to move."
        ),
    ],
    source: Annotated[
        str,
        typer.Option(
            "-src", "--sourceCluster", metavar="ALIAS", help="The cluster they come from."
        ),
    ],
    file: Annotated[
        Path,
        typer.Option(
            "-pfp",
            "--propertiesFilePath",
            metavar="FILE",
            help="A consumer's properties for the cluster that is mirrored to.",
        ),
    ],
    policy: Annotated[
        str | None,
        typer.Option(
            "-rpc", "--replicationPolicyClass", metavar="CLASS", help="As replication.policy.class."
        ),
    ] = None,
    separator: Annotated[
        str | None,
        typer.Option(
            "-rps",
            "--replicationPolicySeparator",
            metavar="TEXT",
            help="As replication.policy.separator.",
        ),
    ] = None,
    interval: Annotated[
        float, typer.Option("-int", "--interval", min=0.1, help="Seconds from sync to sync.")
    ] = 20,
    run_for: Annotated[
        float, typer.Option("-rf", "--runFor", min=0, help="Seconds to run; 0 is for ever.")
    ] = 0,
    ssl: Annotated[
        bool, typer.Option("-ssl", "--sslEnable", help="As security.protocol=SSL in FILE.")
    ] = False,
    mutual: Annotated[
        bool,
        typer.Option(
            "-mtls", "--mTLSEnable", help="The same; FILE has the client's own certificate."
        ),
    ] = False,
    once: Annotated[
        bool, typer.Option("--once", help="Sync once; exit 0 if all groups are in step then.")
    ] = False,
) -> None:
    """Move groups on the target to where their checkpoints say, while nobody uses them there.

    It runs until SIGTERM or Ctrl-C. A group with members is left alone, and none is taken back.
    """
    set_up_logs()
    named = [group.strip() for group in groups.split(",") if group.strip()]
    if not named:
        raise ConfigError("-cgi: name at least one consumer group.")
    properties = client_properties(resolve(read_properties(file), os.environ).entries)
    properties["source.cluster.alias"] = source
    if ssl or mutual:
        properties.setdefault(_SECURITY_PROTOCOL, "SSL")
    if policy is not None:
        properties["replication.policy.class"] = policy
    if separator is not None:
        properties["replication.policy.separator"] = separator
    with GroupOffsetSync(properties, source, named) as sync:
        if once:
            outcomes = sync.sync()
            _tell(outcomes)
            sys.exit(0 if all(outcome.is_good for outcome in outcomes) else 1)
        _run(sync, interval, run_for)


def _run(sync: GroupOffsetSync, interval: float, run_for: float) -> None:
    """Sync at a fixed rate; what goes wrong is told, and tried again the next time."""
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    due = time.monotonic()
    over = due + run_for if run_for else float("inf")
    while not stopping.wait(max(min(due, over) - time.monotonic(), 0)) and time.monotonic() < over:
        try:
            _tell(sync.sync())
        except MirrorError as exc:
            log.warning("%s It is tried again in %g s.", exc, interval)
        due = max(due + interval, time.monotonic())
    log.info("stopped")


def _tell(outcomes: list[GroupOutcome]) -> None:
    for outcome in outcomes:
        log.log(logging.INFO if outcome.is_good else logging.WARNING, "%s", outcome)
