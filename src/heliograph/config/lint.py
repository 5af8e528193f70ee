"""Warnings about keys that do nothing: misspelt, out of date, or written at a level that ignores them."""

import difflib
from collections.abc import Collection, Mapping

from heliograph.config.precedence import BARE_WORKER_PREFIXES, RENAMED
from heliograph.config.properties import Written
from heliograph.config.settings import (
    BARE_KEYS,
    CLIENT_KEYS,
    DRIVER_KEYS,
    FIELDS,
    FLOW_KEYS,
    WORKER_KEYS,
)

_HINTS = {
    "topics.whitelist": "MirrorMaker 2 never had it, write topics",
    "groups.whitelist": "MirrorMaker 2 never had it, write groups",
    "topic.blacklist": "write topics.exclude",
    "use.incremental.alter.configs": "gone since Kafka 4.0, settings are always altered one by one",
    "add.source.alias.to.metrics": "gone since Kafka 4.0, metrics always carry the source alias",
    "auto.include.jmx.reporter": "gone since Kafka 4.0, see metric.reporters",
    "internal.key.converter": "gone since Kafka 3.0, stored keys are always plain JSON",
    "internal.value.converter": "gone since Kafka 3.0, stored values are always plain JSON",
    "internal.key.converter.schemas.enable": "gone since Kafka 3.0, stored keys are always plain JSON",
    "internal.value.converter.schemas.enable": "gone since Kafka 3.0, stored values are always plain JSON",
    "enable": "write enabled",
    "emit.heartbeats": "write emit.heartbeats.enabled",
    "emit.checkpoints": "write emit.checkpoints.enabled",
    "offset.syncs.topic.replication.factor": "write offset-syncs.topic.replication.factor",
    "task.max": "write tasks.max",
    "epoch.seconds": "tasks run until they are told to end, and hand partitions over meanwhile",
    "sync.topics.configs.enabled": "write sync.topic.configs.enabled",
}
_CLIENTS = ("consumer.", "producer.", "admin.")
_OPEN = (  # whatever is under these belongs to a plug-in or a client
    "key.converter.",
    "value.converter.",
    "header.converter.",
    "config.providers.",
    "replication.policy.",
)
_OPEN_IN_CONNECTOR = (
    *_OPEN,
    *_CLIENTS,
    "source.cluster.",
    "target.cluster.",
    *(f"{side}.{client}" for side in ("source", "target") for client in _CLIENTS),
    "transforms.",
    "predicates.",
    "topic.creation.",
    "spark.",
)
_OPEN_IN_WORKER = (
    *_OPEN,
    *_CLIENTS,
    "offset.storage.",
    "config.storage.",
    "status.storage.",
    "metrics.context.",
    "listeners.https.",
    "admin.listeners.https.",
    "spark.",
)
_OPEN_WHEN_BARE = (*_OPEN, *BARE_WORKER_PREFIXES, "spark.", "listeners.https.")


def lint_mirror(props: Mapping[str, Written], clusters: Collection[str]) -> list[str]:
    """Return a warning for every key of an mm2.properties that has no effect or an old name."""
    notes = ((value, _mirror_note(key, clusters)) for key, value in props.items())
    return [f"{value.origin}: {value.origin.key}: {note}" for value, note in notes if note]


def lint_connector(props: Mapping[str, Written]) -> list[str]:
    """Return a warning for every key of a connector's own file that has no effect or an old name."""
    notes = ((value, _flow_note(key, key, "")) for key, value in props.items())
    return [f"{value.origin}: {value.origin.key}: {note}" for value, note in notes if note]


def lint_worker(props: Mapping[str, Written]) -> list[str]:
    """Return a warning for every key of a worker's file that has no effect or an old name."""
    notes = ((value, _worker_note(key)) for key, value in props.items())
    return [f"{value.origin}: {value.origin.key}: {note}" for value, note in notes if note]


