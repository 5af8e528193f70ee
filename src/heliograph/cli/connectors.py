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

from heliograph.cli.credentials import CaCert, TokenFile, User, open_api
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
Url = Annotated[
    str, typer.Option(envvar="HELIOGRAPH_URL", help="A worker; any one of a group will do.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Wait = Annotated[
    float | None,
    typer.Option(metavar="SECONDS", min=0, help="Wait until all of them run, this long at most."),
]
_FOLDER = Path("mm2")
_URL = "http://localhost:8083"


@app.command("deploy")
def deploy_cluster(
    cluster: Cluster,
    folder: Dir = _FOLDER,
    url: Url = _URL,
    *,
    user: User = None,
    token_file: TokenFile = None,
    cacert: CaCert = None,
    wait: Wait = None,
    as_json: Json = False,
) -> None:
    """Deploy the three connectors of a source cluster; those that are deployed already are left alone."""
    connectors = read_deployment(folder, cluster)
    api = open_api(url, user, token_file, cacert)
    outcomes = deploy(api, connectors, _silence if as_json else _tell)
    _finish(api, outcomes, names_of(cluster), wait, as_json)


@app.command("undeploy")
def undeploy_cluster(
    cluster: Cluster,
    url: Url = _URL,
    *,
    user: User = None,
    token_file: TokenFile = None,
    cacert: CaCert = None,
    as_json: Json = False,
) -> None:
    """Take the three connectors of a source cluster away; their positions stay, and their topics."""
    outcomes = undeploy(
        open_api(url, user, token_file, cacert), cluster, _silence if as_json else _tell
    )
    if as_json:
        _print_json([_outcome_json(outcome) for outcome in outcomes])
    sys.exit(_any_refused(outcomes))


@app.command("redeploy")
def redeploy_cluster(
    cluster: Cluster,
    folder: Dir = _FOLDER,
    url: Url = _URL,
    *,
    user: User = None,
    token_file: TokenFile = None,
    cacert: CaCert = None,
    wait: Wait = None,
    as_json: Json = False,
) -> None:
    """Take the three connectors of a source cluster away and deploy them again: they go on where they were."""
    connectors = read_deployment(folder, cluster)
    api = open_api(url, user, token_file, cacert)
    tell = _silence if as_json else _tell
    outcomes = undeploy(api, cluster, tell)
    if not _any_refused(outcomes):
        outcomes = deploy(api, connectors, tell)
    _finish(api, outcomes, names_of(cluster), wait, as_json)


@app.command("status")
def show_status(
    cluster: Cluster,
    url: Url = _URL,
    *,
    user: User = None,
    token_file: TokenFile = None,
    cacert: CaCert = None,
    as_json: Json = False,
) -> None:
    """Show how the three connectors of a source cluster stand."""
    api = open_api(url, user, token_file, cacert)
    _show([ask_standing(api, name, part) for name, part in names_of(cluster).items()], as_json)


@app.command("list")
def list_connectors(
    url: Url = _URL,
    *,
    user: User = None,
    token_file: TokenFile = None,
    cacert: CaCert = None,
    as_json: Json = False,
) -> None:
    """Show how all connectors stand."""
    api = open_api(url, user, token_file, cacert)
    _show([ask_standing(api, name) for name in api.names()], as_json)


@app.command()
def pause(
    name: Name,
    url: Url = _URL,
    *,
    user: User = None,
    token_file: TokenFile = None,
    cacert: CaCert = None,
    as_json: Json = False,
) -> None:
    """Pause a connector: it keeps its tasks, which do nothing."""
    open_api(url, user, token_file, cacert).set_state(name, "pause")
    _done(name, "is asked to pause", as_json)


@app.command()
def resume(
    name: Name,
    url: Url = _URL,
    *,
    user: User = None,
    token_file: TokenFile = None,
    cacert: CaCert = None,
    as_json: Json = False,
) -> None:
    """Let a paused or stopped connector run."""
    open_api(url, user, token_file, cacert).set_state(name, "resume")
    _done(name, "is asked to run", as_json)


@app.command()
def stop(
    name: Name,
    url: Url = _URL,
    *,
    user: User = None,
    token_file: TokenFile = None,
    cacert: CaCert = None,
    as_json: Json = False,
) -> None:
    """Stop a connector: it has no tasks, and its offsets can be changed."""
    open_api(url, user, token_file, cacert).set_state(name, "stop")
    _done(name, "is asked to stop", as_json)


@app.command()
def restart(
    name: Name,
    url: Url = _URL,
    *,
    user: User = None,
    token_file: TokenFile = None,
    cacert: CaCert = None,
    tasks: Annotated[bool, typer.Option("--tasks", help="Its tasks too.")] = False,
    only_failed: Annotated[
        bool, typer.Option("--only-failed", help="Only what has failed of it.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Restart a connector."""
    open_api(url, user, token_file, cacert).restart(name, tasks=tasks, only_failed=only_failed)
    _done(name, "is asked to restart" + (" what has failed" if only_failed else ""), as_json)


@app.command()
def offsets(
    name: Name,
    url: Url = _URL,
    *,
    user: User = None,
    token_file: TokenFile = None,
    cacert: CaCert = None,
    reset: Annotated[
        bool, typer.Option("--reset", help="Forget them all: it begins anew.")
    ] = False,
    new: Annotated[
        Path | None,
        typer.Option(
            "--set", metavar="FILE", help="Set those of a JSON file, as this prints them."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show where a connector is, or change that while it is stopped."""
    if reset and new is not None:
        raise ConfigError("offsets takes --reset or --set, not both.")
    wanted = None if new is None else _read_offsets(new)
    api = open_api(url, user, token_file, cacert)
    if reset or wanted is not None:
        message = api.alter_offsets(name, wanted)
        _print_json({"name": name, "message": message}) if as_json else print(f"{name}: {message}")
        return
    found = api.offsets(name)
    if as_json:
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
