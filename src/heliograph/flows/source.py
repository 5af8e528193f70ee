"""What MirrorSourceConnector does beside copying: which topics, and what they are called."""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from heliograph.config.flow import FlowConfig
from heliograph.errors import KafkaFault
from heliograph.kafka.cluster import Cluster, Topic
from heliograph.kafka.configs import describe_configs, topic_configs
from heliograph.kafka.topics import (
    NewTopic,
    await_topics,
    create_topics,
    grow_topics,
)
from heliograph.model import TopicPartition
from heliograph.policy.filters import NameFilter, replicates
from heliograph.policy.naming import NamingPolicy, naming_for
from heliograph.policy.topic_configs import creation_configs
from heliograph.policy.topics import CreateTopic, GrowTopic, own_counts, plan_topics

log = logging.getLogger(__name__)

_MAX_MESSAGE_BYTES = "max.message.bytes"
_DEFAULT_MAX_MESSAGE_BYTES = 1048588


@dataclass(frozen=True, slots=True)
class Route:
    """A source partition, and where its records go; ids tell a topic from its namesake made later.

    Where the remote topic keeps a partition count of its own, `spread` is that count: `remote` then is
    only where records without a key go.
    """

    source: TopicPartition
    topic_id: str
    remote: TopicPartition
    remote_id: str
    max_message_bytes: int
    spread: int = 0


@dataclass(frozen=True, slots=True)
class Inventory:
    """What a refresh found: the partitions that can be copied, and why others cannot."""

    routes: tuple[Route, ...]
    refused: tuple[str, ...]


def naming_of(config: FlowConfig) -> NamingPolicy:
    return naming_for(
        config.policy_class,
        config.separator,
        config.internal_separator_enabled,
        config.flow.source,
    )


def replicates_of(config: FlowConfig) -> Callable[[str], bool]:
    """Return what decides, by a source topic's name, whether this flow copies it."""
    return partial(
        replicates,
        accepts=NameFilter(config.topics, config.topics_exclude).accepts,
        naming=naming_of(config),
        target_alias=config.flow.target,
        heartbeats=config.heartbeats_replication_enabled,
    )


def select_topics(config: FlowConfig, topics: Iterable[Topic]) -> dict[str, Topic]:
    """Return the topics this flow copies, by remote name."""
    naming = naming_of(config)
    copied = replicates_of(config)
    return {
        naming.format_remote_topic(config.flow.source, topic.name): topic
        for topic in topics
        if not topic.internal and copied(topic.name)
    }


def refresh_topics(config: FlowConfig, source: Cluster, target: Cluster) -> Inventory:
    """Create and grow remote topics as needed, and return every partition that can be copied.

    While nothing changes this asks for the topics of either cluster once, and for limits per 500 topics.
    """
    selected = select_topics(config, source.describe().values())
    existing = target.describe()
    changed, refused = _apply(config, source, target, selected, existing)
    if changed:
        existing = {**existing, **await_topics(target, changed)}
    limits = topic_configs(target, [r for r in selected if r in existing], [_MAX_MESSAGE_BYTES])
    routes: list[Route] = []
    for remote, topic in sorted(selected.items()):
        there = existing.get(remote)
        have = len(there.leaders) if there is not None else 0
        wanted = len(topic.leaders) if config.target_partitions == "source" else 1
        if have < wanted and remote not in refused:
            refused[remote] = f"{remote} is not there yet with {wanted} partitions"
        if there is None or not have:
            continue
        spread = have if config.target_partitions != "source" and have != len(topic.leaders) else 0
        known = topic.partitions if spread else topic.partitions[:have]
        limit = int(limits.get(remote, {}).get(_MAX_MESSAGE_BYTES) or _DEFAULT_MAX_MESSAGE_BYTES)
        routes += [
            Route(
                source=partition,
                topic_id=str(topic.topic_id),
                remote=TopicPartition(remote, partition.index % have),
                remote_id=str(there.topic_id),
                max_message_bytes=limit,
                spread=spread,
            )
            for partition in known
        ]
    return Inventory(tuple(routes), tuple(refused.values()))


def _apply(
    config: FlowConfig,
    source: Cluster,
    target: Cluster,
    selected: Mapping[str, Topic],
    existing: Mapping[str, Topic],
) -> tuple[dict[str, int], dict[str, str]]:
    """Make and grow remote topics; return those that changed, and why others could not."""
    there = {remote: len(topic.leaders) for remote, topic in existing.items()}
    wanted = {remote: len(topic.leaders) for remote, topic in selected.items()}
    plan = plan_topics(own_counts(wanted, there, config.target_partitions), there)
    creations = {step.topic: step.partitions for step in plan if isinstance(step, CreateTopic)}
    growths = {step.topic: step.partitions for step in plan if isinstance(step, GrowTopic)}
    settings, refused = _creation_configs(
        config, source, {remote: selected[remote].name for remote in creations}
    )
    new = [
        NewTopic(remote, creations[remote], config.replication_factor, its)
        for remote, its in settings.items()
    ]
    refused |= create_topics(target, new)
    refused |= grow_topics(target, growths)
    # A source topic that is gone by now has no settings, and no remote topic either.
    tried = {remote: creations[remote] for remote in settings} | growths
    changed = {remote: count for remote, count in tried.items() if remote not in refused}
    for remote, partitions in changed.items():
        done = "created" if remote in creations else "grew"
        log.info("flow=%s %s topic=%s partitions=%d", config.flow, done, remote, partitions)
    return changed, {remote: str(fault) for remote, fault in refused.items()}


def _creation_configs(
    config: FlowConfig, source: Cluster, missing: Mapping[str, str]
) -> tuple[dict[str, dict[str, str]], dict[str, KafkaFault]]:
    """Return the settings of remote topics to be made, and why those of others are not known."""
    excluded = NameFilter(config.config_properties_exclude, ()).accepts
    described = describe_configs(source, missing.values())
    settings = {
        remote: creation_configs(described.found[name], excluded, config.use_defaults_from)
        for remote, name in missing.items()
        if name in described.found
    }
    faults = {
        name: KafkaFault(
            f"describe the configuration of {name} on {source.endpoint.cluster}",
            str(why),
            why.retriable,
        )
        for name, why in described.refused.items()
    }
    return settings, {r: faults[name] for r, name in missing.items() if name in faults}
