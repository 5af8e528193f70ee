"""Plots of a measurement, drawn as SVG: bars in groups. Curves are the recovery reports' own."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape

from heliograph.recovery.report_plots import WIDTH, short, ticks

_NAMES = 150
_ROOM = 150
_BAR = 13
_GAP = 14
_SYSTEMS = ("heliograph", "mm2", "go", "pump")  # their colours, in order


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar; the whisker goes from the lowest round to the highest."""

    system: str
    value: float
    low: float
    high: float
    words: str


def colour(system: str) -> int:
    return _SYSTEMS.index(system)


def draw_groups(title: str, groups: Sequence[tuple[str, Sequence[Bar]]]) -> str:
    """Return a group of bars per case, one bar per system; each value stands beside its bar."""
    most = max((bar.high for _, bars in groups for bar in bars), default=1.0)
    scale = ticks(most, 6)
    right = WIDTH - _ROOM

    def x(value: float) -> float:
        return _NAMES + (right - _NAMES) * value / scale[-1]

    rows: list[str] = []
    y = 34.0
    for name, bars in groups:
        middle = y + len(bars) * (_BAR + 3) / 2
        rows.append(_text(_NAMES - 12, middle + 3, name, "end", "name"))
        for bar in bars:
            rows += _draw_bar(bar, x(0), x, y)
            y += _BAR + 3
        y += _GAP
    grid = []
    for tick in scale:
        grid.append(
            f'<line class="grid" x1="{x(tick):.1f}" y1="28" x2="{x(tick):.1f}" y2="{y:.0f}"/>'
        )
        grid.append(_text(x(tick), y + 16, short(tick), "middle", "tick"))
    shown = dict.fromkeys(bar.system for _, bars in groups for bar in bars)
    body = "\n".join([*_legend(shown), *grid, *rows])
    return (
        f'<svg viewBox="0 0 {WIDTH} {y + 24:.0f}" role="img" aria-label="{escape(title, quote=True)}">\n'
        f"{body}\n</svg>"
    )


def _draw_bar(bar: Bar, left: float, x: Callable[[float], float], y: float) -> list[str]:
    wide = max(x(bar.value) - left, 2)
    end = max(x(bar.high), left + wide)
    said = f"<title>{escape(bar.system)}: {escape(bar.words)}</title>"
    size = f'width="{wide:.1f}" height="{_BAR}"'
    parts = [
        f'<rect class="s{colour(bar.system)}" x="{left:.1f}" y="{y:.1f}" {size} rx="2">{said}</rect>'
    ]
    if bar.high > bar.low:
        middle = y + _BAR / 2
        parts.append(
            f'<line class="whisker" x1="{x(bar.low):.1f}" y1="{middle}" x2="{x(bar.high):.1f}" y2="{middle}"/>'
        )
    return [*parts, _text(end + 7, y + _BAR - 2, bar.words, "start", "value")]


def _legend(systems: Iterable[str]) -> Iterable[str]:
    x = float(_NAMES)
    for system in systems:
        yield f'<rect class="s{colour(system)}" x="{x:.0f}" y="6" width="12" height="12" rx="2"/>'
        yield _text(x + 18, 16, system, "start", "name")
        x += 46 + 6.6 * len(system)


def _text(x: float, y: float, words: str, anchor: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'
