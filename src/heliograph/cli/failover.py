"""`heliograph failover` and `heliograph failback`: 0 done, 1 refused or not all done, 2 wrong use, 3 unreachable."""

import json
import sys
import time
from collections.abc import Callable, Iterable, Sequence, Sized
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from heliograph.cli.flows import reverse_of, select_flows
from heliograph.config.mirror import load_mirror
from heliograph.errors import ConfigError
from heliograph.failover.documents import failback_json, failover_json, report_json
from heliograph.failover.failback import Failback, FailbackPlan, TailAction
from heliograph.failover.failover import (
    FailoverPlan,
    Objection,
    Refused,
    carry_out,
    plan_failover,
)
from heliograph.failover.left_behind import tail_line
from heliograph.failover.moves import GroupMove
from heliograph.model import TopicPartition
from heliograph.wire.hold_records import Phase
from heliograph.wire.records import RawRecord

T = TypeVar("T")

_POLL = 1.0
_SHOWN = 20

FileArgument = Annotated[Path, typer.Argument(help="The mm2.properties file of the mirror.")]
FlowOption = Annotated[str, typer.Option(help="The flow, such as 'A->B'.")]
GroupsOption = Annotated[
    str | None, typer.Option(help="Only groups that this regular expression matches whole.")
]
YesOption = Annotated[bool, typer.Option("--yes", help="Do it without asking.")]
ForceOption = Annotated[
    bool, typer.Option("--force", help="Do it in spite of what speaks against it.")
]
DryOption = Annotated[bool, typer.Option("--dry-run", help="Show the plan, and change nothing.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON; asks nothing, needs --yes.")]


def failover(
    *,
    file: FileArgument,
    flow: FlowOption,
    groups: GroupsOption = None,
    wait: Annotated[
        float, typer.Option(min=0, help="Seconds to wait for the target to catch up.")
    ] = 0,
    keep_flow: Annotated[
        bool,
        typer.Option(
            "--keep-flow", help="Move the groups alone; the flow goes on, as in a migration."
        ),
    ] = False,
    yes: YesOption = False,
    force: ForceOption = False,
    dry_run: DryOption = False,
    as_json: JsonOption = False,
) -> None:
    """Move consumer groups to the target of a flow, each to its exact offset, and hold the flow."""
    (config,) = select_flows(load_mirror(file), [flow])
    plan = _until(
        lambda: plan_failover(config, groups, keeps_flow=keep_flow), lambda p: p.settles, wait
    )
    if not as_json:
        _show_failover(plan, Console())
    told = failover_json(plan)
    _refuse(plan.objections, told, force=force, dry_run=dry_run, as_json=as_json)
    if dry_run or (plan.done and not plan.objections):
        _finish(told, as_json, "nothing is left to do" if plan.done else "")
    _confirm(config.flow.target, yes=yes, as_json=as_json)
    with _GroupBar(as_json) as bar:
        report = carry_out(plan, bar.show)
    told |= report_json(report)
    words = f"{_count(report.moved)} on {config.flow.target}, in {report.seconds:.1f} s."
    for partition, reason in report.unfenced.items():
        words += (
            f"\n{partition}: a mirror that does not know of this fail-over may still write to it ({reason}). "
            "Stop such a mirror, if there is one."
        )
    if report.held:
        words += (
            f" {config.flow} is held; when {config.flow.source} is back: "
            f"heliograph failback {file} --flow '{config.flow}'"
        )
    _finish(told, as_json, words, report.left)


def failback(
    *,
    file: FileArgument,
    flow: FlowOption,
    tail: Annotated[
        TailAction | None,
        typer.Option(help="What becomes of records that never left the old primary."),
    ] = None,
    list_to: Annotated[
        Path | None,
        typer.Option("--list", help="Write those records there, a line of JSON each."),
    ] = None,
    groups: GroupsOption = None,
    wait: Annotated[
        float, typer.Option(min=0, help="Seconds to wait for what must be copied back first.")
    ] = 300,
    yes: YesOption = False,
    force: ForceOption = False,
    dry_run: DryOption = False,
    as_json: JsonOption = False,
) -> None:
    """Undo a fail-over: list what never left the old primary, and return the groups exactly."""
    mirror = load_mirror(file)
    (config,) = select_flows(mirror, [flow])
    turned = f"{config.flow.target}->{config.flow.source}"
    with Failback(config, reverse_of(mirror, config), groups) as back:
        with _Listing(list_to) as listing:
            plan = back.plan(tail, listing.note)
            listing.keep(worthwhile=plan.hold.phase is not Phase.REVERSED)
        if not as_json:
            _show_failback(plan, Console())
        told = failback_json(plan)
        _refuse(plan.objections, told, force=force, dry_run=dry_run, as_json=as_json)
        if dry_run:
            _finish(told, as_json, "")
        _confirm(config.flow.source, yes=yes, as_json=as_json)
        began = time.monotonic()
        with _GroupBar(as_json) as bar:
            report = back.carry_out(plan, bar.show, force=force)
            if report.reversed and report.left:
                print(
                    f"{turned} must run now: heliograph run {file} --flow '{turned}'",
                    file=sys.stderr,
                )
            while report.left and not force and time.monotonic() - began < wait:
                group, reason = next(iter(report.left.items()))
                bar.say(f"waiting: {group}: {reason}")
                time.sleep(_POLL)
                report = back.carry_out(back.plan(), bar.show)
    told |= {
        "copied": report.records,
        "moved": dict(report.moved),
        "left": dict(report.left),
        "reversed": report.reversed,
        "seconds": round(time.monotonic() - began, 3),
    }
    words = f"{_count(report.moved)} on {config.flow.source}."
    if report.reversed:
        words += (
            f" The flow is turned round: run `heliograph run {file} --flow '{turned}'`, and no longer "
            f"{config.flow}."
        )
    _finish(told, as_json, words, report.left)


