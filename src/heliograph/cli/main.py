"""The commands, each imported only when it is called: `--help` and `--version` stay quick.

A command is a line in COMMANDS: its name, where it is ("module:object", a function or a typer app) and its help.
Those of the clone lie beside `src`, and no wheel has them.
"""

import importlib
import importlib.metadata
import sys
import tomllib
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from heliograph.cli.clone import import_from_clone
from heliograph.errors import MirrorError


class Command(NamedTuple):
    where: str
    help: str
    of_clone: bool = False


COMMANDS: dict[str, Command] = {
    "demo": Command("heliograph.cli.demo:demo", "Two real clusters, load, the mirror, the proof."),
    "run": Command("heliograph.cli.run:run", "Mirror what an mm2.properties file says."),
    "worker": Command(
        "heliograph.cli.worker:worker", "Run connectors over Kafka Connect's REST API."
    ),
    "legacy": Command(
        "heliograph.cli.legacy:legacy", "Mirror as MirrorMaker 1 did, with its command line."
    ),
    "connectors": Command(
        "heliograph.cli.connectors:app", "Deploy and drive connectors over a worker's REST API."
    ),
    "top": Command("heliograph.cli.top:top", "Show the flows of a running mirror, live."),
    "access": Command("heliograph.cli.access:app", "Say who may use the REST API."),
    "plan": Command(
        "heliograph.cli.plan:plan", "Tell what a file would make, change and copy; touch nothing."
    ),
    "verify": Command("heliograph.cli.verify:verify", "Account for every record of a flow."),
    "failover": Command(
        "heliograph.cli.failover:failover", "Move consumer groups to the target of a flow."
    ),
    "failback": Command("heliograph.cli.failover:failback", "Undo a fail-over, exactly."),
    "drill": Command(
        "heliograph.cli.drill:drill", "Rehearse the loss of a cluster; measure what it costs."
    ),
    "explain": Command(
        "heliograph.cli.explain:app", "Say whether a group could fail over, and why not."
    ),
    "translate-offsets": Command(
        "heliograph.cli.translate:translate_offsets", "Where a consumer group may continue."
    ),
    "group-offset-sync": Command(
        "heliograph.cli.group_offset_sync:group_offset_sync",
        "Move consumer groups on the target, as MM2GroupOffsetSync does.",
    ),
    "package": Command(
        "heliograph.cli.package:package", "Pack heliograph for the executors of a Spark cluster."
    ),
    "kafka": Command("heliograph.cli.kafka:app", "Run real Kafka clusters on this machine."),
    "bench": Command(
        "bench.command:bench", "Measure heliograph beside a real MirrorMaker 2.", of_clone=True
    ),
    "chaos": Command(
        "lab.faults.chaos:chaos", "Break things under load and count the records.", of_clone=True
    ),
}


class _LazyGroup(TyperGroup):
    """Shows COMMANDS from the table, and loads the one that is called."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, command in COMMANDS.items():
            self.add_command(TyperCommand(name, help=command.help))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # typer keeps its types private
        name, shown, rest = super().resolve_command(ctx, args)
        return name, _load(name) if name and shown else None, rest


def _load(name: str) -> Any:
    where, _, of_clone = COMMANDS[name]
    path, _, attribute = where.partition(":")
    module = import_from_clone(name, path) if of_clone else importlib.import_module(path)
    found = getattr(module, attribute)
    if not isinstance(found, typer.Typer):
        function, found = found, typer.Typer(add_completion=False)
        found.command(name)(function)
    loaded = typer.main.get_command(found)
    loaded.name = name
    return loaded


app = typer.Typer(
    cls=_LazyGroup,
    help="Mirror Kafka clusters, as MirrorMaker 2 does and then some.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"heliograph {own_version()}")
        raise typer.Exit


def own_version() -> str:
    """Return the installed version, or a checkout's own."""
    try:
        return importlib.metadata.version("heliograph")
    except importlib.metadata.PackageNotFoundError:
        project = Path(__file__).parents[3] / "pyproject.toml"
        return str(tomllib.loads(project.read_text())["project"]["version"])


@app.callback()
def heliograph(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line; an error of ours becomes one sentence on stderr and its exit code."""
    try:
        app(prog_name="heliograph")
    except MirrorError as error:
        print(f"heliograph: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
