"""All keys together, and which of them each level of mm2.properties lets through."""

from heliograph.config.fields import CONNECTORS, Field, Part
from heliograph.config.settings_checkpoint import CHECKPOINT, HEARTBEAT
from heliograph.config.settings_connector import COMMON
from heliograph.config.settings_own import CONSUMER, OWN
from heliograph.config.settings_security import BOOTSTRAP_SERVERS, SECURITY
from heliograph.config.settings_source import FLOW_ONLY, SOURCE
from heliograph.config.settings_worker import DRIVER, WORKER

Family = tuple[str, tuple[Field[object], ...]]

FAMILIES: tuple[Family, ...] = (
    ("The file as a whole", DRIVER),
    ("Every connector", COMMON),
    ("Source connector", SOURCE),
    ("Source connector, only as `A->B.key` or in a connector's own file", FLOW_ONLY),
    ("Checkpoint connector", CHECKPOINT),
    ("Heartbeat connector", HEARTBEAT),
    ("Heliograph's own, bare or as `A->B.key`", OWN),
    ("Source consumer", CONSUMER),
    ("Reaching a cluster", (BOOTSTRAP_SERVERS, *SECURITY)),
    ("Worker, as `B.key` for every flow into B", WORKER),
)

FIELDS: tuple[Field[object], ...] = tuple(field for _, family in FAMILIES for field in family)

CONNECTOR_FIELDS: tuple[Field[object], ...] = (*COMMON, *SOURCE, *CHECKPOINT, *HEARTBEAT, *SECURITY)
# What a bare key must be to reach a connector: a name that one of the three declares, or ours.
BARE_KEYS = frozenset(field.name for field in (*CONNECTOR_FIELDS, *OWN))
FLOW_KEYS = BARE_KEYS | {field.name for field in FLOW_ONLY}
CLIENT_KEYS = frozenset(field.name for field in (BOOTSTRAP_SERVERS, *SECURITY))
DRIVER_KEYS = frozenset(field.name for field in DRIVER)
WORKER_KEYS = (
    frozenset(field.name for field in FIELDS if Part.WORKER in field.belongs)
    | CLIENT_KEYS
    | {
        "key.converter",
        "value.converter",
        "header.converter",
        "config.providers",
        "metric.reporters",
    }
)


def fields_of(part: Part) -> tuple[Field[object], ...]:
    """Return what one connector, the worker or a client reads."""
    assert part in CONNECTORS or part in (Part.CLIENT, Part.WORKER)
    return tuple(field for field in FIELDS if part in field.belongs)
