"""Figures of several rounds: medians, spread, and how the two systems compare."""

import os
import platform
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.catchup import Catchup
from heliograph.embedded.jars import KAFKA_VERSION
from heliograph.embedded.java import find_java


@dataclass(frozen=True, slots=True)
class Column:
    """A figure of a run; the ratio is how many times better heliograph is where `more_is_better`."""

    name: str
    title: str
    scale: float
    digits: int
    more_is_better: bool


COLUMNS = (
    Column("records_per_second", "k rec/s", 1e-3, 0, True),
    Column("records_per_cpu_second", "k rec/CPU s", 1e-3, 0, True),
    Column("late_records_per_second", "late k rec/s", 1e-3, 0, True),
    Column("late_records_per_cpu_second", "late k rec/CPU s", 1e-3, 0, True),
    Column("cpu_seconds_from_start", "CPU s from start", 1, 1, False),
    Column("peak_pss_bytes", "peak PSS MB", 1 / (1 << 20), 0, False),
    Column("first_record_seconds", "first record s", 1, 1, False),
)


@dataclass(frozen=True, slots=True)
class Spread:
    median: float
    low: float
    high: float


def spread_of(runs: Iterable[Catchup], column: Column) -> Spread:
    values = [float(getattr(run, column.name)) for run in runs]
    return Spread(statistics.median(values), min(values), max(values))


def summarize(runs: Sequence[Catchup]) -> dict[str, dict[str, object]]:
    """Return per case and figure both medians, both spreads, and heliograph's median over MM2's."""
    summary: dict[str, dict[str, object]] = {}
    for case in dict.fromkeys(run.case for run in runs):
        for column in COLUMNS:
            spreads = {
                system: spread_of(
                    (run for run in runs if (run.case, run.system) == (case, system)), column
                )
                for system in dict.fromkeys(run.system for run in runs if run.case == case)
            }
            entry: dict[str, object] = {
                system: {"median": s.median, "low": s.low, "high": s.high}
                for system, s in spreads.items()
            }
            if len(spreads) == 2 and spreads["mm2"].median:
                entry["heliograph_over_mm2"] = spreads["heliograph"].median / spreads["mm2"].median
            summary.setdefault(case, {})[column.name] = entry
    return summary


def print_table(console: Console, runs: Sequence[Catchup]) -> None:
    """Print a row per case and system, median (low-high), and a row of ratios."""
    table = Table(title=f"heliograph beside MirrorMaker 2 {KAFKA_VERSION}: median (lowest-highest)")
    table.add_column("case")
    table.add_column("system")
    table.add_column("rounds", justify="right")
    for column in COLUMNS:
        table.add_column(column.title, justify="right")
    table.add_column("content")
    for case in dict.fromkeys(run.case for run in runs):
        of_case = [run for run in runs if run.case == case]
        medians: dict[str, list[float]] = {}
        for system in dict.fromkeys(run.system for run in of_case):
            own = [run for run in of_case if run.system == system]
            spreads = [spread_of(own, column) for column in COLUMNS]
            medians[system] = [spread.median for spread in spreads]
            cells = [_cell(s, column) for s, column in zip(spreads, COLUMNS, strict=True)]
            table.add_row(case, system, str(len(own)), *cells, _verdict(own))
        if len(medians) == 2:
            ratios = zip(medians["heliograph"], medians["mm2"], COLUMNS, strict=True)
            table.add_row("", "[bold]ratio", "", *[_ratio(*ratio) for ratio in ratios], "")
        table.add_section()
    console.print(table)


def _cell(spread: Spread, column: Column) -> str:
    median, low, high = (
        f"{value * column.scale:,.{column.digits}f}"
        for value in (spread.median, spread.low, spread.high)
    )
    return f"{median} ({low}-{high})"


def _ratio(ours: float, theirs: float, column: Column) -> str:
    if not theirs:
        return "-"
    ratio = ours / theirs
    good = ratio >= 1 if column.more_is_better else ratio <= 1
    return f"[bold {'green' if good else 'red'}]x {ratio:.2f}"


def _verdict(runs: Sequence[Catchup]) -> str:
    wrong = [run for run in runs if not run.same_content]
    if not wrong:
        return "equal"
    found = ", ".join(f"{run.records_on_target - run.records:+}" for run in wrong)
    return f"[red]differs ({found} records)"


def describe_machine() -> dict[str, str]:
    """Return what the figures depend on."""
    cpu = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return {
        "cpu": f"{os.cpu_count()} x {cpu}",
        "memory": f"{memory:.0f} GiB",
        "kernel": platform.release(),
        "python": platform.python_version(),
        "java": find_java().version,
        "kafka": KAFKA_VERSION,
    }
