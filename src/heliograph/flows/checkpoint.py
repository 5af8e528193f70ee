"""What MirrorCheckpointConnector does: where each group of the source would continue on the target.

The run map translates a group's committed offset exactly. What a MirrorMaker 2 copied before this
flow is translated as MirrorMaker does it, from its offset syncs.
"""

import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from heliograph.config.flow import FlowConfig
from heliograph.config.naming import naming_of
from heliograph.errors import CorruptRecord
from heliograph.flows.schedule import Chore
from heliograph.flows.sync_history import SyncHistories
from heliograph.groups.admin import Committed, fetch_committed, list_groups
from heliograph.kafka.cluster import Cluster, patiently
from heliograph.model import TopicPartition
from heliograph.policy.checkpoints import (
    downstream_topic,
    is_contradicted,
    is_news,
    refusal_to_checkpoint,
)
from heliograph.policy.filters import NameFilter
from heliograph.policy.naming import runs_topic
from heliograph.saved.run_reader import RunReader
from heliograph.tables.append import Appender
from heliograph.tables.table import Table
from heliograph.wire.mirror_records import Checkpoint, decode_checkpoint, encode_checkpoint

log = logging.getLogger(__name__)

_SHOWN = 3
_NOTHING_COPIED = "it committed nothing that this flow copies"


@dataclass(frozen=True, slots=True)
class GroupSurvey:
    """The groups of the source: those taken, why others are passed over, why some cannot be read."""

    taken: tuple[str, ...]
    passed_over: Mapping[str, str]
    unread: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Outlook:
    """The current positions of groups on the target, and which of them are worth writing.

    `ahead` counts, by group, the partitions that it has read further than was copied.
    """

    standing: Mapping[str, Mapping[TopicPartition, Checkpoint]]
    news: tuple[Checkpoint, ...]
    ahead: Mapping[str, int]
    troubles: tuple[str, ...]


