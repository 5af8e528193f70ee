"""The position where the copying of a partition begins, and what is known if the source no longer has it."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from heliograph.config.flow import FlowConfig
from heliograph.config.settings_own import OffsetReset
from heliograph.flows.source import Route
from heliograph.kafka.cluster import Cluster, patiently
from heliograph.kafka.offsets import EARLIEST, LATEST, find_offsets, list_offsets
from heliograph.model import NOWHERE, Position, TopicPartition
from heliograph.wire.connect_records import SourceOffset


class Origin(Enum):
    """Why a partition begins where it does."""

    FRESH = "it was never copied"
    RESUMED = "it was copied up to there"
    TAKEN_OVER = "a MirrorMaker 2 copied up to there"
    SOURCE_ANEW = "the source topic was deleted and made anew"
    TARGET_ANEW = "the remote topic was deleted and made anew"
    UNTRACKED = "it is on the target, and no position of it is saved"


@dataclass(frozen=True, slots=True)
class Start:
    """Where a partition begins. A `barred` partition waits for a person: see on.loss.

    `met` holds the places of the last records that a predecessor copied: (upstream, downstream, count).
    """

    route: Route
    position: Position
    origin: Origin
    barred: bool = False
    met: tuple[tuple[int, int, int], ...] = ()
    told: str | None = None
    leader_epoch: int = -1

    @property
    def offset(self) -> SourceOffset:
        route = self.route
        return saved_offset(self.position, route.topic_id, route.remote_id, self.leader_epoch)

    @property
    def begins(self) -> Position:
        """The position from which the places of records are known."""
        return Position(*self.met[0][:2]) if self.met else self.position

    def nowhere(self) -> "Start":
        """Return this start without a downstream offset, for records that go to many remote partitions."""
        return replace(self, position=Position(self.position.upstream, NOWHERE))

    @property
    def loss(self) -> str | None:
        """What was lost, in words, if anything was."""
        at = self.position.upstream
        if self.origin is Origin.SOURCE_ANEW:
            return (
                f"{self.route.source.topic} was deleted on the source and made anew; what the old one "
                "held and was not copied is lost"
            )
        if self.origin is Origin.TARGET_ANEW:
            return (
                f"{self.route.remote.topic} was deleted on the target and made anew; it lacks all "
                f"before upstream offset {at}"
            )
        return self.told

    @property
    def advice(self) -> str:
        """What setting on.loss=continue would do."""
        if self.origin is Origin.SOURCE_ANEW:
            return "set on.loss=continue to copy the new one from its start"
        if self.origin is Origin.UNTRACKED:
            return (
                "check that aliases, connector name and offsets topic are those of the mirror that "
                "wrote them, delete the remote topic, or set on.loss=continue to copy all again"
            )
        return f"set on.loss=continue to go on at upstream offset {self.position.upstream}"


def saved_offset(
    position: Position, topic_id: str, remote_id: str, leader_epoch: int = -1
) -> SourceOffset:
    """Return what is saved for a position; one without a downstream offset is saved as MM2 does it."""
    downstream: int | None = position.downstream
    if downstream == NOWHERE:
        # With no record copied yet, -1 is only a position if the downstream member is next to it.
        downstream = None if position.upstream else 0
    return SourceOffset(position.upstream, downstream, topic_id, remote_id, leader_epoch)


def find_unknown(
    routes: Iterable[Route],
    saved: Mapping[TopicPartition, SourceOffset],
    source: Cluster,
    target: Cluster,
    *,
    unmade: Collection[TopicPartition] = (),
) -> dict[TopicPartition, str]:
    """Return the source partitions whose start cannot be determined now, and why: only these wait."""
    lacking = [r for r in routes if _lacks_position(saved.get(r.source), r)]
    empty = set(unmade)
    there = [r for r in lacking if not r.spread and r.remote not in empty]
    firsts = find_offsets(source, [r.source for r in lacking], EARLIEST)
    ends = find_offsets(target, [r.remote for r in there], LATEST)
    faults = {**firsts.missing, **{r.source: ends.missing.get(r.remote) for r in there}}
    return {partition: str(fault) for partition, fault in faults.items() if fault is not None}


def _lacks_position(found: SourceOffset | None, route: Route) -> bool:
    return _origin(route, found) is not Origin.RESUMED


def plan_starts(
    config: FlowConfig,
    routes: Iterable[Route],
    saved: Mapping[TopicPartition, SourceOffset],
    source: Cluster,
    target: Cluster,
    *,
    unmade: Collection[TopicPartition] = (),
) -> list[Start]:
    """Return where each partition begins: at its saved position, or where `auto.offset.reset` says.

    Remote partitions that are `unmade` will be empty when they are created.

    The topic id shows that a topic was recreated on either side. Under `on.loss=continue` a new source
    topic begins at its first record, and a new remote topic continues where the old one was; otherwise
    the old position is kept, and copying must not continue from it.
    """
    goes_on = config.copying.goes_on_after_loss
    starts = []
    from_reset: list[tuple[Route, Origin]] = []
    to_end: list[tuple[Route, int, Origin]] = []
    for route in routes:
        found = saved.get(route.source)
        origin = _origin(route, found)
        if found is None or (origin is Origin.SOURCE_ANEW and goes_on):
            from_reset.append((route, origin))
        elif found.downstream is None or (origin is Origin.TARGET_ANEW and goes_on):
            to_end.append((route, found.upstream, origin))
        else:
            barred = origin is not Origin.RESUMED
            position = Position(found.upstream, found.downstream)
            epoch = found.leader_epoch
            starts.append(Start(route, position, origin, barred, leader_epoch=epoch))
    if from_reset:
        latest = [
            route.source
            for route, origin in from_reset
            if config.reading.auto_offset_reset is OffsetReset.LATEST and origin is Origin.FRESH
        ]
        earliest = [route.source for route, _ in from_reset if route.source not in latest]
        firsts = patiently(lambda: list_offsets(source, latest, LATEST)) if latest else {}
        if earliest:
            firsts |= patiently(lambda: list_offsets(source, earliest, EARLIEST))
        to_end += [(route, firsts[route.source], origin) for route, origin in from_reset]
    if to_end:
        # Records in flight from the old writer may be in a new remote topic already: they are read as a tail.
        empty = set(unmade)
        straight = [
            (r.remote, origin) for r, _, origin in to_end if not r.spread and r.remote not in empty
        ]
        anew = [remote for remote, origin in straight if origin is Origin.TARGET_ANEW]
        other = [remote for remote, origin in straight if origin is not Origin.TARGET_ANEW]
        places = patiently(lambda: list_offsets(target, anew, EARLIEST)) if anew else {}
        places |= patiently(lambda: list_offsets(target, other, LATEST)) if other else {}
        assert all(r.spread or r.remote in empty or r.remote in places for r, _, _ in to_end)
        starts += [
            Start(r, Position(at, NOWHERE if r.spread else places.get(r.remote, 0)), origin)
            for r, at, origin in to_end
        ]
    return [start.nowhere() if start.route.spread else start for start in starts]


def _origin(route: Route, found: SourceOffset | None) -> Origin:
    if found is None:
        return Origin.FRESH
    if found.topic_id not in (None, route.topic_id):
        return Origin.SOURCE_ANEW
    if found.remote_id not in (None, route.remote_id):
        return Origin.TARGET_ANEW
    return Origin.TAKEN_OVER if found.downstream is None else Origin.RESUMED


@dataclass(frozen=True, slots=True)
class Loss:
    """Records that the source no longer has, or never had: from `upstream` on."""

    partition: TopicPartition
    upstream: int
    resume: int
    reason: str


def explain_loss(
    source: Cluster, partition: TopicPartition, upstream: int, parted: int = -1
) -> Loss | None:
    """Return why `upstream` is out of the source's range; None where it is back in range.

    A source that has grown again is in range, but is a different log from `parted` on.
    """
    if 0 <= parted < upstream:
        reason = (
            f"the source has other records from {parted} on than those that were copied up to {upstream}: "
            "it was truncated (unclean election)"
        )
        return Loss(partition, upstream, parted, reason)
    first = list_offsets(source, [partition], EARLIEST)[partition]
    end = list_offsets(source, [partition], LATEST)[partition]
    return find_loss(partition, upstream, first, end)


def find_loss(partition: TopicPartition, upstream: int, first: int, end: int) -> Loss | None:
    """Return why `upstream` is not within a partition that goes from `first` to `end`."""
    if upstream < first:
        gone = first - upstream
        reason = (
            f"the source deleted offsets {upstream} to {first - 1} ({gone}) before they were copied"
        )
        return Loss(partition, upstream, first, reason)
    if upstream > end:
        reason = (
            f"the source ends at {end}, before the position {upstream}: "
            "it was truncated (unclean election) or made anew"
        )
        return Loss(partition, upstream, end, reason)
    return None
