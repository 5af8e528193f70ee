"""The overview of a mirror as a terminal shows it. Names come from clusters: none is trusted."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from heliograph.cli.top_board import Board, number, objects

_STYLES = {"good": "green", "warning": "yellow", "bad": "bold red", "off": "dim"}
_MARKS = {"good": "●", "warning": "▲", "bad": "✖", "off": "○"}
_LEVELS = {"WARNING": "yellow", "ERROR": "red", "CRITICAL": "bold red"}
_BARS = "▁▂▃▄▅▆▇█"
_SPARK = 60
_LEAST_SPARK = 8
_GAP = 2
_NAMES = 2
_NAME = 48
_REASONS = 5
_LEAST_EVENTS = 3
_KEYS = "q quit   ↑ ↓ flow   p topics   + - interval"


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of the table of flows; on a narrow screen those of the highest rank are left out."""

    heading: str
    rank: int
    cell: Callable[[Mapping[str, Any]], Text]


def draw(board: Board, width: int, height: int) -> Group:
    """Return a screen of that many lines."""
    reasons = list(_reasons(board.flows))[:_REASONS]
    header = _header(board, f"   every {board.interval:g} s")
    left = height - len(header) - len(reasons) - 4
    shown = _window(board.flows, board.selected, max(left - _LEAST_EVENTS, 1))
    parts: list[RenderableType] = [*header, Text()]
    parts += [draw_flows(shown, board, width), *reasons, Text()]
    left -= len(shown)
    parts += _topics(board, left) if board.shows_topics else _events(board.events, left)
    return Group(*parts, _line(_KEYS, "dim"))


def draw_once(board: Board, width: int) -> Group:
    """Return all flows, as a table with a header."""
    flows = board.flows
    told = [draw_flows(flows, board, width)] if flows else [Text("no flows")]
    return Group(*_header(board), Text(), *told, *_reasons(flows))


def draw_flows(flows: Sequence[Mapping[str, Any]], board: Board, width: int) -> Table:
    """Return a line for each flow, with the columns that fit, and the rate of late in what is left."""
    rows = [[column.cell(flow) for column in _COLUMNS] for flow in flows]
    widths = [
        min(max(len(column.heading), *(row[place].cell_len for row in rows)), _NAME)
        if rows
        else len(column.heading)
        for place, column in enumerate(_COLUMNS)
    ]
    kept = _fitting(widths, width)
    known = max((len(rates) for rates in board.rates.values()), default=0)
    rest = min(width - sum(widths[place] + _GAP for place in kept), _SPARK) if known > 1 else 0
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0))
    for place in kept:
        table.add_column(
            _COLUMNS[place].heading,
            justify="left" if place < _NAMES else "right",
            no_wrap=True,
            max_width=_NAME,
            overflow="ellipsis",
        )
    if rest >= _LEAST_SPARK:
        table.add_column("of late", no_wrap=True)
    for flow, row in zip(flows, rows, strict=True):
        name = str(flow.get("flow"))
        cells = [row[place] for place in kept]
        if rest >= _LEAST_SPARK:
            cells.append(Text(sparkline(list(board.rates.get(name, ()))[-rest:]), "cyan"))
        table.add_row(*cells, style="reverse" if board.marks(name) else "")
    return table


def _fitting(widths: Sequence[int], room: int) -> list[int]:
    """Return the places of the columns that have room beside each other; the two names always stay."""
    kept = list(range(len(widths)))
    for place in sorted(kept, key=lambda its: -_COLUMNS[its].rank):
        if sum(widths[its] + _GAP for its in kept) - _GAP <= room or place < _NAMES:
            break
        kept.remove(place)
    return kept


def sparkline(values: Sequence[float | None]) -> str:
    """Return a bar for each value, as high as it is beside the highest; a gap where none is known."""
    most = max((value for value in values if value is not None), default=0)
    if most <= 0:
        return "".join(" " if value is None else _BARS[0] for value in values)
    steps = len(_BARS) - 1
    return "".join(
        " " if value is None else _BARS[round(max(value, 0) / most * steps)] for value in values
    )


def clean(value: object) -> str:
    """Return text without what a terminal obeys: control and direction characters are spelled out."""
    text = "?" if value is None else str(value)
    return "".join(
        its if its.isprintable() else its.encode("unicode_escape").decode() for its in text
    )


def _header(board: Board, every: str = "") -> list[Text]:
    overview = board.look.overview if board.look else {}
    version = board.look.version if board.look else "?"
    told = (clean(board.url), clean(version), _time(overview.get("time_ms")))
    first = _line(f"heliograph top   {'   '.join(told)}{every}")
    if board.silent_since is not None:
        since = datetime.fromtimestamp(board.silent_since).astimezone()
        first = _line(
            f"no answer since {since:%H:%M:%S} from {clean(board.url)}: {clean(board.reason)}",
            "bold red",
        )
    clusters = _line("clusters")
    for cluster in objects(overview.get("clusters")):
        health = str(cluster.get("health"))
        name = f"   {_MARKS.get(health, '?')} {clean(cluster.get('alias'))}"
        clusters.append(name, _STYLES.get(health, ""))
        if cluster.get("reason"):
            clusters.append(f" ({clean(cluster.get('reason'))})")
    return [first, clusters]


