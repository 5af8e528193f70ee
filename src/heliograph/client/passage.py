"""The move of a group from one cluster to another: the queries to both, and the commit on the target."""

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import timedelta

from heliograph.client.mirror import MirrorClient
from heliograph.client.places import (
    Entered,
    How,
    Left,
    Place,
    Plan,
    Stream,
    plan_move,
    select_further,
)
from heliograph.errors import DeadlinePassed, KafkaFault, NotMirrored
from heliograph.groups.admin import Committed, commit_offsets, fetch_committed, list_groups
from heliograph.groups.consumer import leave_group
from heliograph.kafka.cluster import Cluster, patiently
from heliograph.kafka.offsets import EARLIEST, LATEST, list_offsets
from heliograph.model import Endpoint, TopicPartition
from heliograph.policy.checkpoints import refusal_to_sync
from heliograph.policy.naming import NamingPolicy

_PATIENCE = timedelta(seconds=5)
_READING = timedelta(seconds=60)
_PAUSE = 0.5


class Passage:
    """From `source` to `target`; each call opens and closes its own connections."""

    def __init__(
        self,
        group: str,
        streams: Sequence[Stream],
        naming: NamingPolicy,
        source: Endpoint,
        target: Endpoint,
    ) -> None:
        self._group = group
        self._streams = streams
        self._naming = naming
        self._source = source
        self._target = target

    def ask_source(self) -> Left:
        """Return the current state of the cluster that the group leaves."""
        topics = self._names(self._source.cluster)
        with closing(Cluster(self._source)) as cluster:
            found = patiently(lambda: cluster.describe(topics), _PATIENCE)
            committed = self._committed(cluster)
        with MirrorClient(self._source, naming=self._naming, patience=_PATIENCE) as client:
            runs = client.run_maps(self._target.cluster, _READING)
        counts = {name: len(topic.leaders) for name, topic in found.items()}
        return Left(self._source.cluster, committed, counts, runs)

    def plan_further(self) -> Plan | None:
        """Return where the group continues on the target if it has read more there than on the source."""
        with closing(Cluster(self._target)) as cluster:
            names = self._names(self._target.cluster)
            if not any(partition.topic in names for partition in self._committed(cluster)):
                return None
        left, entered = self.ask_source(), self._ask_target()
        if not select_further(self._streams, left, entered, self._naming):
            return None
        return plan_move(self._streams, left, entered, self._naming)

    def plan(self, see: Callable[[], Left], wait: timedelta, *, is_alive: bool) -> Plan:
        """Return where the group continues, after waiting for run maps that are behind.

        A run map that is kept on the source no longer changes unless the source `is_alive`.
        """
        deadline = time.monotonic() + wait.total_seconds()
        while True:
            plan = plan_move(self._streams, see(), self._ask_target(), self._naming)
            if not plan.may_improve(is_alive=is_alive) or time.monotonic() > deadline:
                return plan
            time.sleep(_PAUSE)

    def commit(self, plan: Plan, former_member: str | None, within: timedelta) -> Plan:
        """Commit the offsets that the group is behind, while it has no members; return the resulting plan.

        Other members may have moved before, committed and continued: then there is nothing to do. A member
        that was in the group when the cluster died is still in it when the cluster is back, until its
        session times out.
        """
        deadline = time.monotonic() + within.total_seconds()
        behind: dict[TopicPartition, int] = {}
        was_in_use = False
        with closing(Cluster(self._target)) as cluster:
            while True:
                there = self._committed(cluster)
                plan = replace(plan, places=_after(plan, there, behind))
                if not plan.commits:
                    return plan
                if was_in_use and not behind:  # the members in it have committed before
                    behind = {p: at - there.get(p, 0) for p, at in plan.commits.items()}
                if former_member:
                    leave_group(cluster, self._group, former_member)
                    former_member = None
                if self._commit_once(cluster, plan.commits):
                    return plan
                if time.monotonic() > deadline:
                    if any(partition not in there for partition in plan.commits):
                        doing = f"{self._committing}, which is in use there"
                        raise DeadlinePassed(doing, within.total_seconds())
                    return replace(plan, places=_repeating(plan, there))
                was_in_use = True
                time.sleep(_PAUSE)

    def _commit_once(self, cluster: Cluster, wanted: dict[TopicPartition, int]) -> bool:
        """Commit, unless the group is in use; return whether every offset was committed."""
        if _is_in_use(cluster, self._group):
            return False
        offsets = {partition: Committed(offset, "") for partition, offset in wanted.items()}
        refused = commit_offsets(cluster, self._group, offsets, _PATIENCE)
        if refused and not _is_in_use(cluster, self._group):
            raise KafkaFault(self._committing, next(iter(refused.values())), retriable=False)
        return not refused

    @property
    def _committing(self) -> str:
        return f"commit for group {self._group} on {self._target.cluster}"

    def is_in_use(self, endpoint: Endpoint) -> bool:
        """Whether the group has members on a cluster; ClusterUnreachable at once if no broker answers."""
        with closing(Cluster(endpoint)) as cluster:
            cluster.describe(())
            return _is_in_use(cluster, self._group)

    def await_empty(self, within: timedelta) -> None:
        """Return when the last member has left the group on the source."""
        deadline = time.monotonic() + within.total_seconds()
        with closing(Cluster(self._source)) as cluster:
            while _is_in_use(cluster, self._group):
                if time.monotonic() > deadline:
                    doing = f"leave {self._source.cluster} with group {self._group}, which has more members"
                    raise DeadlinePassed(doing, within.total_seconds())
                time.sleep(_PAUSE)

    def _ask_target(self) -> Entered:
        with MirrorClient(self._target, naming=self._naming, patience=_PATIENCE) as client:
            source = self._source.cluster
            runs = client.run_maps(source, _READING)
            try:
                told = client.remote_consumer_offsets(self._group, source, _READING)
            except NotMirrored:
                told = {}
        topics = self._names(self._target.cluster)
        with closing(Cluster(self._target)) as cluster:
            committed = self._committed(cluster)
            found = patiently(lambda: cluster.describe(topics), _PATIENCE)
            partitions = [p for topic in found.values() for p in topic.partitions]
            # After the maps, so that everything they refer to exists.
            starts, ends = (_list(cluster, partitions, which) for which in (EARLIEST, LATEST))
        checkpoints = {partition: its.offset for partition, its in told.items()}
        return Entered(self._target.cluster, starts, ends, committed, checkpoints, runs)

    def _committed(self, cluster: Cluster) -> dict[TopicPartition, int]:
        committed, unread = fetch_committed(cluster, [self._group], _PATIENCE)
        for reason in unread.values():
            raise KafkaFault(f"fetch the offsets of group {self._group}", reason, retriable=True)
        return {p: its.offset for p, its in committed[self._group].items() if its.offset >= 0}

    def _names(self, cluster: str) -> list[str]:
        return [stream.on(cluster, self._naming) for stream in self._streams]


