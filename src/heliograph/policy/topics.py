"""Which topics to create or grow."""

from collections.abc import Mapping
from dataclasses import dataclass


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
    """Return how many partitions remote topics should have, by `target.partitions`.

    Unless that is `source`, an existing topic keeps its number, and a new one gets the number that
    was chosen, or that of its source.
    """
    if choice == "source":
        return dict(wanted)
    return {
        topic: existing.get(topic, choice if isinstance(choice, int) else partitions)
        for topic, partitions in wanted.items()
    }
