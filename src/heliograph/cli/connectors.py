"""`heliograph connectors`: 0 done, 1 something does not run or was refused, 2 wrong use, 3 nobody answers."""

import json
import sys
from collections.abc import Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from heliograph.cli.credentials import Asked, asks_a_worker
from heliograph.cli.deployments import (
    Outcome,
    deploy,
    names_of,
    read_deployment,
    undeploy,
    wait_until_running,
)
from heliograph.cli.rest import ConnectApi
from heliograph.cli.standing import Standing, ask_standing
from heliograph.config.fields import Part
from heliograph.errors import ConfigError

app = typer.Typer(
    help="Deploy and drive connectors over a worker's REST API.",
    no_args_is_help=True,
    add_completion=False,
)

Cluster = Annotated[str, typer.Argument(help="A source cluster, as in mm2-msc-CLUSTER.json.")]
Name = Annotated[str, typer.Argument(help="A connector.")]
Dir = Annotated[Path, typer.Option("--dir", help="Where the JSON files are.")]
Wait = Annotated[
    float | None,
    typer.Option(metavar="SECONDS", min=0, help="Wait until all of them run, this long at most."),
]
_FOLDER = Path("mm2")


@app.command("deploy")
@asks_a_worker
def deploy_cluster(
    asked: Asked, cluster: Cluster, folder: Dir = _FOLDER, wait: Wait = None
) -> None:
    """Deploy the three connectors of a source cluster; those that are deployed already are left alone."""
    connectors = read_deployment(folder, cluster)
    api = asked.open()
    outcomes = deploy(api, connectors, _silence if asked.as_json else _tell)
    _finish(api, outcomes, names_of(cluster), wait, asked.as_json)


@app.command("undeploy")
@asks_a_worker
def undeploy_cluster(asked: Asked, cluster: Cluster) -> None:
    """Take the three connectors of a source cluster away; their positions stay, and their topics."""
    outcomes = undeploy(asked.open(), cluster, _silence if asked.as_json else _tell)
    if asked.as_json:
        _print_json([_outcome_json(outcome) for outcome in outcomes])
    sys.exit(_any_refused(outcomes))


@app.command("redeploy")
@asks_a_worker
def redeploy_cluster(
    asked: Asked, cluster: Cluster, folder: Dir = _FOLDER, wait: Wait = None
) -> None:
    """Take the three connectors of a source cluster away and deploy them again: they go on where they were."""
    connectors = read_deployment(folder, cluster)
    api = asked.open()
    tell = _silence if asked.as_json else _tell
    outcomes = undeploy(api, cluster, tell)
    if not _any_refused(outcomes):
        outcomes = deploy(api, connectors, tell)
    _finish(api, outcomes, names_of(cluster), wait, asked.as_json)


@app.command("status")
@asks_a_worker
def show_status(asked: Asked, cluster: Cluster) -> None:
    """Show how the three connectors of a source cluster stand."""
    api = asked.open()
    _show(
        [ask_standing(api, name, part) for name, part in names_of(cluster).items()], asked.as_json
    )


@app.command("list")
@asks_a_worker
def list_connectors(asked: Asked) -> None:
    """Show how all connectors stand."""
    api = asked.open()
    _show([ask_standing(api, name) for name in api.names()], asked.as_json)


@app.command()
@asks_a_worker
def pause(asked: Asked, name: Name) -> None:
    """Pause a connector: it keeps its tasks, which do nothing."""
    asked.open().set_state(name, "pause")
    _done(name, "is asked to pause", asked.as_json)


@app.command()
@asks_a_worker
def resume(asked: Asked, name: Name) -> None:
    """Let a paused or stopped connector run."""
    asked.open().set_state(name, "resume")
    _done(name, "is asked to run", asked.as_json)


@app.command()
@asks_a_worker
def stop(asked: Asked, name: Name) -> None:
    """Stop a connector: it has no tasks, and its offsets can be changed."""
    asked.open().set_state(name, "stop")
    _done(name, "is asked to stop", asked.as_json)


@app.command()
@asks_a_worker
def restart(
    asked: Asked,
    name: Name,
    tasks: Annotated[bool, typer.Option("--tasks", help="Its tasks too.")] = False,
    only_failed: Annotated[
        bool, typer.Option("--only-failed", help="Only what has failed of it.")
    ] = False,
) -> None:
    """Restart a connector."""
    asked.open().restart(name, tasks=tasks, only_failed=only_failed)
    _done(name, "is asked to restart" + (" what has failed" if only_failed else ""), asked.as_json)


