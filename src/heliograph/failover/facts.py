"""What both clusters show of a flow, even if the source is gone: the facts behind a fail-over."""

import time
from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta

from heliograph.config.flow import FlowConfig
from heliograph.config.naming import naming_of, replicates_of
from heliograph.errors import ClusterUnreachable, CorruptRecord, DeadlinePassed, KafkaFault
from heliograph.groups.admin import Committed, fetch_committed, list_groups
from heliograph.kafka.cluster import Cluster, Topic, patiently
from heliograph.kafka.offsets import EARLIEST, LATEST, Offsets, find_offsets_patiently
from heliograph.model import Position, TopicPartition
from heliograph.policy.naming import runs_topic
from heliograph.policy.runs import RunMap, read_run_maps
from heliograph.saved.holds import HoldStore
from heliograph.saved.progress import open_progress
from heliograph.tables.rows import StampedRow, read_last, read_stamped
from heliograph.tables.table import Table
from heliograph.wire.connect_records import SourceOffset
from heliograph.wire.hold_records import Hold
from heliograph.wire.mirror_records import (
    Checkpoint,
    Heartbeat,
    decode_checkpoint,
    decode_heartbeat,
)

_HEARTBEATS = 50
_CONSUMERS = ("consumer", "")
_FIRST_WORD = timedelta(seconds=5)
_FIRST_ANSWER = timedelta(seconds=10)  # for a source that accepts connections but never answers


