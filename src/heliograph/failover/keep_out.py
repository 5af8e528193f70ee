"""Keeping a mirror from writing: every remote partition that can be fenced is, even if others fail."""

from collections.abc import Iterable

from heliograph.admin.configs import topic_configs
from heliograph.config.flow import FlowConfig
from heliograph.config.naming import naming_of
from heliograph.driving.ownership import Ownership, group_of
from heliograph.driving.rights import look_at
from heliograph.errors import MirrorError
from heliograph.flows.source import MIN_IN_SYNC
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.transactions import settle_slices
from heliograph.model import TopicPartition


def keep_out(
    config: FlowConfig, target: Cluster, known: Iterable[TopicPartition]
) -> dict[TopicPartition, str]:
    """Stop the writes of any process that mirrors the flow; return the remote partitions where that fails, and why.

    Fences the `known` partitions and those of topics that were created since.
    """
    ownership = Ownership(config.transactional_id)
    ownership.open(target)
    if config.transactions:
        settle_slices(target, config.transactional_id)
        return {}
    remotes = _find_remotes(config, target, known)
    limits = topic_configs(target, {r.topic for r in remotes}, [MIN_IN_SYNC])
    least = {topic: int(its.get(MIN_IN_SYNC) or 1) for topic, its in limits.items()}
    unfenced = dict(look_at(target, remotes, least).trouble)
    groups: dict[int, list[TopicPartition]] = {}
    for remote in remotes:
        if remote not in unfenced:
            groups.setdefault(group_of(remote), []).append(remote)
    for group, members in groups.items():
        try:
            unfenced |= ownership.take_group(target, group, members).refused
        except MirrorError as exc:
            unfenced |= dict.fromkeys(members, str(exc))
    return unfenced


def _find_remotes(
    config: FlowConfig, target: Cluster, known: Iterable[TopicPartition]
) -> list[TopicPartition]:
    naming = naming_of(config)
    remotes = set(known)
    for name, topic in target.describe().items():
        if naming.topic_source(name) == config.flow.source:
            remotes.update(topic.partitions)
    return sorted(remotes)