class Checkpointer:
    """Writes the checkpoints of one flow; `last` holds the newest of each group and partition."""

    def __init__(self, config: FlowConfig, source: Cluster, target: Cluster) -> None:
        self._config = config
        self._source = source
        self._target = target
        self._naming = naming_of(config)
        self._runs = RunReader(target, runs_topic(self._naming, config.flow.source))
        self._table = Table(target, self._naming.checkpoints_topic(config.flow.source))
        self._accepts_topic = NameFilter(
            config.mirroring.topics, config.mirroring.topics_exclude
        ).accepts
        settings = config.checkpoints
        self._group_names = NameFilter(settings.groups, settings.groups_exclude)
        self._histories = SyncHistories(config)
        self._appender: Appender | None = None
        self._groups: list[str] | None = None
        self._foreign: list[str] = []
        self.last: dict[str, dict[TopicPartition, Checkpoint]] = {}
        self._standing: Mapping[str, Mapping[TopicPartition, Checkpoint]] = {}

    def chores(self) -> list[Chore]:
        settings = self._config.checkpoints
        if not self._config.emits_checkpoints:
            return []
        chores = [Chore("checkpoints", settings.emit_checkpoints_interval, self.emit)]
        if settings.refreshes_groups:
            refresh = settings.refresh_groups_interval
            chores.append(Chore("groups", refresh, self.refresh_groups, delayed=True))
        return chores

    def checkpoints(self) -> Mapping[str, Mapping[TopicPartition, Checkpoint]]:
        """Return the current checkpoints by group: the result of the last translation."""
        return self._standing

    def close(self) -> None:
        self._histories.close()

    def refresh_groups(self) -> Iterable[str]:
        """Find the groups that have committed something this flow copies."""
        survey = self.survey()
        groups = list(survey.taken)
        if self._groups is None or set(groups) != set(self._groups):
            log.info("flow=%s groups=%d are looked after", self._config.flow, len(groups))
        self._groups = groups
        return in_words(survey.unread, "read on the source")

    def survey(self) -> GroupSurvey:
        """Look at all groups of the source."""
        passed_over: dict[str, str] = {}
        wanted = []
        for listed in list_groups(self._source).values():
            refusal = refusal_to_checkpoint(listed.group, listed.protocol, self._group_names)
            if refusal is None:
                wanted.append(listed.group)
            else:
                passed_over[listed.group] = refusal
        committed, unread = fetch_committed(self._source, wanted)
        taken = []
        for group, offsets in committed.items():
            if any(self._counted(offsets)):
                taken.append(group)
            else:
                passed_over[group] = _NOTHING_COPIED
        return GroupSurvey(tuple(taken), passed_over, unread)

    def emit(self) -> Iterable[str]:
        """Write a checkpoint for every group that moved forward or back since its last one."""
        is_empty = self._table.ensure(
            1, self._config.checkpoints.checkpoints_topic_replication_factor
        )
        if is_empty or self._appender is None:
            self._take_up()
            self._appender = Appender(self._target, self._table.topic)
        troubles: list[str] = []
        if self._groups is None:
            troubles += self.refresh_groups()
        outlook = self._look(self._groups or ())
        if outlook.news:
            appender, self._appender = self._appender, None  # not reused if it fails
            rows = [encode_checkpoint(checkpoint) for checkpoint in outlook.news]
            now = time.time_ns() // 1_000_000
            appender.append({0: rows}, self._config.common.admin_timeout, now)
            self._appender = appender
            for checkpoint in outlook.news:
                self.last.setdefault(checkpoint.group, {})[checkpoint.partition] = checkpoint
        self._standing = outlook.standing
        return [*troubles, *outlook.troubles]

    def preview(self, groups: Iterable[str]) -> Outlook:
        """Return what `emit` would find and write for these groups; writes and creates nothing."""
        topic = self._table.topic
        if topic in patiently(lambda: self._target.describe([topic])):
            self._take_up()
        outlook = self._look(groups)
        self._standing = outlook.standing
        return outlook

    def _look(self, groups: Iterable[str]) -> Outlook:
        """Translate the offsets that groups have committed."""
        troubles = [*self._foreign, *self._runs.refresh()]
        self._histories.begin()
        committed, unread = fetch_committed(self._source, groups)
        standing: dict[str, dict[TopicPartition, Checkpoint]] = {}
        news = []
        for group, offsets in committed.items():
            its = standing[group] = {}
            for checkpoint, is_new in self._translate(group, offsets):
                its[checkpoint.partition] = checkpoint
                if is_new:
                    news.append(checkpoint)
        troubles += self._histories.troubles()
        troubles += in_words(unread, "read on the source")
        ahead = {group: self._count_ahead(offsets) for group, offsets in committed.items()}
        return Outlook(standing, tuple(news), ahead, tuple(troubles))

    def _take_up(self) -> None:
        """Continue from the checkpoints in the topic."""
        self.last.clear()
        foreign = 0
        for key, value in self._table.read().items():
            try:
                checkpoint = decode_checkpoint(key, value)
            except CorruptRecord:
                foreign += 1
                continue
            self.last.setdefault(checkpoint.group, {})[checkpoint.partition] = checkpoint
        self._foreign = []
        if foreign:
            self._foreign.append(
                f"{self._table.topic} on {self._config.flow.target} holds {foreign} records that are no "
                "checkpoints; they are passed over. Check what else writes to this topic."
            )

    def _counted(self, offsets: Mapping[TopicPartition, Committed]) -> Iterator[TopicPartition]:
        """Yield the partitions whose position counts for this flow."""
        for partition, committed in offsets.items():
            if committed.offset >= 0 and self._accepts_topic(partition.topic):
                yield partition

    def _count_ahead(self, offsets: Mapping[TopicPartition, Committed]) -> int:
        return sum(
            (self._runs.end(partition) or 0) < offsets[partition].offset
            for partition in self._counted(offsets)
        )

    def _translate(
        self, group: str, offsets: Mapping[TopicPartition, Committed]
    ) -> Iterator[tuple[Checkpoint, bool]]:
        """Yield the positions of a group on the target, and whether each is worth writing."""
        for partition in self._counted(offsets):
            upstream, metadata = offsets[partition]
            end = self._runs.end(partition)
            if end is None:
                continue
            exact = self._runs.downstream_of(partition, upstream)
            downstream = exact
            if downstream is None:
                downstream = self._guess(partition, upstream)
            if downstream is None:
                continue
            new = Checkpoint(group, self._remote(partition), upstream, downstream, metadata)
            last = self.last.get(group, {}).get(new.partition)
            if last is None or is_news(last, new):
                yield new, True
                continue
            if last.upstream != upstream:
                exact = self._runs.downstream_of(partition, last.upstream)
            if is_contradicted(last, end, exact):
                yield new, True
            else:
                yield last, False

    def _guess(self, partition: TopicPartition, upstream: int) -> int | None:
        """Return the last known place from which a group misses nothing, if its exact place is unknown."""
        found = (
            self._histories.downstream_of(partition, upstream),
            self._runs.floor_of(partition, upstream),
        )
        return max((place for place in found if place is not None), default=None)

    def _remote(self, partition: TopicPartition) -> TopicPartition:
        flow = self._config.flow
        topic = downstream_topic(
            partition.topic,
            naming=self._naming,
            source_alias=flow.source,
            target_alias=flow.target,
        )
        return TopicPartition(topic, partition.index)


def in_words(reasons: Mapping[str, str], what: str) -> list[str]:
    """Return a sentence per reason, naming some of the groups that it holds for."""
    by_reason: dict[str, list[str]] = {}
    for group, reason in sorted(reasons.items()):
        by_reason.setdefault(reason, []).append(group)
    return [
        f"{len(groups)} groups cannot be {what} ({', '.join(groups[:_SHOWN])}"
        f"{', ...' if len(groups) > _SHOWN else ''}): {reason}"
        for reason, groups in by_reason.items()
    ]
