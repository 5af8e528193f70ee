"""What MirrorSourceConnector does in addition to copying: it selects topics and names their copies."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol
from uuid import UUID

from heliograph.admin.configs import describe_configs, topic_configs
from heliograph.admin.topics import (
    NewTopic,
    await_topics,
    create_topics,
    grow_topics,
    list_topics,
)
from heliograph.config.flow import FlowConfig
from heliograph.config.naming import naming_of, replicates_of
from heliograph.errors import KafkaFault
from heliograph.kafka.cluster import NO_LEADER, Cluster, Topic
from heliograph.model import TopicPartition
from heliograph.policy.filters import NameFilter
from heliograph.policy.topic_configs import creation_configs
from heliograph.policy.topics import CreateTopic, GrowTopic, own_counts, plan_topics

log = logging.getLogger(__name__)

_TOLD = 20  # topics created at once that are logged: the log has other content

_MAX_MESSAGE_BYTES = "max.message.bytes"
MIN_IN_SYNC = "min.insync.replicas"
_DEFAULT_MAX_MESSAGE_BYTES = 1048588


@dataclass(frozen=True, slots=True)
class Route:
    """A source partition, and where its records go; ids tell a topic from a later one of the same name.

    If the remote topic keeps its own partition count, `spread` is that count: `remote` is then only
    where records without a key go.
    """

    source: TopicPartition
    topic_id: str
    remote: TopicPartition
    remote_id: str
    max_message_bytes: int
    spread: int = 0
    min_in_sync: int = 1


@dataclass(frozen=True, slots=True)
class Inventory:
    """What a refresh found: the partitions that can be copied, and why others cannot.

    The remote topics in `made` are new: nothing was written to them.
    """

    routes: tuple[Route, ...]
    refused: tuple[str, ...]
    made: frozenset[str] = frozenset()


class Copied(NamedTuple):
    """The topics that are being copied, on either side, and the minimum number of partitions of each."""

    sources: Mapping[str, int]
    remotes: Mapping[str, int]


NOTHING = Copied({}, {})


class Pair(Protocol):
    """A partition, and where its records go."""

    @property
    def source(self) -> TopicPartition: ...

    @property
    def remote(self) -> TopicPartition: ...


def copied_of(pairs: Iterable[Pair]) -> Copied:
    """Return the topics of partitions that are copied."""
    pairs = list(pairs)
    return Copied(_counts(pair.source for pair in pairs), _counts(pair.remote for pair in pairs))


def _counts(partitions: Iterable[TopicPartition]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for partition in partitions:
        counts[partition.topic] = max(counts.get(partition.topic, 0), partition.index + 1)
    return counts


def select_topics(config: FlowConfig, topics: Iterable[Topic]) -> dict[str, Topic]:
    """Return the topics this flow copies, by remote name."""
    naming = naming_of(config)
    copied = replicates_of(config)
    return {
        naming.format_remote_topic(config.flow.source, topic.name): topic
        for topic in topics
        if not topic.internal and copied(topic.name)
    }


def refresh_topics(
    config: FlowConfig,
    source: Cluster,
    target: Cluster,
    before_making: Callable[[Sequence[TopicPartition]], None] = lambda _: None,
    copied: Copied = NOTHING,
) -> Inventory:
    """Create and grow remote topics as needed, and return every partition that can be copied.

    `before_making` is called with the partitions of topics that are about to be created. A topic that is `copied`
    already is not dropped because one broker does not list it. If nothing changes, this requests the topics of each
    cluster once, and limits per 500 topics.
    """
    selected = select_topics(config, list_topics(source, copied.sources).values())
    existing = list_topics(target, copied.remotes)
    plan = plan_remotes(config, source, selected, existing)
    if plan.new:
        before_making([TopicPartition(t.name, i) for t in plan.new for i in range(t.partitions)])
    applied = _apply(config, target, plan)
    if applied.changed:
        existing = {**existing, **await_topics(target, applied.changed)}
    there = [remote for remote in selected if remote in existing]
    limits = topic_configs(target, there, [_MAX_MESSAGE_BYTES, MIN_IN_SYNC])
    inventory = route_topics(config, selected, existing, limits, applied.refused)
    return replace(inventory, made=applied.made)


def route_topics(
    config: FlowConfig,
    selected: Mapping[str, Topic],
    existing: Mapping[str, Topic],
    limits: Mapping[str, Mapping[str, str]],
    refused: Mapping[str, str],
) -> Inventory:
    """Return where each partition goes, given the remote topics that exist, and why others go nowhere."""
    reasons = dict(refused)
    routes: list[Route] = []
    for remote, topic in sorted(selected.items()):
        there = existing.get(remote)
        have = len(there.leaders) if there is not None else 0
        wanted = len(topic.leaders) if config.copying.keeps_partitions else 1
        if have < wanted and remote not in reasons:
            reasons[remote] = f"{remote} is not there yet with {wanted} partitions"
        if there is None or not have:
            continue
        spread = have if not config.copying.keeps_partitions and have != len(topic.leaders) else 0
        known = topic.partitions if spread else topic.partitions[:have]
        known_limits = limits.get(remote, {})
        limit = int(known_limits.get(_MAX_MESSAGE_BYTES) or _DEFAULT_MAX_MESSAGE_BYTES)
        routes += [
            Route(
                source=partition,
                topic_id=str(topic.topic_id),
                remote=TopicPartition(remote, partition.index % have),
                remote_id=str(there.topic_id),
                max_message_bytes=limit,
                spread=spread,
                min_in_sync=int(known_limits.get(MIN_IN_SYNC) or 1),
            )
            for partition in known
        ]
    return Inventory(tuple(routes), tuple(reasons.values()))


@dataclass(frozen=True, slots=True)
class RemotePlan:
    """The remote topics to create and to grow (to a new total), and why some cannot be created."""

    new: tuple[NewTopic, ...]
    growths: Mapping[str, int]
    refused: Mapping[str, str]

    def foresee(self, existing: Mapping[str, Topic]) -> dict[str, Topic]:
        """Return the target's topics as they will be; a topic that is not created yet has no id."""
        foreseen = dict(existing)
        for new in self.new:
            nobody = (NO_LEADER,) * new.partitions
            foreseen[new.name] = Topic(new.name, UUID(int=0), nobody, internal=False)
        for name, count in self.growths.items():
            foreseen[name] = replace(existing[name], leaders=(NO_LEADER,) * count)
        return foreseen