def _mirror_note(key: str, clusters: Collection[str]) -> str | None:
    pair, rest = split_flow_key(key, clusters)
    if pair:
        if not set(pair) <= set(clusters):
            return f"ignored, clusters names only {', '.join(clusters)}"
        return _flow_note(key, rest, pair[1])
    for alias in sorted(clusters, key=len, reverse=True):
        if key.startswith(f"{alias}."):
            return _cluster_note(key[len(alias) + 1 :], alias)
    return _bare_note(key, clusters)


def split_flow_key(key: str, clusters: Collection[str]) -> tuple[tuple[str, str] | None, str]:
    """Split `A->B.rest`; a target that is not a cluster is taken to end at the first dot."""
    source, arrow, tail = key.partition("->")
    if not arrow:
        return None, key
    for alias in sorted(clusters, key=len, reverse=True):
        if tail.startswith(f"{alias}."):
            return (source.strip(), alias), tail[len(alias) + 1 :]
    target, _, rest = tail.partition(".")
    return (source.strip(), target.strip()), rest


def _flow_note(key: str, rest: str, target: str) -> str | None:
    if rest in RENAMED:
        return f"the old name of {RENAMED[rest]}, still understood; write {RENAMED[rest]}"
    if rest in _HINTS:
        return f"ignored, {_HINTS[rest]}"
    if rest in FLOW_KEYS or rest.startswith(_OPEN_IN_CONNECTOR):
        return None
    if rest in WORKER_KEYS and target:
        return f"ignored, a flow's key does not reach the worker; write {target}.{rest}"
    return _unknown(rest, FLOW_KEYS, key[: len(key) - len(rest)])


def _cluster_note(rest: str, alias: str) -> str | None:
    if rest in WORKER_KEYS or rest in CLIENT_KEYS or rest.startswith(_OPEN_IN_WORKER):
        return None
    if rest in _HINTS:
        return f"ignored, {_HINTS[rest]}"
    if rest in FLOW_KEYS or rest in RENAMED:
        return f"ignored, it is not a cluster's key; write {rest} or SOURCE->{alias}.{rest}"
    return _unknown(rest, WORKER_KEYS, f"{alias}.")


def _bare_note(key: str, clusters: Collection[str]) -> str | None:
    if key in RENAMED:
        return f"the old name of {RENAMED[key]}, still understood; write {RENAMED[key]}"
    if key in _HINTS:
        return f"ignored, {_HINTS[key]}"
    if key in BARE_KEYS | DRIVER_KEYS | CLIENT_KEYS or key.startswith(_OPEN_WHEN_BARE):
        return None
    return _misplaced_note(key, clusters) or _unknown(key, BARE_KEYS | DRIVER_KEYS, "")


def _misplaced_note(key: str, clusters: Collection[str]) -> str | None:
    """Say where a bare key belongs that only takes effect with a prefix."""
    if key in WORKER_KEYS:
        return f"ignored without a cluster; write TARGET.{key}"
    if key.startswith(_CLIENTS):
        return f"ignored without a cluster; write {next(iter(clusters), 'A')}.{key}"
    if key in FLOW_KEYS or key.startswith(_OPEN_IN_CONNECTOR):
        return f"ignored without a flow; write SOURCE->TARGET.{key}"
    head, _, rest = key.partition(".")
    if rest in WORKER_KEYS:
        return f"ignored, {head} is not one of clusters={', '.join(clusters)}"
    return None


def _worker_note(key: str) -> str | None:
    if key in WORKER_KEYS or key in DRIVER_KEYS or key.startswith(_OPEN_IN_WORKER):
        return None
    if key in _HINTS:
        return f"ignored, {_HINTS[key]}"
    return _unknown(key, WORKER_KEYS, "")


def _unknown(key: str, known: Collection[str], prefix: str) -> str:
    for names in (known, [field.name for field in FIELDS]):
        if near := difflib.get_close_matches(key, sorted(names), n=1, cutoff=0.7):
            return f"not a known key and ignored; the nearest is {prefix}{near[0]}"
    return "not a known key and ignored"