@dataclass(frozen=True, slots=True)
class GroupsView:
    """The consumer groups of one cluster: their states, and what they have committed."""

    states: Mapping[str, str] = field(default_factory=dict)
    committed: Mapping[str, Mapping[TopicPartition, Committed]] = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SourceView:
    """What the source reports about the topics that are copied; `back_runs` are the run maps of the reverse flow.

    For partitions that are `away`, such as those without a leader, only the reason is known.
    """

    topics: Mapping[str, Topic]
    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    groups: GroupsView
    back_runs: Mapping[TopicPartition, RunMap]
    away: Mapping[TopicPartition, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StampedCheckpoint:
    checkpoint: Checkpoint
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class FlowView:
    """A flow at one moment. `source` is None if none of its brokers answers, and `gone` says why.

    `ends` covers all its remote partitions except those that are `away`. Topics in `spread` have a different
    partition count on the target, so their offsets cannot be translated.
    """

    config: FlowConfig
    now_ms: int
    source: SourceView | None
    gone: str | None
    runs: Mapping[TopicPartition, RunMap]
    saved: Mapping[TopicPartition, SourceOffset]
    ends: Mapping[TopicPartition, int]
    checkpoints: Mapping[str, Mapping[TopicPartition, StampedCheckpoint]]
    heartbeat: Heartbeat | None
    groups: GroupsView
    hold: Hold | None
    spread: frozenset[str] = frozenset()
    away: Mapping[TopicPartition, str] = field(default_factory=dict)

    @property
    def committed_only(self) -> bool:
        return self.config.reading.committed_only

    def position(self, partition: TopicPartition) -> Position | None:
        """Return how far a source partition is known to be copied; the target may hold more."""
        saved = self.saved.get(partition)
        runs = self.runs.get(partition)
        last = runs.end if runs else None
        found = [] if last is None else [Position(last.upstream_end, last.downstream_end)]
        if saved is not None and saved.downstream is not None:
            found.append(Position(saved.upstream, saved.downstream))
        return max(found, key=lambda p: p.upstream, default=None)

    def remote(self, partition: TopicPartition) -> TopicPartition:
        naming = naming_of(self.config)
        topic = naming.format_remote_topic(self.config.flow.source, partition.topic)
        return TopicPartition(topic, partition.index)

    def shortfall(self) -> str | None:
        """Return how the source falls short of what was copied from it, if it does."""
        for partition, end in sorted(self.source.ends.items()) if self.source else ():
            saved, position = self.saved.get(partition), self.position(partition)
            topic_id = str(self.source.topics[partition.topic].topic_id) if self.source else ""
            if saved is not None and saved.topic_id not in (None, topic_id):
                return f"{partition.topic} was deleted and made anew there"
            if position is not None and position.upstream > end:
                return f"{partition} ends at {end} there, and {position.upstream} were copied"
        return None


def look(config: FlowConfig, source: Cluster, target: Cluster) -> FlowView:
    """Return what both clusters report about a flow; the target must answer, the source need not."""
    target.describe(())
    # A flow saves runs before positions. Read in the opposite order, the runs reach the positions.
    saved = _saved(config)
    naming = naming_of(config)
    there = patiently(target.describe)
    remotes = {
        name: topic
        for name, topic in there.items()
        if not topic.internal and not naming.is_internal_topic(name)
    }
    runs, _ = read_run_maps(_rows(target, there, runs_topic(naming, config.flow.source)))
    seen, gone = _look_at_source(config, source)
    checkpoints = _checkpoints(target, there, naming.checkpoints_topic(config.flow.source))
    copied = {p.topic for p in [*runs, *saved, *(seen.ends if seen else ())]}
    wanted = {naming.format_remote_topic(config.flow.source, topic) for topic in copied}
    wanted |= {p.topic for its in checkpoints.values() for p in its}
    held = [p for name, topic in remotes.items() if name in wanted for p in topic.partitions]
    spread = _find_spread(config, seen, remotes)
    if seen is not None and spread:
        seen = replace(seen, ends={p: at for p, at in seen.ends.items() if p.topic not in spread})
    ends = find_offsets_patiently(target, held, LATEST)
    return FlowView(
        config=config,
        now_ms=time.time_ns() // 1_000_000,
        source=seen,
        gone=gone,
        runs=runs,
        saved=saved,
        ends=ends.found,
        checkpoints=checkpoints,
        heartbeat=_heartbeat(
            target,
            there,
            naming.format_remote_topic(config.flow.source, naming.heartbeats_topic()),
        ),
        groups=_groups(target, checkpoints),
        hold=HoldStore(target, config).read(),
        spread=spread,
        away={partition: str(fault) for partition, fault in ends.missing.items()},
    )


def _find_spread(
    config: FlowConfig, seen: SourceView | None, remotes: Mapping[str, Topic]
) -> frozenset[str]:
    if seen is None or config.copying.keeps_partitions:
        return frozenset()
    naming = naming_of(config)
    return frozenset(
        name
        for name, topic in seen.topics.items()
        if (remote := remotes.get(naming.format_remote_topic(config.flow.source, name)))
        and len(remote.leaders) != len(topic.leaders)
    )


def _look_at_source(config: FlowConfig, source: Cluster) -> tuple[SourceView | None, str | None]:
    try:
        _hear(source)
        copied = replicates_of(config)
        is_beat = naming_of(config).is_heartbeats_topic
        topics = {
            name: topic
            for name, topic in patiently(source.describe).items()
            if not topic.internal and copied(name) and not is_beat(name)
        }
        partitions = [p for topic in topics.values() for p in topic.partitions]
        starts = find_offsets_patiently(source, partitions, EARLIEST)
        ends = _find_ends(config, source, starts.found)
        away = {p: str(fault) for p, fault in {**starts.missing, **ends.missing}.items()}
        back = runs_topic(naming_of(config), config.flow.target)
        back_runs, _ = read_run_maps(_rows(source, patiently(source.describe), back))
        groups = _groups(source, None)
        return SourceView(topics, starts.found, ends.found, groups, back_runs, away), None
    except ClusterUnreachable as exc:
        return None, str(exc)
    except KafkaFault as exc:
        if not exc.retriable:
            raise
        return None, str(exc)


def _hear(source: Cluster) -> None:
    """Return once a cluster has answered, over a connection with a shorter timeout than others."""
    endpoint = source.endpoint
    with closing(Cluster(endpoint, _FIRST_ANSWER)) as briefly:
        try:
            patiently(lambda: briefly.describe(()), _FIRST_WORD)
        except DeadlinePassed as exc:
            raise ClusterUnreachable(endpoint.cluster, str(endpoint), "it says nothing") from exc


def read_ends(
    config: FlowConfig, source: Cluster, partitions: Iterable[TopicPartition]
) -> Mapping[TopicPartition, int]:
    """Return how far this flow can read partitions of the source now, as far as they answer."""
    return _find_ends(config, source, partitions).found


def _find_ends(
    config: FlowConfig, source: Cluster, partitions: Iterable[TopicPartition]
) -> Offsets:
    committed_only = config.reading.committed_only
    return find_offsets_patiently(source, partitions, LATEST, committed_only=committed_only)


def _groups(cluster: Cluster, wanted: Iterable[str] | None) -> GroupsView:
    """Return consumer groups, all of them or those wanted; one that does not exist has committed nothing."""
    listed = list_groups(cluster)
    if wanted is None:
        names = [g.group for g in listed.values() if g.protocol in _CONSUMERS]
    else:
        names = list(dict.fromkeys([*wanted, *(g.group for g in listed.values())]))
    committed, unread = fetch_committed(cluster, names)
    return GroupsView({g.group: g.state for g in listed.values()}, committed, unread)


def _rows(
    cluster: Cluster, topics: Mapping[str, Topic], topic: str
) -> Iterable[tuple[bytes, bytes]]:
    return Table(cluster, topic).read().items() if topic in topics else ()


def _checkpoints(
    target: Cluster, topics: Mapping[str, Topic], topic: str
) -> dict[str, dict[TopicPartition, StampedCheckpoint]]:
    latest: dict[bytes, StampedRow] = {}
    if topic in topics:
        for row in read_stamped(target, [TopicPartition(topic, 0)]):
            latest[row.key] = row
    found: dict[str, dict[TopicPartition, StampedCheckpoint]] = {}
    for row in latest.values():
        with suppress(CorruptRecord):
            its = decode_checkpoint(row.key, row.value)
            stamped = StampedCheckpoint(its, row.timestamp_ms)
            found.setdefault(its.group, {})[its.partition] = stamped
    return found


def _heartbeat(target: Cluster, topics: Mapping[str, Topic], topic: str) -> Heartbeat | None:
    """Return the newest copied heartbeat of the source: at that time it and the flow were alive."""
    newest = None
    if topic in topics:
        for row in read_last(target, TopicPartition(topic, 0), _HEARTBEATS):
            with suppress(CorruptRecord):
                beat = decode_heartbeat(row.key, row.value)
                if newest is None or beat.timestamp_ms > newest.timestamp_ms:
                    newest = beat
    return newest


def _saved(config: FlowConfig) -> dict[TopicPartition, SourceOffset]:
    """Return the saved positions, without creating a topic for them."""
    kept = config.offset_storage
    with closing(Cluster(kept.endpoint)) as storage:
        if kept.file is None and kept.name not in patiently(lambda: storage.describe([kept.name])):
            return {}
        return open_progress(storage, config).load()