@app.command()
@asks_a_worker
def offsets(
    asked: Asked,
    name: Name,
    reset: Annotated[
        bool, typer.Option("--reset", help="Forget them all: it begins anew.")
    ] = False,
    new: Annotated[
        Path | None,
        typer.Option(
            "--set", metavar="FILE", help="Set those of a JSON file, as this prints them."
        ),
    ] = None,
) -> None:
    """Show where a connector is, or change that while it is stopped."""
    if reset and new is not None:
        raise ConfigError("offsets takes --reset or --set, not both.")
    wanted = None if new is None else _read_offsets(new)
    api = asked.open()
    if reset or wanted is not None:
        message = api.alter_offsets(name, wanted)
        if asked.as_json:
            _print_json({"name": name, "message": message})
        else:
            print(f"{name}: {message}")
        return
    found = api.offsets(name)
    if asked.as_json:
        _print_json({"offsets": found})
    else:
        Console().print(_offsets_table(found))


def _finish(
    api: ConnectApi,
    outcomes: list[Outcome],
    names: Mapping[str, Part],
    wait: float | None,
    as_json: bool,
) -> None:
    """Wait if that is wanted, show what came of it, and end with the exit code."""
    failed = _any_refused(outcomes)
    if wait is None or failed:
        if as_json:
            _print_json([_outcome_json(outcome) for outcome in outcomes])
        sys.exit(failed)
    found = _wait(api, names, timedelta(seconds=wait))
    if as_json:
        told = zip(outcomes, found, strict=True)
        _print_json([{**_outcome_json(outcome), **stands.as_json()} for outcome, stands in told])
        sys.exit(not all(standing.is_running for standing in found))
    _show(found, as_json=False)


def _wait(api: ConnectApi, names: Mapping[str, Part], within: timedelta) -> list[Standing]:
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    console = Console(stderr=True)
    with Progress(
        *columns,
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as bar:
        task = bar.add_task("running", total=len(names))
        return wait_until_running(api, names, within, lambda n: bar.update(task, completed=n))


def _show(found: list[Standing], as_json: bool) -> None:
    if as_json:
        _print_json([standing.as_json() for standing in found])
    elif found:
        Console().print(_table(("name", "kind", "state", "tasks", "worker", "trace"), found))
    else:
        print("no connectors")
    sys.exit(not all(standing.is_running for standing in found))


def _table(headings: Iterable[str], found: list[Standing]) -> Table:
    table = Table(box=None)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for standing in found:
        table.add_row(*map(Text, standing.cells()))
    return table


def _offsets_table(found: list[dict[str, Any]]) -> Table:
    """Return a column for each key there is: which ones depends on the kind of connector."""
    rows = [{**entry["partition"], **(entry["offset"] or {})} for entry in found]
    keys = list(dict.fromkeys(key for row in rows for key in row)) or ["offset"]
    table = Table(box=None)
    for key in keys:
        table.add_column(key, overflow="fold")
    for row in rows:
        table.add_row(*(Text(str(row.get(key, ""))) for key in keys))
    return table


def _read_offsets(file: Path) -> list[Any]:
    try:
        content = json.loads(file.read_bytes())
    except OSError as exc:
        raise ConfigError(f"--set {file}: it cannot be read ({exc.strerror}).") from exc
    except ValueError as exc:
        raise ConfigError(f"--set {file}: it is not JSON ({exc}).") from exc
    offsets = content.get("offsets") if isinstance(content, dict) else content
    if not isinstance(offsets, list):
        raise ConfigError(
            f'--set {file}: write {{"offsets": [{{"partition": {{...}}, "offset": {{...}}}}]}}, '
            "as `heliograph connectors offsets NAME --json` prints it."
        )
    return offsets


def _tell(outcome: Outcome) -> None:
    what = f"{outcome.name} ({outcome.part}): {outcome.done}"
    if outcome.refused is None:
        print(what, flush=True)
    else:
        print(f"{what}: {outcome.refused}", file=sys.stderr, flush=True)


def _silence(_: Outcome) -> None:
    pass


def _done(name: str, what: str, as_json: bool) -> None:
    if as_json:
        _print_json({"name": name, "done": what})
    else:
        print(f"{name} {what}.")


def _any_refused(outcomes: list[Outcome]) -> bool:
    return any(outcome.refused is not None for outcome in outcomes)


def _outcome_json(outcome: Outcome) -> dict[str, Any]:
    refused = {} if outcome.refused is None else {"refused": outcome.refused}
    return {"name": outcome.name, "kind": outcome.part, "done": outcome.done, **refused}


def _print_json(value: object) -> None:
    print(json.dumps(value, indent=2))
