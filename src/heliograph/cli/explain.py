"""`heliograph explain group G`: 0 it can fail over now, 1 it cannot, 2 wrong use, 3 unreachable."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from heliograph.cli.flows import select_flows
from heliograph.config.mirror import load_mirror
from heliograph.failover.documents import move_json
from heliograph.failover.explain import Explanation, explain_group

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Say why something is as it is.")


@app.callback()
def explain() -> None:
    pass


@app.command("group")
def group(
    name: Annotated[str, typer.Argument(help="A consumer group.", metavar="GROUP")],
    *,
    config: Annotated[Path, typer.Option(help="The mm2.properties file of the mirror.")],
    flow: Annotated[
        list[str] | None, typer.Option(help="Only this flow, such as 'A->B'; may be repeated.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say whether a consumer group can fail over now, to where, and what it would read again."""
    flows = select_flows(load_mirror(config), flow or [])
    found = [explain_group(its, name) for its in flows]
    if as_json:
        print(json.dumps([_json(its) for its in found], indent=2))
    else:
        for its in found:
            _show(its, Console())
    sys.exit(0 if any(its.ready for its in found) else 1)


def _show(its: Explanation, console: Console) -> None:
    move = its.move
    source = its.plan.view.config.flow.source
    if move is None or not its.ready:
        console.print(f"{its.flow}: {its.group} cannot fail over.", highlight=False)
        for reason in its.reasons:
            console.print(f"  {reason}", highlight=False, markup=False)
    else:
        words = f"{its.flow}: {its.group} can fail over now"
        words += ", and is there already." if move.moved else "."
        if move.stale is None:
            words += f" {source} does not answer; what it read after its checkpoint is read again."
        elif move.stale:
            words += f" If {source} were lost now, it would read {move.stale} records again."
        else:
            words += " It would read nothing twice."
        console.print(words, highlight=False)
    if move is not None and move.steps:
        table = Table(
            "partition",
            "committed",
            "goes on in",
            "at",
            "there now",
            "twice",
            "missing",
            "",
            box=None,
        )
        for step in move.steps:
            place = step.place
            table.add_row(
                str(step.stand.partition),
                str(step.stand.offset),
                str(place.partition) if place else "-",
                str(place.offset) if place else "-",
                "-" if step.there is None else str(step.there),
                "?" if step.stale is None else str(step.stale),
                "?" if step.missing is None else str(step.missing),
                step.reason or ("" if place and place.exact else "roughly"),
            )
        console.print(table)


def _json(its: Explanation) -> dict[str, object]:
    return {
        "flow": its.flow,
        "group": its.group,
        "ready": its.ready,
        "reasons": list(its.reasons),
        "move": move_json(its.move) if its.move else None,
    }
