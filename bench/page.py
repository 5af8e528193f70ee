"""The page of a measurement: one file, nothing from elsewhere, light or dark as the reader's system is."""

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from bench.cases import CASES, CURVES, Curve
from bench.figures import Column, Medians, Spread
from bench.plots import Bar, Panel, draw_curves, draw_groups
from bench.report import TITLE, Report, brokers_line, grouped, rows_of
from bench.systems import SYSTEMS
from heliograph.drill.plots import draw_plot
from heliograph.drill.report import Line, Plot

_STYLE = """
:root { color-scheme: light dark; --page: #f7f7f5; --card: #fff; --ink: #1d2126; --soft: #5d6670; --rule: #e3e5e8;
  --good: #1f7a4d; --good-bg: #e4f3ea; --bad: #b3261e; --bad-bg: #fbe6e4;
  --s0: #2f6fd0; --s1: #d6751d; --s2: #1f9077; --s3: #8d55b8; }
@media (prefers-color-scheme: dark) { :root { --page: #14171b; --card: #1c2026; --ink: #e7eaee; --soft: #9aa4af;
  --rule: #30363e; --good: #6fd19f; --good-bg: #1b3328; --bad: #ff9d94; --bad-bg: #3d211f;
  --s0: #6ea4f4; --s1: #f0a052; --s2: #4cc2a6; --s3: #bd90e0; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, "Segoe UI", Roboto, sans-serif; }
main { max-width: 1100px; margin: 0 auto; padding: 36px 24px 48px; }
h1 { font-size: 26px; line-height: 1.25; margin: 0 0 6px; }
h2 { font-size: 16px; margin: 0 0 4px; }
p { margin: 0 0 12px; }
.soft, caption, footer { color: var(--soft); }
section { background: var(--card); border: 1px solid var(--rule); border-radius: 10px; padding: 18px 20px;
  margin-bottom: 18px; overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 13.5px; font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 600; color: var(--soft); font-size: 12.5px; }
th, td { padding: 6px 14px 6px 0; border-bottom: 1px solid var(--rule); vertical-align: top; }
tr:last-child td { border-bottom: 0; }
td.number, th.number { text-align: right; white-space: nowrap; }
tr.ratio td { font-weight: 650; }
.tag { padding: 1px 9px; border-radius: 9px; font-size: 12.5px; font-weight: 600; white-space: nowrap; }
.met { background: var(--good-bg); color: var(--good); } .missed { background: var(--bad-bg); color: var(--bad); }
code { font: 13px ui-monospace, Menlo, Consolas, monospace; overflow-wrap: anywhere; }
svg { display: block; width: 100%; height: auto; min-width: 620px; }
svg text { font: 12px system-ui, "Segoe UI", Roboto, sans-serif; fill: var(--soft); }
svg .name, svg .value { fill: var(--ink); }
.grid { stroke: var(--rule); } .whisker { stroke: var(--ink); stroke-width: 1.5; opacity: .65; }
polyline { fill: none; stroke-width: 2; stroke-linejoin: round; }
.c0 { stroke: var(--s0); } .c1 { stroke: var(--s1); } .c2 { stroke: var(--s2); } .c3 { stroke: var(--s3); }
.s0 { fill: var(--s0); } .s1 { fill: var(--s1); } .s2 { fill: var(--s2); } .s3 { fill: var(--s3); }
"""
_PLOTS = (
    ("Catching up: thousand records per CPU second", "records_per_cpu_second", "small"),
    ("Catching up: thousand records per second", "records_per_second", "small"),
    ("Catching up with large records: MB per second", "megabytes_per_second", "large"),
    ("Peak memory of the process tree, MB (PSS)", "peak_pss_bytes", "two"),
    ("From the start to the first record, seconds", "first_record_seconds", "two"),
    ("Steady load: half of the records visible within, ms", "p50_ms", "all"),
    ("Steady load: 99 of 100 visible within, ms", "p99_ms", "all"),
    ("Nothing to do, or a steady load: CPU seconds per minute", "cpu_seconds_per_minute", "all"),
)
_LARGE = ("10kb", "900kb")
_PANELS = (
    "records_per_second",
    "records_per_cpu_second",
    "first_record_seconds",
    "peak_pss_bytes",
)
_LEAST_PLACES = 3  # of a curve that is drawn; fewer are bars


def render_page(report: Report) -> str:
    """Return the whole page."""
    medians = report.medians
    machine = " · ".join(f"{escape(name)} {escape(its)}" for name, its in report.machine.items())
    settings = " ".join(f"{name}={value}" for name, value in report.settings.items())
    parts = [
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<link rel="icon" href="data:,"><title>{escape(TITLE)}</title><style>{_STYLE}</style>',
        f"</head><body><main><h1>{escape(TITLE)}</h1>",
        f'<p class="soft">{escape(report.made)}, {report.seconds / 60:.0f} minutes; {machine}</p>',
        f"<p><code>{escape(report.command)}</code></p>",
        _section(
            "Targets",
            "Those measured here: ratios of medians, heliograph to the other.",
            _targets(report),
        ),
        *_scales(medians),
        *_bars(medians),
        *_timelines(report),
        *_tables(medians),
        _section("How", "", "".join(_how(report, settings))),
        "</main></body></html>",
    ]
    return "\n".join(parts) + "\n"


