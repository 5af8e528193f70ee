"""The result of a drill, as a page and as JSON. Knows nothing of clusters: a drill fills in the values."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime

Cell = str | int | float | None


@dataclass(frozen=True, slots=True)
class Figure:
    """A number to show first, such as the RPO."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """Something that was done, in seconds from the start."""

    name: str
    start: float
    seconds: float
    note: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """A curve: (seconds from the start, value)."""

    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Plot:
    """Curves over time; a mark is a moment with a name."""

    title: str
    unit: str
    lines: tuple[Line, ...]
    marks: tuple[tuple[float, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Bars:
    """One value per name."""

    title: str
    unit: str
    bars: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under a title; a column holds either words or numbers."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True, slots=True)
class Report:
    """A page. `measured` are the same numbers for programs; `versions` says what they were measured with."""

    title: str
    story: str
    ok: bool
    verdict: str
    began: datetime
    seconds: float
    figures: tuple[Figure, ...]
    steps: tuple[Step, ...]
    plots: tuple[Plot | Bars, ...] = ()
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()
    measured: Mapping[str, Cell] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        plain = asdict(self)
        plain["began"] = self.began.isoformat(timespec="seconds")
        plain["seconds"] = round(self.seconds, 3)
        plain["steps"] = [
            {**step, "start": round(step["start"], 3), "seconds": round(step["seconds"], 3)}
            for step in plain["steps"]
        ]
        return json.dumps(plain, indent=1)
