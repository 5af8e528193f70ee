"""The JSON of Connect's answers: how each value is written, and the schemas that OpenAPI shows."""

import importlib.metadata
from http import HTTPStatus
from typing import Any

from heliograph.config.secrets import redact
from heliograph.connect.herder import ConnectorInfo, ConnectorStatus, TaskStatus

_KAFKA = "4.3.1"

Schema = dict[str, Any]
_TEXT: Schema = {"type": "string"}
_TEXT_OR_NULL: Schema = {"type": ["string", "null"]}
_NUMBER: Schema = {"type": "integer"}
_STATES = ["UNASSIGNED", "RUNNING", "PAUSED", "FAILED", "RESTARTING", "STOPPED"]


def version() -> str:
    """Return the version of Connect whose API this is, followed by our own."""
    try:
        return f"{_KAFKA}-heliograph-{importlib.metadata.version('heliograph')}"
    except importlib.metadata.PackageNotFoundError:
        return f"{_KAFKA}-heliograph"


def info(connector: ConnectorInfo) -> dict[str, Any]:
    return {
        "name": connector.name,
        "config": redact(connector.config),
        "tasks": [_task_id(connector, index) for index in range(len(connector.tasks))],
        "type": "source",
    }


def tasks(connector: ConnectorInfo) -> list[dict[str, Any]]:
    return [
        {"id": _task_id(connector, index), "config": redact(config)}
        for index, config in enumerate(connector.tasks)
    ]


def status(connector: ConnectorStatus) -> dict[str, Any]:
    return {
        "name": connector.name,
        "connector": _state(connector),
        "tasks": [
            task_status(task) for task in sorted(connector.tasks, key=lambda task: task.index)
        ],
        "type": "source",
    }


def task_status(task: TaskStatus) -> dict[str, Any]:
    return {"id": task.index, **_state(task)}


def _state(of: ConnectorStatus | TaskStatus) -> dict[str, Any]:
    trace = {"trace": of.trace} if of.trace else {}
    return {"state": of.state.value, "worker_id": of.worker_id, "version": version(), **trace}


def _task_id(connector: ConnectorInfo, index: int) -> dict[str, Any]:
    return {"connector": connector.name, "task": index}


def _map(values: Schema) -> Schema:
    return {"type": "object", "additionalProperties": values}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _object(*optional: str, **fields: Schema) -> Schema:
    return {
        "type": "object",
        "properties": fields,
        "required": [name for name in fields if name not in optional],
        "additionalProperties": False,
    }


_SCALAR: Schema = {"type": ["string", "number", "boolean", "null"]}
_ANY_OBJECT: Schema = {"type": ["object", "null"]}
_STATE = {
    "state": {"type": "string", "enum": _STATES},
    "worker_id": _TEXT,
    "version": _TEXT,
    "trace": _TEXT,
}
_TASK_ID = _object(connector=_TEXT, task=_NUMBER)
_DEFINITION = _object(
    name=_TEXT,
    type=_TEXT,
    required={"type": "boolean"},
    default_value=_TEXT_OR_NULL,
    importance={"type": "string", "enum": ["HIGH", "MEDIUM", "LOW"]},
    documentation=_TEXT,
    group=_TEXT_OR_NULL,
    order_in_group=_NUMBER,
    width={"type": "string", "enum": ["NONE", "SHORT", "MEDIUM", "LONG"]},
    display_name=_TEXT,
    dependents=_list(_TEXT),
)
_VALUE = _object(
    name=_TEXT,
    value=_TEXT_OR_NULL,
    recommended_values=_list(_TEXT),
    errors=_list(_TEXT),
    visible={"type": "boolean"},
)

ROOT = _object(version=_TEXT, commit=_TEXT, kafka_cluster_id=_TEXT)
HEALTH = _object(
    status={"type": "string", "enum": ["healthy", "starting", "unhealthy"]}, message=_TEXT
)
CONFIG = _map(_SCALAR)
NAMES = _list(_TEXT)
INFO = _object(name=_TEXT, config=_map(_TEXT), tasks=_list(_TASK_ID), type=_TEXT)
TASK_STATUS = _object("trace", id=_NUMBER, **_STATE)
STATUS = _object(
    name=_TEXT, connector=_object("trace", **_STATE), tasks=_list(TASK_STATUS), type=_TEXT
)
CONNECTORS: Schema = {
    "anyOf": [NAMES, _map(_object("info", "status", info=INFO, status=STATUS))],
}
NEW_CONNECTOR = _object(
    "initial_state",
    name=_TEXT,
    config=CONFIG,
    initial_state={"type": "string", "enum": ["RUNNING", "PAUSED", "STOPPED"]},
)
TASKS = _list(_object(id=_TASK_ID, config=_map(_TEXT)))
TOPICS = _map(_object(topics=NAMES))
OFFSETS = _object(offsets=_list(_object(partition=_ANY_OBJECT, offset=_ANY_OBJECT)))
MESSAGE = _object(message=_TEXT)
PLUGINS = _list(_object(**{"class": _TEXT, "type": _TEXT, "version": _TEXT}))
DEFINITIONS = _list(_DEFINITION)
VALIDATION = _object(
    name=_TEXT,
    error_count=_NUMBER,
    groups=NAMES,
    configs=_list(_object(definition={"anyOf": [_DEFINITION, {"type": "null"}]}, value=_VALUE)),
)
LOGGER = _object(level=_TEXT, last_modified={"type": ["integer", "null"]})
LOGGERS = _map(LOGGER)
ERROR = _object(error_code=_NUMBER, message=_TEXT)


def answers(status: int, schema: Schema | None = None) -> dict[int | str, dict[str, Any]]:
    """Return what OpenAPI says of one of a route's answers."""
    content = {} if schema is None else {"content": {"application/json": {"schema": schema}}}
    return {status: {"description": HTTPStatus(status).phrase, **content}}


def takes(schema: Schema) -> dict[str, Any]:
    """Return what OpenAPI says of the body that a route takes."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def error(description: str) -> dict[str, Any]:
    """Return what OpenAPI says of errors."""
    return {"description": description, "content": {"application/json": {"schema": ERROR}}}
