"""What happens to the brokers of a pair, as a seed has it, while records are written to the source."""

import random
from collections.abc import Callable

from lab.clusters import eventually
from lab.inprocess.messages import Api
from lab.inprocess.script import Event, Fate
from tests.unit.copying.pairs import Pair
from tests.unit.kafka.asking import a_batch


class Weather:
    """One stroke after the other; between two of them something is copied, unless a broker is silent."""

    def __init__(self, pair: Pair, seed: int) -> None:
        self._chance = random.Random(seed)
        self._pair = pair
        self._silent: set[tuple[str, int]] = set()
        self._written = 0
        self._copied = 0
        self.happened: list[str] = []

    def strike(self) -> None:
        """Have something happen to one of the clusters."""
        pair, chance = self._pair, self._chance
        is_source = chance.random() < 0.5
        cluster = pair.source if is_source else pair.target
        place = chance.choice(pair.places if is_source else pair.remotes)
        api = Api.FETCH if is_source else Api.PRODUCE
        node, first = chance.choice([1, 2]), chance.randint(1, 4)
        fate = chance.choice([Fate.UNHEARD, Fate.UNANSWERED])
        seconds = chance.choice([0.0, 0.01, 0.05])

        def silence() -> None:
            self._silent.add((cluster.name, node))
            cluster.silence(node)

        def elect() -> None:
            cluster.elect(place, node)

        strokes: dict[str, Callable[[], object]] = {
            "connections end": lambda: cluster.cut(node),
            "restarts": lambda: cluster.restart(node),
            f"ends request {first}": lambda: cluster.plan(Event(api, first, node=node, fate=fate)),
            f"leads {place}": elect,
            f"leads {place} after {first}": lambda: cluster.plan(Event(api, first, after=elect)),
            f"leads {place} and ends {first}": lambda: cluster.plan(
                Event(api, first, fate=fate, before=elect)
            ),
            f"takes {seconds} s": lambda: cluster.slow_down(node, seconds),
            "is silent": silence,
            "all speak": self.clear,
        }
        name = chance.choice(list(strokes))
        self.happened.append(f"{cluster.name}{node} {name}")
        strokes[name]()

    def write(self) -> None:
        """Write some batches to the source, in its logs: its clients are not under test."""
        for place in self._pair.places:
            for _ in range(self._chance.randint(1, 6)):
                size = self._chance.randint(1, 4)
                values = [b"%d" % (self._written + n) for n in range(size)]
                self._pair.append(place, a_batch(*values))
                self._written += size

    def await_progress(self) -> None:
        """Wait until more is copied, unless a broker is silent, which all may wait for."""
        if not self._silent:
            before = self._copied
            eventually(lambda: self._count() > before, 30, lambda: self.happened)
        self._copied = self._count()

    def clear(self) -> None:
        """Have all brokers speak, and at once."""
        self._silent.clear()
        for cluster in (self._pair.source, self._pair.target):
            for node in (1, 2):
                cluster.silence(node, is_silent=False)
                cluster.slow_down(node, 0.0)

    def _count(self) -> int:
        return sum(self._pair.target.end_of(remote) for remote in self._pair.remotes)
