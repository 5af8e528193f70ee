"""Which level of mm2.properties wins: bare, cluster (`A.`), flow (`A->B.`), as MM2's driver merges them.

Pure: from the whole file to what one worker or one connector gets. Give it the file as written to
learn what may be stored, or the file with its expressions resolved to learn what is used.
"""

from collections.abc import Mapping

from heliograph.config.clients import strip_prefix
from heliograph.config.fields import CONNECTORS, Part
from heliograph.config.settings import BARE_KEYS, CLIENT_KEYS
from heliograph.model import Flow

ROLES = ("producer", "consumer", "admin")
BARE_WORKER_PREFIXES = (
    "offset.storage",
    "config.storage",
    "status.storage",
    "key.converter",
    "value.converter",
    "header.converter",
    "task",
    "worker",
    "replication.policy",
)
RENAMED = {
    "topics.blacklist": "topics.exclude",
    "groups.blacklist": "groups.exclude",
    "config.properties.blacklist": "config.properties.exclude",
}
BYTE_ARRAYS = "org.apache.kafka.connect.converters.ByteArrayConverter"
_MIRROR = "org.apache.kafka.connect.mirror."
CLASS_NAMES = {part: f"Mirror{part.capitalize()}Connector" for part in CONNECTORS}
CLASSES = {part: _MIRROR + name for part, name in CLASS_NAMES.items()}


def cluster_props(props: Mapping[str, str], alias: str) -> dict[str, str]:
    """Return the settings of one cluster: its own keys first, then bare client keys."""
    found = strip_prefix(props, f"{alias}.")
    own = {key: found[key] for key in found if key in CLIENT_KEYS}
    for key, value in own.items():
        for role in ROLES:
            found.setdefault(f"{role}.{key}", value)
    for key in CLIENT_KEYS & props.keys():
        for role in ROLES:
            found.setdefault(f"{role}.{key}", props[key])
        found.setdefault(key, props[key])
    return found


def worker_props(props: Mapping[str, str], flow: Flow) -> dict[str, str]:
    """Return the Connect worker's settings for a flow; flow-level keys never reach it."""
    found = cluster_props(props, flow.target)
    found |= {key: props[key] for key in props if key.startswith(BARE_WORKER_PREFIXES)}
    found |= {key: props[key] for key in props if key.startswith("config.providers")}
    defaults = {
        "client.id": str(flow),
        "group.id": f"{flow.source}-mm2",
        "offset.storage.topic": f"mm2-offsets.{flow.source}.internal",
        "status.storage.topic": f"mm2-status.{flow.source}.internal",
        "config.storage.topic": f"mm2-configs.{flow.source}.internal",
        "key.converter": BYTE_ARRAYS,
        "value.converter": BYTE_ARRAYS,
        "header.converter": BYTE_ARRAYS,
    }
    return defaults | found


def connector_props(props: Mapping[str, str], flow: Flow, part: Part) -> dict[str, str]:
    """Return the settings of one connector of a flow."""
    found = {
        key: props[key]
        for key in props
        if key in BARE_KEYS
        or key in RENAMED
        or key.startswith(("config.providers", "replication.policy"))
    }
    found |= _as_side(cluster_props(props, flow.source), "source")
    found |= _as_side(cluster_props(props, flow.target), "target")
    found.setdefault("name", CLASS_NAMES[part])
    found.setdefault("connector.class", CLASSES[part])
    found.setdefault("source.cluster.alias", flow.source)
    found.setdefault("target.cluster.alias", flow.target)
    found |= strip_prefix(props, f"{flow}.")
    found.setdefault("enabled", "false")
    return with_new_names(found)


def with_new_names(props: Mapping[str, str]) -> dict[str, str]:
    """Return a copy with old names replaced by new ones; a new name that is already present wins."""
    found = dict(props)
    for old, new in RENAMED.items():
        if old in found:
            found.setdefault(new, found[old])
            del found[old]
    return found


def _as_side(cluster: Mapping[str, str], side: str) -> dict[str, str]:
    # "starts with", not "is under": MM2 makes source.admin.timeout.ms of A.admin.timeout.ms too.
    return {
        f"{side}.{key}" if key.startswith(ROLES) else f"{side}.cluster.{key}": value
        for key, value in cluster.items()
    }
