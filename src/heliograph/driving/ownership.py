"""Who may write for a flow: the identities of its writers, in groups, and for how long they are known to be good.

A remote partition belongs to one of some groups by its name; each group has a transactional id, so what cannot be
fenced in one stops no other. Invariants:

A  A driver that starts takes every identity it uses, whoever had it: it is the successor. From then on it asks with the
   identity it holds, so it learns of a successor of its own, and never takes a flow back by accident.
B  Nothing is written by an identity that was not renewed for two thirds of the time after which its coordinator
   forgets it. So one that the coordinator no longer knows is used by nobody.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NamedTuple
from zlib import crc32

from heliograph.errors import ClusterUnreachable, KafkaFault
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.fencing import Fenced, fence_group, open_identity
from heliograph.kafka.transactions import NOBODY
from heliograph.model import ProducerIdentity, TopicPartition

GROUPS = 32
_FENCE = timedelta(seconds=5)
_OPEN = timedelta(seconds=30)


def group_of(remote: TopicPartition) -> int:
    """Return the group of a remote partition: the same for ever, in every driver."""
    return crc32(str(remote).encode()) % GROUPS


def group_id(flow_id: str, group: int) -> str:
    """Return the transactional id of a group."""
    return f"{flow_id}-g{group}"


class Granted(NamedTuple):
    """The identities that may write to remote partitions now, and why there is none for others."""

    identities: Mapping[TopicPartition, ProducerIdentity]
    refused: Mapping[TopicPartition, str]


@dataclass(slots=True)
class Ownership:
    """The identities of one flow's writers; it outlives its jobs. For one thread at a time."""

    flow_id: str
    own: ProducerIdentity = NOBODY
    groups: dict[int, ProducerIdentity] = field(default_factory=dict)
    _clean: set[int] = field(default_factory=set)

    def open(self, target: Cluster) -> None:
        """Take the flow, or make sure that it is still ours; raises FlowFenced if another driver has it."""
        self.own = open_identity(target, self.flow_id, self.own, _OPEN)

    def fence(self, target: Cluster, remotes: Iterable[TopicPartition]) -> Granted:
        """Keep everybody else from writing to these partitions; what cannot be fenced stays with its reason."""
        by_group: dict[int, list[TopicPartition]] = {}
        for remote in remotes:
            by_group.setdefault(group_of(remote), []).append(remote)
        identities: dict[TopicPartition, ProducerIdentity] = {}
        refused: dict[TopicPartition, str] = {}
        for group in sorted(by_group, key=lambda group: group not in self._clean):
            members = by_group[group]
            try:
                fenced = self._fence(target, group, members)
            except (KafkaFault, ClusterUnreachable) as exc:
                self._clean.discard(group)
                refused |= dict.fromkeys(members, f"its earlier writer cannot be fenced: {exc}")
                continue
            self._clean.add(group)
            refused |= fenced.refused
            identities |= {m: fenced.identity for m in members if m not in fenced.refused}
        return Granted(identities, refused)

    def give(self, target: Cluster, remotes: Iterable[TopicPartition]) -> Granted:
        """Return identities for partitions that nobody else can have written to: topics that this driver made."""
        identities: dict[TopicPartition, ProducerIdentity] = {}
        refused: dict[TopicPartition, str] = {}
        for remote in remotes:
            try:
                identities[remote] = self._open_group(target, group_of(remote))
            except (KafkaFault, ClusterUnreachable) as exc:
                refused[remote] = str(exc)
        return Granted(identities, refused)

    def open_groups(self, target: Cluster, remotes: Iterable[TopicPartition]) -> None:
        """Take the identities of partitions that are about to be made: before they are there."""
        for group in {group_of(remote) for remote in remotes}:
            self._open_group(target, group)

    def _open_group(self, target: Cluster, group: int) -> ProducerIdentity:
        identity = self.groups.get(group)
        if identity is None:
            name = group_id(self.flow_id, group)
            identity = self.groups[group] = open_identity(target, name, NOBODY, _OPEN)
        return identity

    def _fence(self, target: Cluster, group: int, members: Sequence[TopicPartition]) -> Fenced:
        name = group_id(self.flow_id, group)
        current = self.groups.get(group, NOBODY)
        identity = self.groups[group] = open_identity(target, name, current, _FENCE)
        fenced = fence_group(target, name, identity, members, _FENCE)
        self.groups[group] = fenced.identity
        return fenced