def plan_remotes(
    config: FlowConfig,
    source: Cluster,
    selected: Mapping[str, Topic],
    existing: Mapping[str, Topic],
) -> RemotePlan:
    """Return what a refresh would do to the target's topics. Reads source settings, changes nothing."""
    there = {remote: len(topic.leaders) for remote, topic in existing.items()}
    wanted = {remote: len(topic.leaders) for remote, topic in selected.items()}
    plan = plan_topics(own_counts(wanted, there, config.copying.target_partitions), there)
    creations = {step.topic: step.partitions for step in plan if isinstance(step, CreateTopic)}
    growths = {step.topic: step.partitions for step in plan if isinstance(step, GrowTopic)}
    settings, refused = _creation_configs(
        config, source, {remote: selected[remote].name for remote in creations}
    )
    # A source topic that is gone by now has no settings, and no remote topic either.
    new = tuple(
        NewTopic(remote, creations[remote], config.mirroring.replication_factor, its)
        for remote, its in settings.items()
    )
    return RemotePlan(new, growths, {remote: str(fault) for remote, fault in refused.items()})


class _Applied(NamedTuple):
    """The result of a plan: the new counts of changed topics, which are new, and why others were refused."""

    changed: dict[str, int]
    made: frozenset[str]
    refused: dict[str, str]


def _apply(config: FlowConfig, target: Cluster, plan: RemotePlan) -> _Applied:
    """Create and grow remote topics."""
    created = create_topics(target, plan.new)
    faults = created.refused | grow_topics(target, plan.growths)
    tried = {new.name: new.partitions for new in plan.new} | dict(plan.growths)
    changed = {remote: count for remote, count in tried.items() if remote not in faults}
    for remote, partitions in list(changed.items())[:_TOLD]:
        done = "grew" if remote in plan.growths else "created"
        log.info("flow=%s %s topic=%s partitions=%d", config.flow, done, remote, partitions)
    if len(changed) > _TOLD:
        log.info("flow=%s created or grew %d more topics", config.flow, len(changed) - _TOLD)
    refused = {**plan.refused, **{remote: str(fault) for remote, fault in faults.items()}}
    return _Applied(changed, created.made, refused)


def _creation_configs(
    config: FlowConfig, source: Cluster, missing: Mapping[str, str]
) -> tuple[dict[str, dict[str, str]], dict[str, KafkaFault]]:
    """Return the settings of remote topics to create, and why those of others are unknown."""
    excluded = NameFilter(config.mirroring.config_properties_exclude, ()).accepts
    described = describe_configs(source, missing.values())
    settings = {
        remote: creation_configs(
            described.found[name], excluded, config.flow_only.use_defaults_from
        )
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
