import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.filesize import decimal
from rich.table import Table

from heliograph.embedded.cluster import Cluster, list_clusters, read_cluster, start_cluster
from heliograph.errors import ConfigError

app = typer.Typer(no_args_is_help=True, add_completion=False)


@app.callback()
def kafka() -> None:
    """Run real Kafka clusters on this machine."""


Name = Annotated[str, typer.Argument(help="The cluster's name.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command()
def start(
    name: Name,
    port: Annotated[
        int | None,
        typer.Option(
            help="The first broker's port; the others follow. A free one where not given."
        ),
    ] = None,
    brokers: Annotated[
        int | None, typer.Option(help="How many brokers, 1 to 3; 1 where not given.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Start a cluster, made on first use, and wait until it serves."""
    cluster = start_cluster(name, port=port, brokers=brokers)
    if as_json:
        print(json.dumps(_describe(cluster)))
    else:
        print(f"{name} serves at {cluster.bootstrap}")


@app.command()
def stop(name: Name) -> None:
    """Stop a cluster; its data stays."""
    cluster = _existing(name)
    if cluster.pids:
        cluster.stop()
        print(f"{name} stopped; its data stays in {cluster.folder}")
    else:
        print(f"{name} does not run")


@app.command()
def wipe(
    name: Name, yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False
) -> None:
    """Stop a cluster and delete all its topics and records."""
    cluster = _existing(name)
    print(
        f"This deletes {name} with all its records: {cluster.folder}, {decimal(_size(cluster.folder))}."
    )
    if not yes:
        if not sys.stdin.isatty():
            raise ConfigError(f"{name}: nobody is there to ask. Say --yes to wipe it.")
        typer.confirm("Wipe it?", abort=True)
    cluster.wipe()
    print(f"{name} is gone")


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """Show the clusters of this machine."""
    clusters = list_clusters()
    if as_json:
        print(json.dumps([_describe(cluster) for cluster in clusters]))
        return
    if not clusters:
        print("No clusters yet: `heliograph kafka start NAME` makes one.")
        return
    table = Table("name", "brokers", "bootstrap", "state", "pids", "size", box=None, pad_edge=False)
    for cluster in clusters:
        pids = cluster.pids
        table.add_row(
            cluster.name,
            str(len(cluster.layout.nodes)),
            cluster.bootstrap,
            _state(cluster, pids),
            " ".join(map(str, pids.values())),
            decimal(_size(cluster.folder)),
        )
    Console().print(table)


def _existing(name: str) -> Cluster:
    cluster = read_cluster(name)
    if cluster is None:
        known = ", ".join(cluster.name for cluster in list_clusters()) or "none"
        raise ConfigError(f"{name}: there is no such cluster. Known ones: {known}.")
    return cluster


def _describe(cluster: Cluster) -> dict[str, object]:
    pids = cluster.pids
    return {
        "name": cluster.name,
        "brokers": len(cluster.layout.nodes),
        "bootstrap": cluster.bootstrap,
        "state": _state(cluster, pids),
        "pids": list(pids.values()),
        "size_bytes": _size(cluster.folder),
    }


def _state(cluster: Cluster, pids: Mapping[int, int]) -> str:
    if len(pids) == len(cluster.layout.nodes):
        return "running"
    return "degraded" if pids else "stopped"


def _size(folder: Path) -> int:
    """Return the bytes on disk: Kafka's index files are sparse, their length says nothing."""
    return sum(file.stat().st_blocks * 512 for file in folder.rglob("*") if file.is_file())