def _targets(report: Report) -> str:
    tags = {True: ("met", "met"), False: ("missed", "not met")}
    rows = []
    for finding in report.findings:
        if finding.met is None:
            continue
        kind, words = tags[finding.met]
        tag = f'<span class="tag {kind}">{words}</span>'
        rows.append(
            f"<tr><td>{escape(finding.text)}</td><td>{escape(finding.measured)}</td><td>{tag}</td></tr>"
        )
    notes = "".join(f"<p>{escape(words)}</p>" for words in (*report.notes, *report.problems))
    return f"{notes}<table>{''.join(rows)}</table>"


def _scales(medians: Medians) -> Iterator[str]:
    """Yield the curves that were measured, each with what grows and what it costs."""
    for curve in _drawn(medians):
        places = {place: medians[case] for place, case in curve.points.items() if case in medians}
        columns = {c.name: c for case in curve.points.values() for c in CASES[case].columns}
        panels = [_panel(columns[figure], list(places.values())) for figure in _PANELS]
        yield _section(curve.title, curve.axis, draw_curves(curve.title, list(places), panels))


def _drawn(medians: Medians) -> list[Curve]:
    return [c for c in CURVES if len(medians.keys() & set(c.points.values())) >= _LEAST_PLACES]


def _panel(column: Column, found: Sequence[dict[str, dict[str, Spread]]]) -> Panel:
    lines = {
        system: [
            systems[system][column.name].median * column.scale
            if column.name in systems.get(system, {})
            else None
            for systems in found
        ]
        for system in ("heliograph", "mm2")
        if any(system in systems for systems in found)
    }
    return Panel(column.title, column.digits, lines)


def _bars(medians: Medians) -> Iterator[str]:
    shown = {case for curve in _drawn(medians) for case in curve.points.values()}
    for title, figure, which in _PLOTS:
        groups = []
        for case, systems in medians.items():
            if case in shown:
                continue
            column = next((c for c in CASES[case].columns if c.name == figure), None)
            if column and (which in ("all", "two") or (case in _LARGE) == (which == "large")):
                bars = [
                    _bar(system, its[figure].median, its[figure].low, its[figure].high, column)
                    for system, its in systems.items()
                    if figure in its and (which != "two" or system in SYSTEMS)
                ]
                groups.append((case, bars))
        if groups:
            note = "Bar: median; line: lowest to highest round."
            yield _section(title, note, draw_groups(title, groups))


def _bar(system: str, median: float, low: float, high: float, column: Column) -> Bar:
    median, low, high = (value * column.scale for value in (median, low, high))
    return Bar(system, median, low, high, f"{median:,.{column.digits}f}")


def _timelines(report: Report) -> Iterator[str]:
    """Yield, for the first catch-up there is, how far each system was after how many seconds."""
    for case in dict.fromkeys(run.case for run in report.runs if run.timeline):
        runs = [r for r in report.runs if r.case == case and r.round == 1 and not r.problem]
        order = ("heliograph", "mm2", "go", "pump", "bare")
        lines = [
            Line(run.system, ((0.0, 0.0), *((at, float(there)) for at, there in run.timeline)))
            for system in order
            for run in runs
            if run.system == system
        ]
        if lines:
            title = f"{case}, first round: records on the target, by seconds since the start"
            yield _section(title, "", draw_plot(Plot(title, "records", tuple(lines))))
            return


def _tables(medians: Medians) -> Iterator[str]:
    for columns, cases in grouped(medians):
        head = _row("th", ["case", "system"], [column.title for column in columns], "")
        rows = [
            _row("td", [case if number == 0 else "", system], cells, _kind(system))
            for case in cases
            for number, (system, cells) in enumerate(rows_of(medians, case))
        ]
        about = "; ".join(f"{case}: {CASES[case].about}" for case in cases)
        table = f"<table>{head}{''.join(rows)}</table>"
        yield _section("All figures: median (lowest-highest)", about, table)


def _kind(system: str) -> str:
    return "ratio" if "/" in system else ""


def _row(tag: str, words: Sequence[str], numbers: Sequence[str], kind: str) -> str:
    cells = [f"<{tag}>{escape(word)}</{tag}>" for word in words]
    cells += [f'<{tag} class="number">{escape(number)}</{tag}>' for number in numbers]
    return f'<tr class="{kind}">{"".join(cells)}</tr>'


def _how(report: Report, settings: str) -> Iterable[str]:
    yield (
        "<p>Two clusters of one broker each share the machine with whatever is measured. Each run has remote "
        "topics of its own; the order of the systems changes from round to round; all that a catch-up wrote is "
        "read back and compared with its source.</p>"
    )
    yield f"<p>MirrorMaker 2 catches up with <code>{escape(settings)}</code></p>"
    for case, rates in report.brokers.items():
        yield f"<p>The brokers alone, {escape(case)}: {escape(brokers_line(rates))}.</p>"


def _section(title: str, note: str, body: str) -> str:
    soft = f'<p class="soft">{escape(note)}</p>' if note else ""
    return f"<section><h2>{escape(title)}</h2>{soft}{body}</section>"
