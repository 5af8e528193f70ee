"""What heliograph is to reach, row by row of the design's section 8, and what was measured."""

from collections.abc import Iterator
from dataclasses import dataclass

from bench.figures import Medians, ratio


@dataclass(frozen=True, slots=True)
class Target:
    """A ratio of two medians and its bound: at least `least`, or at most `most`."""

    text: str
    case: str
    figure: str
    least: float | None = None
    most: float | None = None
    to: str = "mm2"


@dataclass(frozen=True, slots=True)
class Finding:
    """A target beside what was measured; None where the runs do not say."""

    text: str
    measured: str
    met: bool | None


_RATE, _CPU_RATE = "records_per_second", "records_per_cpu_second"
_CPU = "cpu_seconds_per_minute"
TARGETS = (
    Target("plain: at least 7 x MM2's records/s", "plain", _RATE, 7),
    Target("plain: at least 30 x MM2's records per CPU second", "plain", _CPU_RATE, 30),
    Target("lz4: at least 9 x MM2's records/s", "lz4", _RATE, 9),
    Target("lz4: at least 45 x MM2's records per CPU second", "lz4", _CPU_RATE, 45),
    Target(
        "one-record batches: at least 15 x MM2's records per CPU second", "single", _CPU_RATE, 15
    ),
    Target(
        "plain: at least 2.5 x franz-go's records per CPU second", "plain", _CPU_RATE, 2.5, to="go"
    ),
    Target("lz4: at least 7 x franz-go's", "lz4", _CPU_RATE, 7, to="go"),
    Target("one-record batches: at least franz-go's", "single", _CPU_RATE, 1, to="go"),
    Target("500 rec/s: p50 at most 0.35 x MM2's", "steady-500", "p50_ms", most=0.35),
    Target("500 rec/s: p99 at most 0.8 x MM2's", "steady-500", "p99_ms", most=0.8),
    Target("500 rec/s: CPU at most 0.7 x MM2's", "steady-500", _CPU, most=0.7),
    Target("20,000 rec/s: p50 at most 0.25 x MM2's", "steady-20000", "p50_ms", most=0.25),
    Target("20,000 rec/s: p99 at most 0.25 x MM2's", "steady-20000", "p99_ms", most=0.25),
    Target("20,000 rec/s: CPU at most 0.4 x MM2's", "steady-20000", _CPU, most=0.4),
    Target("idle, 200 partitions: CPU at most 0.4 x MM2's", "idle-200", _CPU, most=0.4),
    Target("idle, 200 partitions: memory at most 0.85 x MM2's", "idle-200", "pss_bytes", most=0.85),
    Target("compacted: at least 3 x MM2's records/s", "compacted", _RATE, 3),
    Target("compacted: at least 3 x MM2's records per CPU second", "compacted", _CPU_RATE, 3),
    Target("first record, cold: at most 0.6 x MM2's", "cold", "first_record_seconds", most=0.6),
)
_PARTITIONS = ("partitions-200", "partitions-2000")
_KEPT = 0.85


def judge(medians: Medians) -> list[Finding]:
    """Return every target with what these runs say of it."""
    found = [_finding(target, medians) for target in TARGETS]
    found.insert(-1, _memory(medians))
    return [*found, _partitions(medians)]


def _finding(target: Target, medians: Medians) -> Finding:
    its = ratio(medians, target.case, target.figure, "heliograph", target.to)
    if its is None:
        return Finding(target.text, "not measured", None)
    met = its >= target.least if target.least is not None else its <= (target.most or 0)
    systems = medians[target.case]
    ours, theirs = (_short(systems[s][target.figure].median) for s in ("heliograph", target.to))
    return Finding(target.text, f"{its:.2f} x ({ours} to {theirs})", met)


def _memory(medians: Medians) -> Finding:
    """Compare the case in which we are worst."""
    text = "peak memory of the process tree: at or below MM2's, in every case"
    ratios = list(_ratios_of_memory(medians))
    if not ratios:
        return Finding(text, "not measured", None)
    worst, case = max(ratios)
    met = sum(its <= 1 for its, _ in ratios)
    return Finding(
        text, f"{worst:.2f} x in {case}; met in {met} of {len(ratios)} cases", worst <= 1
    )


def _ratios_of_memory(medians: Medians) -> Iterator[tuple[float, str]]:
    for case in medians:
        its = ratio(medians, case, "peak_pss_bytes", "heliograph")
        if its is not None:
            yield its, case


def _partitions(medians: Medians) -> Finding:
    text = "2,000 partitions instead of 200, same bytes: records/s fall by less than 15 %"
    few, many = (medians.get(case, {}).get("heliograph", {}).get(_RATE) for case in _PARTITIONS)
    if few is None or many is None:
        return Finding(text, "not measured", None)
    kept = many.median / few.median
    words = f"{kept - 1:+.0%} ({_short(many.median)} to {_short(few.median)})"
    return Finding(text, words, kept > _KEPT)


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
