"""The cases of `heliograph bench`, each a line; what they share is in data, steady, idle and installation."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bench.data import LINE_BYTES, Filled
from bench.figures import CATCH_UP, COLD, IDLE, LARGE, STEADY, Column


@dataclass(frozen=True, slots=True)
class Steady:
    rate: int


@dataclass(frozen=True, slots=True)
class Idle:
    topics: int
    partitions: int = 4


@dataclass(frozen=True, slots=True)
class Installation:
    """Two clusters that mirror each other, each with half of the topics and `rate` records a second."""

    topics: int = 50
    partitions: int = 4
    rate: int = 100


@dataclass(frozen=True, slots=True)
class Case:
    """What is measured; `limits` are those of the limits that can do it too."""

    name: str
    about: str
    load: Filled | Steady | Idle | Installation
    limits: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[Column, ...]:
        match self.load:
            case Steady():
                return STEADY
            case Idle() | Installation():
                return IDLE
            case Filled(records=None, record_bytes=size):
                return CATCH_UP if size == LINE_BYTES else LARGE
        return COLD


_BATCHES: dict[str, object] = {"batch.size": 65536, "linger.ms": 50, "batch.num.messages": 100_000}
_MANY = {**_BATCHES, "linger.ms": 2000, "queue.buffering.max.messages": 1_500_000}
_SINGLE: dict[str, object] = {"linger.ms": 0, "batch.num.messages": 1}
_LARGE = {**_BATCHES, "message.max.bytes": 2_000_000}
_COMMITTED = {"isolation.level": "read_committed"}
_ALL = ("pump", "go")


def _batches(compression: str) -> Filled:
    return Filled({**_BATCHES, "compression.type": compression}, compression)


def _spread(partitions: int) -> Filled:
    return Filled(_MANY, partitions=partitions)


def _wide(tasks: int, executors: int = 0) -> Filled:
    return Filled(_MANY, partitions=24, tasks=tasks, executors=executors)


_USUAL = (
    Case("plain", "catch-up, 64 KB batches, 6 partitions", _batches("none"), _ALL),
    Case("lz4", "the same, lz4", _batches("lz4"), _ALL),
    Case("zstd", "the same, zstd", _batches("zstd"), _ALL),
    Case("single", "one-record batches", Filled(_SINGLE, share=0.1), ("go",)),
    Case("10kb", "records of 10 KB", Filled(_BATCHES, record_bytes=10_000), _ALL),
    Case("900kb", "records of 900 KB", Filled(_LARGE, record_bytes=900_000), _ALL),
    Case(
        "transactions",
        "transactions of 100 records, every tenth aborted",
        Filled(share=0.1, kind="transactions", consumer=_COMMITTED),
    ),
    Case("compacted", "six of ten records compacted away", Filled(_BATCHES, kind="compacted")),
    Case("partitions-200", "plain's bytes in 200 partitions", _spread(200)),
    Case("partitions-2000", "plain's bytes in 2,000", _spread(2000)),
    Case("steady-500", "500 rec/s, produce to visible", Steady(500)),
    Case("steady-20000", "20,000 rec/s, produce to visible", Steady(20_000)),
    Case("idle-200", "nothing to do in 50 topics of 4 partitions", Idle(50)),
    Case("idle-2000", "nothing to do in 500 topics of 4 partitions", Idle(500)),
    Case("cold", "from the start to the first record", Filled(_BATCHES, records=1000)),
)
_FOR_SCALE = (
    Case("partitions-6", "plain's bytes in 6 partitions", _spread(6), _ALL),
    Case("partitions-60", "plain's bytes in 60", _spread(60)),
    Case("partitions-600", "plain's bytes in 600", _spread(600)),
    Case("partitions-5000", "plain's bytes in 5,000", _spread(5000)),
    Case("tasks-1", "plain's bytes in 24 partitions, tasks.max=1", _wide(1), _ALL),
    Case("tasks-2", "the same, tasks.max=2", _wide(2), _ALL),
    Case("tasks-4", "the same, tasks.max=4", _wide(4), _ALL),
    Case("tasks-8", "the same, tasks.max=8", _wide(8), _ALL),
    Case("executors-1", "tasks-2 on 1 executor of 2 cores", _wide(2, 1)),
    Case("executors-2", "tasks-4 on 2 executors of 2 cores", _wide(4, 2)),
    Case("executors-4", "tasks-8 on 4 executors of 2 cores", _wide(8, 4)),
    Case("installation", "two flows, 50 topics of 4 partitions, little load", Installation()),
)
CASES = {case.name: case for case in (*_USUAL, *_FOR_SCALE)}
USUAL = tuple(case.name for case in _USUAL)
QUICK = ("plain", "lz4", "single")


@dataclass(frozen=True, slots=True)
class Curve:
    """Cases that differ in one number; `points` says by what each is known on the axis."""

    name: str
    title: str
    axis: str
    points: Mapping[str, str]


CURVES = (
    Curve(
        "partitions",
        "The same bytes in more partitions",
        "Across: partitions of one topic, logarithmic. Medians.",
        {f"{n:,}": f"partitions-{n}" for n in (6, 60, 200, 600, 2000, 5000)},
    ),
    Curve(
        "tasks",
        "24 partitions, by tasks.max",
        "Across: tasks.max. On one machine no flow has more tasks than there are cores. Medians.",
        {str(n): f"tasks-{n}" for n in (1, 2, 4, 8)},
    ),
    Curve(
        "executors",
        "24 partitions, by executors of 2 cores",
        "Across: executors of a Spark cluster on this machine, two tasks each; local has no cluster. Medians.",
        {"local": "tasks-2", **{str(n): f"executors-{n}" for n in (1, 2, 4)}},
    ),
)
_ALONE = ("heliograph",)
_BOTH = ("mm2", "heliograph")

Systems = Mapping[str, tuple[str, ...]]
"""Case, and which systems it is measured with where nobody asks for others."""

_GROUPS: dict[str, Systems] = {
    **{curve.name: dict.fromkeys(curve.points.values(), _ALONE) for curve in CURVES},
    "memory": {"idle-200": _ALONE, "idle-2000": _ALONE, "installation": _BOTH},
}
GROUPS: dict[str, Systems] = {
    **_GROUPS,
    "scale": {case: systems for group in _GROUPS.values() for case, systems in group.items()},
}


def expand(names: Iterable[str]) -> dict[str, tuple[str, ...] | None]:
    """Return the cases that cases and groups stand for, each with its group's systems; a case has none."""
    found: dict[str, tuple[str, ...] | None] = {}
    for name in names:
        group = GROUPS.get(name)
        found |= (
            {name: None} if group is None else {c: found.get(c, its) for c, its in group.items()}
        )
    return found


@dataclass(frozen=True, slots=True)
class Scale:
    """How much of everything: records of the usual size, and seconds of watching."""

    records: int
    seconds: float
