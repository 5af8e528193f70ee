"""Which topics to make or grow, and which task copies which partition."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from heliograph.model import TopicPartition


@dataclass(frozen=True, slots=True)
class CreateTopic:
    topic: str
    partitions: int


@dataclass(frozen=True, slots=True)
class GrowTopic:
    """`partitions` is the new total."""

    topic: str
    partitions: int


def plan_topics(
    wanted: Mapping[str, int], existing: Mapping[str, int]
) -> list[CreateTopic | GrowTopic]:
    """Return what must change so that `existing` covers `wanted` (name to partition count)."""
    plan: list[CreateTopic | GrowTopic] = []
    for topic, partitions in sorted(wanted.items()):
        have = existing.get(topic)
        if have is None:
            plan.append(CreateTopic(topic, partitions))
        elif have < partitions:
            plan.append(GrowTopic(topic, partitions))
    return plan


def own_counts(
    wanted: Mapping[str, int], existing: Mapping[str, int], choice: str | int
) -> dict[str, int]:
    """Return how many partitions remote topics shall have, by `target.partitions`.

    Unless that is `source`, a topic that is there keeps its number, and a new one gets the number that
    was chosen, or that of its source.
    """
    if choice == "source":
        return dict(wanted)
    return {
        topic: existing.get(topic, choice if isinstance(choice, int) else partitions)
        for topic, partitions in wanted.items()
    }


def plan_slices(
    partitions: Iterable[TopicPartition],
    tasks: int,
    previous: Sequence[frozenset[TopicPartition]] = (),
) -> list[tuple[TopicPartition, ...]]:
    """Return at most `tasks` slices whose sizes differ by one at most, none of them empty.

    A partition stays in the slice of its `previous` number as far as the sizes allow: new ones go to
    the emptiest slice, and as few as possible move.
    """
    left = set(partitions)
    count = min(tasks, len(left))
    if count < 1:
        return []
    slices: list[list[TopicPartition]] = []
    for number in range(count):
        stays = left.intersection(previous[number]) if number < len(previous) else set()
        left -= stays
        slices.append(sorted(stays))
    total = len(left) + sum(len(held) for held in slices)
    least, larger = divmod(total, count)
    # The fullest slices keep the odd ones, so that the fewest partitions move.
    fullest_first = sorted(slices, key=len, reverse=True)
    for rank, held in enumerate(fullest_first):
        fair = least + (rank < larger)
        left.update(held[fair:])
        del held[fair:]
    for partition in sorted(left):
        min(slices, key=len).append(partition)
    return [tuple(sorted(held)) for held in slices]
