"""Where the groups of a cluster continue on another one, and what prevents it. Decides; sends no requests.

A group that was read on the source is translated from its committed offsets there; if the source is gone,
from its checkpoint. A group never moves backwards on the cluster that it moves to.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from heliograph.model import TopicPartition
from heliograph.policy.checkpoints import refusal_to_sync

NOT_COPIED = "nothing of this partition was copied, as far as the target knows"
NO_CHECKPOINT = "it has no checkpoint for any partition of this flow"


@dataclass(frozen=True, slots=True)
class Stand:
    """What a group has committed for one partition of the cluster it comes from.

    `age_ms` is the age of that information: 0 if it comes from the cluster itself.
    """

    partition: TopicPartition
    offset: int
    metadata: str = ""
    age_ms: int = 0


@dataclass(frozen=True, slots=True)
class Place:
    """Where a partition's reader continues; `exact` unless only offset syncs of a MirrorMaker 2 were available."""

    partition: TopicPartition
    offset: int
    exact: bool = True


@dataclass(frozen=True, slots=True)
class Step:
    """One partition of a group: where it was, where it continues, and what it has there already.

    `missing` counts records that it has not read and that are not on the other cluster; `stale` counts records
    that it has read beyond its checkpoint, so they are read again if the source is lost now. Both are None if
    the source could not be queried. Without a `place` it cannot continue, and `reason` says why.
    """

    stand: Stand
    place: Place | None
    there: int | None = None
    missing: int | None = None
    stale: int | None = None
    reason: str | None = None

    @property
    def moves(self) -> bool:
        """Whether there is anything to commit."""
        return self.place is not None and (self.there is None or self.there < self.place.offset)


@dataclass(frozen=True, slots=True)
class GroupMove:
    """A group as a whole; `reason` says why none of it can be moved."""

    group: str
    steps: tuple[Step, ...]
    reason: str | None = None
    in_use: bool = False

    @property
    def blocked(self) -> list[Step]:
        return [step for step in self.steps if step.place is None]

    @property
    def ready(self) -> bool:
        """Whether all of it can continue on the other cluster."""
        return self.reason is None and not self.blocked and bool(self.steps)

    @property
    def moved(self) -> bool:
        """Whether nothing is left to do."""
        return self.ready and not any(step.moves for step in self.steps)

    @property
    def age_ms(self) -> int:
        """Age of the oldest information about it."""
        return max((step.stand.age_ms for step in self.steps), default=0)

    @property
    def missing(self) -> int | None:
        counts = [step.missing for step in self.steps]
        return None if None in counts else sum(c for c in counts if c)

    @property
    def stale(self) -> int | None:
        counts = [step.stale for step in self.steps]
        return None if None in counts else sum(c for c in counts if c)

    @property
    def roughly(self) -> bool:
        """Whether it reads some records again, because a MirrorMaker 2 copied them."""
        return any(step.place and not step.place.exact for step in self.steps)


@dataclass(frozen=True, slots=True)
class Views:
    """What both clusters report about groups: states by group, and offsets committed on the target."""

    source_states: Mapping[str, str] = field(default_factory=dict)
    target_states: Mapping[str, str] = field(default_factory=dict)
    there: Mapping[str, Mapping[TopicPartition, int]] = field(default_factory=dict)


def plan_moves(
    stands: Mapping[str, Iterable[Stand]],
    translate: Callable[[str, Stand], Place | str],
    views: Views,
    missing: Callable[[Stand], int | None],
    stale: Callable[[str, Stand], int | None] = lambda *_: None,
) -> list[GroupMove]:
    """Return what to do for each group; `translate` gives a place, or why there is none."""
    moves = []
    for group, its in sorted(stands.items()):
        steps = []
        for stand in its:
            place = translate(group, stand)
            if isinstance(place, str):
                behind, unknown = missing(stand), stale(group, stand)
                steps.append(Step(stand, None, None, behind, unknown, place))
                continue
            there = views.there.get(group, {}).get(place.partition)
            steps.append(Step(stand, place, there, missing(stand), stale(group, stand)))
        state = views.target_states.get(group, "")
        reason = refusal_to_sync(state) if steps else NO_CHECKPOINT
        steps.sort(key=lambda step: step.stand.partition)
        in_use = refusal_to_sync(views.source_states.get(group, "")) is not None
        moves.append(GroupMove(group, tuple(steps), reason, in_use))
    return moves
