"""What one run gave, and what several runs of a case say together."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Run:
    """One system in one round of one case; `problem` says why its figures do not count, if they do not."""

    case: str
    system: str
    round: int
    figures: dict[str, float] = field(default_factory=dict)
    problem: str = ""
    timeline: tuple[tuple[float, int], ...] = ()
    """Seconds since the start, and end offsets by then: shows whether a run flowed or stood still."""


@dataclass(frozen=True, slots=True)
class Column:
    """A figure as it is shown; it is better to have more of it, or less."""

    name: str
    title: str
    scale: float
    digits: int
    more_is_better: bool


@dataclass(frozen=True, slots=True)
class Spread:
    median: float
    low: float
    high: float


_PSS = Column("peak_pss_bytes", "peak PSS MB", 1 / (1 << 20), 0, False)
_FIRST = Column("first_record_seconds", "first record s", 1, 1, False)
_FROM_START = Column("cpu_seconds_from_start", "CPU s from start", 1, 1, False)
CATCH_UP = (
    Column("records_per_second", "k rec/s", 1e-3, 0, True),
    Column("records_per_cpu_second", "k rec/CPU s", 1e-3, 0, True),
    Column("late_records_per_second", "late k rec/s", 1e-3, 0, True),
    Column("late_records_per_cpu_second", "late k rec/CPU s", 1e-3, 0, True),
    Column("megabytes_per_second", "MB/s", 1, 0, True),
    _FROM_START,
    _PSS,
    _FIRST,
)
LARGE = (
    Column("megabytes_per_second", "MB/s", 1, 0, True),
    Column("megabytes_per_cpu_second", "MB/CPU s", 1, 0, True),
    Column("records_per_second", "rec/s", 1, 0, True),
    _FROM_START,
    _PSS,
    _FIRST,
)
COLD = (_FIRST, _FROM_START, _PSS)
STEADY = (
    Column("p50_ms", "p50 ms", 1, 1, False),
    Column("p90_ms", "p90 ms", 1, 1, False),
    Column("p99_ms", "p99 ms", 1, 1, False),
    Column("p999_ms", "p99.9 ms", 1, 1, False),
    Column("max_ms", "max ms", 1, 0, False),
    Column("largest_gap_ms", "largest gap ms", 1, 0, False),
    Column("cpu_seconds_per_minute", "CPU s/min", 1, 1, False),
    _PSS,
)
IDLE = (
    Column("cpu_seconds_per_minute", "CPU s/min", 1, 1, False),
    Column("pss_bytes", "PSS MB", 1 / (1 << 20), 0, False),
    _PSS,
    Column("ready_seconds", "all topics made s", 1, 1, False),
)

Medians = dict[str, dict[str, dict[str, Spread]]]
"""Case, system, figure."""


def numbers_of(measured: Any) -> dict[str, float]:
    """Return the numbers among a dataclass' fields."""
    found = asdict(measured)
    return {k: v for k, v in found.items() if isinstance(v, int | float) and k != "round"}


def spread_of(values: Sequence[float]) -> Spread:
    return Spread(statistics.median(values), min(values), max(values))


def summarize(runs: Iterable[Run]) -> Medians:
    """Return median, lowest and highest of each figure, per case and system; problems are left out."""
    values: dict[str, dict[str, dict[str, list[float]]]] = {}
    for run in runs:
        if not run.problem:
            of_system = values.setdefault(run.case, {}).setdefault(run.system, {})
            for name, value in run.figures.items():
                of_system.setdefault(name, []).append(value)
    return {
        case: {
            system: {name: spread_of(seen) for name, seen in figures.items()}
            for system, figures in systems.items()
        }
        for case, systems in values.items()
    }


def ratio(medians: Medians, case: str, figure: str, system: str, to: str = "mm2") -> float | None:
    """Return a system's median over another's, or None where one of them is missing."""
    systems = medians.get(case, {})
    ours, theirs = (systems.get(name, {}).get(figure) for name in (system, to))
    return ours.median / theirs.median if ours and theirs and theirs.median else None
