"""Where every record of a flow went: the run maps of its partitions, and the topic that keeps them.

The writers report runs as batches are acknowledged. Runs are saved before the positions after them, so
that a successor that starts at a saved position learns the rest from the target's tail.
"""

import logging
import threading
import time
from collections.abc import Container, Iterable, Mapping
from datetime import timedelta
from itertools import islice

from heliograph.config.flow import FlowConfig
from heliograph.config.naming import naming_of
from heliograph.kafka.cluster import Cluster
from heliograph.model import UNKNOWN, Position, TopicPartition
from heliograph.policy.naming import runs_topic
from heliograph.policy.runs import RunMap, read_run_maps
from heliograph.tables.append import PATIENCE
from heliograph.tables.author import Author
from heliograph.tables.table import Table
from heliograph.wire.run_records import encode_segment_key

log = logging.getLogger(__name__)

_ROWS = 1000  # written at a time: saved rows stay saved if the rest must wait
_LEAST = 0.2


class RunStore:
    """The run maps of one flow. `add` is thread-safe, the rest is for one thread."""

    def __init__(self, target: Cluster, topic: str, replication_factor: int) -> None:
        self._table = Table(target, topic)
        self._replication_factor = replication_factor
        self._lock = threading.Lock()
        self._maps: dict[TopicPartition, RunMap] = {}
        self._changed: set[TopicPartition] = set()
        self._unsaved: dict[bytes, bytes | None] = {}
        self._broken: dict[TopicPartition, list[int]] = {}

    def ensure(self) -> None:
        """Create the topic if it does not exist."""
        self._table.ensure(1, self._replication_factor)

    def topics(self) -> list[str]:
        """Return the topics that runs are kept in."""
        return [self._table.topic]

    def sign_as(self, author: Author) -> None:
        """Save as the flow's owner from now on."""
        self._table.sign_as(author)

    def load(self) -> None:
        """Read what was saved; create the topic if it does not exist."""
        self.ensure()
        maps, broken = read_run_maps(self._table.read().items())
        with self._lock:
            self._maps, self._broken = maps, broken
            self._changed.clear()
            self._unsaved.clear()

    def add(self, partition: TopicPartition, runs: Iterable[tuple[int, int, int]]) -> None:
        """Note what was stored: (upstream, downstream, count) each, in the order of the source.

        A count of 0 says that nothing lies between the records before and this place, UNKNOWN that this is unknown.
        """
        with self._lock:
            found = self._maps.setdefault(partition, RunMap())
            known: list[tuple[int, int, int]] = []
            for run in runs:
                if run[2] == UNKNOWN:
                    found.extend(known)
                    known = []
                    found.detach(run[0], run[1])
                else:
                    known.append(run)
            found.extend(known)
            self._changed.add(partition)

    def note(self, partition: TopicPartition, runs: Iterable[tuple[int, int, int]]) -> None:
        """Do as `add` with what tasks have saved themselves, in their transactions."""
        self.add(partition, runs)
        with self._lock:
            self._maps[partition].keep_saved()
            self._changed.discard(partition)

    def reload(self, target: Cluster, partitions: Iterable[TopicPartition]) -> None:
        """Read again what tasks have saved for some partitions. Thread-safe; `target` is the caller's own."""
        maps, _ = read_run_maps(Table(target, self._table.topic).read().items())
        with self._lock:
            for partition in partitions:
                if partition in maps:
                    self._maps[partition] = maps[partition]

    def segment_of(self, partition: TopicPartition) -> tuple[int, str] | None:
        """Return the segment that may still grow: where it begins upstream, and its row in hex. Thread-safe."""
        with self._lock:
            found = self._maps.get(partition)
            row = found.last_row() if found is not None else None
        return None if row is None else (row[0], row[1].hex())

    def begin(self, partition: TopicPartition, position: Position) -> None:
        """Note that nothing of a partition was copied before: it is new, on one side or the other."""
        with self._lock:
            self._maps.setdefault(partition, RunMap()).begin(position.downstream)
            self._changed.add(partition)

    def detach(self, partition: TopicPartition, position: Position) -> None:
        """Note that another process copied what is before `position`."""
        with self._lock:
            found = self._maps.setdefault(partition, RunMap())
            found.detach(position.upstream, position.downstream)
            self._changed.add(partition)

    def turn(self, partition: TopicPartition, other: RunMap | None, position: Position) -> None:
        """Take over what a flow in the opposite direction has copied; this one begins at `position`."""
        with self._lock:
            found = self._maps.setdefault(partition, RunMap())
            if other is None:
                found.clear()
            else:
                found.turn(other)
            found.add(position.upstream, position.downstream, 0)
            self._changed.add(partition)

    def mend(self, partition: TopicPartition, position: Position) -> None:
        """Mark what lies before `position` as unknown, if the saved runs do not reach it or cannot be read."""
        with self._lock:
            broken = self._broken.pop(partition, None)
            for upstream in broken or ():
                self._unsaved[encode_segment_key(partition, upstream)] = None
            found = self._maps.get(partition)
            last = found.end if found is not None else None
        if broken is not None:
            log.error(
                "%s holds something else than runs of %s: offsets before %d are translated roughly now. "
                "Check what else writes to this topic.",
                self._table.topic,
                partition,
                position.upstream,
            )
            self.detach(partition, position)
        elif (
            last is not None
            and last.upstream_end < position.upstream
            and last.downstream_end < position.downstream
        ):
            log.warning(
                "%s lacks what %s copied from %d to %d: groups there read some records again.",
                self._table.topic,
                partition,
                last.upstream_end,
                position.upstream,
            )
            self.detach(partition, position)

    def clear(self, partition: TopicPartition) -> None:
        """Forget a partition: one of the two topics is not the same any more, and copying must not continue."""
        with self._lock:
            self._maps.setdefault(partition, RunMap()).clear()
            self._changed.add(partition)

    def knows(self, partition: TopicPartition) -> bool:
        """Whether anything is known of a partition."""
        with self._lock:
            return bool(self._maps.get(partition)) or partition in self._broken

    def long_ones(self) -> list[TopicPartition]:
        """Return the partitions whose runs might be pruned."""
        with self._lock:
            return [p for p, found in self._maps.items() if len(found) > 1]

    def last_places(self) -> dict[TopicPartition, tuple[int, int]]:
        """Return where the last record of each partition is, on either side."""
        with self._lock:
            ends = {partition: found.end for partition, found in self._maps.items()}
        return {
            partition: (end.upstream_end - 1, end.downstream_end - 1)
            for partition, end in ends.items()
            if end is not None and end.length
        }

    def topics_known(self) -> set[str]:
        """Return the source topics of which runs are kept."""
        with self._lock:
            return {partition.topic for partition in self._maps}

    def drop(self, topics: Container[str]) -> None:
        """Forget topics that are gone; their rows are deleted at the next save."""
        with self._lock:
            for partition in [p for p in self._maps if p.topic in topics]:
                for upstream in self._maps.pop(partition).bases():
                    self._unsaved[encode_segment_key(partition, upstream)] = None
                self._changed.discard(partition)

    def prune(self, log_starts: Mapping[TopicPartition, int]) -> None:
        """Forget runs that only cover offsets that the source no longer has."""
        with self._lock:
            for partition, log_start in log_starts.items():
                self._maps[partition].prune(log_start)
                self._changed.add(partition)

    def save(self, within: timedelta = PATIENCE) -> None:
        """Make all that was reported so far durable."""
        with self._lock:
            for partition in self._changed:
                for upstream, value in self._maps[partition].take_changes().items():
                    key = encode_segment_key(partition, upstream)
                    self._unsaved.pop(key, None)  # a row deleted and recreated keeps its order
                    self._unsaved[key] = value
            self._changed.clear()
        until = time.monotonic() + within.total_seconds()
        while self._unsaved:
            some = dict(islice(self._unsaved.items(), _ROWS))
            left = max(until - time.monotonic(), _LEAST)
            self._table.write(some, timedelta(seconds=left))
            for key in some:
                del self._unsaved[key]

    def rows(self) -> dict[bytes, bytes]:
        """Return all that is known, as it is saved."""
        with self._lock:
            for found in self._maps.values():
                found.touch_all()
            return {
                encode_segment_key(partition, upstream): value
                for partition, found in self._maps.items()
                for upstream, value in found.take_changes().items()
                if value is not None
            }

    def fill(self, rows: Mapping[bytes, bytes]) -> None:
        """Save rows of an earlier start where there are none now, and read what is saved again."""
        there = self._table.read()
        self._unsaved.update({key: value for key, value in rows.items() if key not in there})
        self.save()
        self.load()

    def restore(self, within: timedelta) -> bool:
        """Recreate the topic if it was deleted; the next save then writes all that is known.

        Return whether it was deleted.
        """
        is_empty = self._table.ensure(1, self._replication_factor, within)
        if is_empty:
            with self._lock:
                for partition, found in self._maps.items():
                    found.touch_all()
                    self._changed.add(partition)
        return is_empty


class NoRuns(RunStore):
    """The run maps of a flow that has no topics of its own: nothing is kept, and nothing translated."""

    def ensure(self) -> None:
        pass

    def topics(self) -> list[str]:
        return []

    def load(self) -> None:
        pass

    def add(self, partition: TopicPartition, runs: Iterable[tuple[int, int, int]]) -> None:
        pass

    def note(self, partition: TopicPartition, runs: Iterable[tuple[int, int, int]]) -> None:
        pass

    def knows(self, partition: TopicPartition) -> bool:  # noqa: ARG002
        return False

    def save(self, within: timedelta = PATIENCE) -> None:
        pass

    def restore(self, within: timedelta) -> bool:  # noqa: ARG002
        return False


def open_runs(target: Cluster, config: FlowConfig) -> RunStore:
    """Return where the runs of this flow are kept."""
    kind = RunStore if config.positions_group is None else NoRuns
    topic = runs_topic(naming_of(config), config.flow.source)
    return kind(target, topic, config.offset_storage.replication_factor)
