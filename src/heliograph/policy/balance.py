"""Who carries how much: partitions move from a task that cannot keep up to one that has little to do."""

from collections.abc import Mapping, Sequence

from heliograph.model import TopicPartition

Slices = Sequence[Sequence[TopicPartition]]

# A new plan ends the epoch: it must be worth the pause.
_WORTH = 0.8
_MOST_MOVES = 100  # the rest can move next time


def balance(
    slices: Slices, loads: Mapping[TopicPartition, float]
) -> list[tuple[TopicPartition, ...]] | None:
    """Return slices of which the heaviest carries a fifth less at least; None if there are none.

    One partition after the other leaves the heaviest for the lightest, each time the one that evens the two out best.
    A partition that is hot alone cannot be divided: then it is the others that leave.
    """
    if len(slices) < 2:
        return None
    held = [{p: loads.get(p, 0.0) for p in members} for members in slices]
    most = max(sum(loads.values()) for loads in held)
    for _ in range(_MOST_MOVES):
        light, *_, heavy = sorted(held, key=_weight)
        if not _even_out(heavy, light):
            break
    if not most or max(map(_weight, held)) > _WORTH * most:
        return None
    return [tuple(sorted(members)) for members in held]


def _even_out(heavy: dict[TopicPartition, float], light: dict[TopicPartition, float]) -> bool:
    """Move the one partition that helps most; return whether one does."""
    gap = _weight(heavy) - _weight(light)
    # Moving less than the gap lowers the heavier of the two; half of it is best.
    helpful = [p for p, load in heavy.items() if 0 < load < gap]
    if not helpful or len(heavy) < 2:
        return False
    best = min(helpful, key=lambda p: (abs(gap / 2 - heavy[p]), p))
    light[best] = heavy.pop(best)
    return True


def _weight(members: Mapping[TopicPartition, float]) -> float:
    return sum(members.values())
