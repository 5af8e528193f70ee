"""`heliograph chaos`: faults under load on real clusters, for somebody who wants to see it."""

import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from heliograph.errors import ConfigError
from lab.faults.bench import Bench, open_bench
from lab.faults.chaos_screen import Screen
from lab.faults.fault import Fault
from lab.faults.results import RATE, Result
from lab.faults.scenarios import FAULTS, select_faults
from lab.faults.systems import SYSTEMS

_WIDE = 150
_COLUMNS = (
    "fault",
    "records",
    "lost",
    "repeated",
    "out of order",
    "recovered after",
    "longest pause",
)


def chaos(
    faults: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FAULT",
            help="Names from --list, also without their side or with *; one of each kind if none.",
        ),
    ] = None,
    *,
    show: Annotated[bool, typer.Option("--list", help="Show all faults and end.")] = False,
    system: Annotated[
        str, typer.Option(help="What they are done to: heliograph or mm2.")
    ] = "heliograph",
    rate: Annotated[int, typer.Option(min=1, help="Records a second.")] = RATE,
    seed: Annotated[int, typer.Option(help="Which random faults, with --minutes.")] = 1,
    minutes: Annotated[
        float | None, typer.Option(min=0.1, help="Random faults, one after another, for so long.")
    ] = None,
    json: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Append each result as a line of JSON.")
    ] = None,
) -> None:
    """Break brokers, lines and processes under load, and count what is lost, repeated and out of order."""
    if system not in SYSTEMS:
        raise ConfigError(f"there is no system {system!r}: use {' or '.join(SYSTEMS)}.")
    console = Console(highlight=False, soft_wrap=True)
    if not console.is_terminal:
        console.width = _WIDE
    if show:
        for fault in FAULTS:
            console.print(escape(_line(fault)))
        console.print("* is done if none is named.")
        return
    chosen = select_faults(faults or ["*"] if minutes else faults or [])
    able = [fault for fault in chosen if _can_be_done(console, fault, system)]
    if not able:
        raise ConfigError("none of these faults can be done here.")
    planned = _at_random(able, seed, minutes) if minutes else iter(able)
    signal.signal(signal.SIGTERM, _interrupt)
    with ExitStack() as cleanup:
        cleanup.callback(console.print, "All processes are ended, all data is deleted.")
        folder = Path(tempfile.mkdtemp(prefix="heliograph-chaos-"))
        cleanup.callback(shutil.rmtree, folder, ignore_errors=True)
        console.print("Starting two clusters of three real Kafka brokers each ...")
        bench = cleanup.enter_context(open_bench(folder, system, rate))
        cleanup.callback(signal.signal, signal.SIGINT, signal.SIG_IGN)  # cleanup must be complete
        results = _do_all(console, bench, planned, json)
        console.print()
        console.print(_table(system, results))
        good = _is_verified(console, bench) and all(map(_is_good, results))
    sys.exit(0 if good else 1)


def _do_all(
    console: Console, bench: Bench, planned: Iterator[Fault], json: Path | None
) -> list[Result]:
    results = []
    with Screen(console, bench) as screen:
        bench.say = screen.say
        screen.say(f"starting {bench.system}, then {bench.rate:,} records a second")
        for fault in planned:
            screen.begin(fault.sentence)
            result = _do(bench, fault)
            if json:
                result.append_to(json)
            results.append(result)
            screen.end(" | ".join(_cells(result)[1:]), _is_good(result))
    return results


def _do(bench: Bench, fault: Fault) -> Result:
    """Inject one fault; report what did not recover, and repair everything for the next."""
    try:
        result = fault.do(bench)
    except AssertionError as error:
        if isinstance(error.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from None  # the load, too, was in the middle of something
        result = Result(fault.sentence, bench.system, bench.rate, recovered=False)
        result.remark = str(error).partition("\n")[0]
        bench.say(str(error))
    if not result.recovered or result.remark:
        bench.mend()
    return result


def _is_good(result: Result) -> bool:
    return result.is_clean if result.system == "heliograph" else result.is_whole


def _is_verified(console: Console, bench: Bench) -> bool:
    if bench.system != "heliograph" or not bench.topics:
        return True
    console.print("Verifying record by record (a Spark job that reads both sides) ...")
    bench.end()
    try:
        told = bench.verify().splitlines()
        console.print(escape("\n".join(line for line in told if "records in" in line)))
    except AssertionError as error:
        console.print(escape(str(error)))
        return False
    return True


def _at_random(faults: list[Fault], seed: int, minutes: float) -> Iterator[Fault]:
    chance = random.Random(seed)
    until = time.monotonic() + minutes * 60
    while time.monotonic() < until:
        yield chance.choice(faults)


def _can_be_done(console: Console, fault: Fault, system: str) -> bool:
    reason = fault.why_not(system)
    if reason:
        console.print(escape(f"Left out: {fault.name} ({reason})."))
    return reason is None


def _line(fault: Fault) -> str:
    systems = [system for system in SYSTEMS if fault.can_befall(system)]
    only = "" if len(systems) == len(SYSTEMS) else f"; {' and '.join(systems)} only"
    lacking = fault.lacks()
    return f"{fault.name:24}{'*' if fault.common else ' '} {fault.sentence}{only}" + (
        f"; not here: {lacking}" if lacking else ""
    )


def _table(system: str, results: list[Result]) -> Table:
    table = Table(title=system)
    for column in _COLUMNS:
        table.add_column(column, justify="left" if column == "fault" else "right")
    for result in results:
        table.add_row(*map(escape, _cells(result)))
    return table


def _cells(result: Result) -> list[str]:
    counts = (result.produced, result.lost, result.repeated, result.disorder)
    recovery = f"{result.recovery:.1f} s"
    if not result.recovered:
        recovery = f"not within {result.recovery:.0f} s" if result.recovery else "no"
    return [
        result.fault,
        *(f"{count:,}" if count >= 0 else "?" for count in counts),
        recovery,
        f"{result.stall:.1f} s",
    ]


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
