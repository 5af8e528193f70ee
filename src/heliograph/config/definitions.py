"""The keys of a connector as Connect's REST API describes them: our fields, with Connect's headings and weights."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from heliograph.config.fields import LIST, Field, Heading, Part
from heliograph.config.settings import FIELDS, fields_of
from heliograph.config.settings_source import FlowOnlySettings

# Connect gives these to every source connector, so to all three.
_OF_SOURCES: tuple[Field[object], ...] = (
    Field(
        "topic.creation.groups",
        LIST,
        (),
        "Not used: remote topics are made like their source.",
        heading=Heading("Topic Creation", 1, "LONG", "Topic Creation Groups"),
    ),
    *(
        field
        for field in FlowOnlySettings.FIELDS
        if field is not FlowOnlySettings.use_defaults_from
    ),
)


GROUPS = tuple(
    dict.fromkeys(
        field.heading.group for field in (*FIELDS, *_OF_SOURCES) if field.heading is not None
    )
)


def fields_shown(part: Part) -> tuple[Field[object], ...]:
    """Return what a connector takes, in Connect's order of definitions."""
    last = {field.name for field in _OF_SOURCES}
    return (*(field for field in fields_of(part) if field.name not in last), *_OF_SOURCES)


def fields_validated(part: Part) -> tuple[Field[object], ...]:
    """Return the same, in Connect's order of validation: what every source connector has comes first."""
    shown = fields_shown(part)
    return (
        *(field for field in shown if field.heading is not None),
        *(field for field in shown if field.heading is None),
    )


def definitions(part: Part) -> Iterator[dict[str, Any]]:
    """Yield the definitions of a connector's keys."""
    return map(define, fields_shown(part))


def define(field: Field[object]) -> dict[str, Any]:
    """Return one definition."""
    heading = field.heading
    return {
        "name": field.name,
        "type": field.kind.name,
        "required": field.required,
        "default_value": None if field.required else as_text(field, field.default),
        "importance": field.importance,
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
