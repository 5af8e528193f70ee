"""Nothing to do: what a system costs that has made its remote topics and waits."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from confluent_kafka.admin import NewTopic

from bench.cases import Case, Idle, Scale
from bench.catchup import Measure
from bench.clusters import Bed
from bench.figures import Run
from bench.systems import Running, flow_properties, start
from bench.trees import Tree

_SETTLE = 20.0
_LONGEST_SETTLE = 120.0
_WINDOW = 10.0
_CALM = 0.2  # of a core
_LIMIT = 300.0


@contextmanager
def open_idle(bed: Bed, case: Case, scale: Scale) -> Iterator[Measure]:
    """Make the topics, yield what measures one system on them, and delete them."""
    idle = case.load
    assert isinstance(idle, Idle)
    topics = [f"{case.name}-{number}" for number in range(idle.topics)]
    new = [NewTopic(topic, idle.partitions, 1) for topic in topics]
    for made in bed.source.admin.create_topics(new, request_timeout=60).values():
        made.result(60)

    def measure(system: str, round_: int) -> Run:
        tag = f"{case.name}{system[0]}{round_}"
        remote = {f"s{tag}.{topic}" for topic in topics}
        wanted = f"{case.name}-.*"
        properties = flow_properties(bed.source, bed.target, tag, wanted, for_throughput=False)
        running = start(system, bed.folder / tag, properties)
        try:
            figures = watch(running, lambda: remote <= bed.target.topics(), scale.seconds)
            return Run(case.name, system, round_, figures)
        finally:
            running.stop()
            bed.forget_flow(tag)

    try:
        yield measure
    finally:
        bed.forget(topics)


def watch(running: Running, is_ready: Callable[[], bool], seconds: float) -> dict[str, float]:
    """Wait until all topics are made and all is quiet, and watch from then on."""
    began = time.monotonic()
    with closing(Tree(running.process.pid)) as tree:
        while not is_ready():
            assert running.process.is_alive(), f"it ended:\n{running.last_lines()}"
            assert time.monotonic() < began + _LIMIT, f"too slow:\n{running.last_lines()}"
            time.sleep(0.5)
        ready = time.monotonic() - began
        _await_calm(tree)
        before, since = tree.cpu_seconds(), time.monotonic()
        time.sleep(seconds)
        used, watched = tree.cpu_seconds() - before, time.monotonic() - since
        return {
            "cpu_seconds_per_minute": 60 * used / watched,
            "pss_bytes": tree.size_bytes(),
            "peak_pss_bytes": tree.peak_bytes,
            "ready_seconds": ready,
        }


def _await_calm(tree: Tree) -> None:
    """Return once it has started: topics may be made long before the last process runs."""
    began = time.monotonic()
    time.sleep(_SETTLE)
    while time.monotonic() - began < _LONGEST_SETTLE:
        before = tree.cpu_seconds()
        time.sleep(_WINDOW)
        if tree.cpu_seconds() - before < _CALM * _WINDOW:
            return
