"""`heliograph bench`: heliograph beside a real MirrorMaker 2 on the same brokers, in one run."""

import json
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench.cases import CASES, GROUPS, QUICK, USUAL, Case, Scale, expand
from bench.clusters import Bed, open_clusters
from bench.figures import Run
from bench.limits import LIMITS
from bench.machine import describe_machine
from bench.page import render_page
from bench.report import Report, brokers_line, print_report
from bench.rounds import Plan, run_plan, without_missing
from bench.systems import ABLATIONS, HEAP, SYSTEMS, throughput_settings
from heliograph.errors import ConfigError

_ALL = (*SYSTEMS, *ABLATIONS, *LIMITS)
_FULL = Scale(3_000_000, 90)
_QUICK = Scale(300_000, 20)


def bench(  # noqa: PLR0917 - typer passes them by name
    cases: Annotated[
        list[str] | None, typer.Argument(help="Which, or groups of them, see --list.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="One round of a few cases, small: 2.5 minutes.")
    ] = False,
    list_: Annotated[bool, typer.Option("--list", help="Show the cases, and end.")] = False,
    rounds: Annotated[int | None, typer.Option(min=1, help="3, or 1 if quick.")] = None,
    records: Annotated[
        int | None,
        typer.Option(min=1000, help="Of 165 bytes in a catch-up: 3,000,000, or 300,000 if quick."),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(min=5, help="To watch a steady or idle case: 90, or 20 if quick."),
    ] = None,
    systems: Annotated[
        str | None,
        typer.Option(help=f"Which, in which order: {','.join(_ALL)}; a group has its own choice."),
    ] = None,
    json_: Annotated[Path | None, typer.Option("--json", help="Save all figures there.")] = None,
    html: Annotated[Path | None, typer.Option(help="Save a page with plots there.")] = None,
    logs: Annotated[Path | None, typer.Option(help="Keep the systems' logs there.")] = None,
) -> None:
    """Measure heliograph beside MirrorMaker 2, and the limits. All of it in full takes about two hours."""
    console = Console(width=None if sys.stdout.isatty() else 200, highlight=False)
    if list_:
        _list(console)
        return
    scale = _QUICK if quick else _FULL
    asked = tuple(cases or (QUICK if quick else USUAL))
    _refuse_unknown("case", asked, (*CASES, *GROUPS))
    chosen = tuple(systems.split(",")) if systems else None
    _refuse_unknown("system", chosen or (), _ALL)
    plan = Plan(
        {case: chosen or its or _ALL for case, its in expand(asked).items()},
        rounds or (1 if quick else 3),
        Scale(records or scale.records, seconds or scale.seconds),
    )
    report = Report(
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        command=shlex.join(["./heliograph", *sys.argv[1:]]),
        machine=describe_machine(),
        settings={"heap": HEAP, **throughput_settings()},
    )
    signal.signal(signal.SIGTERM, _interrupt)
    _measure(console, plan, report, logs)
    print_report(console, report)
    _save(console, report, json_, html)
    sys.exit(1 if report.problems else 0)


def _measure(console: Console, plan: Plan, report: Report, logs: Path | None) -> None:
    """Run the plan, telling how it goes; an interrupted one keeps what it has."""
    began = time.monotonic()
    console.print(", ".join(f"{name} {its}" for name, its in report.machine.items()))
    settings = " ".join(f"{name}={value}" for name, value in report.settings.items())
    console.print(f"MirrorMaker 2 catches up with {settings}")
    plan, missing = without_missing(plan)
    report.notes += filter(None, (plan.caveat, missing))
    for note in report.notes:
        console.print(note)

    def on_brokers(case: str, rates: dict[str, float]) -> None:
        report.brokers[case] = rates
        console.print(f"           {case:15} the brokers alone {brokers_line(rates)}")

    with _progress(console, plan.runs) as (doing, done):
        try:
            doing("starting two clusters")
            with open_clusters(logs) as (source, target, folder):
                for run in run_plan(plan, Bed(source, target, folder), doing, on_brokers):
                    report.runs.append(run)
                    _show(console, CASES[run.case], run)
                    done()
        except KeyboardInterrupt:
            report.notes.append("Interrupted: these are not all the runs that were asked for.")
    report.seconds = time.monotonic() - began


@contextmanager
def _progress(
    console: Console, runs: int
) -> Iterator[tuple[Callable[[str], None], Callable[[], None]]]:
    """Yield what is told of the next step, and of the end of a run."""
    if not console.is_terminal:
        began = time.monotonic()
        yield (
            (lambda what: console.print(f"{time.monotonic() - began:7.1f} s  {what}")),
            lambda: None,
        )
        return
    columns = (
        BarColumn(20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=runs)
        yield (
            lambda what: progress.update(task, description=what),
            lambda: progress.advance(task),
        )


def _show(console: Console, case: Case, run: Run) -> None:
    figures = "  ".join(
        f"{run.figures[c.name] * c.scale:,.{c.digits}f} {c.title}"
        for c in case.columns
        if c.name in run.figures
    )
    problem = f"  FAILED: {run.problem}" if run.problem else ""
    line = f"           {run.case:15} {run.round} {run.system:10} {figures}{problem}"
    console.print(line, markup=False, soft_wrap=True)


def _save(console: Console, report: Report, json_: Path | None, html: Path | None) -> None:
    for file in filter(None, (json_, html)):
        plain = file is json_
        content = json.dumps(report.to_dict(), indent=1) + "\n" if plain else render_page(report)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, encoding="utf-8")
        console.print(f"saved {file}")


def _list(console: Console) -> None:
    for case in CASES.values():
        console.print(f"{case.name:16} {case.about}")
    for group, cases in GROUPS.items():
        console.print(f"{group:16} {' '.join(cases)}", soft_wrap=True)
    console.print(f"No case named: {' '.join(USUAL)}", soft_wrap=True)


def _refuse_unknown(kind: str, names: tuple[str, ...], allowed: tuple[str, ...]) -> None:
    for name in names:
        if name not in allowed:
            raise ConfigError(f"bench: {name} is no {kind}: there are {', '.join(allowed)}.")


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
