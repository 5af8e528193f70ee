"""What MirrorSourceConnector does beside copying: which topics, under which names, from where on."""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from heliograph.config.flow import FlowConfig
from heliograph.errors import KafkaFault
from heliograph.kafka.cluster import Cluster, Topic, patiently
from heliograph.kafka.configs import describe_configs, topic_configs
from heliograph.kafka.offsets import EARLIEST, LATEST, list_offsets
from heliograph.kafka.topics import (
    NewTopic,
    await_topics,
    create_topics,
    grow_topics,
)
from heliograph.model import Position, TopicPartition
from heliograph.policy.filters import NameFilter, replicates
from heliograph.policy.naming import NamingPolicy, naming_for
from heliograph.policy.topic_configs import creation_configs
from heliograph.policy.topics import CreateTopic, GrowTopic, plan_topics
from heliograph.wire.connect_records import SourceOffset

log = logging.getLogger(__name__)

_MAX_MESSAGE_BYTES = "max.message.bytes"
_DEFAULT_MAX_MESSAGE_BYTES = 1048588


@dataclass(frozen=True, slots=True)
class Route:
    """A source partition, and where its records go; ids tell a topic from its namesake made later."""

    source: TopicPartition
    topic_id: str
    remote: TopicPartition
    remote_id: str
    max_message_bytes: int


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
        if have < len(topic.leaders) and remote not in refused:
            refused[remote] = f"{remote} is not there yet with {len(topic.leaders)} partitions"
        if there is None:
            continue
        limit = int(limits.get(remote, {}).get(_MAX_MESSAGE_BYTES) or _DEFAULT_MAX_MESSAGE_BYTES)
        routes += [
            Route(
                source=partition,
                topic_id=str(topic.topic_id),
                remote=TopicPartition(remote, partition.index),
                remote_id=str(there.topic_id),
                max_message_bytes=limit,
            )
            for partition in topic.partitions[:have]
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
    plan = plan_topics(
        {remote: len(topic.leaders) for remote, topic in selected.items()},
        {remote: len(topic.leaders) for remote, topic in existing.items()},
    )
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


@dataclass(frozen=True, slots=True)
class Start:
    """Where a partition begins; `made_anew` says that its topic is not the one it was copied from."""

    route: Route
    position: Position
    made_anew: bool = False

    @property
    def offset(self) -> SourceOffset:
        return SourceOffset(self.position.upstream, self.position.downstream, self.route.topic_id)


def plan_starts(
    config: FlowConfig,
    routes: Iterable[Route],
    saved: Mapping[TopicPartition, SourceOffset],
    source: Cluster,
    target: Cluster,
) -> list[Start]:
    """Return where each partition begins: where it was left, or where `auto.offset.reset` says.

    A topic made anew begins at its first record under `on.loss=continue`; otherwise it keeps the old
    position, at which nobody may go on.
    """
    starts = []
    fresh = []
    unpaired = []
    for route in routes:
        found = saved.get(route.source)
        anew = found is not None and found.topic_id not in (None, route.topic_id)
        if found is None or (anew and config.on_loss == "continue"):
            fresh.append(route)
        elif found.downstream is None:
            unpaired.append((route, found.upstream))
        else:
            starts.append(Start(route, Position(found.upstream, found.downstream), anew))
    if fresh:
        which = LATEST if config.auto_offset_reset == "latest" else EARLIEST
        firsts = patiently(lambda: list_offsets(source, [route.source for route in fresh], which))
        unpaired += [(route, firsts[route.source]) for route in fresh]
    if unpaired:
        remotes = [route.remote for route, _ in unpaired]
        ends = patiently(lambda: list_offsets(target, remotes, LATEST))
        starts += [Start(route, Position(at, ends[route.remote])) for route, at in unpaired]
    return starts


@dataclass(frozen=True, slots=True)
class Loss:
    """Records that the source no longer has, or never had: from `upstream` on."""

    partition: TopicPartition
    upstream: int
    resume: int
    reason: str


def explain_loss(source: Cluster, partition: TopicPartition, upstream: int) -> Loss | None:
    """Return why `upstream` is out of the source's range; None where it is back in range."""
    first = list_offsets(source, [partition], EARLIEST)[partition]
    end = list_offsets(source, [partition], LATEST)[partition]
    if upstream < first:
        gone = first - upstream
        reason = (
            f"the source deleted offsets {upstream} to {first - 1} ({gone}) before they were copied"
        )
        return Loss(partition, upstream, first, reason)
    if upstream > end:
        reason = (
            f"the source ends at {end}, before the position {upstream}: "
            "it was truncated (unclean election) or made anew"
        )
        return Loss(partition, upstream, end, reason)
    return None