def _reasons(flows: Iterable[Mapping[str, Any]]) -> Iterable[Text]:
    for flow in flows:
        if flow.get("reason"):
            style = _STYLES.get(str(flow.get("health")), "")
            yield _line(f"{clean(flow.get('flow'))}: {clean(flow.get('reason'))}", style)


def _window(
    flows: Sequence[Mapping[str, Any]], selected: str | None, size: int
) -> Sequence[Mapping[str, Any]]:
    """Return so many flows, the selected one among them."""
    places = [place for place, flow in enumerate(flows) if flow.get("flow") == selected]
    first = max(places[0] - size + 1, 0) if places else 0
    return flows[first : first + size]


def _events(events: Iterable[Mapping[str, Any]], size: int) -> list[RenderableType]:
    newest = list(events)[-size:] if size > 0 else []
    lines: list[RenderableType] = [
        _line(
            f"{_clock(event.get('time'))}  {clean(event.get('level')):7}  {clean(event.get('message'))}",
            _LEVELS.get(str(event.get("level")), ""),
        )
        for event in newest
    ]
    return lines + [Text()] * (size - len(lines))


def _topics(board: Board, size: int) -> list[RenderableType]:
    if board.topics is None:
        return [_line("asking for topics ..."), *[Text()] * (size - 1)]
    table = Table(box=None, pad_edge=False)
    table.add_column("topic", overflow="ellipsis", no_wrap=True, max_width=60)
    table.add_column("remote topic", overflow="ellipsis", no_wrap=True, max_width=60)
    for heading in ("partitions", "records", "lag", "stopped"):
        table.add_column(heading, justify="right", no_wrap=True)
    rows = list(objects(board.topics.get("topics")))[: max(size - 2, 0)]
    for topic in rows:
        table.add_row(
            Text(clean(topic.get("topic"))),
            Text(clean(topic.get("remote_topic"))),
            *(_count(topic.get(key)) for key in ("partitions", "records", "lag")),
            _alarming(topic.get("stopped")),
        )
    total = _count(board.topics.get("total"))
    told = f"{clean(board.selected)}: {len(rows)} of {total} topics, most behind first"
    return [_line(told, "bold"), table, *[Text()] * (size - len(rows) - 2)]


def _state(flow: Mapping[str, Any]) -> Text:
    health = str(flow.get("health"))
    return Text(f"{_MARKS.get(health, '?')} {clean(flow.get('state'))}", _STYLES.get(health, ""))


def _groups(flow: Mapping[str, Any]) -> Text:
    groups, skipped = number(flow.get("groups")), number(flow.get("groups_skipped"))
    if groups is None or skipped is None:
        return Text("?")
    return Text(f"{max(groups - skipped, 0):.0f} / {skipped:.0f}", "yellow" if skipped else "")


def _alarming(value: object) -> Text:
    return Text(_count(value), "bold red" if value else "")


def _count(value: object) -> str:
    known = number(value)
    return "?" if known is None else f"{known:,.0f}"


def _short(value: object, unit: float = 1) -> str:
    """Return a number with as many digits as are of interest."""
    known = number(value)
    if known is None:
        return "?"
    scaled = known / unit
    return f"{scaled:.1f}" if scaled != round(scaled) and abs(scaled) < 9.95 else f"{scaled:,.0f}"


def _pair(flow: Mapping[str, Any], first: str, second: str) -> Text:
    return Text(f"{_short(flow.get(first))} / {_short(flow.get(second))}")


_COLUMNS = (
    _Column("flow", 0, lambda flow: Text(clean(flow.get("flow")))),
    _Column("state", 0, _state),
    _Column("rec/s", 1, lambda flow: Text(_short(flow.get("rate")))),
    _Column("MB/s", 5, lambda flow: Text(_short(flow.get("byte_rate"), 1e6))),
    _Column("lag", 2, lambda flow: Text(_count(flow.get("lag")))),
    _Column("lag s", 4, lambda flow: Text(_short(flow.get("lag_seconds")))),
    _Column("RPO/worst s", 3, lambda flow: _pair(flow, "rpo_seconds", "rpo_worst_seconds")),
    _Column("p50/p99 ms", 7, lambda flow: _pair(flow, "p50_ms", "p99_ms")),
    _Column("topics", 9, lambda flow: Text(_count(flow.get("topics")))),
    _Column("stopped", 6, lambda flow: _alarming(flow.get("stopped"))),
    _Column("groups ok/skipped", 8, _groups),
)


def _time(value: object) -> str:
    known = number(value)
    try:
        when = datetime.fromtimestamp((known or 0) / 1000, UTC).astimezone()
    except (ValueError, OverflowError, OSError):
        return "?"
    return "?" if known is None else f"{when:%H:%M:%S}"


def _clock(value: object) -> str:
    """Return the time of day, here, of an event."""
    try:
        return f"{datetime.fromisoformat(str(value)).astimezone():%H:%M:%S}"
    except (ValueError, OverflowError):
        return "?"


def _line(text: str, style: str = "") -> Text:
    return Text(text, style, no_wrap=True, overflow="ellipsis")
