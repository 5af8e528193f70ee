"""The source and target clusters of this process's flows: brokers, topics, groups. Nothing is changed."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from heliograph.admin.configs import describe_configs
from heliograph.admin.layout import TopicLayout, describe_layout, find_controller
from heliograph.config.flow import FlowConfig
from heliograph.config.naming import naming_of
from heliograph.errors import KafkaFault, NotThere
from heliograph.groups.admin import fetch_committed, list_groups
from heliograph.groups.members import describe_members
from heliograph.kafka.cluster import Cluster, patiently
from heliograph.kafka.offsets import EARLIEST, LATEST, list_offsets
from heliograph.model import Endpoint, TopicPartition
from heliograph.observe.looking import PATIENCE, look_at
from heliograph.policy.topic_configs import TOPIC_CONFIG

_OLD_KIND = "classic"  # the type of a group whose broker is too old to report it


@dataclass(frozen=True, slots=True)
class ClusterLine:
    alias: str
    bootstrap_servers: str
    flows: list[str]


@dataclass(frozen=True, slots=True)
class BrokerShown:
    """A broker; of `replicas` partitions it has a copy, of `leaders` the one that is written to."""

    id: int
    host: str
    port: int
    rack: str | None
    leaders: int
    replicas: int


@dataclass(frozen=True, slots=True)
class ClusterShown:
    alias: str
    id: str
    controller: int
    brokers: list[BrokerShown]
    topics: int
    partitions: int
    under_replicated: int
    offline: int


@dataclass(frozen=True, slots=True)
class TopicLine:
    topic: str
    partitions: int
    replication_factor: int
    under_replicated: int
    internal: bool


@dataclass(frozen=True, slots=True)
class TopicLines:
    total: int
    topics: list[TopicLine]


@dataclass(frozen=True, slots=True)
class PartitionShown:
    """A partition; one without a leader has no offsets that anybody knows."""

    partition: int
    leader: int
    replicas: list[int]
    isr: list[int]
    start: int | None
    end: int | None


@dataclass(frozen=True, slots=True)
class ConfigShown:
    name: str
    value: str | None
    default: bool


@dataclass(frozen=True, slots=True)
class TopicShown:
    topic: str
    partitions: list[PartitionShown]
    configs: list[ConfigShown]


@dataclass(frozen=True, slots=True)
class GroupLine:
    group: str
    state: str
    type: str


@dataclass(frozen=True, slots=True)
class GroupLines:
    total: int
    groups: list[GroupLine]


@dataclass(frozen=True, slots=True)
class MemberShown:
    id: str
    client_id: str
    host: str
    partitions: list[str]


@dataclass(frozen=True, slots=True)
class OffsetShown:
    """What a group has committed; a partition that is gone has no end."""

    topic: str
    partition: int
    committed: int
    end: int | None
    lag: int | None


@dataclass(frozen=True, slots=True)
class GroupShown:
    group: str
    state: str
    type: str
    members: list[MemberShown]
    offsets: list[OffsetShown]


def aliases_in(flows: Iterable[FlowConfig]) -> list[str]:
    """Return the clusters that flows name."""
    return sorted({end for config in flows for end in (config.flow.source, config.flow.target)})


def find_cluster(known: Iterable[FlowConfig], alias: str) -> tuple[Endpoint, list[FlowConfig]]:
    """Return how to reach a cluster, and the flows whose source or target it is."""
    configs = list(known)
    flows = [config for config in configs if alias in (config.flow.source, config.flow.target)]
    if not flows:
        there = ", ".join(aliases_in(configs)) or "none"
        raise NotThere(f"No flow of this process names a cluster {alias}; there is {there}.")
    first = flows[0]
    return first.source_admin if alias == first.flow.source else first.target_admin, flows


def list_known(known: Iterable[FlowConfig]) -> list[ClusterLine]:
    """Return every cluster that flows name, without contacting any."""
    configs = list(known)
    lines = []
    for alias in aliases_in(configs):
        endpoint, flows = find_cluster(configs, alias)
        lines.append(ClusterLine(alias, str(endpoint), [str(config.flow) for config in flows]))
    return lines


def view_cluster(endpoint: Endpoint, alias: str) -> ClusterShown:
    """Return the brokers of a cluster, and what is wrong with its partitions."""
    with look_at(endpoint) as cluster:
        layout = describe_layout(cluster)
        controller = find_controller(cluster, layout.controller)
    partitions = [p for topic in layout.topics.values() for p in topic.partitions]
    leaders = Counter(p.leader for p in partitions)
    replicas = Counter(node for p in partitions for node in p.replicas)
    brokers = [
        BrokerShown(b.node, b.host, b.port, b.rack, leaders[b.node], replicas[b.node])
        for b in layout.brokers
    ]
    return ClusterShown(
        alias,
        layout.cluster_id,
        controller,
        brokers,
        topics=len(layout.topics),
        partitions=len(partitions),
        under_replicated=sum(p.is_under_replicated for p in partitions),
        offline=sum(p.is_offline for p in partitions),
    )


def view_topics(
    endpoint: Endpoint, flows: Iterable[FlowConfig], wanted: Callable[[TopicLine], bool]
) -> list[TopicLine]:
    """Return the topics of a cluster that are wanted, by name."""
    is_internal = _internal_to(flows)
    with look_at(endpoint) as cluster:
        layout = describe_layout(cluster)
    lines = [_topic_line(topic, is_internal(topic)) for topic in layout.topics.values()]
    return sorted(filter(wanted, lines), key=lambda line: line.topic)


def view_topic(endpoint: Endpoint, alias: str, topic: str) -> TopicShown:
    """Return the partitions of a topic and its settings; the value of a secret one is null."""
    with look_at(endpoint) as cluster:
        found = describe_layout(cluster, [topic]).topics.get(topic)
        if found is None:
            raise NotThere(f"There is no topic {topic} on {alias}.")
        led = [TopicPartition(topic, p.partition) for p in found.partitions if not p.is_offline]
        starts = _offsets(cluster, led, EARLIEST)
        ends = _offsets(cluster, led, LATEST)
        entries = describe_configs(cluster, [topic]).found.get(topic, ())
    partitions = [
        PartitionShown(
            p.partition,
            p.leader,
            list(p.replicas),
            list(p.isr),
            starts.get(TopicPartition(topic, p.partition)),
            ends.get(TopicPartition(topic, p.partition)),
        )
        for p in found.partitions
    ]
    configs = [
        ConfigShown(e.name, None if e.sensitive else e.value, e.source != TOPIC_CONFIG)
        for e in sorted(entries, key=lambda entry: entry.name)
    ]
    return TopicShown(topic, partitions, configs)


def view_groups(endpoint: Endpoint, wanted: Callable[[str], bool]) -> list[GroupLine]:
    """Return the groups of a cluster, of all kinds, whose names are wanted."""
    with look_at(endpoint) as cluster:
        listed = list_groups(cluster)
    return [
        GroupLine(g.group, g.state, g.kind or _OLD_KIND)
        for g in sorted(listed.values(), key=lambda group: group.group)
        if wanted(g.group)
    ]


def view_group(endpoint: Endpoint, alias: str, group: str) -> GroupShown:
    """Return the members of a group, and its offsets."""
    with look_at(endpoint) as cluster:
        listed = list_groups(cluster).get(group)
        if listed is None:
            raise NotThere(f"There is no group {group} on {alias}.")
        members = describe_members(cluster, listed)
        committed, unread = fetch_committed(cluster, [group], PATIENCE)
        if unread:
            raise KafkaFault(
                f"read what {group} committed on {alias}", unread[group], retriable=True
            )
        places = {p: its.offset for p, its in committed[group].items() if its.offset >= 0}
        ends = _ends_of(cluster, places)
    return GroupShown(
        group,
        listed.state,
        listed.kind or _OLD_KIND,
        [
            MemberShown(m.member_id, m.client_id, m.host, [str(p) for p in m.partitions])
            for m in members
        ],
        [
            OffsetShown(p.topic, p.index, at, ends.get(p), _lag(at, ends.get(p)))
            for p, at in sorted(places.items())
        ],
    )


def _internal_to(flows: Iterable[FlowConfig]) -> Callable[[TopicLayout], bool]:
    namings = [naming_of(config) for config in flows]
    return lambda topic: topic.internal or any(n.is_internal_topic(topic.name) for n in namings)


def _topic_line(topic: TopicLayout, internal: bool) -> TopicLine:
    return TopicLine(
        topic.name,
        len(topic.partitions),
        max((len(p.replicas) for p in topic.partitions), default=0),
        sum(p.is_under_replicated for p in topic.partitions),
        internal,
    )


def _offsets(
    cluster: Cluster, partitions: list[TopicPartition], which: int
) -> dict[TopicPartition, int]:
    if not partitions:
        return {}
    return patiently(lambda: list_offsets(cluster, partitions, which), PATIENCE)


def _ends_of(cluster: Cluster, wanted: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Return where partitions end; one that is gone, or has no leader, is left out."""
    partitions = list(wanted)
    topics = patiently(lambda: cluster.describe({p.topic for p in partitions}), PATIENCE)
    led = [p for p in partitions if p.topic in topics and topics[p.topic].leads(p.index)]
    return _offsets(cluster, led, LATEST)


def _lag(committed: int, end: int | None) -> int | None:
    return None if end is None else max(end - committed, 0)
