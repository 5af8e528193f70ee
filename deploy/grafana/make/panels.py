"""What dashboards are made of, as plain JSON values of Grafana; only panels that Grafana brings itself."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

_DATASOURCE: Json = {"type": "prometheus", "uid": "prometheus"}
_WIDTH = 24
_SCHEMA = 41

GREEN, YELLOW, ORANGE, RED, BLUE, GREY = "green", "yellow", "orange", "red", "blue", "text"
PLAIN = ((None, GREEN),)
STATES = {
    1: ("RUNNING", GREEN),
    2: ("STARTING", BLUE),
    3: ("PAUSED", YELLOW),
    4: ("STOPPED", ORANGE),
    5: ("FAILED", RED),
}
YES_NO = {0: ("no", RED), 1: ("yes", GREEN)}
EQUAL = {-1: ("not known", GREY), 0: ("NOT EQUAL", RED), 1: ("equal", GREEN)}
WENT_WELL = {0: ("NOT good", RED), 1: ("good", GREEN)}

Steps = Sequence[tuple[float | None, str]]
Mapped = Mapping[int, tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Query:
    """One query of a panel; `legend` is Grafana's format of a series' name."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: a query that gives one value for each row, under a name."""

    name: str
    expr: str
    unit: str = "short"
    steps: Steps = ()
    mapped: Mapped = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel with its size; where it lies is up to the dashboard."""

    width: int
    height: int
    content: Json


def row(title: str) -> Panel:
    """Return a headline over all columns."""
    return Panel(_WIDTH, 1, {"type": "row", "title": title, "collapsed": False, "panels": []})


def stat(
    title: str,
    expr: str,
    description: str,
    unit: str = "short",
    steps: Steps = PLAIN,
    *,
    mapped: Mapped | None = None,
    width: int = 4,
    legend: str = "",
) -> Panel:
    """Return one number, or one for each series, coloured by thresholds or by what it means."""
    content = _panel("stat", title, description, [Query(expr, legend)], instant=True)
    content["fieldConfig"] = _fields(unit, steps, mapped or {}, {"mode": "thresholds"})
    content["options"] = {
        "colorMode": "value",
        "graphMode": "none",
        "justifyMode": "auto",
        "orientation": "auto",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "textMode": "auto",
    }
    return Panel(width, 4, content)


def series(
    title: str,
    queries: Query | Sequence[Query],
    description: str,
    unit: str = "short",
    steps: Steps = (),
    *,
    stacked: bool = False,
    width: int = 12,
) -> Panel:
    """Return lines over time; steps are drawn as lines where there are any."""
    asked = [queries] if isinstance(queries, Query) else queries
    content = _panel("timeseries", title, description, asked)
    fields = _fields(unit, steps or PLAIN, {}, {"mode": "palette-classic"})
    fields["defaults"]["min"] = 0
    fields["defaults"]["custom"] = {
        "drawStyle": "line",
        "fillOpacity": 30 if stacked else 8,
        "lineWidth": 1,
        "showPoints": "never",
        "stacking": {"group": "A", "mode": "normal" if stacked else "none"},
        "thresholdsStyle": {"mode": "dashed" if steps else "off"},
    }
    content["fieldConfig"] = fields
    content["options"] = {
        "legend": {
            "calcs": ["lastNotNull", "max"],
            "displayMode": "table",
            "placement": "bottom",
            "showLegend": True,
        },
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
    return Panel(width, 8, content)


def timeline(title: str, query: Query, description: str, mapped: Mapped) -> Panel:
    """Return bands of states over time."""
    content = _panel("state-timeline", title, description, [query])
    fields = _fields("short", PLAIN, mapped, {"mode": "thresholds"})
    fields["defaults"]["custom"] = {"fillOpacity": 80, "lineWidth": 0}
    content["fieldConfig"] = fields
    content["options"] = {
        "alignValue": "left",
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
        "mergeValues": True,
        "rowHeight": 0.9,
        "showValue": "auto",
        "tooltip": {"mode": "single", "sort": "none"},
    }
    return Panel(_WIDTH, 6, content)


def heatmap(title: str, expr: str, description: str) -> Panel:
    """Return the buckets of a histogram over time; `expr` is by (le)."""
    content = _panel("heatmap", title, description, [Query(expr, "{{le}}")], form="heatmap")
    content["fieldConfig"] = {"defaults": {"custom": {}}, "overrides": []}
    content["options"] = {
        "calculate": False,
        "cellGap": 1,
        "color": {"mode": "scheme", "scheme": "Oranges", "steps": 64, "exponent": 0.5},
        "filterValues": {"le": 1e-9},
        "legend": {"show": True},
        "tooltip": {"mode": "single", "yHistogram": True},
        "yAxis": {"axisPlacement": "left", "unit": "s"},
    }
    return Panel(12, 8, content)


def table(
    title: str,
    keys: Sequence[str],
    columns: Sequence[Column],
    description: str,
    *,
    links: Mapping[str, str] | None = None,
    width: int = _WIDTH,
    height: int = 8,
) -> Panel:
    """Return a table with a row for each value of the labels `keys`; `links` lead from a key's cells."""
    asked = [Query(column.expr) for column in columns]
    content = _panel("table", title, description, asked, instant=True, form="table")
    fields = _fields("short", PLAIN, {}, {"mode": "fixed", "fixedColor": GREY})
    fields["overrides"] = [
        *(_column(column) for column in columns),
        *(_link(key, url) for key, url in (links or {}).items()),
    ]
    content["fieldConfig"] = fields
    one = len(columns) == 1  # Grafana names the value after its query only where there are several
    values = ["Value" if one else f"Value #{_letter(n)}" for n in range(len(columns))]
    names = dict(zip(values, (column.name for column in columns), strict=True))
    order = {name: place for place, name in enumerate([*keys, *names])}
    content["transformations"] = [
        {"id": "merge", "options": {}},
        {"id": "filterFieldsByName", "options": {"include": {"names": [*keys, *names]}}},
        {"id": "organize", "options": {"indexByName": order, "renameByName": names}},
    ]
    content["options"] = {"cellHeight": "sm", "showHeader": True}
    return Panel(width, height, content)


