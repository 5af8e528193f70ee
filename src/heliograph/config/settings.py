"""All keys together, and which of them each level of mm2.properties lets through."""

from heliograph.config.fields import CONNECTORS, Field, Part, Settings
from heliograph.config.settings_checkpoint import CheckpointSettings, HeartbeatSettings
from heliograph.config.settings_connector import ConnectorSettings
from heliograph.config.settings_own import CopySettings, ReadSettings
from heliograph.config.settings_rest import RestSettings
from heliograph.config.settings_security import BootstrapSettings, ClientSettings
from heliograph.config.settings_source import FlowOnlySettings, SourceSettings
from heliograph.config.settings_worker import DriverSettings, WorkerSettings

Family = tuple[str, tuple[type[Settings], ...]]

FAMILIES: tuple[Family, ...] = (
    ("The file as a whole", (DriverSettings, RestSettings)),
    ("Every connector", (ConnectorSettings,)),
    ("Source connector", (SourceSettings,)),
    ("Source connector, only as `A->B.key` or in a connector's own file", (FlowOnlySettings,)),
    ("Checkpoint connector", (CheckpointSettings,)),
    ("Heartbeat connector", (HeartbeatSettings,)),
    ("Heliograph's own, bare or as `A->B.key`", (CopySettings,)),
    ("Source consumer", (ReadSettings,)),
    ("Reaching a cluster", (BootstrapSettings, ClientSettings)),
    ("Worker, as `B.key` for every flow into B", (WorkerSettings,)),
)


def names_in(*settings: type[Settings]) -> frozenset[str]:
    """Return the keys that some settings declare."""
    return frozenset(field.name for each in settings for field in each.FIELDS)


FIELDS: tuple[Field[object], ...] = tuple(
    field for _, family in FAMILIES for settings in family for field in settings.FIELDS
)

# What a bare key must be to reach a connector: a name that one of the three declares, or ours.
BARE_KEYS = names_in(
    ConnectorSettings,
    SourceSettings,
    CheckpointSettings,
    HeartbeatSettings,
    ClientSettings,
    CopySettings,
)
FLOW_KEYS = BARE_KEYS | names_in(FlowOnlySettings)
CLIENT_KEYS = names_in(BootstrapSettings, ClientSettings)
DRIVER_KEYS = names_in(DriverSettings, RestSettings)
WORKER_KEYS = (
    frozenset(field.name for field in FIELDS if Part.WORKER in field.by)
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
    return tuple(field for field in FIELDS if part in field.by)
