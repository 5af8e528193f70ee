"""Which task copies which partition, by what each carries: as few tasks as can carry all, as few moves as needed.

A flow begins with one task. One more is added when a task is busy or falls behind, and taken away when all has been
quiet for long. A partition moves only when that helps: it pauses for as long as a task writes what it has read.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from heliograph.model import TopicPartition

Slices: TypeAlias = Sequence[Sequence[TopicPartition]]
Plan: TypeAlias = list[tuple[TopicPartition, ...]]
Loads: TypeAlias = Mapping[TopicPartition, float]

_WORTH = 0.8  # of the heaviest load: what a move must bring it down to
_MOST_MOVES = 100  # the rest can move next time
_BUSY = 0.75  # of a core
_QUIET = 0.3  # of a core, for all tasks together


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen of tasks for some time: bytes per second by partition, each task's share of a core, which lag.

    It is `calm` if little was done for long.
    """

    loads: Loads
    busy: Sequence[float]
    behind: Sequence[bool]
    calm: bool = False


def place(partitions: Collection[TopicPartition], slices: Slices, loads: Loads) -> Plan:
    """Return the slices without partitions that are gone; new partitions go to the slices with the least load."""
    wanted = set(partitions)
    kept = [[p for p in members if p in wanted] for members in slices] or [[]]
    for partition in sorted(wanted.difference(*kept)):
        min(kept, key=lambda held: (_weight(held, loads), len(held))).append(partition)
    return [tuple(sorted(members)) for members in kept]


def respread(slices: Slices, look: Look, most: int) -> Plan | None:
    """Return a better spread over at most `most` tasks; None if no change is needed."""
    troubled = any(look.behind) or max(look.busy, default=0.0) > _BUSY
    if troubled and len(slices) < most:
        wider = balance([*slices, ()], look.loads)
        if wider is not None:
            return wider
    if any(look.behind):
        return balance(slices, look.loads)
    if look.calm and len(slices) > 1 and sum(look.busy) < _QUIET:
        return narrow(slices, look.loads)
    return None


def narrow(slices: Slices, loads: Loads) -> Plan:
    """Return one slice less: the partitions of the last one go to the slices with the least load."""
    left = [list(members) for members in slices[:-1]]
    for partition in slices[-1]:
        min(left, key=lambda held: (_weight(held, loads), len(held))).append(partition)
    return [tuple(sorted(members)) for members in left]


def balance(slices: Slices, loads: Loads) -> Plan | None:
    """Return slices of which the heaviest carries at least a fifth less; None if there are none.

    Partitions move one by one from the heaviest to the lightest, each time the one that evens the two out best.
    A single hot partition cannot be divided: then the others move.
    """
    if len(slices) < 2:
        return None
    held = [{p: loads.get(p, 0.0) for p in members} for members in slices]
    most = max(sum(carried.values()) for carried in held)
    for _ in range(_MOST_MOVES):
        light, *_, heavy = sorted(held, key=lambda carried: sum(carried.values()))
        if not _even_out(heavy, light):
            break
    if not most or max(sum(carried.values()) for carried in held) > _WORTH * most:
        return None
    return [tuple(sorted(members)) for members in held]


def _even_out(heavy: dict[TopicPartition, float], light: dict[TopicPartition, float]) -> bool:
    """Move the one partition that helps most; return whether one does."""
    gap = sum(heavy.values()) - sum(light.values())
    # Moving less than the gap lowers the heavier of the two; half of it is best.
    helpful = [p for p, load in heavy.items() if 0 < load < gap]
    if not helpful or len(heavy) < 2:
        return False
    best = min(helpful, key=lambda p: (abs(gap / 2 - heavy[p]), p))
    light[best] = heavy.pop(best)
    return True


def _weight(members: Sequence[TopicPartition], loads: Loads) -> float:
    return sum(loads.get(partition, 0.0) for partition in members)
