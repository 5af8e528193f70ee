"""Taking a flow over from a MirrorMaker 2 at exactly the next record, however it ended.

Its saved positions may be older than what it had written: by up to its flush interval, or by
everything if it never saved. Its newest offset sync is a correct pair of offsets. From there on, the
remote partition is compared with the source record by record, and copying continues after the last
record on the target. This module writes nothing.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import NamedTuple

from heliograph.config.flow import FlowConfig
from heliograph.config.naming import naming_of
from heliograph.config.settings_source import End
from heliograph.errors import KafkaFault, MirrorError
from heliograph.flows.source import Route
from heliograph.flows.starts import Origin, Start
from heliograph.flows.sync_history import newest_syncs
from heliograph.flows.tail_reading import TailReading, compare_tails
from heliograph.groups.connect_workers import find_workers
from heliograph.kafka.cluster import Cluster, patiently
from heliograph.kafka.offsets import EARLIEST, LATEST, list_offsets
from heliograph.kafka.tail import read_digests
from heliograph.model import Position, TopicPartition
from heliograph.saved.owners import OwnerStore
from heliograph.tables.table import read_rows
from heliograph.wire.connect_records import decode_source_key, decode_source_offset
from heliograph.wire.mirror_records import OffsetSync

log = logging.getLogger(__name__)

_TRIED = 20  # partitions; one is proof enough

_Offsets = Mapping[TopicPartition, int]
_Runs = Sequence[tuple[int, int, int]]


class StillMirrored(MirrorError):
    """A MirrorMaker 2 has not stopped."""

    def __init__(self, flow: str, connector: str, group: str, host: str) -> None:
        super().__init__(flow, connector, group, host)
        self.flow = flow
        self.connector = connector
        self.group = group
        self.host = host

    def __str__(self) -> str:
        return (
            f"{self.flow}: a MirrorMaker 2 at {self.host.lstrip('/')} still runs {self.connector} (group "
            f"{self.group}). Stop it: this flow then goes on at the record after its last. One that was "
            "killed counts as running until its session ends, 10 s by default."
        )


def _still_written(remote: TopicPartition) -> str:
    """Return the message about another producer's transaction, open where a partition would continue."""
    return (
        f"a transaction on {remote} is open, most likely that of a MirrorMaker 2 that was killed, and it is not known yet "
        "what it wrote. It is waited for; the broker ends it after the transaction.timeout.ms of its producer"
    )


class Settled(NamedTuple):
    """Where partitions begin after a predecessor, and why some must wait before that is known."""

    starts: list[Start]
    waits: Mapping[TopicPartition, str]


def check_stopped(config: FlowConfig, storage: Cluster, target: Cluster) -> None:
    """Raise StillMirrored while a MirrorMaker 2 of the same file, or Connect cluster, copies this flow.

    If that cannot be determined, a flow whose last driver was a heliograph continues.
    """
    group = config.worker.get("group.id")
    if not group or config.positions_group is not None:
        return
    try:
        hosts = find_workers(storage, str(group), config.connector_name)
    except KafkaFault as exc:
        if not _was_ours(config, target):
            raise
        log.warning(
            "flow=%s a heliograph had it last, and whether a MirrorMaker 2 runs it now is not known: %s",
            config.flow,
            exc,
        )
        return
    for host in hosts:
        raise StillMirrored(str(config.flow), config.connector_name, str(group), host)


def _was_ours(config: FlowConfig, target: Cluster) -> bool:
    """Return whether a heliograph is known to have had this flow."""
    try:
        return OwnerStore(target, config).read() is not None
    except KafkaFault:
        return False


