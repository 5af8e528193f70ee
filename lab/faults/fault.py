"""A fault as both ./test -m fault and `heliograph chaos` know it."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from lab.faults.bench import SIDES, Bench, Scene
from lab.faults.results import Result
from lab.faults.systems import SYSTEMS


def _nothing_lacks() -> str | None:
    return None


def _as_it_is(_: Bench) -> AbstractContextManager[None]:
    return nullcontext()


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of a mirror under load: `name` to select it, `sentence` for tables.

    `process` is what the system must have for it, `around` prepares a bench and cleans it up, `lacks` says what
    this machine lacks. `common` faults are those that `heliograph chaos` injects by default.
    """

    name: str
    sentence: str
    act: Callable[[Scene], None]
    process: str | None = None
    systems: tuple[str, ...] = tuple(SYSTEMS)
    around: Callable[[Bench], AbstractContextManager[None]] = _as_it_is
    lacks: Callable[[], str | None] = _nothing_lacks
    needs_spark_cluster: bool = False
    common: bool = False

    def can_befall(self, system: str) -> bool:
        """Whether a system has what this fault affects."""
        has = self.process is None or self.process in SYSTEMS[system].PROCESSES
        return system in self.systems and has

    def why_not(self, system: str) -> str | None:
        """Return why it cannot be injected into a system here, None if it can."""
        if not self.can_befall(system):
            return f"{system} has nothing that this could be done to"
        return self.lacks()

    def do(self, bench: Bench) -> Result:
        with self.around(bench):
            return bench.do(self.sentence, self.act)


def on_both_sides(
    name: str, sentence: str, act: Callable[[Scene, str], None], common: str = ""
) -> list[Fault]:
    """Return a fault for the source and one for the target; `common` says which of them is."""

    def on(side: str) -> Fault:
        return Fault(
            f"{name}-{side}",
            sentence.format(side=side),
            lambda scene: act(scene, side),
            common=side == common,
        )

    return [on(side) for side in SIDES]
