"""The positions of a flow, kept where MM2 keeps them: the Connect offsets topic, or a standalone worker's file."""

import time
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

from heliograph.config.flow import FlowConfig, StorageTopic
from heliograph.errors import KafkaFault
from heliograph.kafka.cluster import Cluster, patiently
from heliograph.model import TopicPartition
from heliograph.saved.group_progress import GroupProgress
from heliograph.saved.offset_file import OffsetFile
from heliograph.tables.append import PATIENCE
from heliograph.tables.author import Author
from heliograph.tables.table import Table
from heliograph.wire.connect_records import (
    SourceOffset,
    decode_source_key,
    decode_source_offset,
    encode_source_key,
    encode_source_offset,
)

_LEAST = 0.2


def open_offsets(cluster: Cluster, storage: StorageTopic) -> Table | OffsetFile:
    """Return where positions are kept: a topic of `cluster`, or a file."""
    return Table(cluster, storage.name) if storage.file is None else OffsetFile(Path(storage.file))


class ProgressStore:
    """The saved positions of one flow; only what changed is written."""

    def __init__(self, target: Cluster, config: FlowConfig) -> None:
        self._config = config
        self._table = open_offsets(target, config.offset_storage)
        self._saved: dict[TopicPartition, SourceOffset] = {}
        self._unread: Mapping[int, str] = {}

    def ensure(self) -> None:
        """Create the topic if it does not exist."""
        storage = self._config.offset_storage
        self._table.ensure(storage.partitions, storage.replication_factor)

    def topics(self) -> list[str]:
        """Return the topics that positions are kept in: none for a file."""
        return [self._table.topic] if isinstance(self._table, Table) else []

    def sign_as(self, author: Author) -> None:
        """Save as the flow's owner from now on."""
        if isinstance(self._table, Table):
            self._table.sign_as(author)

    def load(self, barred: Mapping[int, str] | None = None) -> dict[TopicPartition, SourceOffset]:
        """Return the saved positions of this flow that can be read; create the topic if it does not exist.

        Partitions of the topic that are `barred`, and why, are not read: another driver may still write there.
        """
        self.ensure()
        found, missing = self._table.find()
        self._unread = {**missing, **(barred or {})}
        positions = self._decode(found)
        self._saved = {p: at for p, at in positions.items() if self.why_unread(p) is None}
        return dict(self._saved)

    @property
    def is_whole(self) -> bool:
        """Whether all saved positions were read."""
        return not self._unread

    def why_unread(self, partition: TopicPartition) -> str | None:
        """Return why it is not known whether a position of a partition is saved; None if it is known."""
        if not self._unread:
            return None
        reason = self._unread.get(self._table.place_of(self._key(partition)))
        return None if reason is None else f"its position cannot be read: {reason}"

    def read(self) -> dict[TopicPartition, SourceOffset]:
        """Return every saved position of this flow; the topic must exist."""
        return self._decode(self._table.read())

    def _key(self, partition: TopicPartition) -> bytes:
        name, cluster = self._config.connector_name, self._config.flow.source
        return encode_source_key(name, cluster, partition.topic, partition.index)

    def _decode(self, rows: Mapping[bytes, bytes]) -> dict[TopicPartition, SourceOffset]:
        found = {}
        for raw_key, raw_value in rows.items():
            key = decode_source_key(raw_key)
            if key is None or key.connector != self._config.connector_name:
                continue
            if key.cluster != self._config.flow.source:
                continue
            offset = decode_source_offset(raw_value)
            if offset is not None:
                found[key.partition] = offset
        return found

    def save(
        self, offsets: Mapping[TopicPartition, SourceOffset], within: timedelta = PATIENCE
    ) -> None:
        """Make `offsets` durable; return when the target has them."""
        changed = {p: at for p, at in offsets.items() if self._saved.get(p) != at}
        if not changed:
            return
        rows: dict[bytes, bytes | None] = {
            self._key(p): encode_source_offset(at) for p, at in changed.items()
        }
        self._table.write(rows, within)
        self._saved.update(changed)

    def save_each(
        self, offsets: Mapping[TopicPartition, SourceOffset], within: timedelta
    ) -> dict[TopicPartition, str]:
        """Make `offsets` durable as far as possible; return the partitions that could not be saved, and why."""
        lots: dict[int, dict[TopicPartition, SourceOffset]] = {}
        for partition, offset in offsets.items():
            place = self._table.place_of(self._key(partition))
            lots.setdefault(place, {})[partition] = offset
        unsaved: dict[TopicPartition, str] = {}
        until = time.monotonic() + 2 * within.total_seconds()
        for lot in lots.values():
            left = min(within.total_seconds(), until - time.monotonic())
            try:
                self.save(lot, timedelta(seconds=max(left, _LEAST)))
            except KafkaFault as exc:
                unsaved |= dict.fromkeys(lot, f"its position cannot be saved: {exc}")
        return unsaved

    def restore(self, within: timedelta) -> bool:
        """Recreate the topic if it was deleted; the next save then writes all that is known.

        Return whether it was deleted.
        """
        storage = self._config.offset_storage
        is_empty = self._table.ensure(storage.partitions, storage.replication_factor, within)
        if is_empty:
            self._saved.clear()
        return is_empty


def open_progress(storage: Cluster, config: FlowConfig) -> ProgressStore | GroupProgress:
    """Return where this flow keeps its positions; `storage` is the cluster that holds them."""
    if config.positions_group is not None:
        return GroupProgress(storage, config.positions_group)
    return ProgressStore(storage, config)


def peek_progress(storage: Cluster, config: FlowConfig) -> dict[TopicPartition, SourceOffset]:
    """Return the saved positions of a flow without creating anything: none if there is no topic yet."""
    store = open_progress(storage, config)
    if isinstance(store, GroupProgress):
        return store.load()
    place = config.offset_storage
    if place.file is None and place.name not in patiently(lambda: storage.describe([place.name])):
        return {}
    return store.read()