def settle_starts(
    config: FlowConfig,
    starts: Iterable[Start],
    source: Cluster,
    target: Cluster,
    *,
    is_first: bool = False,
) -> Settled:
    """Return the starts, corrected if a predecessor copied more than is known; a partition that must wait waits alone.

    A partition without a position is barred if its remote partition holds records that cannot be
    explained and its name says that it is this flow's own; under `on.loss=continue` everything is
    copied again behind them. With `is_first` nothing at all is known of this flow: then this also looks
    for another name of the same source.
    """
    starts = list(starts)
    if config.positions_group is not None:
        return Settled(starts, {})
    wanted = [s for s in starts if _is_open(s)]
    fresh = [s for s in starts if s.origin is Origin.FRESH and not s.route.spread]
    if not wanted and not (is_first and fresh):
        return Settled(starts, {})
    syncs = newest_syncs(config)
    elsewhere = None
    if is_first and not config.copying.goes_on_after_loss:
        elsewhere = _find_other_name(config, fresh, syncs, source, target)
    if elsewhere is not None:
        barred = {s.route.source: _bar(s, elsewhere) for s in fresh}
        return Settled([barred.get(s.route.source, s) for s in starts], {})
    if not wanted:
        return Settled(starts, {})
    by_hand = set_by_hand(config, wanted)
    wanted = [s for s in wanted if s.route.source not in by_hand]
    found, waits = _settle(config, wanted, syncs, source, target)
    settled = {s.route.source: s for s in found}
    going = [s for s in starts if s.route.source not in waits]
    return Settled([settled.get(s.route.source, s) for s in going], waits)


def _is_open(start: Start) -> bool:
    if start.barred or start.route.spread:
        return False
    found = start.origin is Origin.FRESH and start.position.downstream > 0
    return found or start.origin is Origin.TAKEN_OVER


def set_by_hand(config: FlowConfig, starts: Iterable[Start]) -> set[TopicPartition]:
    """Return the partitions whose saved position somebody deleted or set back: they are to be copied again.

    A MirrorMaker 2 does neither by itself. Files are ours alone, and do not show what was deleted.
    """
    found: set[TopicPartition] = set()
    storage = config.offset_storage
    if storage.file is not None:
        return {s.route.source for s in starts if s.origin is Origin.TAKEN_OVER}
    last: dict[TopicPartition, int] = {}
    with closing(Cluster(storage.endpoint)) as cluster:
        if storage.name not in patiently(lambda: cluster.describe([storage.name])):
            return found
        for raw_key, raw_value in read_rows(cluster, storage.name):
            key = decode_source_key(raw_key)
            if key is None or (key.connector, key.cluster) != (
                config.connector_name,
                config.flow.source,
            ):
                continue
            saved = decode_source_offset(raw_value)
            upstream = 0 if saved is None else saved.upstream
            if saved is None or upstream < last.get(key.partition, 0):
                found.add(key.partition)
            else:
                found.discard(key.partition)
            last[key.partition] = upstream
    return found


def _bar(start: Start, told: str) -> Start:
    return replace(start, origin=Origin.UNTRACKED, barred=True, told=told)


def _find_other_name(
    config: FlowConfig,
    starts: Iterable[Start],
    syncs: Mapping[TopicPartition, OffsetSync],
    source: Cluster,
    target: Cluster,
) -> str | None:
    """Return the proof that these records are on the target under another alias of their source."""
    naming = naming_of(config)
    known = [s for s in starts if s.route.source in syncs]
    if not known or config.mirroring.offset_syncs_topic_location is not End.SOURCE:
        return None
    by_name: dict[str | None, list[str]] = {}
    for topic in patiently(target.describe):
        if naming.topic_source(topic) not in (None, config.flow.source):
            by_name.setdefault(naming.upstream_topic(topic), []).append(topic)
    for start in known[:_TRIED]:
        partition, sync = start.route.source, syncs[start.route.source]
        for topic in by_name.get(partition.topic, ()):
            other = TopicPartition(topic, partition.index)
            if topic != start.route.remote.topic and _is_copy(sync, source, other, target):
                return (
                    f"{topic} holds this topic's records already (offset {sync.upstream} of {partition} is "
                    f"its offset {sync.downstream}), so this source is mirrored as "
                    f"{naming.topic_source(topic)} and not as {config.flow.source}"
                )
    return None


