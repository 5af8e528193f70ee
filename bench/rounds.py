"""The order of a measurement: case by case, round by round, the systems in alternate order."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from confluent_kafka import KafkaException

from bench.cases import CASES, Case, Idle, Installation, Scale, Steady
from bench.catchup import Measure, open_catchups
from bench.clusters import Bed
from bench.figures import Run
from bench.idle import open_idle
from bench.installation import open_installation
from bench.limits import LIMITS, build_go_mirror, measure_brokers
from bench.steady import open_steady
from heliograph.errors import MirrorError, Missing

_BROKERS = ("plain", "lz4", "zstd")
_ROUNDS, _RECORDS = 3, 2_000_000
Rates = dict[str, float]


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure: the cases in order, each with the systems that were asked for."""

    cases: Mapping[str, tuple[str, ...]]
    rounds: int
    scale: Scale

    def systems_of(self, case: Case) -> tuple[str, ...]:
        return tuple(s for s in self.cases[case.name] if s not in LIMITS or s in case.limits)

    @property
    def caveat(self) -> str:
        """Return why nobody should be judged by this, if nobody should."""
        enough = self.rounds >= _ROUNDS and self.scale.records >= _RECORDS
        if enough or not any("mm2" in systems for systems in self.cases.values()):
            return ""
        return (
            f"{self.rounds} round(s) of {self.scale.records:,} records are too few to judge by: most of the "
            "time MirrorMaker 2 is still being compiled, which flatters heliograph."
        )

    @property
    def runs(self) -> int:
        return self.rounds * sum(len(self.systems_of(CASES[name])) for name in self.cases)


def without_missing(plan: Plan) -> tuple[Plan, str]:
    """Return the plan without what this machine cannot run, and the sentence that says so."""
    if not any("go" in plan.systems_of(CASES[name]) for name in plan.cases):
        return plan, ""
    try:
        build_go_mirror()
    except Missing as missing:
        cases = {
            case: tuple(system for system in systems if system != "go")
            for case, systems in plan.cases.items()
        }
        return replace(plan, cases=cases), str(missing)
    return plan, ""


def run_plan(
    plan: Plan, bed: Bed, doing: Callable[[str], None], on_brokers: Callable[[str, Rates], None]
) -> Iterator[Run]:
    """Yield the runs as they end; `doing` is told what comes next."""
    cold = True
    for name in plan.cases:
        case = CASES[name]
        doing(f"{name}: making the data ({case.about})")
        try:
            with _open(bed, case, plan.scale) as measure:
                if cold and "pump" in case.limits:
                    doing("warming the brokers, lest the first system pays for it")
                    measure_brokers(bed, f"edgar-{name}")
                    cold = False
                yield from _run_case(plan, case, measure, doing)
                if name in _BROKERS:
                    doing(f"{name}: the brokers alone")
                    on_brokers(name, measure_brokers(bed, f"edgar-{name}"))
        except (AssertionError, KafkaException, MirrorError) as exc:
            yield Run(name, "bench", 0, problem=f"the data could not be made: {exc}")


def _run_case(
    plan: Plan, case: Case, measure: Measure, doing: Callable[[str], None]
) -> Iterator[Run]:
    systems = plan.systems_of(case)
    for round_ in range(1, plan.rounds + 1):
        for system in systems if round_ % 2 else systems[::-1]:
            doing(f"{case.name}: {system}, round {round_} of {plan.rounds}")
            try:
                yield measure(system, round_)
            except (RuntimeError, AssertionError, KafkaException, MirrorError) as exc:
                yield Run(case.name, system, round_, problem=str(exc))


def _open(bed: Bed, case: Case, scale: Scale) -> AbstractContextManager[Measure]:
    match case.load:
        case Steady():
            return open_steady(bed, case, scale)
        case Idle():
            return open_idle(bed, case, scale)
        case Installation():
            return open_installation(bed, case, scale)
    return open_catchups(bed, case, scale)
