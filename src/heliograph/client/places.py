"""Where the reader of a partition continues after its group moved to another cluster. Only decides, no I/O.

    t on A  --copied-->  A.t on B     from A to B: B stores where A's offset went
                                      from B to A: B stores where B's offset came from

A  A place is at or before the first record that the group has not read: no record is skipped.
B  A group is never moved back on the cluster that it goes to.
C  What cannot be translated has no place; the reader decides what happens then. What the group has
   never read is a separate case: there it starts as on a first start.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from heliograph.errors import ConfigError
from heliograph.model import TopicPartition
from heliograph.policy.naming import NamingPolicy
from heliograph.policy.runs import RunMap

_NEVER = "the group has committed nothing and has no checkpoint"


class How(Enum):
    """How a place is known."""

    EXACT = "the run map"
    CHECKPOINT = "its checkpoint"
    THERE = "the group was there already"
    BEGINNING = "nothing is copied to this partition, so none of it was read"


@dataclass(frozen=True, slots=True)
class Place:
    """The next offset to read, and how many records at most the group may get again from there.

    `ahead` counts records that the group may have read and that are not on this cluster. If the cluster
    that has them comes back, a mirror copies them, and the group gets them again too.
    """

    offset: int
    how: How
    repeats: int = 0
    ahead: int = 0


@dataclass(frozen=True, slots=True, order=True)
class Stream:
    """A topic: the cluster it is written on, and its name there."""

    origin: str
    topic: str

    def on(self, cluster: str, naming: NamingPolicy) -> str:
        """Return the name of the topic on a cluster."""
        if cluster == self.origin:
            return self.topic
        return naming.format_remote_topic(self.origin, self.topic)


@dataclass(frozen=True, slots=True)
class Left:
    """The cluster that a group leaves, as it was last seen.

    `runs` are kept there, and say where the records of the entered cluster went, by partitions of the
    entered cluster. Without `is_known`, the cluster never reported what the group has committed.
    """

    cluster: str
    committed: Mapping[TopicPartition, int] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    runs: Mapping[TopicPartition, RunMap] = field(default_factory=dict)
    is_known: bool = True


@dataclass(frozen=True, slots=True)
class Entered:
    """The cluster that a group goes to; every partition of its topics has a start and an end.

    `runs` are kept here, by partitions of the cluster that is left.
    """

    cluster: str
    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    committed: Mapping[TopicPartition, int] = field(default_factory=dict)
    checkpoints: Mapping[TopicPartition, int] = field(default_factory=dict)
    runs: Mapping[TopicPartition, RunMap] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plan:
    """Where a group continues, by partitions of the cluster it goes to.

    `unknown` says why a partition, or a whole topic, has no place although it was read, or may have
    been; `unread` names those for which the group has committed nothing yet. `absent` are partitions of
    the cluster it leaves that the other cluster lacks: what was left to read there cannot be read now.
    """

    places: Mapping[TopicPartition, Place]
    unknown: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    absent: tuple[TopicPartition, ...] = ()

    @property
    def commits(self) -> dict[TopicPartition, int]:
        """What has to be committed for the group before any member reads."""
        return {p: its.offset for p, its in self.places.items() if its.how is not How.THERE}

    @property
    def repeats(self) -> int:
        return sum(place.repeats for place in self.places.values())

    @property
    def ahead(self) -> int:
        """How many records the group may have read that are not there, and may still arrive."""
        return sum(place.ahead for place in self.places.values())

    def may_improve(self, *, is_alive: bool) -> bool:
        """Whether the plan may improve: records are copied that a run map does not cover yet.

        The map of records from the cluster that is left is kept on the other one. Unless the cluster that
        is left `is_alive`, a map that is kept on it does not change, and nothing more is copied from it.
        """
        exact = [p for p in self.places.values() if p.how is How.EXACT]
        if is_alive:
            return any(place.repeats or place.ahead for place in exact)
        return any(place.repeats and place.ahead for place in exact)


def plan_move(
    streams: Iterable[Stream], left: Left, entered: Entered, naming: NamingPolicy
) -> Plan:
    """Return where a group that reads `streams` continues."""
    places: dict[TopicPartition, Place] = {}
    unknown: list[str] = []
    unread: list[str] = []
    absent: list[TopicPartition] = []
    for stream in streams:
        topic, before = (stream.on(at.cluster, naming) for at in (entered, left))
        indexes = sorted(p.index for p in entered.ends if p.topic == topic)
        if not indexes:
            lacking = unread if _is_unread(stream, left, naming) else unknown
            lacking.append(f"there is no topic {topic}")
            continue
        for index in indexes:
            place = _find_place(stream, index, left, entered, naming)
            if isinstance(place, Place):
                places[TopicPartition(topic, index)] = place
            elif place == _NEVER and _is_begun_there(stream, index, left, entered, naming):
                unread.append(f"{topic}-{index}: {place}")
            else:
                unknown.append(f"{topic}-{index}: {place}")
        absent += [
            TopicPartition(before, index)
            for index in range(left.counts.get(before, 0))
            if index not in indexes
        ]
    return Plan(places, tuple(unknown), tuple(unread), tuple(absent))


def select_further(
    streams: Iterable[Stream], left: Left, entered: Entered, naming: NamingPolicy
) -> list[TopicPartition]:
    """Return the partitions of one cluster of which a group has read more than on the other.

    This compares its commits on the cluster that it would enter with its commits, translated, on the cluster
    that it would leave. A partition that only the entered cluster has proves nothing: it cannot be read elsewhere.
    """
    return sorted(
        partition
        for stream in streams
        for partition in entered.committed
        if partition.topic == stream.on(entered.cluster, naming) and partition in entered.ends
        if _is_further(stream, partition, left, entered, naming)
    )


def _is_further(
    stream: Stream, here: TopicPartition, left: Left, entered: Entered, naming: NamingPolicy
) -> bool:
    before = TopicPartition(stream.on(left.cluster, naming), here.index)
    there = entered.committed[here]
    found = _translate(stream, here.index, left, entered, naming)
    if found is None:
        only_here = here.index >= left.counts.get(before.topic, here.index + 1)
        return before not in left.committed and not only_here and there > entered.starts[here]
    if found.how is How.BEGINNING or found.offset > entered.ends[here]:
        return False
    # What it has read beyond the map may be what it has read here.
    return there > found.offset + found.ahead


def refuse_same_names(
    streams: Iterable[Stream], clusters: Iterable[str], naming: NamingPolicy
) -> None:
    """Raise if two topics would be one on a cluster, as when every topic keeps its name."""
    wanted = list(streams)
    for cluster in clusters:
        names: dict[str, Stream] = {}
        for stream in wanted:
            other = names.setdefault(stream.on(cluster, naming), stream)
            if other != stream:
                raise ConfigError(
                    f"{stream.topic} of {stream.origin} and {other.topic} of {other.origin} are the "
                    f"same topic on {cluster}. Name only one of them, or use another naming."
                )


def _find_place(
    stream: Stream, index: int, left: Left, entered: Entered, naming: NamingPolicy
) -> Place | str:
    """Return where reading of one partition continues, or why that is unknown."""
    here = TopicPartition(stream.on(entered.cluster, naming), index)
    end = entered.ends[here]
    there = entered.committed.get(here)
    was_read = TopicPartition(stream.on(left.cluster, naming), index) in left.committed
    found = _translate(stream, index, left, entered, naming)
    gone = found is not None and found.offset > end
    if found is not None and not gone and (there is None or found.offset > there):
        return found
    if there is not None:
        unsure = was_read and (found is None or gone)
        return Place(there, How.THERE, max(end - there, 0) if unsure else 0)
    if gone:
        return "it has fewer records than it had when it was copied"
    if was_read:
        return "no run map and no checkpoint tells where its records are"
    return _NEVER


def _is_unread(stream: Stream, left: Left, naming: NamingPolicy) -> bool:
    topic = stream.on(left.cluster, naming)
    return left.is_known and all(partition.topic != topic for partition in left.committed)


def _is_begun_there(
    stream: Stream, index: int, left: Left, entered: Entered, naming: NamingPolicy
) -> bool:
    """Whether a partition without a commit of the group holds nothing that the group has read.

    It may hold such records if records are placed by key; a run map proves that they are not.
    """
    here = TopicPartition(stream.on(entered.cluster, naming), index)
    maps = entered.runs if stream.origin == left.cluster else left.runs
    return left.is_known and (
        entered.starts[here] == entered.ends[here]
        or any(partition.topic == stream.topic for partition in maps)
        or _is_unread(stream, left, naming)
    )


def _translate(
    stream: Stream, index: int, left: Left, entered: Entered, naming: NamingPolicy
) -> Place | None:
    here = TopicPartition(stream.on(entered.cluster, naming), index)
    before = TopicPartition(stream.on(left.cluster, naming), index)
    end = entered.ends[here]
    own = TopicPartition(stream.topic, index)
    forth = stream.origin == left.cluster
    maps = entered.runs if forth else left.runs
    committed = left.committed.get(before)
    if committed is not None and (runs := maps.get(own)):
        place = _downstream(runs, committed, end) if forth else _upstream(runs, committed)
        if place is not None:
            return place
    checkpoint = entered.checkpoints.get(here)
    if checkpoint is not None:
        return Place(checkpoint, How.CHECKPOINT, max(end - checkpoint, 0))
    if forth and committed is None and index >= _count(stream, left, entered):
        return Place(entered.starts[here], How.BEGINNING)
    return None


def _downstream(runs: RunMap, committed: int, end: int) -> Place | None:
    offset = runs.downstream_of(committed)
    if offset is None or runs.end is None:
        return None
    ahead = max(committed - runs.end.upstream_end, 0)
    return Place(offset, How.EXACT, min(ahead, max(end - offset, 0)), ahead)


def _upstream(runs: RunMap, committed: int) -> Place | None:
    offset = runs.upstream_of(committed)
    if offset is None or runs.end is None:
        return None
    return Place(offset, How.EXACT, max(committed - runs.end.downstream_end, 0))


def _count(stream: Stream, left: Left, entered: Entered) -> float:
    """Return how many partitions a stream has where it is written, infinite if that is unknown.

    Only run maps prove that partitions were copied one to one. With `target.partitions` no run maps are kept
    and records may be in any partition, so no partition may be treated as one that nothing was copied to.
    """
    copied = [p.index + 1 for p in entered.runs if p.topic == stream.topic]
    if not copied:
        return float("inf")
    return max(left.counts.get(stream.topic, 0), *copied)
