"""A plan as a person reads it: what matters first, long lists cut short. `--json` has all of it."""

from collections import Counter
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from heliograph.plan.report import FlowPlan, MirrorPlan, PartitionPlan, TopicToMake

_ROWS = 40
_NAMES = 6
_INDENT = (0, 0, 0, 2)


def show_plan(plan: MirrorPlan, console: Console) -> None:
    """Print every flow, then what goes wrong between flows, then the last word."""
    for warning in plan.warnings:
        _say(console, f"warning: {warning}")
    for flow in plan.flows:
        _show_flow(plan, flow, console)
    for clusters, topics in _grouped((loop.clusters, loop.way[0].topic) for loop in plan.loops):
        _say(
            console,
            f"LOOP {clusters}: {_some(topics)} would be copied round and round. Name topics so that "
            "only one of these flows takes them, or use DefaultReplicationPolicy.",
        )
    for clash in plan.clashes:
        _say(console, f"CLASH {clash}: their records would be mixed, with equal names.")
    _say(console, _last_word(plan))


def _show_flow(plan: MirrorPlan, flow: FlowPlan, console: Console) -> None:
    _say(console, f"{flow.flow}")
    if flow.failure is not None:
        _say(console, f"  cannot be told: {flow.failure}")
        return
    if flow.held is not None:
        _say(console, f"  HELD: {flow.held}")
    for problem in flow.problems:
        _say(console, f"  PROBLEM: {problem}.")
    _show_topics(flow, console)
    _show_changes(flow, console)
    _show_copying(plan, flow, console)
    _show_groups(flow, console)
    for note in flow.notes:
        _say(console, f"  note: {note}")
    if not flow.has_work:
        _say(console, "  nothing to do")


def _show_topics(flow: FlowPlan, console: Console) -> None:
    made: list[TopicToMake] = [*flow.make, *flow.make_internal]
    _print(
        console,
        "topics to make",
        ("cluster", "topic", "copy of", "partitions", "replicas", "settings"),
        [
            (
                each.cluster,
                each.remote_topic,
                each.topic or "(internal)",
                str(each.partitions),
                _replicas(each.replication_factor),
                ", ".join(f"{key}={value}" for key, value in each.configs.items()),
            )
            for each in made
        ],
    )
    _print(
        console,
        "topics to grow",
        ("topic", "copy of", "partitions"),
        [
            (each.remote_topic, each.topic, f"{each.partitions_now} -> {each.partitions}")
            for each in flow.grow
        ],
    )
    skipped = _grouped((each.reason, each.topic) for each in flow.skip)
    rows = [(reason, str(len(topics)), _some(topics)) for reason, topics in skipped]
    _print(console, "topics not copied", ("because", "topics", "such as"), rows)


def _show_changes(flow: FlowPlan, console: Console) -> None:
    _print(
        console,
        "settings to change",
        ("topic", "to"),
        [(each.remote_topic, ", ".join(map(str, each.changes))) for each in flow.configs],
    )
    _print(console, "ACLs to create", ("ACL",), [(str(acl),) for acl in flow.acls])


def _show_copying(plan: MirrorPlan, flow: FlowPlan, console: Console) -> None:
    by_topic: dict[str, list[PartitionPlan]] = {}
    for partition in flow.partitions:
        by_topic.setdefault(partition.source.topic, []).append(partition)
    rows = [
        _copying(topic, its)
        for topic, its in by_topic.items()
        if any(p.backlog.offsets or p.loss for p in its)
    ]
    columns = ("topic", "into", "partitions", "positions", "records", "bytes")
    _print(console, "to copy", columns, rows)
    for partition in flow.partitions:
        if partition.loss is not None:
            what = "STOPS" if partition.blocked else "LOSS"
            _say(console, f"  {what} {partition.source}: {partition.loss}.")
    if flow.partitions:
        _say(console, f"  {_amount(plan, flow)}")


