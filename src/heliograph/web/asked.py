"""FastAPI dependencies shared by the routes."""

from typing import Annotated, cast

from fastapi import Depends, Request

from heliograph.connect.herder import Herder, RestError


async def _herder(request: Request) -> Herder:
    return cast(Herder, request.app.state.herder)


async def _must_be_writable(request: Request) -> None:
    if request.app.state.read_only:
        raise RestError(403, "connectors of this process are those of its file. Change the file.")


TheHerder = Annotated[Herder, Depends(_herder)]
WRITES = [Depends(_must_be_writable)]
"""For routes that create, change or delete a connector."""
