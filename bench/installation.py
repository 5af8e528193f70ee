"""The installation that most have: two clusters that mirror each other, with little to do."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import cycle, islice

from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from bench.cases import Case, Installation, Scale
from bench.catchup import Measure
from bench.clusters import Bed, delete_topics
from bench.data import LINE_BYTES
from bench.figures import Run
from bench.idle import watch
from bench.systems import start
from lab.clusters import LiveCluster
from lab.peer import mirror_properties

_HEARTBEATS = "heartbeats"  # the one topic of a system that carries no alias
_WRITE_EVERY = 0.1

Topics = Mapping[LiveCluster, list[str]]


@contextmanager
def open_installation(bed: Bed, case: Case, scale: Scale) -> Iterator[Measure]:
    """Make topics on both clusters, yield what measures one system on them, and delete them."""
    load = case.load
    assert isinstance(load, Installation)
    names = [f"{case.name}-{number}" for number in range(load.topics)]
    topics = {bed.source: names[::2], bed.target: names[1::2]}
    for cluster, its in topics.items():
        new = [NewTopic(topic, load.partitions, 1) for topic in its]
        for made in cluster.admin.create_topics(new, request_timeout=60).values():
            made.result(60)

    def measure(system: str, round_: int) -> Run:
        tag = f"{case.name}{system[0]}{round_}"
        try:
            with _open_trickle(topics, load.rate):
                figures, problem = _measure(bed, topics, system, tag, scale.seconds)
        finally:
            bed.forget_flow(tag)
        return Run(case.name, system, round_, figures, problem)

    try:
        yield measure
    finally:
        for cluster, its in topics.items():
            delete_topics(cluster, {*its, _HEARTBEATS} & cluster.topics())


def _measure(
    bed: Bed, topics: Topics, system: str, tag: str, seconds: float
) -> tuple[dict[str, float], str]:
    """Run one system once with an mm2.properties that says nothing but what must be said."""
    one, other = f"s{tag}", f"t{tag}"
    remote = {
        bed.target: [f"{one}.{topic}" for topic in topics[bed.source]],
        bed.source: [f"{other}.{topic}" for topic in topics[bed.target]],
    }
    properties = mirror_properties(
        (one, bed.source.bootstrap),
        (other, bed.target.bootstrap),
        {f"{other}->{one}.enabled": "true", "topics": "installation-.*"},
    )
    running = start(system, bed.folder / tag, properties)

    def are_made() -> bool:
        return all(cluster.topics().issuperset(its) for cluster, its in remote.items())

    try:
        figures = watch(running, are_made, seconds)
        empty = [
            t for cluster, its in remote.items() for t in its if not any(cluster.end_offsets(t))
        ]
    finally:
        running.stop()
    return figures, f"nothing came to {', '.join(empty)}" if empty else ""


@contextmanager
def _open_trickle(topics: Topics, rate: int) -> Iterator[None]:
    """Write `rate` records a second to each cluster, its topics in turn."""
    stopping = threading.Event()
    value = bytes(LINE_BYTES)

    def write() -> None:
        writers = [(Producer(cluster.client()), cycle(its)) for cluster, its in topics.items()]
        while not stopping.wait(_WRITE_EVERY):
            for producer, its in writers:
                for topic in islice(its, int(rate * _WRITE_EVERY)):
                    producer.produce(topic, value)
                producer.poll(0)
        for producer, _ in writers:
            producer.flush(30)

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()
