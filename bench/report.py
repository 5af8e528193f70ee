"""The figures on a terminal, and as JSON."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field

from rich.console import Console
from rich.table import Table

from bench.cases import CASES
from bench.figures import Column, Medians, Run, Spread, ratio, summarize
from bench.targets import Finding, judge
from heliograph.embedded.jars import KAFKA_VERSION

TITLE = f"heliograph beside MirrorMaker 2 {KAFKA_VERSION}"


@dataclass(slots=True)
class Report:
    """All that a measurement gave; `brokers` has the rates of the brokers alone, by case."""

    made: str
    command: str
    machine: dict[str, str]
    settings: dict[str, str]
    runs: list[Run] = field(default_factory=list)
    brokers: dict[str, dict[str, float]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def medians(self) -> Medians:
        return summarize(self.runs)

    @property
    def findings(self) -> list[Finding]:
        return judge(self.medians)

    @property
    def problems(self) -> list[str]:
        return [f"{r.case} {r.round} {r.system}: {r.problem}" for r in self.runs if r.problem]

    def to_dict(self) -> dict[str, object]:
        medians = self.medians
        summary = {
            case: {
                system: {k: asdict(v) for k, v in its.items()} for system, its in systems.items()
            }
            for case, systems in medians.items()
        }
        ratios = {
            case: {c.name: ratio(medians, case, c.name, "heliograph") for c in CASES[case].columns}
            for case in medians
        }
        return {
            "made": self.made,
            "command": self.command,
            "seconds": round(self.seconds),
            "machine": self.machine,
            "mm2": self.settings,
            "targets": [asdict(finding) for finding in self.findings],
            "heliograph_over_mm2": ratios,
            "summary": summary,
            "brokers": self.brokers,
            "notes": self.notes,
            "problems": self.problems,
            "runs": [asdict(run) for run in self.runs],
        }


def grouped(cases: Iterable[str]) -> Iterator[tuple[tuple[Column, ...], list[str]]]:
    """Yield the cases that have the same columns, together."""
    groups: dict[tuple[Column, ...], list[str]] = {}
    for case in cases:
        groups.setdefault(CASES[case].columns, []).append(case)
    yield from groups.items()


def rows_of(medians: Medians, case: str) -> Iterator[tuple[str, list[str]]]:
    """Yield a case's rows: each system's medians and spreads, then heliograph's ratios to others."""
    systems, columns = medians[case], CASES[case].columns
    for system, its in systems.items():
        yield system, [show(its[c.name], c) if c.name in its else "-" for c in columns]
    for other in ("mm2", "go", "pump", "bare"):
        if "heliograph" in systems and other in systems:
            ratios = [ratio(medians, case, c.name, "heliograph", other) for c in columns]
            yield f"heliograph / {other}", ["-" if r is None else f"x {r:.2f}" for r in ratios]


def show(spread: Spread, column: Column) -> str:
    median, low, high = (
        f"{value * column.scale:,.{column.digits}f}"
        for value in (spread.median, spread.low, spread.high)
    )
    return f"{median} ({low}-{high})" if low != high else median


def print_report(console: Console, report: Report) -> None:
    """Print a table per kind of case, the brokers' own rates, and the targets."""
    medians = report.medians
    for columns, cases in grouped(medians):
        console.print(_table(columns, cases, medians, report.runs))
    for case, rates in report.brokers.items():
        console.print(f"The brokers alone, {case}: {brokers_line(rates)}")
    table = Table("target", "measured: median heliograph to theirs", "", title="Targets")
    for finding in report.findings:
        words = {True: "[green]met", False: "[red]not met", None: "-"}[finding.met]
        table.add_row(finding.text, finding.measured, words)
    console.print(table)
    for note in (*report.notes, *report.problems):
        console.print(note, markup=False)


def brokers_line(rates: dict[str, float]) -> str:
    fetch, produce = (rates[f"{way}_records_per_second"] / 1e3 for way in ("fetch", "produce"))
    return f"give {fetch:,.0f} k rec/s, take {produce:,.0f} k rec/s (raw batches, nothing between)"


def _table(
    columns: Sequence[Column], cases: Iterable[str], medians: Medians, runs: Sequence[Run]
) -> Table:
    table = Table("case", "system", "rounds", title=f"{TITLE}: median (lowest-highest)")
    for column in columns:
        table.add_column(column.title, justify="right")
    for case in cases:
        for number, (system, cells) in enumerate(rows_of(medians, case)):
            own = [run for run in runs if (run.case, run.system) == (case, system)]
            good = sum(not run.problem for run in own)
            rounds = str(good) if good == len(own) else f"[red]{good} of {len(own)}"
            style = None if own else "bold"
            table.add_row(
                "" if number else case, system, rounds if own else "", *cells, style=style
            )
        table.add_section()
    return table
