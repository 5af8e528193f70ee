"""Connectors and their states as Kafka Connect keeps them in its config and status topics.

    config topic
    connector-<name>            {"properties":{"key":"value",...}}
    task-<name>-<n>             {"properties":{"key":"value",...}}
    commit-<name>               {"tasks":<n>}                   the task rows before it take effect here
    target-state-<name>         {"state":"PAUSED","state.v2":"STOPPED"}
    restart-connector-<name>    {"include-tasks":true,"only-failed":false}

    status topic
    status-connector-<name>     {"state":"RUNNING","trace":null,"worker_id":"h:8083","generation":4,"version":"4.3.1"}
    status-task-<name>-<n>      the same
    status-topic-<topic>:connector-<name>
                                {"topic":{"name":"t","connector":"c","task":0,"discoverTimestamp":<ms>}}

`state` is for workers before Connect 3.5, which do not know STOPPED and get PAUSED instead. A null value
deletes its key. Other keys (session-key, tasks-fencing-<name>, logger-cluster-<name>) are ignored.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from heliograph.errors import CorruptRecord
from heliograph.wire.java_json import to_java_json

_CONNECTOR = "connector-"
_TASK = "task-"
_COMMIT = "commit-"
_TARGET_STATE = "target-state-"
_RESTART = "restart-connector-"
_STATUS_CONNECTOR = "status-connector-"
_STATUS_TASK = "status-task-"
_STATUS_TOPIC = "status-topic-"
_OF_CONNECTOR = ":connector-"
_INT32_MAX = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class ConnectorRow:
    name: str
    properties: Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class TaskRow:
    name: str
    index: int
    properties: Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class CommitRow:
    name: str
    tasks: int | None


@dataclass(frozen=True, slots=True)
class TargetStateRow:
    """`state` is STARTED, PAUSED or STOPPED, or what a later Connect may add."""

    name: str
    state: str | None


@dataclass(frozen=True, slots=True)
class RestartRow:
    name: str
    include_tasks: bool
    only_failed: bool


ConfigRow: TypeAlias = ConnectorRow | TaskRow | CommitRow | TargetStateRow | RestartRow


@dataclass(frozen=True, slots=True)
class Status:
    """What a worker reported about a connector or task in some generation of its group."""

    state: str
    worker_id: str
    generation: int
    trace: str | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True)
class ConnectorStatusRow:
    name: str
    status: Status | None


@dataclass(frozen=True, slots=True)
class TaskStatusRow:
    name: str
    index: int
    status: Status | None


@dataclass(frozen=True, slots=True)
class TopicRow:
    """A topic that a connector has written to; `task` is None if the row deletes that."""

    connector: str
    topic: str
    task: int | None
    discovered_ms: int = 0


StatusRow: TypeAlias = ConnectorStatusRow | TaskStatusRow | TopicRow
Json: TypeAlias = dict[str, object]


def encode_config_row(row: ConfigRow) -> tuple[bytes, bytes | None]:
    value: Json | None
    match row:
        case ConnectorRow(name, properties):
            key, value = f"{_CONNECTOR}{name}", _properties_value(properties)
        case TaskRow(name, index, properties):
            key, value = f"{_TASK}{name}-{index}", _properties_value(properties)
        case CommitRow(name, tasks):
            key, value = f"{_COMMIT}{name}", None if tasks is None else {"tasks": tasks}
        case TargetStateRow(name, state):
            old = "PAUSED" if state == "STOPPED" else state
            key = f"{_TARGET_STATE}{name}"
            value = None if state is None else {"state": old, "state.v2": state}
        case RestartRow(name, include_tasks, only_failed):
            key = f"{_RESTART}{name}"
            value = {"include-tasks": include_tasks, "only-failed": only_failed}
        case _:
            assert_never(row)
    return key.encode(), _encode(value)


def decode_config_row(key: bytes, value: bytes | None) -> ConfigRow | None:
    """Return a row of the config topic; None for a key that is not for us, CorruptRecord for a bad value."""
    text = _text_key(key)
    if text.startswith(_CONNECTOR):
        return ConnectorRow(text.removeprefix(_CONNECTOR), _properties(key, value))
    if text.startswith(_TASK):
        name, index = _task(text.removeprefix(_TASK))
        return None if index is None else TaskRow(name, index, _properties(key, value))
    if text.startswith(_COMMIT):
        found = _members(key, value)
        tasks = None if found is None else _whole(key, value, found, "tasks")
        return CommitRow(text.removeprefix(_COMMIT), tasks)
    if text.startswith(_TARGET_STATE):
        return TargetStateRow(text.removeprefix(_TARGET_STATE), _target_state(key, value))
    return _restart(key, value) if text.startswith(_RESTART) else None


def encode_status_row(row: StatusRow) -> tuple[bytes, bytes | None]:
    value: Json | None
    match row:
        case ConnectorStatusRow(name, status):
            key, value = f"{_STATUS_CONNECTOR}{name}", _status_value(status)
        case TaskStatusRow(name, index, status):
            key, value = f"{_STATUS_TASK}{name}-{index}", _status_value(status)
        case TopicRow(connector, topic, task, discovered_ms):
            key = f"{_STATUS_TOPIC}{topic}{_OF_CONNECTOR}{connector}"
            members = {"name": topic, "connector": connector, "task": task}
            value = {"topic": {**members, "discoverTimestamp": discovered_ms}}
            value = None if task is None else value
        case _:
            assert_never(row)
    return key.encode(), _encode(value)


def decode_status_row(key: bytes, value: bytes | None) -> StatusRow | None:
    """Return a row of the status topic; None for a key that is not for us, CorruptRecord for a bad value."""
    text = _text_key(key)
    if text.startswith(_STATUS_CONNECTOR):
        return ConnectorStatusRow(text.removeprefix(_STATUS_CONNECTOR), _status(key, value))
    if text.startswith(_STATUS_TASK):
        name, index = _task(text.removeprefix(_STATUS_TASK))
        return None if index is None else TaskStatusRow(name, index, _status(key, value))
    topic, colon, connector = text.removeprefix(_STATUS_TOPIC).partition(_OF_CONNECTOR)
    if not text.startswith(_STATUS_TOPIC) or not colon:
        return None
    found = _members(key, value)
    if found is None:
        return TopicRow(connector, topic, None)
    match found:
        case {"topic": {"task": int(task), "discoverTimestamp": int(discovered_ms)}}:
            return TopicRow(connector, topic, task, discovered_ms)
    raise _corrupt(key, value)


def _properties_value(properties: Mapping[str, str] | None) -> Json | None:
    return None if properties is None else {"properties": dict(properties)}


def _properties(key: bytes, value: bytes | None) -> dict[str, str] | None:
    found = _members(key, value)
    if found is None:
        return None
    match found:
        case {"properties": dict(members)}:
            # Connect treats a null as an absent key.
            kept = {name: text for name, text in members.items() if text is not None}
            if all(isinstance(text, str) for text in kept.values()):
                return kept
    raise _corrupt(key, value)


def _target_state(key: bytes, value: bytes | None) -> str | None:
    found = _members(key, value)
    if found is None:
        return None
    state = found.get("state.v2") or found.get("state")
    if not isinstance(state, str):
        raise _corrupt(key, value)
    return state


def _restart(key: bytes, value: bytes | None) -> RestartRow | None:
    found = _members(key, value)
    if found is None:
        return None
    asked = [found.get(member) is True for member in ("include-tasks", "only-failed")]
    return RestartRow(key.decode().removeprefix(_RESTART), *asked)


def _status_value(status: Status | None) -> Json | None:
    if status is None:
        return None
    return {
        "state": status.state,
        "trace": status.trace,
        "worker_id": status.worker_id,
        "generation": status.generation,
        "version": status.version,
    }


def _status(key: bytes, value: bytes | None) -> Status | None:
    found = _members(key, value)
    if found is None:
        return None
    match found:
        case {"state": str(state), "worker_id": str(worker_id)}:
            trace, version = found.get("trace"), found.get("version")
            return Status(
                state,
                worker_id,
                _whole(key, value, found, "generation"),
                trace if isinstance(trace, str) else None,
                version if isinstance(version, str) else None,
            )
    raise _corrupt(key, value)


def _task(text: str) -> tuple[str, int | None]:
    """Split <name>-<n>; the name may contain dashes."""
    name, _, index = text.rpartition("-")
    return name, int(index) if name and re.fullmatch("[0-9]{1,10}", index) else None


def _text_key(key: bytes) -> str:
    try:
        return key.decode()
    except UnicodeDecodeError:
        return ""


def _encode(value: Json | None) -> bytes | None:
    return None if value is None else to_java_json(value).encode()


def _members(key: bytes, value: bytes | None) -> Json | None:
    if value is None:
        return None
    try:
        found = json.loads(value.decode())
        json.dumps(found, ensure_ascii=False).encode()  # a lone surrogate is not text
    except (ValueError, RecursionError) as exc:
        raise _corrupt(key, value) from exc
    if found is not None and not isinstance(found, dict):
        raise _corrupt(key, value)
    return found


def _whole(key: bytes, value: bytes | None, found: Json, name: str) -> int:
    number = found.get(name)
    if type(number) is not int or not 0 <= number <= _INT32_MAX:
        raise _corrupt(key, value)
    return number


def _corrupt(key: bytes, value: bytes | None) -> CorruptRecord:
    # Not the value: a connector's properties hold passwords.
    return CorruptRecord(
        f"the row {key[:300].decode(errors='replace')} has a value of {len(value or b'')} bytes that is "
        "not Connect's JSON. Write it anew through the REST API, or delete it."
    )
