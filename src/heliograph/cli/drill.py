"""`heliograph drill`: 0 all went well, 1 something was lost, repeated or not ready, 2 wrong use, 3 unreachable."""

import os
import platform
import shutil
import signal
import sys
import tempfile
import time
import uuid
from enum import StrEnum
from importlib import metadata
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from heliograph.cli.edgar import EdgarProducer
from heliograph.cli.flows import select_flows
from heliograph.cli.main import own_version
from heliograph.config.mirror import load_mirror
from heliograph.drill.page import write_report
from heliograph.drill.rehearsal import run_drill
from heliograph.drill.rehearsal_page import drill_report
from heliograph.drill.report import Report, Step
from heliograph.drill.steps import Watcher
from heliograph.drill.wipe import Load, run_wipe
from heliograph.drill.wipe_page import wipe_report
from heliograph.embedded.jars import KAFKA_VERSION
from heliograph.errors import ConfigError
from heliograph.model import Endpoint
from heliograph.observe.reports import REPORTS

_LINE = 160


class Scenario(StrEnum):
    """A drill on clusters of its own."""

    WIPE = "wipe"


def drill(
    *,
    file: Annotated[
        Path | None, typer.Argument(help="The mm2.properties file of the mirror to rehearse on.")
    ] = None,
    scenario: Annotated[
        Scenario | None,
        typer.Option(help="Play this on clusters of its own: B is wiped, a new C recovers."),
    ] = None,
    flow: Annotated[str | None, typer.Option(help="The flow, such as 'A->B'.")] = None,
    groups: Annotated[
        str | None, typer.Option(help="Only groups that this regular expression matches whole.")
    ] = None,
    records: Annotated[
        int, typer.Option(min=1, help="Records to read of each partition, at most.")
    ] = 1000,
    seconds: Annotated[int, typer.Option(min=1, help="How long the scenario writes logs.")] = 20,
    rate: Annotated[
        int, typer.Option(min=1, help="Records a second that it writes to each cluster.")
    ] = 2000,
    report: Annotated[
        Path, typer.Option(metavar="DIR", help="Where the report is kept, as a page and as JSON.")
    ] = REPORTS,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
    headless: Annotated[
        bool, typer.Option("--headless", help="Plain lines, on a terminal too.")
    ] = False,
) -> None:
    """Rehearse the loss of a cluster, measure what it costs, and write a report."""
    signal.signal(signal.SIGTERM, _interrupt)
    screen = _Screen(live=not (headless or as_json), silent=as_json)
    if scenario is not None and file is None and flow is None:
        _finish(_play(seconds, rate, screen), scenario.value, report, as_json)
    if file is None or flow is None or scenario is not None:
        raise ConfigError("drill: give FILE and --flow 'A->B', or --scenario wipe alone.")
    (config,) = select_flows(load_mirror(file), [flow])
    with screen:
        result = run_drill(config, groups, records, uuid.uuid4().hex[:8], screen)
    _finish(drill_report(result, _versions()), "drill", report, as_json)


def _play(seconds: int, rate: int, screen: "_Screen") -> Report:
    """Play a scenario in a folder that is gone afterwards."""

    def make_load(endpoint: Endpoint, topic: str, partitions: int) -> Load:
        return EdgarProducer(endpoint, topic, partitions, rate)

    folder = Path(tempfile.mkdtemp(prefix="heliograph-drill-"))
    try:
        with screen:
            result = run_wipe(folder, seconds, make_load, screen)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return wipe_report(result, _versions(Kafka=KAFKA_VERSION, Spark=metadata.version("pyspark")))


def _finish(report: Report, name: str, folder: Path, as_json: bool) -> NoReturn:
    page, plain = write_report(report, folder, name)
    if as_json:
        print(report.to_json())
    else:
        width = None if sys.stdout.isatty() else _LINE
        show_report(report, Console(highlight=False, soft_wrap=True, width=width))
        print(f"\nThe report: {page}\n   as JSON: {plain}")
    sys.exit(0 if report.ok else 1)


def show_report(report: Report, console: Console) -> None:
    """Print the figures and tables of a report."""
    console.print()
    figures = Table(show_header=False, box=None, pad_edge=False)
    for figure in report.figures:
        figures.add_row(figure.label, Text(figure.value, "bold"), Text(figure.note))
    console.print(figures)
    for table in report.tables:
        shown = Table(*table.columns, box=None, pad_edge=False)
        for row in table.rows:
            shown.add_row(*(Text("?" if cell is None else str(cell)) for cell in row))
        console.print()
        console.print(f"{table.title}:", markup=False)
        console.print(shown)
    console.print()
    for note in report.notes:
        console.print(note, markup=False)
    console.print(Text(report.verdict, "bold green" if report.ok else "bold red"))


class _Screen(Watcher):
    """The steps as they happen: a table that moves on a terminal, a line each elsewhere."""

    def __init__(self, *, live: bool, silent: bool) -> None:
        self._console = Console(stderr=silent, highlight=False, soft_wrap=True)
        self._silent = silent
        self._done: list[Step] = []
        self._doing: tuple[str, float] | None = None
        self._spinner = Spinner("dots")
        self._live = None
        if live and self._console.is_terminal:
            self._live = Live(
                console=self._console, refresh_per_second=4, get_renderable=self._draw
            )

    def __enter__(self) -> "_Screen":
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._doing = None
        if self._live:
            self._live.stop()

    def began(self, name: str) -> None:
        self._doing = name, time.monotonic()

    def ended(self, step: Step) -> None:
        self._done.append(step)
        self._doing = None
        if not self._live and not self._silent:
            note = f" ({step.note})" if step.note else ""
            self._console.print(
                f"{step.start:6.1f} s  {step.name}: {step.seconds:.1f} s{note}", markup=False
            )

    def _draw(self) -> Table:
        table = Table("at", "step", "took", "", box=None, pad_edge=False)
        for step in self._done:
            start, took = f"{step.start:.1f} s", f"{step.seconds:.1f} s"
            table.add_row(start, Text(step.name), took, Text(step.note, "dim"))
        if self._doing is not None:
            name, since = self._doing
            took = f"{time.monotonic() - since:.1f} s"
            table.add_row(self._spinner, Text(name, "bold"), took, "")
        return table


def _versions(**more: str) -> dict[str, str]:
    return {
        "heliograph": own_version(),
        **more,
        "Python": platform.python_version(),
        "on": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
    }


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
