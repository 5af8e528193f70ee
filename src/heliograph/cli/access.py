"""`heliograph access`: who may use the REST API."""

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from heliograph.config.access import (
    Entry,
    Password,
    Token,
    hash_password,
    make_token,
    parse_role,
    put_entry,
    read_entries,
    remove_entries,
)
from heliograph.errors import ConfigError

app = typer.Typer(
    help="Say who may use the REST API, in the file that rest.access.file names.",
    no_args_is_help=True,
    add_completion=False,
)


@app.command()
def add(
    name: Annotated[str, typer.Argument(help="A person or a program.")],
    role: Annotated[
        str, typer.Option(metavar="ROLE", help="view (read), operate (change) or failover (all).")
    ],
    file: Annotated[
        Path,
        typer.Option(envvar="HELIOGRAPH_ACCESS_FILE", help="The file; it is made if need be."),
    ],
    token: Annotated[
        bool, typer.Option("--token", help="Print a new bearer token instead of taking a password.")
    ] = False,
) -> None:
    """Add an entry, or give a new password or token to one that is there; it counts at once.

    The password is asked for, or taken from HELIOGRAPH_PASSWORD.
    """
    given = parse_role(role)
    if token:
        text, hashed = make_token()
        replaced = put_entry(file, Entry(given, name, hashed))
        print(text)
    else:
        replaced = put_entry(file, Entry(given, name, hash_password(_ask_password())))
    what = "token" if token else "password"
    done = f"has a new {what}" if replaced else f"was added with a {what}"
    Console(stderr=True, highlight=False).print(f"{name} {done}, role {given}.", markup=False)


@app.command()
def remove(
    name: Annotated[str, typer.Argument(help="Who must not use the API any more.")],
    file: Annotated[Path, typer.Option(envvar="HELIOGRAPH_ACCESS_FILE", help="The file.")],
    token: Annotated[
        bool, typer.Option("--token", help="Take only the token away, not the password.")
    ] = False,
    password: Annotated[
        bool, typer.Option("--password", help="Take only the password away, not the token.")
    ] = False,
) -> None:
    """Take somebody's password and token away; it counts at once."""
    kind: type[Password | Token] | None = None
    what = "password or token"
    if token != password:
        kind, what = (Token, "token") if token else (Password, "password")
    if not remove_entries(file, name, kind):
        raise ConfigError(
            f"{name}: has no {what} in {file}. See `heliograph access list {file}` for who has."
        )
    done = f"has no {what} any more." if kind else "was removed."
    Console(stderr=True, highlight=False).print(f"{name} {done}", markup=False)


@app.command("list")
def list_entries(
    file: Annotated[Path, typer.Argument(help="The file.", envvar="HELIOGRAPH_ACCESS_FILE")],
) -> None:
    """Show who stands in a file, and with which role."""
    table = Table("name", "role", "by", box=None)
    for entry in sorted(read_entries(file), key=lambda entry: entry.name):
        by = "token" if isinstance(entry.proof, Token) else "password"
        table.add_row(entry.name, str(entry.role), by)
    Console(highlight=False, markup=False).print(table)


def _ask_password() -> str:
    given = os.environ.get("HELIOGRAPH_PASSWORD")
    if given is not None:
        return given
    asked: str = typer.prompt("Password", hide_input=True, confirmation_prompt=True)
    return asked
