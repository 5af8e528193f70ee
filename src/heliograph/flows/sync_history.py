"""What a MirrorMaker 2 told of its copying before this flow took over, read once when it is needed."""

from heliograph.config.flow import FlowConfig
from heliograph.errors import CorruptRecord
from heliograph.flows.offset_syncs import offset_syncs_topic
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.table import read_rows
from heliograph.model import TopicPartition
from heliograph.policy.sync_history import SyncHistory
from heliograph.wire.mirror_records import decode_offset_sync


class SyncHistories:
    """Translates as MirrorMaker does, from the offset-syncs topic."""

    def __init__(self, config: FlowConfig) -> None:
        self._config = config
        self._cluster = Cluster(config.offset_syncs)
        self._histories: dict[TopicPartition, SyncHistory] | None = None

    def close(self) -> None:
        self._cluster.close()

    def downstream_of(self, partition: TopicPartition, upstream: int) -> int | None:
        """Return a safe place for a position that the run map does not know, if there is one."""
        if self._histories is None:
            self._histories = self._read()
        history = self._histories.get(partition)
        return None if history is None else history.downstream_of(upstream)

    def _read(self) -> dict[TopicPartition, SyncHistory]:
        histories: dict[TopicPartition, SyncHistory] = {}
        topic = offset_syncs_topic(self._config)
        if topic not in self._cluster.describe([topic]):
            return histories
        for key, value in read_rows(self._cluster, topic):
            try:
                sync = decode_offset_sync(key, value)
            except CorruptRecord:
                continue  # a worse translation is all that it costs
            histories.setdefault(sync.partition, SyncHistory()).add(sync.upstream, sync.downstream)
        return histories
