"""How many records each cluster holds, sampled twice a second while a scenario runs: the curves of its report."""

import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from datetime import timedelta

from heliograph.drill.report import Line
from heliograph.errors import ClusterUnreachable, KafkaFault
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.offsets import LATEST, list_offsets
from heliograph.model import Endpoint

_EVERY = timedelta(milliseconds=500)


class Sampler(threading.Thread):
    """Records the sum of end offsets of some topics, by cluster, until it is stopped."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(name="samples", daemon=True)
        self._clock = clock
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._watched: dict[str, tuple[Endpoint, tuple[str, ...]]] = {}
        self._seen: dict[str, list[tuple[float, float]]] = {}

    def watch(self, name: str, endpoint: Endpoint, topics: Iterable[str]) -> None:
        with self._lock:
            self._watched[name] = endpoint, tuple(topics)
            self._seen.setdefault(name, []).append((self._clock(), 0.0))

    def gone(self, name: str) -> None:
        """Record that a cluster holds nothing any more."""
        with self._lock:
            self._watched.pop(name, None)
            moment = self._clock()
            self._seen[name] += [(moment, self._seen[name][-1][1]), (moment, 0.0)]

    def run(self) -> None:
        while not self._stopping.wait(_EVERY.total_seconds()):
            with self._lock:
                watched = dict(self._watched)
            for name, (endpoint, topics) in watched.items():
                with (
                    suppress(ClusterUnreachable, KafkaFault),
                    closing(Cluster(endpoint)) as cluster,
                ):
                    self._note(name, float(sum(ends_of(cluster, topics).values())))

    def stop(self) -> None:
        self._stopping.set()
        self.join()

    def lines(self) -> tuple[Line, ...]:
        return tuple(Line(name, tuple(points)) for name, points in self._seen.items())

    def _note(self, name: str, held: float) -> None:
        with self._lock:
            if name in self._watched:
                self._seen[name].append((self._clock(), held))


def ends_of(cluster: Cluster, topics: Iterable[str]) -> Mapping[str, int]:
    """Return the sum of each topic's end offsets, 0 where there is no such topic."""
    wanted = list(topics)
    found = cluster.describe(wanted)
    partitions = [p for topic in found.values() for p in topic.partitions]
    ends = list_offsets(cluster, partitions, LATEST) if partitions else {}
    sums = dict.fromkeys(wanted, 0)
    for partition, end in ends.items():
        sums[partition.topic] += end
    return sums


def rates(line: Line, every: float = 2.0) -> Line:
    """Return how much a curve grew per second, over spans of about `every` seconds; a fall counts as no growth."""
    points: list[tuple[float, float]] = []
    then: tuple[float, float] | None = None
    for moment, held in line.points:
        if then is None or held < then[1]:
            then = moment, held
            points.append((moment, 0.0))
        elif moment - then[0] >= every:
            points.append((moment, (held - then[1]) / (moment - then[0])))
            then = moment, held
    return Line(line.name, tuple(points))