def _list(
    cluster: Cluster, partitions: Iterable[TopicPartition], which: int
) -> dict[TopicPartition, int]:
    return patiently(lambda: list_offsets(cluster, partitions, which), _PATIENCE)


def _is_in_use(cluster: Cluster, group: str) -> bool:
    listed = list_groups(cluster).get(group)
    return listed is not None and refusal_to_sync(listed.state) is not None


def _after(
    plan: Plan, there: dict[TopicPartition, int], behind: dict[TopicPartition, int]
) -> dict[TopicPartition, Place]:
    """Return the places of a plan now that the group has committed `there`.

    If the group was `behind` then, the members that moved before this one knew less, and read that again.
    """
    return {
        partition: Place(there[partition], How.THERE, behind.get(partition, 0))
        if partition in there and there[partition] >= place.offset and place.how is not How.THERE
        else place
        for partition, place in plan.places.items()
    }


def _repeating(plan: Plan, there: dict[TopicPartition, int]) -> dict[TopicPartition, Place]:
    """Return the places of a plan of which nothing could be committed: the group is behind them."""
    return {
        partition: Place(
            there[partition], How.THERE, place.offset - there[partition] + place.repeats
        )
        if place.how is not How.THERE
        else place
        for partition, place in plan.places.items()
    }