def _is_copy(sync: OffsetSync, source: Cluster, other: TopicPartition, target: Cluster) -> bool:
    """Return whether the records that a sync pairs are the same; False where one of them is not there."""
    ends = []
    for cluster, partition, offset in (
        (source, sync.partition, sync.upstream),
        (target, other, sync.downstream),
    ):
        try:
            first = list_offsets(cluster, [partition], EARLIEST)[partition]
            end = list_offsets(cluster, [partition], LATEST)[partition]
        except KafkaFault:
            return False
        if not first <= offset < end:
            return False
        one = {partition: (offset, offset + 1)}
        ends.append([d[1:] for d in read_digests(cluster, one, committed_only=False)[partition]])
    return bool(ends[0]) and ends[0] == ends[1]


@dataclass(frozen=True, slots=True)
class _Ends:
    """Where partitions of both sides begin and end; `stable` is where a read_committed consumer ends."""

    firsts: _Offsets
    tops: _Offsets
    stable: _Offsets


def _look_up(cluster: Cluster, partitions: Sequence[TopicPartition]) -> _Ends:
    return _Ends(
        patiently(lambda: list_offsets(cluster, partitions, EARLIEST)),
        patiently(lambda: list_offsets(cluster, partitions, LATEST)),
        patiently(lambda: list_offsets(cluster, partitions, LATEST, committed_only=True)),
    )


def _settle(
    config: FlowConfig,
    starts: Sequence[Start],
    syncs: Mapping[TopicPartition, OffsetSync],
    source: Cluster,
    target: Cluster,
) -> Settled:
    """Return these starts as exactly as they can be known, barred or with a warning otherwise."""
    here = _look_up(source, [s.route.source for s in starts])
    there = _look_up(target, [s.route.remote for s in starts])
    waits = {
        s.route.source: _still_written(s.route.remote)
        for s in starts
        if there.stable[s.route.remote] < there.tops[s.route.remote] and _is_own(s.route)
    }
    starts = [s for s in starts if s.route.source not in waits]
    found: dict[TopicPartition, tuple[int, _Runs]] = {}
    troubles: dict[TopicPartition, str] = {}
    readings = []
    for start in starts:
        route, sync = start.route, syncs.get(start.route.source)
        trouble = _trouble_with(sync, route, here, there)
        if sync is None or trouble is not None:
            troubles[route.source] = trouble or "MirrorMaker 2 left no offset sync of it"
            continue
        anchor = Position(sync.upstream, sync.downstream)
        after = Position(sync.upstream + 1, sync.downstream + 1)
        end = there.stable[route.remote]
        if start.origin is Origin.TAKEN_OVER and after == Position(start.position.upstream, end):
            found[route.source] = after.upstream, ((*_pair(anchor), 1),)
        else:
            readings.append(TailReading(route, anchor, Position(here.tops[route.source], end)))
    read, unread = _read(readings, here, source, target)
    found |= read
    troubles |= unread
    settled = []
    for start in starts:
        top = there.tops[start.route.remote]
        place = replace(start, position=Position(start.position.upstream, top))
        if start.route.source in found:
            settled.append(_settled(place, *found[start.route.source]))
        else:
            held = top - there.firsts[start.route.remote]
            ahead = here.tops[start.route.source] - start.position.upstream
            settled.append(_unsettled(config, place, troubles[start.route.source], held, ahead))
    _tell(config, starts, settled)
    return Settled(settled, waits)


def _pair(position: Position) -> tuple[int, int]:
    return position.upstream, position.downstream


