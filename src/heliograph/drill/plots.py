"""Plots drawn by hand as SVG: a timeline, curves, bars. Colours come from the page that holds them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from math import ceil, floor, log10

from heliograph.drill.report import Bars, Line, Plot, Step

WIDTH = 920
_ROW = 30
_BAR = 14
_NAMES = 330
_ROOM = 74
_SERIES = 4
_LETTER = 6.6


def ticks(most: float, about: int = 5) -> list[float]:
    """Return round numbers from 0 up to the first one that is not below `most`."""
    if most <= 0:
        return [0.0, 1.0]
    rough = most / about
    power = 10.0 ** floor(log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough * 0.999)
    return [step * number for number in range(ceil(most / step - 1e-9) + 1)]


def short(number: float) -> str:
    """Return a number as an axis shows it."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= size:
            return f"{number / size:.3g}{letter}"
    return f"{number:.3g}"


def draw_timeline(steps: Sequence[Step]) -> str:
    """Return one bar per step, where it was and as long as it took."""
    most = max((step.start + step.seconds for step in steps), default=1.0)
    scale = ticks(most, 6)
    right = WIDTH - _ROOM
    height = _ROW * len(steps) + 34

    def x(seconds: float) -> float:
        return _NAMES + (right - _NAMES) * seconds / scale[-1]

    parts = [_grid(x(tick), 6, height - 26, f"{tick:g} s") for tick in scale]
    for number, step in enumerate(steps):
        y = 8 + number * _ROW
        wide = max(x(step.seconds) - x(0), 2)
        parts += [
            _text(_NAMES - 14, y + 12, step.name, "end", "name"),
            (
                f'<rect class="s0" x="{x(step.start):.1f}" y="{y}" width="{wide:.1f}" height="{_BAR}" rx="3">'
                f"<title>{escape(step.name)}: {step.seconds:.1f} s {escape(step.note)}</title></rect>"
            ),
            _text(x(step.start) + wide + 7, y + 12, _time(step.seconds), "start", "value"),
        ]
    return _svg(height, parts, "What was done, and how long each step took")


def draw_bars(bars: Bars) -> str:
    """Return one bar per value, the longest at the full width."""
    scale = ticks(max((value for _, value in bars.bars), default=1.0), 6)
    right = WIDTH - _ROOM
    height = _ROW * len(bars.bars) + 34

    def x(value: float) -> float:
        return _NAMES + (right - _NAMES) * value / scale[-1]

    parts = [_grid(x(tick), 6, height - 26, f"{short(tick)} {bars.unit}") for tick in scale]
    for number, (name, value) in enumerate(bars.bars):
        y = 8 + number * _ROW
        wide = max(x(value) - x(0), 2)
        parts += [
            _text(_NAMES - 14, y + 12, _cut(name, 46), "end", "name"),
            (
                f'<rect class="s0" x="{_NAMES}" y="{y}" width="{wide:.1f}" height="{_BAR}" rx="3">'
                f"<title>{escape(name)}: {value:g} {escape(bars.unit)}</title></rect>"
            ),
            _text(x(0) + wide + 7, y + 12, f"{value:,.3g}", "start", "value"),
        ]
    return _svg(height, parts, bars.title)


def draw_plot(plot: Plot) -> str:
    """Return curves over time, each with its name at its end or in the legend."""
    left, top, bottom, right = 56, 84, 330, WIDTH - 20
    points = [point for line in plot.lines for point in line.points]
    last = max((x for x, _ in points), default=1.0)
    xs = [tick for tick in ticks(last, 8) if tick <= last]
    ys = ticks(max((y for _, y in points), default=1.0), 4)

    def at(point: tuple[float, float]) -> tuple[float, float]:
        x = left + (right - left) * point[0] / last
        return x, bottom - (bottom - top) * point[1] / ys[-1]

    parts = []
    for tick in ys:
        y = at((0, tick))[1]
        parts.append(f'<line class="grid" x1="{left}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}"/>')
        parts.append(_text(left - 8, y + 4, short(tick), "end", "tick"))
    parts += [_text(at((tick, 0))[0], bottom + 20, f"{tick:g} s", "middle", "tick") for tick in xs]
    parts += _marks(plot.marks, lambda x: at((x, 0))[0], top, bottom)
    for number, line in enumerate(plot.lines):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in map(at, line.points))
        parts.append(
            f'<polyline class="c{number % _SERIES}" points="{path}">'
            f"<title>{escape(line.name)}</title></polyline>"
        )
    parts += _legend(plot.lines, left)
    return _svg(bottom + 30, parts, plot.title)


def _legend(lines: Sequence[Line], left: float) -> Iterator[str]:
    x = left
    for number, line in enumerate(lines):
        yield f'<rect class="s{number % _SERIES}" x="{x:.0f}" y="9" width="14" height="4" rx="2"/>'
        yield _text(x + 20, 15, line.name, "start", "name")
        x += 44 + _LETTER * len(line.name)


def _marks(
    marks: Iterable[tuple[float, str]], x: Callable[[float], float], top: int, bottom: int
) -> Iterator[str]:
    for number, (moment, name) in enumerate(marks):
        at = x(moment)
        y = top - 46 + 15 * (number % 3)
        ends = at + _LETTER * len(name) > WIDTH - 24
        yield f'<line class="mark" x1="{at:.1f}" y1="{y - 9}" x2="{at:.1f}" y2="{bottom}"/>'
        yield _text(at - 5 if ends else at + 5, y, name, "end" if ends else "start", "marked")


def _grid(x: float, top: float, bottom: float, words: str) -> str:
    line = f'<line class="grid" x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{bottom}"/>'
    return line + _text(x, bottom + 18, words, "middle", "tick")


def _text(x: float, y: float, words: str, anchor: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def _time(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 0.95 else f"{seconds * 1000:.0f} ms"


def _cut(words: str, most: int) -> str:
    return words if len(words) <= most else words[: most - 1] + "…"


def _svg(height: float, parts: Iterable[str], title: str) -> str:
    body = "\n".join(parts)
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(title, quote=True)}">\n'
        f"{body}\n</svg>"
    )