def _copying(topic: str, partitions: Sequence[PartitionPlan]) -> tuple[str, ...]:
    origins = Counter(p.origin.name.lower().replace("_", " ") for p in partitions)
    sizes = [p.backlog.bytes for p in partitions]
    known = sum(size for size in sizes if size is not None)
    about = "about " if any(p.backlog.is_estimate for p in partitions) else ""
    return (
        topic,
        partitions[0].remote.topic,
        str(len(partitions)),
        ", ".join(f"{count} {origin}" for origin, count in origins.items()),
        str(sum(p.backlog.offsets for p in partitions)),
        "unknown" if None in sizes else f"{about}{bytes_in_words(known)}",
    )


def _amount(plan: MirrorPlan, flow: FlowPlan) -> str:
    partitions = f"{len(flow.partitions)} partitions"
    origins = ", ".join(f"{count} because {origin.value}" for origin, count in flow.origins.items())
    if not flow.offsets:
        return f"{partitions} ({origins}): all copied"
    seconds, size = plan.seconds(flow), flow.bytes
    told = f"{partitions} ({origins}): at most {flow.offsets} records"
    if size is None or seconds is None:
        return f"{told}, bytes and time unknown"
    about = "an estimated " if flow.bytes_are_estimated else ""
    speed = f"{bytes_in_words(plan.bytes_per_second)}/s"
    return f"{told}, {about}{bytes_in_words(size)}, about {_duration(seconds)} at {speed}"


def _show_groups(flow: FlowPlan, console: Console) -> None:
    taken = [group for group in flow.groups if group.passed_over is None]
    _print(
        console,
        "groups",
        (
            "group",
            "partitions",
            "ahead of the copy",
            "checkpoints to write",
            "to move",
            "why not moved",
        ),
        [
            (
                g.group,
                str(g.partitions),
                str(g.ahead),
                str(g.checkpoints),
                str(g.moves),
                g.left_alone or "",
            )
            for g in taken
        ],
    )
    left = _grouped((g.passed_over, g.group) for g in flow.groups if g.passed_over)
    rows = [(reason, str(len(names)), _some(names)) for reason, names in left]
    _print(console, "groups not checkpointed", ("because", "groups", "such as"), rows)


def _last_word(plan: MirrorPlan) -> str:
    failed = [str(flow.flow) for flow in plan.flows if flow.failure]
    if failed:
        return f"Not all can be told: {', '.join(failed)}. Nothing was touched."
    if not plan.has_work:
        return "Nothing to do."
    busy = [flow for flow in plan.flows if flow.has_work]
    made = sum(len(flow.make) + len(flow.make_internal) for flow in busy)
    grown = sum(len(flow.grow) for flow in busy)
    offsets = sum(flow.offsets for flow in busy)
    problems = sum(len(flow.problems) for flow in busy) + len(plan.loops) + len(plan.clashes)
    return (
        f"{len(busy)} of {len(plan.flows)} flows have something to do: {made} topics to make, {grown} to "
        f"grow, at most {offsets} records to copy, {problems} problems. Nothing was touched."
    )


def bytes_in_words(size: int) -> str:
    amount = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"


def _duration(seconds: float) -> str:
    if seconds < 1:
        return "a second"
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.1f} h"


def _replicas(factor: int) -> str:
    return "the brokers' default" if factor < 0 else str(factor)


def _grouped(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, list[str]]]:
    found: dict[str, list[str]] = {}
    for reason, name in pairs:
        found.setdefault(reason, []).append(name)
    return list(found.items())


def _some(names: Sequence[str]) -> str:
    more = len(names) - _NAMES
    return ", ".join(names[:_NAMES]) + (f" and {more} more" if more > 0 else "")


def _print(
    console: Console, title: str, columns: Sequence[str], rows: Sequence[tuple[str, ...]]
) -> None:
    if not rows:
        return
    _say(console, f"  {title}:")
    table = Table(box=None, show_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows[:_ROWS]:
        table.add_row(*(Text(cell) for cell in row))
    console.print(Padding(table, _INDENT))
    if len(rows) > _ROWS:
        _say(console, f"    and {len(rows) - _ROWS} more; --json has all")


def _say(console: Console, line: str) -> None:
    console.print(line, markup=False, highlight=False, soft_wrap=True)
