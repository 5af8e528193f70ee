"""Which partitions a flow copies: found at each refresh, and handed to its job once their starts are saved."""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from heliograph.config.flow import FlowConfig
from heliograph.driving.job import FlowJob
from heliograph.driving.partitions import Partition
from heliograph.driving.tally import Tally
from heliograph.flows.offset_syncs import OffsetSyncWriter
from heliograph.flows.source import Inventory, Route, copied_of, refresh_topics
from heliograph.flows.starts import Origin, Start, find_unknown, plan_starts
from heliograph.flows.take_over import settle_starts
from heliograph.kafka.cluster import Cluster
from heliograph.model import StopKind, TopicPartition
from heliograph.running.keeper import Keeper
from heliograph.running.losses import raise_alarms
from heliograph.running.positions import offsets_of, open_partition
from heliograph.running.spreads import Spreads
from heliograph.running.tenure import Tenure
from heliograph.saved.group_progress import GroupProgress
from heliograph.saved.progress import ProgressStore
from heliograph.saved.runs import RunStore
from heliograph.wire.connect_records import SourceOffset

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Desk:
    """The objects that one start of a flow works with."""

    source: Cluster
    target: Cluster
    store: ProgressStore | GroupProgress
    runs: RunStore
    syncs: OffsetSyncWriter
    job: FlowJob
    keeper: Keeper


class Assigner:
    """Assigns the partitions of one flow, whichever job it has."""

    def __init__(self, config: FlowConfig, tenure: Tenure, tally: Tally) -> None:
        self._config = config
        self._tenure = tenure
        self.tally = tally
        self._spreads = Spreads(config.flow)
        self._unclaimed: set[TopicPartition] = set()  # to be fenced, although we made them
        self.known: dict[TopicPartition, SourceOffset] = {}  # saved positions
        self.refused: tuple[str, ...] = ()  # why topics are not copied
        self.unknown: dict[TopicPartition, str] = {}  # why partitions cannot begin yet
        self._logged: dict[TopicPartition, str] = {}  # the same, as it was logged last

    def assign(self, desk: Desk) -> None:
        """Give the job every existing partition; a new one only once its start is durable."""
        job = desk.job
        if not desk.store.is_whole:
            self.known = self._tenure.load(desk.store)
        inventory = self._refresh(desk)
        self._spreads.look(inventory.routes, desk.runs)
        held = {p.source: p for p in job.partitions()}
        self.known.update(offsets_of(job))
        fresh = [r for r in inventory.routes if not _is_held(r, held)]
        starts = self._find_starts(desk, fresh, inventory.made)
        for start in starts:
            self._begin(start, desk)
        offsets = {start.route.source: start.offset for start in starts if not start.barred}
        self._settle_unknown({**self.unknown, **desk.keeper.begin(offsets)})
        partitions = self._open(inventory, starts, held)
        if job.assign(partitions):
            log.info(
                "flow=%s copies topics=%d partitions=%d",
                self._config.flow,
                len({route.source.topic for route in inventory.routes}),
                len(inventory.routes),
            )
        raise_alarms(job, self.tally)

    def _refresh(self, desk: Desk) -> Inventory:
        inventory = refresh_topics(
            self._config,
            desk.source,
            desk.target,
            lambda new: self._claim(desk.target, new),
            copied_of(desk.job.partitions()),
        )
        for refusal in inventory.refused:
            if refusal not in self.refused:
                log.error("flow=%s %s", self._config.flow, refusal)
        self.refused = inventory.refused
        return inventory

    def _open(
        self,
        inventory: Inventory,
        starts: Iterable[Start],
        held: Mapping[TopicPartition, Partition],
    ) -> list[Partition]:
        """Return the partitions that can be copied now, in the state in which a job begins with them."""
        begun = {start.route.source: start for start in starts}
        partitions = []
        for route in inventory.routes:
            if route.source in self.unknown:
                continue
            start = begun.get(route.source)
            start = start or Start(route, held[route.source].position, Origin.RESUMED)
            # Earlier writers, here or elsewhere, may write to a topic that was recreated under the same name.
            made = start.origin is Origin.FRESH and route.remote.topic in inventory.made
            made = made and route.remote not in self._unclaimed
            partitions.append(open_partition(start, made=made))
        return partitions

    def _find_starts(
        self, desk: Desk, fresh: Sequence[Route], made: Collection[str]
    ) -> list[Start]:
        """Return where partitions begin that the job does not have; only those whose start is unknown wait."""
        config, known = self._config, self.known
        unmade = [route.remote for route in fresh if route.remote.topic in made]
        unread = {r.source: why for r in fresh if (why := desk.store.why_unread(r.source))}
        read = [route for route in fresh if route.source not in unread]
        unknown = find_unknown(read, known, desk.source, desk.target, unmade=unmade)
        self._note_unknown({**unread, **unknown})
        sure = [route for route in read if route.source not in unknown]
        starts = plan_starts(config, sure, known, desk.source, desk.target, unmade=unmade)
        is_first = desk.store.is_whole and not known
        starts, waits = settle_starts(config, starts, desk.source, desk.target, is_first=is_first)
        self._note_unknown({**unread, **unknown, **waits})
        mapless = sum(
            start.origin is Origin.RESUMED
            and not start.route.spread
            and not desk.runs.knows(start.route.source)
            for start in starts
        )
        if mapless:
            log.warning(
                "flow=%s partitions=%d were copied before and no run map of them is there: positions "
                "before are translated from offset syncs only",
                config.flow,
                mapless,
            )
        return starts

    def _note_unknown(self, unknown: Mapping[TopicPartition, str]) -> None:
        """Record the partitions that cannot begin yet; they are checked again soon. A reason is logged once."""
        for partition, reason in unknown.items():
            if self._logged.get(partition) != reason:
                log.warning("flow=%s partition=%s waits: %s", self._config.flow, partition, reason)
                self._logged[partition] = reason
        self.unknown = dict(unknown)

    def _settle_unknown(self, unknown: Mapping[TopicPartition, str]) -> None:
        """Record all partitions that cannot begin after this refresh; the reasons of others may be logged again."""
        self._note_unknown(unknown)
        self._logged = dict(unknown)

    def _claim(self, target: Cluster, new: Sequence[TopicPartition]) -> None:
        """Take the identities for partitions that are about to be created, so that no other driver can write there."""
        if not self._config.transactions:
            self._unclaimed |= self._tenure.ownership.open_groups(target, new)

    def _begin(self, start: Start, desk: Desk) -> None:
        """Prepare the run map for a partition that begins, and report what was lost if it continues."""
        source = start.route.source
        if start.barred:
            if start.origin is not Origin.UNTRACKED:
                desk.runs.clear(source)
            return
        if not start.route.spread:
            desk.runs.mend(source, start.position)
            if start.origin is Origin.TAKEN_OVER:
                desk.runs.detach(source, start.begins)
                desk.runs.add(source, start.met)
            elif start.origin is not Origin.RESUMED:
                desk.runs.begin(source, start.position)
        if start.loss is not None:
            desk.syncs.forget(source)
            self.tally.alarm(
                source, StopKind.MADE_ANEW.value, (start.route.topic_id, start.route.remote_id)
            )
            log.error(
                "flow=%s partition=%s LOSS: %s. on.loss=continue: it goes on at %d.",
                self._config.flow,
                source,
                start.loss,
                start.position.upstream,
            )


def _is_held(route: Route, held: Mapping[TopicPartition, Partition]) -> bool:
    """Whether the job has the partition of a route, with the same two topics."""
    partition = held.get(route.source)
    return partition is not None and partition.is_of(route.topic_id, route.remote_id)
