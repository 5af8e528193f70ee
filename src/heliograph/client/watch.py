"""Watches a cluster from a separate thread: does it answer, and what are a group's positions on it.

A cluster that is gone cannot be queried. So this thread queries it all the time, and remembers.
"""

import logging
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import closing
from datetime import timedelta

from heliograph.client.places import Left
from heliograph.errors import ClusterUnreachable, CorruptRecord, KafkaFault, MirrorError
from heliograph.groups.admin import fetch_committed
from heliograph.kafka.cluster import Cluster
from heliograph.model import Endpoint, TopicPartition
from heliograph.policy.runs import RunMap, apply_rows
from heliograph.tables.follow import FollowedTopic

log = logging.getLogger(__name__)

_ONCE = timedelta(0)


class Pulse(threading.Thread):
    """Asks a cluster for its brokers at an interval, until it is stopped.

    An answer from any broker counts, even a refusal. A request that hangs counts as unanswered: callers
    of this object never wait.
    """

    def __init__(self, endpoint: Endpoint, interval: timedelta) -> None:
        super().__init__(name=f"watch {endpoint.cluster}", daemon=True)
        self._endpoint = endpoint
        self._interval = interval.total_seconds()
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._unanswered_since: float | None = None
        self._answering_since: float | None = None
        self._asked = threading.Event()

    def silence(self) -> timedelta:
        """Return for how long no request was answered."""
        return self._since(self._unanswered_since)

    def answering(self) -> timedelta:
        """Return for how long every request was answered."""
        return self._since(self._answering_since)

    def await_answer(self, within: timedelta) -> bool:
        """Return whether the first request was answered in time."""
        return self._asked.wait(within.total_seconds()) and self._answering_since is not None

    def note_answer(self) -> None:
        """Note that other code got an answer; a request that hangs counts from now."""
        with self._lock:
            if self._unanswered_since is not None:
                self._unanswered_since = time.monotonic()

    def stop(self) -> None:
        """Stop the thread; a request that hangs is not waited for."""
        self._stopping.set()

    def run(self) -> None:
        with closing(Cluster(self._endpoint)) as cluster:
            while not self._stopping.is_set():
                answered = self._ask(cluster)
                self._asked.set()
                if answered:
                    self._look(cluster)
                self._stopping.wait(self._interval)

    def _look(self, cluster: Cluster) -> None:
        """Query more from a cluster that answers."""

    def _ask(self, cluster: Cluster) -> bool:
        began = time.monotonic()
        with self._lock:
            if self._unanswered_since is None:
                self._unanswered_since = began
        try:
            cluster.describe(())
        except (ClusterUnreachable, CorruptRecord) as exc:
            log.debug("cluster=%s does not answer: %s", self._endpoint.cluster, exc)
            with self._lock:
                self._answering_since = None
            return False
        except KafkaFault:
            pass
        with self._lock:
            self._unanswered_since = None
            if self._answering_since is None:
                self._answering_since = began
        return True

    def _since(self, moment: float | None) -> timedelta:
        return timedelta(seconds=0 if moment is None else time.monotonic() - moment)


class Watch(Pulse):
    """Also remembers what a group has committed, how many partitions topics have, and run maps."""

    def __init__(
        self,
        endpoint: Endpoint,
        interval: timedelta,
        group: str,
        topics: Iterable[str],
        runs_topic: str,
        *,
        committed: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        """Use `committed`, if given, until the cluster reports what the group has committed."""
        super().__init__(endpoint, interval)
        self._group = group
        self._topics = list(topics)
        self._runs_topic = runs_topic
        self._committed = dict(committed or {})
        self._is_known = committed is not None
        self._own: dict[TopicPartition, tuple[float, int]] = {}
        self._counts: dict[str, int] = {}
        self._runs: dict[TopicPartition, RunMap] = {}
        self._segments: dict[TopicPartition, dict[int, bytes]] = {}
        self._followed: FollowedTopic | None = None

    def note_commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Note what this member committed itself, so that no query is needed."""
        now = time.monotonic()
        with self._lock:
            self._committed.update(offsets)
            self._own.update({partition: (now, offset) for partition, offset in offsets.items()})

    def seen(self) -> Left:
        """Return the cluster as it was when it last answered."""
        with self._lock:
            return Left(
                self._endpoint.cluster,
                dict(self._committed),
                dict(self._counts),
                dict(self._runs),
                self._is_known,
            )

    def _look(self, cluster: Cluster) -> None:
        began = time.monotonic()
        try:
            counts = {name: len(t.leaders) for name, t in cluster.describe(self._topics).items()}
            committed, _ = fetch_committed(cluster, [self._group], _ONCE)
            runs = self._read_runs(cluster)
        except MirrorError as exc:
            # What was seen before stays valid; whether the cluster is alive is not decided here.
            log.debug("cluster=%s cannot be looked at: %s", self._endpoint.cluster, exc)
            return
        with self._lock:
            self._counts |= counts
            self._runs |= runs
            if self._group in committed:
                self._is_known = True
                self._own = {p: own for p, own in self._own.items() if own[0] >= began}
                self._committed = {
                    **{
                        p: its.offset
                        for p, its in committed[self._group].items()
                        if its.offset >= 0
                    },
                    **{partition: offset for partition, (_, offset) in self._own.items()},
                }

    def _read_runs(self, cluster: Cluster) -> dict[TopicPartition, RunMap]:
        """Return the run maps that changed."""
        if self._followed is None:
            self._followed = FollowedTopic(cluster, self._runs_topic, self._forget_runs)
        changed = apply_rows(self._segments, self._followed.refresh(_ONCE))
        return {partition: RunMap(self._segments[partition].items()) for partition in changed}

    def _forget_runs(self) -> None:
        self._segments.clear()
        with self._lock:
            self._runs.clear()


def answers(endpoint: Endpoint, within: timedelta) -> bool:
    """Whether a cluster answers a new connection in time; one that hangs is not waited for."""
    pulse = Pulse(endpoint, within)
    pulse.start()
    try:
        return pulse.await_answer(within)
    finally:
        pulse.stop()
