"""What is wrong with a connector's configuration, key by key, in the JSON of Connect's REST API.

No connection is made and no file is read: a value with an expression in it, `${file:...}`, is assumed to be right.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from heliograph.config.clients import client_props
from heliograph.config.definitions import GROUPS, as_text, define, fields_validated
from heliograph.config.fields import INT, LONG, SHORT, Field, NotAllowed, Part
from heliograph.config.flow import read_policy
from heliograph.config.mistakes import InvalidSetting
from heliograph.config.precedence import CLASS_NAMES, CLASSES
from heliograph.config.secrets import HIDDEN, is_secret
from heliograph.config.settings_checkpoint import CheckpointSettings
from heliograph.config.settings_connector import ConnectorSettings
from heliograph.config.settings_own import IsolationLevel, ReadSettings
from heliograph.config.settings_source import FlowOnlySettings, SourceSettings

Values = Mapping[str, str | None]
# Connect accepts a user's own class for these keys; only the default works here.
_ONLY_DEFAULT = (
    "topic.filter.class",
    "group.filter.class",
    "config.property.filter.class",
    "forwarding.admin.class",
)
_NUMBERS = {"SHORT": SHORT, "INT": INT, "LONG": LONG}
_EXPRESSION = re.compile(r"\$\{[^}]*:[^}]*\}")


def find_plugin(name: str) -> Part | None:
    """Return the connector of a class, by its full name, its simple name, or that without "Connector"."""
    wanted = name.strip()
    for part, class_name in CLASSES.items():
        simple = CLASS_NAMES[part]
        if wanted in (class_name, simple, simple.removesuffix("Connector")):
            return part
    return None


def validate(part: Part, config: Values) -> dict[str, Any]:
    """Return all keys of a connector with their values and what is wrong with each."""
    broken = dict(_broken_rules(part, config))
    configs: list[dict[str, Any]] = [
        {"definition": define(field), "value": _value(field, config, broken.pop(field.name, None))}
        for field in fields_validated(part)
    ]
    # A rule can be about a key that this connector does not declare.
    configs += [
        {"definition": None, "value": _shown(key, None, [error])} for key, error in broken.items()
    ]
    return {
        "name": config.get("connector.class") or CLASSES[part],
        "error_count": sum(len(entry["value"]["errors"]) for entry in configs),
        "groups": list(GROUPS),
        "configs": configs,
    }


def mistakes(validated: Mapping[str, Any]) -> list[str]:
    """Return the errors of a validation, one sentence each."""
    return [error for entry in validated["configs"] for error in entry["value"]["errors"]]


def _value(field: Field[object], config: Values, broken: str | None) -> dict[str, Any]:
    value, errors = _read(field, config)
    return _shown(field.name, value, [*errors, *([broken] if broken else [])], config)


def _shown(
    key: str, value: str | None, errors: list[str], config: Values | None = None
) -> dict[str, Any]:
    converter = (
        key.removesuffix(".plugin.version") if key.endswith("converter.plugin.version") else ""
    )
    return {
        "name": key,
        "value": value,
        "recommended_values": [],
        "errors": errors,
        "visible": not converter or bool(config and config.get(converter)),
    }


def _read(field: Field[object], config: Values) -> tuple[str | None, list[str]]:
    """Return the value as it would be used, and what is wrong with it."""
    raw = config.get(field.name)
    if raw is None:
        missing = [_missing(field.name)] if field.required else []
        unset = field.required or field.name in config
        return None if unset else as_text(field, field.default), missing
    if field.secret:
        return HIDDEN, []
    if _EXPRESSION.search(raw):
        return raw, []
    try:
        parsed = field.kind.parse(raw)
    except NotAllowed as exc:
        return _as_typed(field.kind.name, raw), [_wrong(field.name, raw, str(exc))]
    if (reason := _unusable(field, raw)) is not None:
        return (None if field.kind.name == "CLASS" else raw), [_wrong(field.name, raw, reason)]
    return as_text(field, parsed), []


def _as_typed(kind: str, raw: str) -> str | None:
    """Return a value that is out of bounds; one that is not even of its type is null in Connect."""
    if kind == "STRING":
        return raw
    try:
        return str(_NUMBERS[kind].parse(raw)) if kind in _NUMBERS else None
    except NotAllowed:
        return None


def _unusable(field: Field[object], raw: str) -> str | None:
    """Return why a value of the right type cannot be used."""
    if field is ConnectorSettings.name:
        if not raw.strip():
            return "String may not be empty"
        if any(ord(letter) < 32 or ord(letter) == 127 for letter in raw):
            return "String may not contain control sequences"
    if field is ConnectorSettings.replication_policy_class:
        try:
            read_policy({field.name: raw})
        except InvalidSetting as exc:
            return exc.allowed
    if field.name in _ONLY_DEFAULT and raw.strip() != field.default:
        return f"{field.default}, because a Java class cannot be loaded"
    if field.name == "transforms" and raw.strip():
        return "must be empty, because records are copied byte for byte"
    return None


def _broken_rules(part: Part, config: Values) -> Iterator[tuple[str, str]]:
    """Yield masks sent in place of values, and combinations of keys that MM2's connectors refuse."""
    props = {key: value for key, value in config.items() if value is not None}
    for key, value in props.items():
        if value == HIDDEN and is_secret(key):
            yield key, _wrong(key, HIDDEN, "that is the mask, send the value")
    if part is Part.SOURCE:
        yield from _broken_source_rules(props)
    if part is Part.CHECKPOINT and props.get("enabled") != "false":
        for key in (
            SourceSettings.emit_offset_syncs_enabled.name,
            CheckpointSettings.emit_checkpoints_enabled.name,
        ):
            if props.get(key) == "false":
                yield key, f"MirrorCheckpointConnector can't run with {key} set to false"


def _broken_source_rules(props: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    once = FlowOnlySettings.exactly_once_support.name
    syncs = SourceSettings.emit_offset_syncs_enabled.name
    consumer = client_props(props, "source", "consumer")
    declared = ReadSettings.isolation_level
    isolation = consumer.get(declared.name, declared.default)
    if (
        props.get(once, "").strip().lower() == "required"
        and isolation != IsolationLevel.READ_COMMITTED
    ):
        need = "source.consumer.isolation.level=read_committed"
        yield once, f"MirrorSourceConnector needs {need} for that"
    extra = [key for key in props if key.startswith(("offset-syncs.topic.", "offset-syncs-"))]
    if props.get(syncs) == "false" and extra:
        yield syncs, f"MirrorSourceConnector writes no offset syncs so; remove {', '.join(extra)}"


def _missing(key: str) -> str:
    return f'Missing required configuration "{key}" which has no default value.'


def _wrong(key: str, shown: str, allowed: str) -> str:
    return f"Invalid value {shown} for configuration {key}: {allowed}"
