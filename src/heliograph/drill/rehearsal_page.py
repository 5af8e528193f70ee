"""The page of `drill FILE`."""

from collections.abc import Iterable, Mapping

from heliograph.drill.rehearsal import DrillResult, GroupDrill
from heliograph.drill.report import Bars, Cell, Figure, Report, Table

_SHOWN = 40


def drill_report(result: DrillResult, versions: Mapping[str, str]) -> Report:
    """Return what to show and keep of a rehearsal."""
    groups = result.groups
    ready = sum(group.ready for group in groups)
    known = [its for group in groups if (its := group.difference) is not None and group.ready]
    lost = sum(its.lost for its in known) if result.behind else None
    repeated = sum(its.repeated for its in known) if result.behind else None
    behind = result.behind
    source, _, target = result.flow.partition("->")
    return Report(
        title=f"Fail-over drill of {result.flow}",
        story=(
            f"Every group was given its translated offsets on {target}, under a forked name, and read from "
            f"there what it would read after the loss of {source}. Nothing of production was touched, and "
            "the forks are deleted."
        ),
        ok=result.ok,
        verdict=_verdict(result, ready, lost, repeated),
        began=result.began,
        seconds=result.seconds,
        figures=(
            Figure(
                "RPO",
                f"{behind.seconds:.1f} s" if behind else "?",
                f"{behind.offsets:,} records not on {target} yet"
                if behind
                else "no answer from the source",
            ),
            Figure("RTO", f"{result.rto:.1f} s", "until the last group had its first record"),
            Figure("Groups ready", f"{ready} of {len(groups)}", "at their exact offsets"),
            Figure("Repeated", _number(repeated), "records read twice"),
            Figure("Gaps", _number(lost), "records left out"),
        ),
        steps=result.steps,
        plots=tuple(_plots(groups)),
        tables=tuple(_tables(groups)),
        notes=tuple(_notes(result)),
        measured={
            "flow": result.flow,
            "rpo_seconds": round(behind.seconds, 3) if behind else None,
            "records_behind": behind.offsets if behind else None,
            "rto_seconds": round(result.rto, 3),
            "groups": len(groups),
            "ready": ready,
            "read": sum(group.read for group in groups),
            "repeated": repeated,
            "gaps": lost,
        },
        versions=versions,
    )


def _verdict(result: DrillResult, ready: int, lost: int | None, repeated: int | None) -> str:
    if result.ok:
        exact = f"All {ready} groups go on exactly: no record is repeated, none is left out."
        if result.behind is None or not result.behind.offsets:
            return exact
        source = result.flow.partition("->")[0]
        return f"{exact} {result.behind.offsets:,} records are on {source} alone: a loss of it now costs them."
    problems = []
    if ready < len(result.groups):
        problems.append(
            f"{len(result.groups) - ready} of {len(result.groups)} groups are not ready"
        )
    if result.behind is None:
        problems.append("the source does not answer, so nothing could be compared with it")
    if repeated:
        problems.append(f"{repeated:,} records would be repeated")
    if lost:
        problems.append(f"{lost:,} records would be left out")
    if result.left:
        problems.append(f"{len(result.left)} forked groups could not be deleted")
    return f"NOT good: {'; '.join(problems)}."


def _plots(groups: Iterable[GroupDrill]) -> Iterable[Bars]:
    times = sorted(
        ((group.group, group.first_record * 1000) for group in groups if group.first_record),
        key=lambda pair: -pair[1],
    )
    if times:
        yield Bars("Time to the first record, by group", "ms", tuple(times[:_SHOWN]))


def _tables(groups: Iterable[GroupDrill]) -> Iterable[Table]:
    columns = (
        "group",
        "partitions",
        "read",
        "repeated",
        "gaps",
        "not there yet",
        "first record",
        "",
    )
    yield Table("Groups", columns, tuple(map(_group_row, groups)))
    wrong = [
        (group.group, str(p.partition), p.upstream, str(p.remote), p.downstream, *p.difference[1:])
        for group in groups
        for p in group.partitions
        if p.difference is not None and not p.difference.is_none
    ]
    if wrong:
        places = ("group", "partition", "stands at", "goes on in", "at", "gaps", "repeated")
        yield Table("Partitions that would not go on exactly", places, tuple(wrong[:_SHOWN]))


def _group_row(group: GroupDrill) -> tuple[Cell, ...]:
    difference = group.difference if group.ready else None
    first = "-" if group.first_record is None else f"{group.first_record * 1000:.0f} ms"
    return (
        group.group,
        len(group.partitions),
        group.read,
        difference.repeated if difference else None,
        difference.lost if difference else None,
        group.missing if group.ready else None,
        first,
        group.reason or ("at the end: nothing to read" if group.at_end else "ready"),
    )


def _notes(result: DrillResult) -> Iterable[str]:
    if result.gone:
        yield result.gone
    for fork, reason in result.left.items():
        yield f"{fork} is still there: {reason}. Delete it by hand."
    yield (
        "Repeats and gaps are counted by comparing record bodies, in order, with what the group would "
        "read next on the source. The time that clients take to notice and to reconnect is not in the RTO."
    )


def _number(number: int | None) -> str:
    return "?" if number is None else f"{number:,}"