def _until(look: Callable[[], T], good: Callable[[T], bool], seconds: float) -> T:
    """Return the first that is good, or the last within that time."""
    deadline = time.monotonic() + seconds
    while True:
        found = look()
        if good(found) or time.monotonic() >= deadline:
            return found
        time.sleep(_POLL)


def _refuse(
    objections: Sequence[Objection],
    told: dict[str, Any],
    *,
    force: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Say what speaks against it, and end with exit code 1 unless all of it is overruled."""
    standing = [o for o in objections if not (force and o.forcible)]
    for objection in objections:
        print(f"heliograph: {objection.sentence}", file=sys.stderr)
    if standing:
        if as_json:
            print(json.dumps(told, indent=2))
        elif not dry_run:
            print("Nothing was changed.", file=sys.stderr)
        sys.exit(1)


def _confirm(word: str, *, yes: bool, as_json: bool) -> None:
    if yes:
        return
    if as_json or not sys.stdin.isatty():
        raise ConfigError("nobody is there to confirm this; give --yes.")
    if typer.prompt(f"Type {word} to go on") != word:
        raise Refused("Not confirmed; nothing was changed.")


def _finish(
    told: dict[str, Any], as_json: bool, words: str, left: dict[str, str] | Any = None
) -> None:
    if as_json:
        print(json.dumps(told, indent=2))
    else:
        for group, reason in (left or {}).items():
            print(f"{group}: {reason}", file=sys.stderr)
        if words:
            print(words)
    sys.exit(1 if left else 0)


def _count(groups: Sized) -> str:
    return "1 group goes on" if len(groups) == 1 else f"{len(groups)} groups go on"


def _show_failover(plan: FailoverPlan, console: Console) -> None:
    flow = plan.view.config.flow
    if plan.view.source is None:
        console.print(f"{flow.source} does not answer: {plan.view.gone}", highlight=False)
    else:
        console.print(f"{flow.source} answers; {plan.behind} records are not on {flow.target} yet.")
    if plan.rpo_ms is not None:
        most = "at most " if plan.view.source is None else ""
        console.print(f"RPO: {most}{plan.rpo_ms / 1000:.1f} s.", highlight=False)
    _show_moves(plan.moves, console)


def _show_failback(plan: FailbackPlan, console: Console) -> None:
    flow = plan.view.config.flow
    console.print(f"{flow} is held since {plan.hold.since}.", highlight=False)
    if plan.hold.phase is Phase.REVERSED:
        console.print("It is turned round already; what is left is to return the groups.")
    elif plan.tails:
        table = Table("partition", "records", "from offset", "to offset", "bytes", box=None)
        for tail in plan.tails[:_SHOWN]:
            its = tail.settled
            numbers = (tail.records, its.position.upstream, its.end - 1, tail.bytes)
            table.add_row(str(tail.partition), *map(str, numbers))
        console.print(
            f"{plan.lost} records never left {flow.source}, written within {plan.lost_ms / 1000:.3f} s:"
        )
        console.print(table)
        if len(plan.tails) > _SHOWN:
            console.print(
                f"... and {len(plan.tails) - _SHOWN} more partitions; --json has them all"
            )
    else:
        console.print(f"Every record of {flow.source} is on {flow.target}.")
    _show_moves(plan.moves, console)


def _show_moves(moves: Iterable[GroupMove], console: Console) -> None:
    table = Table("group", "partitions", "to move", "known", "missing", "", box=None)
    for move in moves:
        missing = "?" if move.missing is None else str(move.missing)
        known = f"{move.age_ms / 1000:.0f} s ago" if move.age_ms else "now"
        table.add_row(
            move.group,
            str(len(move.steps)),
            str(sum(step.moves for step in move.steps)),
            known,
            missing,
            _standing(move),
        )
    if table.rows:
        console.print(table)


def _standing(move: GroupMove) -> str:
    if move.reason is not None:
        return move.reason
    if move.blocked:
        return f"{move.blocked[0].stand.partition}: {move.blocked[0].reason}"
    if move.moved:
        return "is there already"
    return "ready, roughly: some is read again" if move.roughly else "ready"


class _Listing:
    """The records of a tail, a line each; a file that is there is only replaced by a whole list."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._part = path.with_name(f"{path.name}.part") if path else None
        self._lines = self._part.open("w") if self._part else None

    def __enter__(self) -> "_Listing":
        return self

    def __exit__(self, *_: object) -> None:
        if self._lines is not None:
            self._lines.close()
        if self._part is not None:
            self._part.unlink(missing_ok=True)

    def note(self, partition: TopicPartition, record: RawRecord) -> None:
        if self._lines is not None:
            print(tail_line(partition, record), file=self._lines)

    def keep(self, *, worthwhile: bool) -> None:
        if self._lines is not None and self._part is not None and self._path and worthwhile:
            self._lines.flush()
            self._part.replace(self._path)


class _GroupBar:
    """A bar over the groups, on a terminal."""

    def __init__(self, silent: bool) -> None:
        console = Console(stderr=True)
        hidden = silent or not console.is_terminal
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            console=console,
            transient=True,
            disable=hidden,
        )
        self._task = self._bar.add_task("groups", total=None)

    def __enter__(self) -> "_GroupBar":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def show(self, group: str, number: int, total: int) -> None:
        self._bar.update(self._task, description=group, completed=number, total=total)

    def say(self, words: str) -> None:
        self._bar.update(self._task, description=words)
