"""Connect's routes that drive connectors: states, tasks, restarts, offsets."""

from datetime import timedelta
from typing import Annotated, Any, cast

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse

from heliograph.config.fields import Part
from heliograph.config.validate import find_plugin
from heliograph.connect.alter_offsets import (
    check_checkpoint_offset,
    check_heartbeat_offset,
    check_source_offset,
)
from heliograph.connect.herder import Herder, Offset, RestError, TargetState
from heliograph.errors import ConfigError
from heliograph.web import shapes
from heliograph.web.asked import TheHerder
from heliograph.web.bodies import Json, fields_in
from heliograph.web.errors import unknown_as
from heliograph.web.inquiries import Inquiries
from heliograph.web.looking import FAULTS, LOOKS, as_a_gateway

_CHECKS = {
    Part.SOURCE: check_source_offset,
    Part.CHECKPOINT: check_checkpoint_offset,
    Part.HEARTBEAT: check_heartbeat_offset,
}

_READING = timedelta(seconds=20)  # a worker's topic may hold the positions of many connectors
_READ_AT_ONCE = 8

router = APIRouter(prefix="/connectors/{connector}", tags=["connectors"])


@router.put("/pause", status_code=202, response_class=Response, responses=shapes.answers(202))
def pause(herder: TheHerder, connector: str) -> Response:
    return _wish(herder, connector, TargetState.PAUSED, 202)


@router.put("/resume", status_code=202, response_class=Response, responses=shapes.answers(202))
def resume(herder: TheHerder, connector: str) -> Response:
    return _wish(herder, connector, TargetState.STARTED, 202)


@router.put("/stop", status_code=204, responses=shapes.answers(204))
def stop(herder: TheHerder, connector: str) -> Response:
    return _wish(herder, connector, TargetState.STOPPED, 204)


@router.post("/restart", responses=shapes.answers(202, shapes.STATUS) | shapes.answers(204))
def restart(
    herder: TheHerder,
    connector: str,
    include_tasks: Annotated[str, Query(alias="includeTasks")] = "false",
    only_failed: Annotated[str, Query(alias="onlyFailed")] = "false",
) -> Response:
    tasks, failed = _is_true(include_tasks), _is_true(only_failed)
    with unknown_as(f"Unknown connector: {connector}"):
        planned = herder.restart(connector, include_tasks=tasks, only_failed=failed)
    if not tasks and not failed:
        return Response(status_code=204)
    return JSONResponse(shapes.status(planned), 202)


def _wish(herder: Herder, connector: str, state: TargetState, status: int) -> Response:
    with unknown_as(f"Unknown connector {connector}"):
        herder.set_target_state(connector, state)
    return Response(status_code=status)


@router.get("/tasks", responses=shapes.answers(200, shapes.TASKS))
def list_tasks(herder: TheHerder, connector: str) -> list[dict[str, Any]]:
    with unknown_as(f"Connector {connector} not found"):
        return shapes.tasks(herder.info(connector))


@router.get("/tasks/{task:int}/status", responses=shapes.answers(200, shapes.TASK_STATUS))
def get_task_status(herder: TheHerder, connector: str, task: int) -> dict[str, Any]:
    missing = f"No status found for task {connector}-{task}"
    with unknown_as(missing):
        found = herder.status(connector).tasks
    for status in found:
        if status.index == task:
            return shapes.task_status(status)
    raise RestError(404, missing)


@router.post("/tasks/{task:int}/restart", status_code=204, responses=shapes.answers(204))
def restart_task(herder: TheHerder, connector: str, task: int) -> None:
    with unknown_as(f"Unknown connector: {connector}"):
        tasks = herder.status(connector).tasks
    with unknown_as(f"Unknown task: {connector}-{task}"):
        if task not in {status.index for status in tasks}:
            raise RestError(404, "")
        herder.restart_task(connector, task)


@router.get("/offsets", responses=FAULTS | shapes.answers(200, shapes.OFFSETS))
async def get_offsets(request: Request, herder: TheHerder, connector: str) -> dict[str, Any]:
    def find() -> list[Offset]:
        with unknown_as(f"Connector {connector} not found"), as_a_gateway():
            return herder.offsets(connector)

    asked = cast("Inquiries[list[Offset]]", request.app.state.offsets)
    # Not shared: a request after a change could get an answer from before it.
    return {"offsets": await asked.ask(object(), find, _READING, most=_READ_AT_ONCE)}


@router.patch(
    "/offsets",
    responses=shapes.answers(200, shapes.MESSAGE),
    dependencies=LOOKS,
    openapi_extra=shapes.takes(shapes.OFFSETS),
)
def alter_offsets(herder: TheHerder, connector: str, body: Json) -> dict[str, str]:
    offsets = _offsets_in(body)
    with unknown_as(f"Connector {connector} not found"):
        part = find_plugin(herder.info(connector).config.get("connector.class", ""))
        assert part is not None, f"{connector} was validated when it was made"
        _check_offsets(part, offsets)
        herder.alter_offsets(connector, offsets)
    return {"message": "The offsets for this connector have been altered successfully"}


@router.delete("/offsets", responses=shapes.answers(200, shapes.MESSAGE), dependencies=LOOKS)
def reset_offsets(herder: TheHerder, connector: str) -> dict[str, str]:
    with unknown_as(f"Connector {connector} not found"):
        herder.alter_offsets(connector, None)
    return {"message": "The offsets for this connector have been reset successfully"}


def _is_true(word: str) -> bool:
    return word.lower() == "true"


def _offsets_in(body: Any) -> list[Offset]:
    offsets = fields_in(body, "the request", "offsets").get("offsets")
    if offsets is not None and not isinstance(offsets, list):
        raise RestError(400, "offsets must be a list. Correct it.")
    if not offsets:
        raise RestError(
            400, "Partitions / offsets need to be provided for an alter offsets request"
        )
    return [_offset_in(offset) for offset in offsets]


def _offset_in(offset: Any) -> Offset:
    fields = fields_in(offset, "an offset", "partition", "offset")
    for key in ("partition", "offset"):
        if not isinstance(fields.get(key), dict | None):
            raise RestError(400, f"{key} must be a JSON object or null. Correct it.")
    return {"partition": fields.get("partition"), "offset": fields.get("offset")}


def _check_offsets(part: Part, offsets: list[Offset]) -> None:
    for offset in offsets:
        try:
            _CHECKS[part](offset["partition"], offset["offset"])
        except ConfigError as exc:
            raise RestError(400, str(exc)) from exc
