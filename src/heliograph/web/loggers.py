"""Levels of this process's loggers, by the names that Connect has for levels."""

import logging
import time
from collections.abc import Iterator
from typing import Annotated, Any, cast

from fastapi import APIRouter, Depends, Request, Response

from heliograph.connect.herder import RestError
from heliograph.web import shapes
from heliograph.web.bodies import Json, config_in

_LEVELS = {
    "OFF": logging.CRITICAL + 10,
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": 5,
}
_ROOT = "root"


router = APIRouter(prefix="/admin/loggers", tags=["loggers"])


async def _changed(request: Request) -> dict[str, int]:
    return cast(dict[str, int], request.app.state.levels_changed)


# When a level was set through this API, in milliseconds.
Changed = Annotated[dict[str, int], Depends(_changed)]


@router.get("", responses=shapes.answers(200, shapes.LOGGERS))
def list_loggers(changed: Changed) -> dict[str, Any]:
    return {name: _show(name, changed) for name in sorted(_known())}


@router.get("/{logger}", responses=shapes.answers(200, shapes.LOGGER))
def get_logger(logger: str, changed: Changed) -> dict[str, Any]:
    if logger not in _known():
        raise RestError(404, f"Logger {logger} not found.")
    return _show(logger, changed)


@router.put(
    "/{logger}",
    responses=shapes.answers(200, shapes.NAMES) | shapes.answers(204),
    openapi_extra=shapes.takes(shapes.CONFIG),
)
def set_level(logger: str, body: Json, changed: Changed, scope: str = "worker") -> Any:
    wanted = config_in(body, "the level").get("level")
    if wanted is None:
        raise RestError(400, "Desired 'level' parameter was not specified in request.")
    if wanted.upper() not in _LEVELS:
        raise RestError(404, f"invalid log level '{wanted}'.")
    level = _LEVELS[wanted.upper()]
    names = [name for name in _below(logger) if _logger(name).level != level]
    for name in names:
        _logger(name).setLevel(level)
        changed[name] = int(time.time() * 1000)
    return Response(status_code=204) if scope == "cluster" else names


def _show(name: str, changed: dict[str, int]) -> dict[str, Any]:
    return {"level": _level_of(_logger(name)), "last_modified": changed.get(name)}


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == _ROOT else name)


def _known() -> set[str]:
    return {_ROOT, *_existing()}


def _existing() -> Iterator[str]:
    for name, logger in list(logging.root.manager.loggerDict.items()):
        if isinstance(logger, logging.Logger):
            yield name


def _below(name: str) -> list[str]:
    """Return a logger, which need not exist yet, and all below it."""
    if name == _ROOT:
        return sorted(_known())
    return sorted({name, *(other for other in _existing() if other.startswith(f"{name}."))})


def _level_of(logger: logging.Logger) -> str:
    """Return the name of the highest level that is not above the logger's."""
    effective = logger.getEffectiveLevel()
    return next((name for name, level in _LEVELS.items() if effective >= level), "TRACE")
