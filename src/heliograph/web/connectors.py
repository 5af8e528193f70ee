"""Connect's routes for connectors: each parses the request, asks the herder, and renders the answer."""

from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse

from heliograph.config.secrets import unmask
from heliograph.connect.herder import Config, Herder, RestError, TargetState
from heliograph.web import shapes
from heliograph.web.asked import WRITES, TheHerder
from heliograph.web.bodies import Json, config_in, fields_in
from heliograph.web.errors import unknown_as
from heliograph.web.plugins import check

_STATES = {
    "RUNNING": TargetState.STARTED,
    "PAUSED": TargetState.PAUSED,
    "STOPPED": TargetState.STOPPED,
}


router = APIRouter(prefix="/connectors", tags=["connectors"])


@router.get("", responses=shapes.answers(200, shapes.CONNECTORS))
def list_connectors(
    herder: TheHerder, expand: Annotated[list[str], Query(default_factory=list)]
) -> Any:
    names = herder.connectors()
    if not expand:
        return names
    found = {name: _expanded(herder, name, expand) for name in names}
    return {name: told for name, told in found.items() if told is not None}


@router.post(
    "",
    status_code=201,
    responses=shapes.answers(201, shapes.INFO),
    openapi_extra=shapes.takes(shapes.NEW_CONNECTOR),
    dependencies=WRITES,
)
def create_connector(herder: TheHerder, request: Request, body: Json) -> JSONResponse:
    fields = fields_in(body, "the request", "name", "config", "initial_state")
    if fields.get("config") is None:
        raise RestError(400, "the request has no config. Add it.")
    name = _name_in(fields.get("name"))
    config = _named(config_in(fields["config"], "config"), name)
    state = _state_in(fields.get("initial_state"))
    check(config)
    info, _ = herder.put_config(name, _stored(config), must_be_new=True, state=state)
    return _created(request, name, shapes.info(info))


@router.get("/{connector}", responses=shapes.answers(200, shapes.INFO))
def get_connector(herder: TheHerder, connector: str) -> dict[str, Any]:
    with unknown_as(f"Connector {connector} not found"):
        return shapes.info(herder.info(connector))


@router.delete("/{connector}", status_code=204, responses=shapes.answers(204), dependencies=WRITES)
def delete_connector(herder: TheHerder, connector: str) -> None:
    with unknown_as(f"Connector {connector} not found"):
        herder.delete(connector)


@router.get("/{connector}/config", responses=shapes.answers(200, shapes.CONFIG))
def get_config(herder: TheHerder, connector: str) -> Any:
    with unknown_as(f"Connector {connector} not found"):
        return shapes.info(herder.info(connector))["config"]


@router.put(
    "/{connector}/config",
    responses=shapes.answers(200, shapes.INFO) | shapes.answers(201, shapes.INFO),
    openapi_extra=shapes.takes(shapes.CONFIG),
    dependencies=WRITES,
)
def put_config(herder: TheHerder, request: Request, connector: str, body: Json) -> Any:
    sent = _named(config_in(body, "the configuration"), connector)
    config = unmask(_stored(sent), _config_of(herder, connector))
    check(config)
    info, is_new = herder.put_config(connector, config)
    shown = shapes.info(info)
    return _created(request, connector, shown) if is_new else shown


@router.patch(
    "/{connector}/config",
    responses=shapes.answers(200, shapes.INFO),
    openapi_extra=shapes.takes(shapes.CONFIG),
    dependencies=WRITES,
)
def patch_config(herder: TheHerder, connector: str, body: Json) -> dict[str, Any]:
    changes = config_in(body, "the patch")
    with unknown_as(f"Connector {connector} not found"):
        stored = herder.info(connector).config
    patched = _stored(_named({**stored, **changes}, connector))
    config = unmask(patched, stored)
    check(config)
    return shapes.info(herder.put_config(connector, config)[0])


@router.get("/{connector}/status", responses=shapes.answers(200, shapes.STATUS))
def get_status(herder: TheHerder, connector: str) -> dict[str, Any]:
    with unknown_as(f"No status found for connector {connector}"):
        return shapes.status(herder.status(connector))


@router.get("/{connector}/topics", responses=shapes.answers(200, shapes.TOPICS))
def get_topics(herder: TheHerder, connector: str) -> dict[str, Any]:
    try:
        return {connector: {"topics": herder.topics(connector)}}
    except RestError as exc:
        if exc.status != 404:
            raise
        return {connector: {"topics": []}}


@router.put(
    "/{connector}/topics/reset",
    status_code=202,
    response_class=Response,
    responses=shapes.answers(202),
)
def reset_topics(herder: TheHerder, connector: str) -> Response:
    try:
        herder.reset_topics(connector)
    except RestError as exc:
        if exc.status != 404:
            raise
    return Response(status_code=202)


def _expanded(herder: Herder, name: str, expand: list[str]) -> dict[str, Any] | None:
    """Return what was asked for, or None where the connector has vanished."""
    try:
        told: dict[str, Any] = {}
        if "info" in expand:
            told["info"] = shapes.info(herder.info(name))
        if "status" in expand:
            told["status"] = shapes.status(herder.status(name))
    except RestError as exc:
        if exc.status != 404:
            raise
        return None
    return told


def _name_in(name: Any) -> str:
    match name:
        case None:
            return ""
        case str():
            return name.strip()
        case int() if not isinstance(name, bool):
            return str(name)
        case _:
            raise RestError(400, "name must be a text. Correct it.")


def _state_in(state: Any) -> TargetState:
    if state is None:
        return TargetState.STARTED
    if not isinstance(state, str) or state.upper() not in _STATES:
        raise RestError(400, f"initial_state must be one of {', '.join(_STATES)}. Correct it.")
    return _STATES[state.upper()]


def _named(config: dict[str, str | None], name: str) -> dict[str, str | None]:
    inside = config.get("name")
    if inside is not None and inside != name:
        raise RestError(
            400,
            f"Connector name configuration ({inside}) doesn't match connector name in the URL ({name})",
        )
    return {**config, "name": name}


def _stored(config: dict[str, str | None]) -> Config:
    return {key: value for key, value in config.items() if value is not None}


def _config_of(herder: Herder, name: str) -> Config:
    try:
        return herder.info(name).config
    except RestError as exc:
        if exc.status != 404:
            raise
        return {}


def _created(request: Request, name: str, shown: dict[str, Any]) -> JSONResponse:
    location = f"{str(request.base_url).rstrip('/')}/connectors/{quote(name)}"
    return JSONResponse(shown, 201, {"Location": location})
