"""The run maps of a flow as they are written, for code that does not write them."""

from collections.abc import Iterable

from heliograph.errors import CorruptRecord
from heliograph.kafka.cluster import Cluster
from heliograph.model import TopicPartition
from heliograph.policy.runs import RunMap, apply_rows
from heliograph.tables.follow import FollowedTopic


class RunReader:
    """Follows a runs topic; each `refresh` reads what was written since the last one."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._topic = FollowedTopic(cluster, topic, on_anew=self._forget)
        self._segments: dict[TopicPartition, dict[int, bytes]] = {}
        self._maps: dict[TopicPartition, RunMap] = {}
        self._broken: dict[TopicPartition, str] = {}

    def refresh(self) -> Iterable[str]:
        """Catch up with the topic; return why partitions cannot be translated, if any cannot."""
        for partition in apply_rows(self._segments, self._topic.refresh()):
            self._rebuild(partition)
        topic = self._topic.topic
        return [f"{topic}: {p} cannot be translated: {why}" for p, why in self._broken.items()]

    def downstream_of(self, partition: TopicPartition, upstream: int) -> int | None:
        """Return where a position of the source is on the target; None if that is unknown."""
        found = self._maps.get(partition)
        try:
            return None if found is None else found.downstream_of(upstream)
        except CorruptRecord as exc:
            self._broken[partition] = str(exc)
            return None

    def floor_of(self, partition: TopicPartition, upstream: int) -> int | None:
        """Return a place on the target before which a reader at this position has read all; None if unknown."""
        found = self._maps.get(partition)
        try:
            return None if found is None else found.floor_of(upstream)
        except CorruptRecord as exc:
            self._broken[partition] = str(exc)
            return None

    def end(self, partition: TopicPartition) -> int | None:
        """Return the upstream offset up to which any process copied; None if none did."""
        found = self._maps.get(partition)
        if found is None or found.end is None or not found.holds_records:
            return None
        return found.end.upstream_end

    def _forget(self) -> None:
        self._segments.clear()
        self._maps.clear()
        self._broken.clear()

    def _rebuild(self, partition: TopicPartition) -> None:
        self._broken.pop(partition, None)
        try:
            self._maps[partition] = RunMap(self._segments[partition].items())
        except CorruptRecord as exc:
            self._maps.pop(partition, None)
            self._broken[partition] = str(exc)
