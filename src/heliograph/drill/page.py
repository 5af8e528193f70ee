"""The page of a report: one self-contained file, light or dark as the reader's system is."""

from html import escape
from pathlib import Path

from heliograph.drill.plots import draw_bars, draw_plot, draw_timeline
from heliograph.drill.report import Bars, Cell, Figure, Plot, Report, Table

_STYLE = """
:root { color-scheme: light dark; --page: #f7f7f5; --card: #ffffff; --ink: #1d2126; --soft: #5d6670; --rule: #e3e5e8;
  --good: #1f7a4d; --good-bg: #e4f3ea; --bad: #b3261e; --bad-bg: #fbe6e4;
  --s0: #2f6fd0; --s1: #d6751d; --s2: #1f9077; --s3: #8d55b8; }
@media (prefers-color-scheme: dark) { :root { --page: #14171b; --card: #1c2026; --ink: #e7eaee; --soft: #9aa4af; --rule: #30363e;
  --good: #6fd19f; --good-bg: #1b3328; --bad: #ff9d94; --bad-bg: #3d211f;
  --s0: #6ea4f4; --s1: #f0a052; --s2: #4cc2a6; --s3: #bd90e0; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 1000px; margin: 0 auto; padding: 36px 24px 48px; }
h1 { font-size: 26px; line-height: 1.25; margin: 0 0 6px; letter-spacing: -.01em; }
h2 { font-size: 16px; margin: 0 0 12px; }
p { margin: 0 0 14px; }
.soft { color: var(--soft); }
.verdict { padding: 11px 16px; border-radius: 8px; font-weight: 600; margin: 18px 0; background: var(--bad-bg); color: var(--bad); }
.verdict.ok { background: var(--good-bg); color: var(--good); }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(170px, 1fr)); gap: 14px; margin-bottom: 18px; }
section, .figure { background: var(--card); border: 1px solid var(--rule); border-radius: 10px; padding: 18px 20px; }
section { margin-bottom: 18px; overflow-x: auto; }
.figure b { display: block; font-size: 34px; line-height: 1.2; font-weight: 650; letter-spacing: -.02em; font-variant-numeric: tabular-nums; }
.figure span { display: block; font-size: 13px; }
.figure .label { font-weight: 600; }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
th { text-align: left; font-weight: 600; color: var(--soft); font-size: 13px; }
th, td { padding: 7px 18px 7px 0; border-bottom: 1px solid var(--rule); vertical-align: top; }
tr:last-child td { border-bottom: 0; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
code { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
svg { display: block; width: 100%; height: auto; min-width: 620px; }
svg text { font: 12px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; fill: var(--soft); }
svg .name, svg .value { fill: var(--ink); }
svg .marked { fill: var(--ink); font-size: 11.5px; }
.grid { stroke: var(--rule); stroke-width: 1; }
.mark { stroke: var(--soft); stroke-width: 1; stroke-dasharray: 3 3; }
polyline { fill: none; stroke-width: 2; stroke-linejoin: round; }
.c0 { stroke: var(--s0); stroke-width: 4.5; } .c1 { stroke: var(--s1); } .c2 { stroke: var(--s2); } .c3 { stroke: var(--s3); }
.s0 { fill: var(--s0); } .s1 { fill: var(--s1); } .s2 { fill: var(--s2); } .s3 { fill: var(--s3); }
footer { color: var(--soft); font-size: 13px; }
"""


def render_html(report: Report) -> str:
    """Return the whole page."""
    when = report.began.strftime("%Y-%m-%d %H:%M:%S UTC")
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<link rel="icon" href="data:,">',
        f"<title>{escape(report.title)}</title><style>{_STYLE}</style></head><body><main>",
        f"<h1>{escape(report.title)}</h1>",
        f'<p class="soft">{when}, {report.seconds:.0f} s in all</p>',
        f"<p>{escape(report.story)}</p>",
        f'<div class="verdict{" ok" if report.ok else ""}">{escape(report.verdict)}</div>',
        '<div class="figures">' + "".join(map(_figure, report.figures)) + "</div>",
        _section("What was done, and when", draw_timeline(report.steps)),
        *(_section(_plot_title(plot), _draw(plot)) for plot in report.plots),
        *(_section(table.title, _table(table)) for table in report.tables),
        *(_section("Notes", "".join(f"<p>{escape(note)}</p>" for note in report.notes)),)
        * bool(report.notes),
        f"<footer>{_versions(report)}</footer>",
        "</main></body></html>",
    ]
    return "\n".join(parts) + "\n"


def write_report(report: Report, folder: Path, name: str) -> tuple[Path, Path]:
    """Write the page and, next to it, the JSON; return both paths."""
    folder.mkdir(parents=True, exist_ok=True)
    stamp = report.began.strftime("%Y%m%d-%H%M%S")
    page, plain = (folder / f"{name}-{stamp}.{kind}" for kind in ("html", "json"))
    page.write_text(render_html(report), encoding="utf-8")
    plain.write_text(report.to_json() + "\n", encoding="utf-8")
    return page, plain


def _figure(figure: Figure) -> str:
    return (
        f'<div class="figure"><span class="label">{escape(figure.label)}</span>'
        f'<b>{escape(figure.value)}</b><span class="soft">{escape(figure.note)}</span></div>'
    )


def _section(title: str, body: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{body}</section>"


def _plot_title(plot: Plot | Bars) -> str:
    return f"{plot.title} ({plot.unit})"


def _draw(plot: Plot | Bars) -> str:
    return draw_plot(plot) if isinstance(plot, Plot) else draw_bars(plot)


def _table(table: Table) -> str:
    numeric = [
        all(not isinstance(row[column], str) for row in table.rows)
        for column in range(len(table.columns))
    ]
    head = "".join(_cell("th", name, n) for name, n in zip(table.columns, numeric, strict=True))
    rows = "".join(
        "<tr>" + "".join(_cell("td", its, n) for its, n in zip(row, numeric, strict=True)) + "</tr>"
        for row in table.rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _cell(tag: str, cell: Cell, numeric: bool) -> str:
    words = f"{cell:,}" if isinstance(cell, int | float) else "?" if cell is None else str(cell)
    kind = ' class="number"' if numeric else ""
    return f"<{tag}{kind}>{escape(words)}</{tag}>"


def _versions(report: Report) -> str:
    return " · ".join(f"{escape(name)} {escape(its)}" for name, its in report.versions.items())
