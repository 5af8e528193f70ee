"""A steady load as a case: see latency for how it is measured."""

from collections.abc import Iterator
from contextlib import contextmanager

from bench.cases import Case, Scale, Steady
from bench.catchup import Measure
from bench.clusters import Bed
from bench.figures import Run, numbers_of
from bench.latency import measure_latency


@contextmanager
def open_steady(bed: Bed, case: Case, scale: Scale) -> Iterator[Measure]:
    """Yield what measures one system on a topic of its own."""
    yield lambda system, round_: _measure(bed, case, scale, system, round_)


def _measure(bed: Bed, case: Case, scale: Scale, system: str, round_: int) -> Run:
    assert isinstance(case.load, Steady)
    found = measure_latency(
        system,
        case.load.rate,
        scale.seconds,
        source=bed.source,
        target=bed.target,
        folder=bed.folder,
        round_=round_,
    )
    figures = numbers_of(found)
    figures["cpu_seconds_per_minute"] = 60 * found.cpu_seconds / found.seconds
    lost = found.sent - found.arrived
    return Run(case.name, system, round_, figures, f"{lost} records are missing" if lost else "")
