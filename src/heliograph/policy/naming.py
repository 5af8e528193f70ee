"""The name of a topic on the other cluster, as MirrorMaker 2's ReplicationPolicy decides it.

`remote` names are those of copies: topic `t` of cluster `A` is `A.t` wherever it is mirrored to. The
rules are those of Kafka 4.3: a user's own topic may end in `.internal` or `-internal`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol, runtime_checkable

from heliograph.errors import ConfigError

_HEARTBEATS = "heartbeats"
_DEFAULT_SEPARATOR = "."
_OFFSET_SYNCS = "mm2-offset-syncs"
_RUNS = "mm2-runs"
_HOLDS = "mm2-holds"
_QUARANTINE = "mm2-quarantine"
_DEFAULT_CLASS = "org.apache.kafka.connect.mirror.DefaultReplicationPolicy"
_IDENTITY_CLASS = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
_IDENTITY_CLASSES = {
    _IDENTITY_CLASS,
    "org.apache.kafka.connect.mirror.LegacyReplicationPolicy",
    "io.strimzi.kafka.connect.mirror.IdentityReplicationPolicy",
    "com.amazonaws.kafka.samples.CustomMM2ReplicationPolicy",
}


@runtime_checkable
class NamingPolicy(Protocol):
    """A naming; it holds plain values only, because it is pickled."""

    def format_remote_topic(self, source_alias: str, topic: str) -> str: ...
    def topic_source(self, topic: str) -> str | None: ...
    def upstream_topic(self, topic: str) -> str | None: ...
    def original_topic(self, topic: str) -> str: ...
    def heartbeats_topic(self) -> str: ...
    def offset_syncs_topic(self, alias: str) -> str: ...
    def checkpoints_topic(self, alias: str) -> str: ...
    def is_heartbeats_topic(self, topic: str) -> bool: ...
    def is_checkpoints_topic(self, topic: str) -> bool: ...
    def is_mm2_internal_topic(self, topic: str) -> bool: ...
    def is_internal_topic(self, topic: str) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultNaming:
    """The source's alias, a separator, the topic. A user's own naming derives from it."""

    separator: str = _DEFAULT_SEPARATOR
    internal_separator: bool = True
    source_alias: str | None = None

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        return f"{source_alias}{self.separator}{topic}"

    def topic_source(self, topic: str) -> str | None:
        """Return the cluster a remote topic was copied from, None for a local topic."""
        # Java's split: trailing empty parts do not count, and an empty separator splits everywhere.
        parts = topic.split(self.separator) if self.separator else list(topic)
        while parts and not parts[-1]:
            parts.pop()
        return parts[0] if len(parts) > 1 else None

    def upstream_topic(self, topic: str) -> str | None:
        """Return the name of a remote topic on the cluster it was copied from."""
        source = self.topic_source(topic)
        return None if source is None else topic[len(source) + len(self.separator) :]

    def original_topic(self, topic: str) -> str:
        """Return the name of a topic where it was first written."""
        upstream = self.upstream_topic(topic)
        while upstream is not None and upstream != topic:
            topic, upstream = upstream, self.upstream_topic(upstream)
        return topic

    def heartbeats_topic(self) -> str:
        return _HEARTBEATS

    def offset_syncs_topic(self, alias: str) -> str:
        """Return the name of the offset-syncs topic; `alias` is that of the cluster which does not hold it."""
        return f"{_OFFSET_SYNCS}{self._internal}{alias}{self._internal}internal"

    def checkpoints_topic(self, alias: str) -> str:
        return f"{alias}{self._internal}checkpoints{self._internal}internal"

    def is_heartbeats_topic(self, topic: str) -> bool:
        return self.original_topic(topic) == self.heartbeats_topic()

    def is_checkpoints_topic(self, topic: str) -> bool:
        return topic.endswith(self.checkpoints_topic(""))

    def is_mm2_internal_topic(self, topic: str) -> bool:
        return (
            topic.startswith("mm2") and topic.endswith(f"{self._internal}internal")
        ) or self.is_checkpoints_topic(topic)

    def is_internal_topic(self, topic: str) -> bool:
        """Return whether a topic is never copied, even if a filter names it."""
        return self.is_mm2_internal_topic(topic) or topic.startswith(("__", "."))

    @property
    def _internal(self) -> str:
        return self.separator if self.internal_separator else _DEFAULT_SEPARATOR


@dataclass(frozen=True, slots=True)
class IdentityNaming(DefaultNaming):
    """The topic's own name; only heartbeats carry an alias, so only they show a cycle."""

    source_alias: str | None = None

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        if _looks_like_heartbeats(topic):
            return DefaultNaming.format_remote_topic(self, source_alias, topic)
        return topic

    def topic_source(self, topic: str) -> str | None:
        if _looks_like_heartbeats(topic):
            return DefaultNaming.topic_source(self, topic)
        return self.source_alias

    def upstream_topic(self, topic: str) -> str | None:
        if _looks_like_heartbeats(topic):
            return DefaultNaming.upstream_topic(self, topic)
        return topic


