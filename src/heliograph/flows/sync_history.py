"""The offset syncs that a MirrorMaker 2 wrote before this flow took over, read once when needed."""

from collections.abc import Iterator
from contextlib import closing

from heliograph.config.flow import FlowConfig
from heliograph.errors import CorruptRecord, MirrorError
from heliograph.flows.offset_syncs import offset_syncs_topic
from heliograph.kafka.cluster import Cluster, patiently
from heliograph.model import TopicPartition
from heliograph.policy.sync_history import SyncHistory
from heliograph.tables.table import read_rows
from heliograph.wire.mirror_records import OffsetSync, decode_offset_sync


class SyncHistories:
    """Translates as MirrorMaker does, from the offset-syncs topic."""

    def __init__(self, config: FlowConfig) -> None:
        self._config = config
        self._cluster = Cluster(config.offset_syncs)
        self._histories: dict[TopicPartition, SyncHistory] | None = None
        self._trouble: str | None = None

    def close(self) -> None:
        self._cluster.close()

    def begin(self) -> None:
        """Forget the last failure, so that reading is tried again."""
        self._trouble = None

    def troubles(self) -> list[str]:
        """Return why positions that only a MirrorMaker knows could not be translated."""
        return [] if self._trouble is None else [self._trouble]

    def downstream_of(self, partition: TopicPartition, upstream: int) -> int | None:
        """Return a safe place for a position that the run map does not know, if there is one."""
        if self._histories is None and self._trouble is None:
            try:
                self._histories = self._read()
            except MirrorError as exc:
                self._trouble = str(exc)
        history = (self._histories or {}).get(partition)
        return None if history is None else history.downstream_of(upstream)

    def _read(self) -> dict[TopicPartition, SyncHistory]:
        histories: dict[TopicPartition, SyncHistory] = {}
        for sync in _read_syncs(self._cluster, self._config):
            histories.setdefault(sync.partition, SyncHistory()).add(sync.upstream, sync.downstream)
        return histories


def newest_syncs(config: FlowConfig) -> dict[TopicPartition, OffsetSync]:
    """Return the last offset sync of each partition, whatever process wrote it."""
    with closing(Cluster(config.offset_syncs)) as cluster:
        return {sync.partition: sync for sync in _read_syncs(cluster, config)}


def _read_syncs(cluster: Cluster, config: FlowConfig) -> Iterator[OffsetSync]:
    topic = offset_syncs_topic(config)
    if topic not in patiently(lambda: cluster.describe([topic])):
        return
    for key, value in read_rows(cluster, topic):
        try:
            yield decode_offset_sync(key, value)
        except CorruptRecord:
            continue  # this only makes the translation less exact or slower
