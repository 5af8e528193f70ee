"""What a plan judges: replication loops, topics with the same remote name, how much there is to copy."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from heliograph.model import Flow
from heliograph.policy.filters import NameFilter, Skip

BROKERS_DEFAULT = -1  # as a replication factor


class Place(NamedTuple):
    """A topic of a cluster."""

    cluster: str
    topic: str

    def __str__(self) -> str:
        return f"{self.cluster}:{self.topic}"


class Origin(NamedTuple):
    """A topic, and the flow that would copy it."""

    flow: Flow
    topic: str


@dataclass(frozen=True, slots=True)
class Loop:
    """A path on which records return to where they started, again and again."""

    way: tuple[Place, ...]

    @property
    def clusters(self) -> str:
        return "->".join(place.cluster for place in self.way)

    def __str__(self) -> str:
        return " -> ".join(map(str, self.way))


@dataclass(frozen=True, slots=True)
class Clash:
    """Several topics would be copied into one."""

    remote: Place
    origins: tuple[Origin, ...]

    def __str__(self) -> str:
        whence = " and ".join(f"{o.flow.source}:{o.topic}" for o in self.origins)
        return f"{whence} would both go to {self.remote}"


@dataclass(frozen=True, slots=True)
class Backlog:
    """What remains up to a partition's end; `bytes` is None if unknown, and may be a share of the whole log."""

    offsets: int
    bytes: int | None
    is_estimate: bool


def find_loops(
    starts: Iterable[Place], follow: Callable[[Place], Iterable[Place]], longest: int
) -> list[Loop]:
    """Return the paths on which a record comes back to a topic that it was in.

    `follow` returns where the flows copy the records of a topic. Every topic is visited once; a path of
    more than `longest` steps, which only a naming policy with endless new names produces, is given up.
    """
    done: set[Place] = set()
    loops: list[Loop] = []

    def walk(place: Place, way: list[Place]) -> None:
        if place in way:
            loops.append(Loop((*way[way.index(place) :], place)))
            return
        if place in done or len(way) >= longest:
            return
        for onward in follow(place):
            walk(onward, [*way, place])
        done.add(place)

    for start in starts:
        walk(start, [])
    return loops


def find_clashes(copies: Iterable[tuple[Origin, Place]]) -> list[Clash]:
    """Return the remote topics that more than one topic would be copied into."""
    wanted: dict[Place, list[Origin]] = {}
    for origin, remote in copies:
        wanted.setdefault(remote, []).append(origin)
    return [Clash(remote, tuple(them)) for remote, them in wanted.items() if len(them) > 1]


def explain_skip(topic: str, skip: Skip, names: NameFilter) -> str:
    """Return, in words, why a topic of the source is not copied."""
    if skip is not Skip.FILTERED:
        return str(skip.value)
    pattern = names.excluded_by(topic)
    return "topics does not name it" if pattern is None else f"topics.exclude has {pattern}"


def count_backlog(position: int, first: int, end: int, size: int | None) -> Backlog:
    """Return what remains to copy of a partition from `position` on; `size` is that of the whole log."""
    held = max(end - first, 0)
    left = min(max(end - position, 0), held)
    if left == 0:
        return Backlog(0, 0, is_estimate=False)
    if size is None:
        return Backlog(left, None, is_estimate=True)
    return Backlog(left, size * left // held, is_estimate=left < held)


def refusal_to_replicate(factor: int, brokers: int, key: str, cluster: str) -> str | None:
    """Return why a cluster cannot create a topic with that many replicas; None if it can."""
    if factor == BROKERS_DEFAULT or factor <= brokers:
        return None
    has = f"{brokers} broker" + ("s" if brokers != 1 else "")
    return f"{key}={factor}, and {cluster} has {has}; set it to {brokers} or add brokers"
