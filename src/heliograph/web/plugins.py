"""The three mirror connectors as plug-ins: their keys, and what is wrong with a configuration."""

from typing import Annotated, Any

from fastapi import APIRouter, Query

from heliograph.config.definitions import definitions
from heliograph.config.fields import Part
from heliograph.config.precedence import CLASSES
from heliograph.config.validate import Values, find_plugin, mistakes, validate
from heliograph.connect.herder import RestError
from heliograph.web import shapes
from heliograph.web.bodies import Json, config_in

router = APIRouter(prefix="/connector-plugins", tags=["plug-ins"])


@router.get("", responses=shapes.answers(200, shapes.PLUGINS))
def list_plugins(
    _connectors_only: Annotated[str, Query(alias="connectorsOnly")] = "true",  # there are no others
) -> list[dict[str, str]]:
    return [
        {"class": name, "type": "source", "version": shapes.version()}
        for name in sorted(CLASSES.values())
    ]


@router.get("/{plugin}/config", responses=shapes.answers(200, shapes.DEFINITIONS))
def list_keys(plugin: str) -> list[dict[str, Any]]:
    part = find_plugin(plugin)
    if part is None:
        raise RestError(404, f"Unknown plugin {plugin}.")
    return list(definitions(part))


@router.put(
    "/{plugin}/config/validate",
    responses=shapes.answers(200, shapes.VALIDATION),
    openapi_extra=shapes.takes(shapes.CONFIG),
)
def validate_config(plugin: str, body: Json) -> dict[str, Any]:
    config = config_in(body, "the configuration")
    part = part_of(config)
    given = str(config["connector.class"])
    if not given.removesuffix("Connector").endswith(plugin.removesuffix("Connector")):
        raise RestError(
            400, f"Included connector type {given} does not match request type {plugin}"
        )
    return validate(part, config)


def part_of(config: Values) -> Part:
    """Return which connector a configuration is for."""
    name = config.get("connector.class")
    if not name:
        raise RestError(
            400, "Connector config contains no connector type. Add connector.class to it."
        )
    part = find_plugin(name)
    if part is None:
        known = ", ".join(sorted(CLASSES.values()))
        raise RestError(
            400,
            f"Failed to find any class that implements Connector and which name matches {name}, "
            f"available connectors are: {known}",
        )
    return part


def check(config: Values) -> None:
    """Refuse a configuration that cannot be used, with all that is wrong with it."""
    wrong = mistakes(validate(part_of(config), config))
    if wrong:
        lead = (
            f"Connector configuration is invalid and contains the following {len(wrong)} error(s):"
        )
        where = "`/connector-plugins/{connectorType}/config/validate`"
        tail = f"You can also find the above list of errors at the endpoint {where}"
        raise RestError(400, "\n".join((lead, *wrong, tail)))
