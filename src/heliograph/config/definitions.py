"""The keys of a connector as Connect's REST API describes them: our fields, with Connect's headings and weights."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from heliograph.config.fields import LIST, Field, Part
from heliograph.config.settings import fields_of
from heliograph.config.settings_source import FLOW_ONLY, USE_DEFAULTS_FROM

# Connect gives these to every source connector, so to all three; it puts topics as they come.
_OF_SOURCES: tuple[Field[object], ...] = (
    Field("topic.creation.groups", LIST, (), "Not used: remote topics are made like their source."),
    *(field for field in FLOW_ONLY if field is not USE_DEFAULTS_FROM),
)


@dataclass(frozen=True, slots=True)
class _Heading:
    group: str
    order: int
    width: str
    display_name: str


_HEADINGS = {
    "name": _Heading("Common", 1, "MEDIUM", "Connector name"),
    "connector.class": _Heading("Common", 2, "LONG", "Connector class"),
    "connector.plugin.version": _Heading("Common", 3, "MEDIUM", "Connector version"),
    "tasks.max": _Heading("Common", 4, "SHORT", "Tasks max"),
    "tasks.max.enforce": _Heading("Common", 5, "SHORT", "Enforce tasks max"),
    "key.converter": _Heading("Common", 6, "SHORT", "Key converter class"),
    "key.converter.plugin.version": _Heading("Common", 7, "SHORT", "Key converter version"),
    "value.converter": _Heading("Common", 8, "SHORT", "Value converter class"),
    "value.converter.plugin.version": _Heading("Common", 9, "SHORT", "Value converter version"),
    "header.converter": _Heading("Common", 10, "SHORT", "Header converter class"),
    "header.converter.plugin.version": _Heading("Common", 11, "SHORT", "Header converter version"),
    "transforms": _Heading("Transforms", 12, "LONG", "Transforms"),
    "predicates": _Heading("Predicates", 13, "LONG", "Predicates"),
    "config.action.reload": _Heading("Common", 14, "MEDIUM", "Reload Action"),
    "errors.retry.timeout": _Heading("Error Handling", 1, "MEDIUM", "Retry Timeout for Errors"),
    "errors.retry.delay.max.ms": _Heading(
        "Error Handling", 2, "MEDIUM", "Maximum Delay Between Retries for Errors"
    ),
    "errors.tolerance": _Heading("Error Handling", 3, "SHORT", "Error Tolerance"),
    "errors.log.enable": _Heading("Error Handling", 4, "SHORT", "Log Errors"),
    "errors.log.include.messages": _Heading("Error Handling", 5, "SHORT", "Log Error Details"),
    "topic.creation.groups": _Heading("Topic Creation", 1, "LONG", "Topic Creation Groups"),
    "exactly.once.support": _Heading("Exactly Once Support", 2, "SHORT", "Exactly once support"),
    "transaction.boundary": _Heading("Exactly Once Support", 3, "SHORT", "Transaction Boundary"),
    "transaction.boundary.interval.ms": _Heading(
        "Exactly Once Support", 4, "SHORT", "Transaction boundary interval"
    ),
    "offsets.storage.topic": _Heading("offsets.topic", 1, "LONG", "Offsets topic"),
}
GROUPS = tuple(dict.fromkeys(heading.group for heading in _HEADINGS.values()))

_HIGH = (
    *("name", "connector.class", "tasks.max", "source.cluster.alias", "target.cluster.alias"),
    *("topics", "topics.exclude", "config.properties.exclude", "groups", "groups.exclude"),
    *("ssl.key.password", "ssl.keystore.certificate.chain", "ssl.keystore.key"),
    *("ssl.keystore.location", "ssl.keystore.password", "ssl.truststore.certificates"),
    *("ssl.truststore.location", "ssl.truststore.password"),
    *("sasl.oauthbearer.expected.audience", "sasl.oauthbearer.expected.issuer"),
)
_MEDIUM = (
    *("connector.plugin.version", "exactly.once.support", "transaction.boundary"),
    *("security.protocol", "ssl.enabled.protocols", "ssl.keystore.type", "ssl.protocol"),
    *("ssl.provider", "ssl.truststore.type", "sasl.mechanism", "sasl.jaas.config"),
    *("sasl.kerberos.service.name", "sasl.client.callback.handler.class"),
    *("sasl.login.callback.handler.class", "sasl.login.class"),
)
_LOW_OAUTH = ("seconds", "claim.name", ".ms", "header.urlencode")


def fields_shown(part: Part) -> tuple[Field[object], ...]:
    """Return what a connector takes, in Connect's order of definitions."""
    last = {field.name for field in _OF_SOURCES}
    return (*(field for field in fields_of(part) if field.name not in last), *_OF_SOURCES)


def fields_validated(part: Part) -> tuple[Field[object], ...]:
    """Return the same, in Connect's order of validation: what every source connector has comes first."""
    shown = fields_shown(part)
    return (
        *(field for field in shown if field.name in _HEADINGS),
        *(field for field in shown if field.name not in _HEADINGS),
    )


def definitions(part: Part) -> Iterator[dict[str, Any]]:
    """Yield the definitions of a connector's keys."""
    return map(define, fields_shown(part))


def define(field: Field[object]) -> dict[str, Any]:
    """Return one definition."""
    heading = _HEADINGS.get(field.name)
    return {
        "name": field.name,
        "type": field.kind.name,
        "required": field.required,
        "default_value": None if field.required else as_text(field, field.default),
        "importance": _importance(field.name),
        "documentation": field.doc,
        "group": heading.group if heading else None,
        "order_in_group": heading.order if heading else -1,
        "width": heading.width if heading else "NONE",
        "display_name": heading.display_name if heading else field.name,
        "dependents": [],
    }


def as_text(field: Field[object], value: object) -> str | None:
    """Write a parsed value the way Kafka does."""
    match value:
        case None:
            return None
        case bool():
            return str(value).lower()
        case timedelta():
            unit = timedelta(milliseconds=1) if field.name.endswith(".ms") else timedelta(seconds=1)
            return str(value // unit)
        case tuple():
            return ",".join(value)
        case _:
            return str(value)


def _importance(key: str) -> str:
    if key in _HIGH:
        return "HIGH"
    oauth = key.startswith("sasl.oauthbearer.") and not key.endswith(_LOW_OAUTH)
    return "MEDIUM" if oauth or key in _MEDIUM or key.startswith("errors.") else "LOW"