def variable(
    name: str, label: str, query: str, *, many: bool = True, description: str = ""
) -> Json:
    """Return a choice among a label's values; `query` is as in label_values(...)."""
    every = {"text": ["All"], "value": ["$__all"]} if many else {}
    return {
        "name": name,
        "label": label,
        "description": description,
        "type": "query",
        "datasource": _DATASOURCE,
        "definition": f"label_values({query}, {name})",
        "query": {"qryType": 1, "query": f"label_values({query}, {name})", "refId": name},
        "multi": many,
        "includeAll": many,
        "allValue": ".*" if many else None,
        "current": every,
        "refresh": 2,
        "sort": 1,
        "hide": 0,
        "regex": "",
        "options": [],
    }


def dashboard(
    uid: str, title: str, description: str, variables: Sequence[Json], panels: Iterable[Panel]
) -> Json:
    """Return a dashboard with panels from left to right, in lines of their own heights."""
    return {
        "uid": uid,
        "title": title,
        "description": description,
        "tags": ["heliograph"],
        "schemaVersion": _SCHEMA,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "links": [
            {
                "type": "dashboards",
                "title": "heliograph",
                "tags": ["heliograph"],
                "asDropdown": False,
                "includeVars": True,
                "keepTime": True,
                "targetBlank": False,
            }
        ],
        "annotations": {"list": []},
        "templating": {"list": list(variables)},
        "panels": _lay(panels),
    }


def _lay(panels: Iterable[Panel]) -> list[Json]:
    laid: list[Json] = []
    x = y = tallest = 0
    for number, panel in enumerate(panels, 1):
        if x + panel.width > _WIDTH:
            x, y, tallest = 0, y + tallest, 0
        place = {"x": x, "y": y, "w": panel.width, "h": panel.height}
        laid.append({"id": number, "gridPos": place, **panel.content})
        x, tallest = x + panel.width, max(tallest, panel.height)
    return laid


def _panel(
    kind: str,
    title: str,
    description: str,
    queries: Sequence[Query],
    *,
    instant: bool = False,
    form: str = "time_series",
) -> Json:
    return {
        "type": kind,
        "title": title,
        "description": description,
        "datasource": _DATASOURCE,
        "targets": [
            {
                "refId": _letter(number),
                "datasource": _DATASOURCE,
                "editorMode": "code",
                "expr": " ".join(query.expr.split()),
                "format": form,
                "instant": instant,
                "range": not instant,
                "legendFormat": query.legend or "__auto",
            }
            for number, query in enumerate(queries)
        ],
    }


def _fields(unit: str, steps: Steps, mapped: Mapped, colour: Json) -> Json:
    defaults = {
        "unit": unit,
        "color": colour,
        "mappings": _mappings(mapped),
        "thresholds": _thresholds(steps),
    }
    return {"defaults": defaults, "overrides": []}


def _thresholds(steps: Steps) -> Json:
    return {"mode": "absolute", "steps": [{"color": c, "value": v} for v, c in steps]}


def _mappings(mapped: Mapped) -> list[Json]:
    if not mapped:
        return []
    options = {
        str(value): {"text": text, "color": colour, "index": index}
        for index, (value, (text, colour)) in enumerate(mapped.items())
    }
    return [{"type": "value", "options": options}]


def _column(column: Column) -> Json:
    properties: list[Json] = [{"id": "unit", "value": column.unit}]
    if column.steps:
        properties.append({"id": "thresholds", "value": _thresholds(column.steps)})
    if column.mapped:
        properties.append({"id": "mappings", "value": _mappings(column.mapped)})
    if column.steps or column.mapped:
        properties += [
            {"id": "color", "value": {"mode": "thresholds"}},
            {"id": "custom.cellOptions", "value": {"type": "color-text"}},
        ]
    return {"matcher": {"id": "byName", "options": column.name}, "properties": properties}


def _link(key: str, url: str) -> Json:
    links = [{"title": "Look at it", "url": url, "targetBlank": False}]
    return {
        "matcher": {"id": "byName", "options": key},
        "properties": [{"id": "links", "value": links}],
    }


def _letter(number: int) -> str:
    return "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[number]
