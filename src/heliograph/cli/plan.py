"""`heliograph plan`: 0 nothing to do, 1 changes, 2 wrong use, 3 a cluster cannot be reached."""

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from heliograph.cli.flows import select_flows
from heliograph.cli.plan_tables import show_plan
from heliograph.config.mirror import load_mirror
from heliograph.plan.mirror import plan_mirror
from heliograph.plan.report import MEASURED_BYTES_PER_SECOND


def plan(
    file: Annotated[
        Path, typer.Argument(help="An mm2.properties file, as MirrorMaker 2 takes it.")
    ],
    flow: Annotated[
        list[str] | None, typer.Option(help="Only this flow, such as 'A->B'; may be repeated.")
    ] = None,
    bytes_per_second: Annotated[
        int,
        typer.Option(min=1, help="How fast copying goes, for the estimated time."),
    ] = MEASURED_BYTES_PER_SECOND,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, complete.")] = False,
) -> None:
    """Tell what FILE would make, change, copy and refuse. Touches nothing."""
    config = load_mirror(file)
    flows = select_flows(config, flow or [])
    waiting = Console(stderr=True)
    with waiting.status("looking at the clusters") if waiting.is_terminal else nullcontext():
        found = plan_mirror(
            flows,
            others=[other for other in config.flows if other not in flows],
            beating=() if flow else config.heartbeat_flows,
            warnings=config.warnings,
            bytes_per_second=bytes_per_second,
        )
    if as_json:
        print(found.to_json())
    else:
        show_plan(found, Console())
    sys.exit(found.exit_code)
