"""`heliograph verify`: 0 equal, 1 not equal, 2 could not tell, 3 a cluster cannot be reached."""

import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.table import Table

from heliograph.cli.flows import select_flows
from heliograph.cli.spark import SparkKeys, parse_spark
from heliograph.config.flow import FlowConfig
from heliograph.config.mirror import load_mirror
from heliograph.errors import ClusterUnreachable, MirrorError
from heliograph.observe.reports import REPORTS
from heliograph.verify.flow import Progress, verify_flow
from heliograph.verify.report import PartitionResult, Report, keep_report

_EXIT_CODES = {True: 0, False: 1, None: 2}
_COULD_NOT_TELL = 2


def verify(
    config: Annotated[Path, typer.Option(help="An mm2.properties file.")],
    flow: Annotated[str, typer.Option(help="The flow, such as 'A->B'.")],
    *,
    topics: Annotated[
        str | None, typer.Option(help="Only topics that this regular expression matches whole.")
    ] = None,
    complete: Annotated[
        bool, typer.Option("--complete", help="Records not copied yet are a difference.")
    ] = False,
    spark: SparkKeys = None,
    keep: Annotated[
        Path, typer.Option("--report", metavar="DIR", help="Where the report is kept, as JSON.")
    ] = REPORTS,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Account for every record of a flow: in order, byte-equal, on both sides. Changes nothing there."""
    (chosen,) = select_flows(load_mirror(config), [flow])
    chosen = replace(chosen, spark={**chosen.spark, **parse_spark(spark)})
    try:
        if as_json:
            report = verify_flow(chosen, topics, complete=complete)
            print(report.to_json())
        else:
            report = _verify_with_bar(chosen, topics, complete)
            show_report(report, Console())
    except ClusterUnreachable:
        raise
    except MirrorError as error:
        print(f"heliograph: {error}", file=sys.stderr)
        sys.exit(max(error.exit_code, _COULD_NOT_TELL))
    _keep(report, keep, as_json)
    sys.exit(_EXIT_CODES[report.ok])


def _keep(report: Report, folder: Path, silent: bool) -> None:
    """Keep the report. One that cannot be kept is told; the verdict is out and stands."""
    try:
        path = keep_report(report, folder, datetime.now(UTC))
    except OSError as error:
        print(
            f"heliograph: --report {folder}: the report cannot be kept there ({error.strerror}). "
            "Name another folder.",
            file=sys.stderr,
        )
        return
    if not silent:
        print(f"The report, as JSON: {path}")


def show_report(report: Report, console: Console) -> None:
    """Print a line per topic, then whatever is wrong, then the last word."""
    table = Table(
        "topic", "remote topic", "partitions", "records", "not yet copied", "verdict", box=None
    )
    for topic, results in report.topics.items():
        table.add_row(
            topic,
            results[0].target.topic,
            str(len(results)),
            str(sum(result.findings.compared for result in results)),
            str(sum(result.findings.lag for result in results)),
            _verdict(results),
        )
    if report.partitions:
        console.print(table)
    for line in report.lines():
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    console.print(report.summary(), markup=False, highlight=False, soft_wrap=True)


def _verdict(results: list[PartitionResult]) -> str:
    verdicts = {result.findings.equal for result in results}
    if False in verdicts:
        return "NOT equal"
    if None in verdicts:
        return "could not tell"
    stamped = all(result.timestamps for result in results)
    return "equal" if stamped else "equal (timestamps are the target's own, not compared)"


def _verify_with_bar(config: FlowConfig, topics: str | None, complete: bool) -> Report:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    console = Console(stderr=True)
    with Bar(
        *columns,
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as bar:
        task = bar.add_task(f"verify {config.flow}", total=None)

        def show(progress: Progress) -> None:
            bar.update(task, completed=progress.compared, total=progress.expected)

        return verify_flow(config, topics, on_progress=show, complete=complete)
