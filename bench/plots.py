"""Plots of a measurement, drawn as SVG: bars in groups, and curves over something that grows.

Curves over time are the recovery reports' own.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from math import log10

from heliograph.drill.plots import WIDTH, short, ticks

_NAMES = 150
_ROOM = 150
_BAR = 13
_GAP = 14
_PANEL_WIDTH, _PANEL_HEIGHT, _AXIS = WIDTH / 2, 200, 52
_SYSTEMS = ("heliograph", "mm2", "go", "pump", "bare")  # their colours, in order


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar; the whisker goes from the lowest round to the highest."""

    system: str
    value: float
    low: float
    high: float
    words: str


@dataclass(frozen=True, slots=True)
class Panel:
    """One figure of a curve: per system, its value at each place of the axis; None where there is none."""

    title: str
    digits: int
    lines: dict[str, list[float | None]]


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
    body = "\n".join([*_legend(shown, _NAMES), *grid, *rows])
    return (
        f'<svg viewBox="0 0 {WIDTH} {y + 24:.0f}" role="img" aria-label="{escape(title, quote=True)}">\n'
        f"{body}\n</svg>"
    )


def draw_curves(title: str, places: Sequence[str], panels: Sequence[Panel]) -> str:
    """Return the panels, two in a row, over the same axis: logarithmic, if its places are numbers."""
    shares = _shares(places)
    shown = dict.fromkeys(system for panel in panels for system in panel.lines)
    parts = [*_legend(shown, _AXIS)]
    for number, panel in enumerate(panels):
        corner = number % 2 * _PANEL_WIDTH, 34.0 + number // 2 * _PANEL_HEIGHT
        parts += _draw_panel(panel, places, shares, *corner)
    height = 34 + (len(panels) + 1) // 2 * _PANEL_HEIGHT
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(title, quote=True)}">\n'
        + "\n".join(parts)
        + "\n</svg>"
    )


def _shares(places: Sequence[str]) -> list[float]:
    """Return how far along the axis each place is, from 0 to 1."""
    numbers = [place.replace(",", "") for place in places]
    if all(map(str.isdecimal, numbers)):
        values = [log10(int(number)) for number in numbers]
    else:
        values = [float(number) for number in range(len(places))]
    wide = values[-1] - values[0] or 1.0
    return [(value - values[0]) / wide for value in values]


def _draw_panel(
    panel: Panel, places: Sequence[str], shares: Sequence[float], left: float, top: float
) -> Iterable[str]:
    values = [value for line in panel.lines.values() for value in line if value is not None]
    scale = ticks(max(values, default=1.0), 3)
    first, last = left + _AXIS, left + _PANEL_WIDTH - 34
    high, low = top + 40, top + _PANEL_HEIGHT - 36

    def at(share: float, value: float) -> tuple[float, float]:
        return first + 22 + (last - first - 44) * share, low - (low - high) * value / scale[-1]

    yield _text(first, top + 14, panel.title, "start", "name")
    for tick in scale:
        y = at(0, tick)[1]
        yield f'<line class="grid" x1="{first:.1f}" y1="{y:.1f}" x2="{last:.1f}" y2="{y:.1f}"/>'
        yield _text(first - 8, y + 4, f"{tick:,g}", "end", "tick")
    for place, share in zip(places, shares, strict=True):
        yield _text(at(share, 0)[0], low + 18, place, "middle", "tick")
    for number, (system, line) in enumerate(panel.lines.items()):
        dots = [(at(s, v), v) for s, v in zip(shares, line, strict=True) if v is not None]
        path = " ".join(f"{x:.1f},{y:.1f}" for (x, y), _ in dots)
        yield f'<polyline class="c{colour(system)}" points="{path}"/>'
        for (x, y), value in dots:
            words = f"{value:,.{panel.digits}f}"
            said = f"<title>{escape(system)}: {words}</title>"
            yield f'<circle class="s{colour(system)}" cx="{x:.1f}" cy="{y:.1f}" r="3.5">{said}</circle>'
            if number == 0:
                yield _text(x, y - 9, words, "middle", "value")


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


def _legend(systems: Iterable[str], left: float) -> Iterable[str]:
    x = left
    for system in systems:
        yield f'<rect class="s{colour(system)}" x="{x:.0f}" y="6" width="12" height="12" rx="2"/>'
        yield _text(x + 18, 16, system, "start", "name")
        x += 46 + 6.6 * len(system)


def _text(x: float, y: float, words: str, anchor: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'
