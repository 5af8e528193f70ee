"""What a flow calls topics on its target, and which topics it copies, as its settings say."""

from collections.abc import Callable
from functools import partial

from heliograph.config.flow import FlowConfig
from heliograph.policy.filters import NameFilter, Skip, reason_to_skip
from heliograph.policy.naming import NamingPolicy, naming_for


def naming_of(config: FlowConfig) -> NamingPolicy:
    return naming_for(
        config.policy_class,
        config.common.replication_policy_separator,
        config.common.replication_policy_internal_topic_separator_enabled,
        config.flow.source,
    )


def replicates_of(config: FlowConfig) -> Callable[[str], bool]:
    """Return a function that decides, by a source topic's name, whether this flow copies it."""
    skips = skips_of(config)
    return lambda topic: skips(topic) is None


def skips_of(config: FlowConfig) -> Callable[[str], Skip | None]:
    """Return a function that says, by a source topic's name, why this flow does not copy it; None if it does."""
    return partial(
        reason_to_skip,
        accepts=NameFilter(config.mirroring.topics, config.mirroring.topics_exclude).accepts,
        naming=naming_of(config),
        target_alias=config.flow.target,
        heartbeats=config.mirroring.heartbeats_replication_enabled,
    )