def _read(
    readings: Sequence[TailReading], here: _Ends, source: Cluster, target: Cluster
) -> tuple[dict[TopicPartition, tuple[int, _Runs]], dict[TopicPartition, str]]:
    """Return up to where each partition was copied, or why that is not known.

    A MirrorMaker 2 copies aborted records too unless configured otherwise: both ways are tried.
    """
    found: dict[TopicPartition, tuple[int, _Runs]] = {}
    troubles: dict[TopicPartition, str] = {}
    compare_tails(readings, source, target, committed_only=False)
    again = [
        TailReading(r.route, r.anchor, Position(here.stable[r.route.source], r.ends.downstream))
        for r in readings
        if r.match.trouble is not None
    ]
    compare_tails(again, source, target, committed_only=True)
    for reading in (*readings, *again):
        partition, match = reading.route.source, reading.match
        if match.trouble is None:
            found[partition] = match.front, tuple(match.runs)
        else:
            troubles.setdefault(partition, match.trouble)
    return found, troubles


def _is_own(route: Route) -> bool:
    """Whether only this flow writes to a remote topic, judging by its name."""
    return route.remote.topic != route.source.topic


def _trouble_with(sync: OffsetSync | None, route: Route, here: _Ends, there: _Ends) -> str | None:
    """Return why a sync cannot be used as the place to compare from."""
    if sync is None:
        return None
    if not here.firsts[route.source] <= sync.upstream < here.tops[route.source]:
        return f"the source no longer has offset {sync.upstream} of its newest offset sync"
    if not there.firsts[route.remote] <= sync.downstream < there.stable[route.remote]:
        return f"the target no longer has offset {sync.downstream} of its newest offset sync"
    return None


def _settled(start: Start, front: int, runs: _Runs) -> Start:
    # Everything before a saved position is on the target; a position further on was set by a person.
    saved = start.position.upstream if start.origin is Origin.TAKEN_OVER else 0
    position = Position(max(front, saved), start.position.downstream)
    return replace(start, position=position, origin=Origin.TAKEN_OVER, met=tuple(runs))


def _unsettled(config: FlowConfig, start: Start, trouble: str, held: int, ahead: int) -> Start:
    """Return a start that cannot be settled; `held` and `ahead` count offsets on target and source."""
    flow, source, remote = config.flow, start.route.source, start.route.remote
    if start.origin is Origin.TAKEN_OVER:
        most = min(held, ahead)
        if most > 0:
            log.warning(
                "flow=%s partition=%s goes on at saved upstream offset %d: up to %d records may be repeated "
                "if its MirrorMaker 2 did not stop cleanly, because %s",
                flow,
                source,
                start.position.upstream,
                most,
                trouble,
            )
        return start
    if held == 0:
        return start
    if _is_own(start.route) and not config.copying.goes_on_after_loss:
        return _bar(
            start,
            f"{remote} holds {held} records, and no position of {config.connector_name} for {source} of "
            f"{flow.source} is in {config.offset_storage.file or config.offset_storage.name} ({trouble}): "
            "copying it would repeat what is there",
        )
    log.warning(
        "flow=%s partition=%s is copied from upstream offset %d, behind %d records that %s holds already "
        "and that are not known to be copies (%s)",
        flow,
        source,
        start.position.upstream,
        held,
        remote,
        trouble,
    )
    return start


def _tell(config: FlowConfig, before: Iterable[Start], after: Iterable[Start]) -> None:
    """Log how many records a predecessor had copied beyond what it had saved."""
    pairs = [(b, a) for b, a in zip(before, after, strict=True) if a.origin is Origin.TAKEN_OVER]
    if pairs:
        beyond = sum(
            a.position.upstream - b.position.upstream
            for b, a in pairs
            if b.origin is Origin.TAKEN_OVER
        )
        unsaved = sum(b.origin is Origin.FRESH for b, _ in pairs)
        log.info(
            "flow=%s takes over from MirrorMaker 2 partitions=%d: offsets=%d beyond its saved positions were "
            "found on the target, and partitions=%d without one",
            config.flow,
            len(pairs),
            beyond,
            unsaved,
        )
