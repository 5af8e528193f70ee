"""MirrorMaker 1's naming: every topic keeps its name, whatever it is called, and cycles are not detected."""

from dataclasses import dataclass

from heliograph.policy.naming import DefaultNaming


@dataclass(frozen=True, slots=True, kw_only=True)
class SameNames(DefaultNaming):
    """The topic's own name. Only topics that brokers mark as internal are left out; that is not checked here."""

    def format_remote_topic(self, source_alias: str, topic: str) -> str:  # noqa: ARG002
        return topic

    def topic_source(self, topic: str) -> str | None:  # noqa: ARG002
        return None

    def upstream_topic(self, topic: str) -> str | None:  # noqa: ARG002
        return None

    def is_heartbeats_topic(self, topic: str) -> bool:  # noqa: ARG002
        return False

    def is_internal_topic(self, topic: str) -> bool:  # noqa: ARG002
        return False