def naming_for(
    class_name: str, separator: str, internal_separator_enabled: bool, source_alias: str | None
) -> NamingPolicy:
    """Return the naming that `replication.policy.class` selects.

    A Python class, `package.module:Class`, is called with the keywords `separator`,
    `internal_separator` and `source_alias`.
    """
    if class_name == _DEFAULT_CLASS:
        return DefaultNaming(separator=separator, internal_separator=internal_separator_enabled)
    if class_name in _IDENTITY_CLASSES:
        return IdentityNaming(
            source_alias, separator=separator, internal_separator=internal_separator_enabled
        )
    if ":" not in class_name:
        raise ConfigError(
            f"replication.policy.class: {class_name} is not known here. Use {_DEFAULT_CLASS}, "
            f"{_IDENTITY_CLASS}, or a Python class written package.module:Class."
        )
    its_class = _load(class_name)
    try:
        made = its_class(
            separator=separator,
            internal_separator=internal_separator_enabled,
            source_alias=source_alias,
        )
    except TypeError as exc:
        raise ConfigError(
            f"replication.policy.class: {class_name} cannot be made ({exc}). Let it take the keywords of "
            "heliograph.policy.naming.DefaultNaming, or derive it from that."
        ) from exc
    if not isinstance(made, NamingPolicy):
        raise ConfigError(
            f"replication.policy.class: {class_name} lacks a method of a naming policy. "
            "Derive it from heliograph.policy.naming.DefaultNaming."
        )
    return made


def runs_topic(naming: NamingPolicy, alias: str) -> str:
    """Return the topic for run maps of records from cluster `alias`, on the cluster they went to."""
    return _own_topic(naming, alias, _RUNS)


def holds_topic(naming: NamingPolicy, alias: str) -> str:
    """Return the topic for holds of flows from cluster `alias`, on the cluster they lead to."""
    return _own_topic(naming, alias, _HOLDS)


def quarantine_topic(naming: NamingPolicy, topic: str) -> str:
    """Return the topic for records that a person must check before they go to `topic`."""
    return _own_topic(naming, topic, _QUARANTINE)


def _own_topic(naming: NamingPolicy, alias: str, what: str) -> str:
    syncs = naming.offset_syncs_topic(alias)
    if syncs.startswith(_OFFSET_SYNCS):
        return what + syncs.removeprefix(_OFFSET_SYNCS)
    return f"{what}.{alias}.internal"


def _looks_like_heartbeats(topic: str) -> bool:
    return topic.endswith(_HEARTBEATS)


def _load(class_name: str) -> Callable[..., object]:
    module, _, name = class_name.partition(":")
    try:
        found = getattr(import_module(module), name)
    except (ImportError, SyntaxError, ValueError, AttributeError) as exc:
        raise ConfigError(
            f"replication.policy.class: {class_name} cannot be imported ({exc}). "
            "Check its spelling, and that its package is installed."
        ) from exc
    if not callable(found):
        raise ConfigError(
            f"replication.policy.class: {class_name} is no class. Name one that makes a naming policy."
        )
    made: Callable[..., object] = found
    return made
