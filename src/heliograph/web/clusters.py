"""The clusters that flows of this process lead from and to: brokers, topics, groups. Nothing is changed."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query

from heliograph.config.flow import FlowConfig
from heliograph.control.connect import RestError
from heliograph.flows.source import naming_of
from heliograph.kafka.cluster import Cluster, patiently
from heliograph.kafka.configs import describe_configs
from heliograph.kafka.groups import fetch_committed, list_groups
from heliograph.kafka.layout import TopicLayout, describe_layout, find_controller
from heliograph.kafka.members import describe_members
from heliograph.kafka.offsets import EARLIEST, LATEST, list_offsets
from heliograph.model import Endpoint, TopicPartition
from heliograph.policy.topic_configs import TOPIC_CONFIG
from heliograph.web.looking import (
    FAULTS,
    LOOKS,
    PATIENCE,
    Limit,
    Offset,
    Search,
    TopicInPath,
    fits,
    look_at,
)
from heliograph.web.mirror import Flows, TheFlows

router = APIRouter(prefix="/api/clusters", tags=["clusters"])

_OLD_KIND = "classic"  # what a group is whose broker is too old to tell


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


def find_cluster(known: Flows, alias: str) -> tuple[Endpoint, list[FlowConfig]]:
    """Return how to reach a cluster, and the flows that lead from or to it."""
    configs = list(known.sources().values())
    flows = [config for config in configs if alias in (config.flow.source, config.flow.target)]
    if not flows:
        aliases = {end for c in configs for end in (c.flow.source, c.flow.target)}
        there = ", ".join(sorted(aliases)) or "none"
        raise RestError(404, f"No flow of this process names a cluster {alias}; there is {there}.")
    first = flows[0]
    return first.source_admin if alias == first.flow.source else first.target_admin, flows


@router.get("")
def list_clusters(known: TheFlows) -> list[ClusterLine]:
    """Return every cluster that a flow of this process names; none of them is asked."""
    configs = known.sources().values()
    aliases = {end for c in configs for end in (c.flow.source, c.flow.target)}
    lines = []
    for alias in sorted(aliases):
        endpoint, flows = find_cluster(known, alias)
        lines.append(ClusterLine(alias, str(endpoint), [str(config.flow) for config in flows]))
    return lines


@router.get("/{alias}", responses=FAULTS, dependencies=LOOKS)
def get_cluster(known: TheFlows, alias: str) -> ClusterShown:
    """Return the brokers of a cluster, and what is amiss with its partitions."""
    endpoint, _ = find_cluster(known, alias)
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


@router.get("/{alias}/topics", responses=FAULTS, dependencies=LOOKS)
def list_topics(
    known: TheFlows,
    alias: str,
    search: Search = "",
    *,
    internal: bool = False,
    offset: Offset = 0,
    limit: Limit = 100,
) -> TopicLines:
    """Return the topics of a cluster whose name holds `search`; internal ones if they are asked for."""
    endpoint, flows = find_cluster(known, alias)
    is_internal = _internal_to(flows)
    with look_at(endpoint) as cluster:
        layout = describe_layout(cluster)
    lines = [_topic_line(topic, is_internal(topic)) for topic in layout.topics.values()]
    found = [line for line in lines if fits(search, line.topic) and (internal or not line.internal)]
    found.sort(key=lambda line: line.topic)
    return TopicLines(len(found), found[offset : offset + limit])


@router.get("/{alias}/topics/{topic}", responses=FAULTS, dependencies=LOOKS)
def get_topic(known: TheFlows, alias: str, topic: TopicInPath) -> TopicShown:
    """Return the partitions of a topic and its settings; the value of a secret one is null."""
    endpoint, _ = find_cluster(known, alias)
    with look_at(endpoint) as cluster:
        found = describe_layout(cluster, [topic]).topics.get(topic)
        if found is None:
            raise RestError(404, f"There is no topic {topic} on {alias}.")
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


@router.get("/{alias}/groups", responses=FAULTS, dependencies=LOOKS)
def list_the_groups(
    known: TheFlows, alias: str, search: Search = "", offset: Offset = 0, limit: Limit = 100
) -> GroupLines:
    """Return the groups of a cluster, of all kinds, whose name holds `search`."""
    endpoint, _ = find_cluster(known, alias)
    with look_at(endpoint) as cluster:
        listed = list_groups(cluster)
    found = [
        GroupLine(g.group, g.state, g.kind or _OLD_KIND)
        for g in sorted(listed.values(), key=lambda group: group.group)
        if fits(search, g.group)
    ]
    return GroupLines(len(found), found[offset : offset + limit])


@router.get("/{alias}/group", responses=FAULTS, dependencies=LOOKS)
def get_group(
    known: TheFlows, alias: str, name: Annotated[str, Query(max_length=1000)]
) -> GroupShown:
    """Return who is in a group, and how far it has come. Its name may hold slashes, so it is no path."""
    group = name
    endpoint, _ = find_cluster(known, alias)
    with look_at(endpoint) as cluster:
        listed = list_groups(cluster).get(group)
        if listed is None:
            raise RestError(404, f"There is no group {group} on {alias}.")
        members = describe_members(cluster, listed)
        committed, unread = fetch_committed(cluster, [group], PATIENCE)
        if unread:
            raise RestError(502, f"{alias}: cannot read what {group} committed, {unread[group]}.")
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
    """Return where partitions end; one that is gone, or that nobody leads, is left out."""
    partitions = list(wanted)
    topics = patiently(lambda: cluster.describe({p.topic for p in partitions}), PATIENCE)
    led = [p for p in partitions if p.topic in topics and topics[p.topic].leads(p.index)]
    return _offsets(cluster, led, LATEST)


def _lag(committed: int, end: int | None) -> int | None:
    return None if end is None else max(end - committed, 0)
