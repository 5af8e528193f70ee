"""All that a flow keeps in step beside its data, in two threads: one per connector of MirrorMaker 2."""

import threading
from datetime import timedelta

from heliograph.config.flow import FlowConfig
from heliograph.flows.checkpoint import Checkpointer
from heliograph.flows.group_sync import GroupSync
from heliograph.flows.offset_syncs import OffsetSyncWriter
from heliograph.flows.runs import RunStore
from heliograph.flows.schedule import Chore, ChoreStatus, Schedule
from heliograph.flows.topic_acls import sync_topic_acls
from heliograph.flows.topic_configs import sync_topic_configs
from heliograph.kafka.cluster import Cluster

_PATIENCE = timedelta(seconds=2)


class Upkeep:
    """The chores of one flow, from its start to its stop."""

    def __init__(self, config: FlowConfig, runs: RunStore) -> None:
        self._config = config
        self._source = Cluster(config.source_admin)
        self._target = Cluster(config.target_admin)
        # Each thread has clients of its own.
        self._groups_source = Cluster(config.source_admin)
        self._groups_target = Cluster(config.target_admin)
        self.syncs = OffsetSyncWriter(config)
        self._checkpointer = Checkpointer(config, runs, self._groups_source, self._groups_target)
        self._group_sync = GroupSync(config, self._checkpointer, self._groups_target)
        self._schedules = [
            Schedule(f"{config.flow} topics", [*self.syncs.chores(), *self._topic_chores()]),
            Schedule(
                f"{config.flow} groups",
                [*self._checkpointer.chores(), *self._group_sync.chores()],
            ),
        ]

    def start(self) -> None:
        for schedule in self._schedules:
            schedule.start()

    def stop(self) -> None:
        """End all chores; one that waits for a cluster is left to end by itself."""
        for schedule in self._schedules:
            schedule.stop()
        closing = threading.Thread(
            target=self._close, name=f"{self._config.flow} closes", daemon=True
        )
        closing.start()
        closing.join(_PATIENCE.total_seconds())

    def status(self) -> list[ChoreStatus]:
        return [status for schedule in self._schedules for status in schedule.status()]

    @property
    def skipped_groups(self) -> dict[str, str]:
        """Why groups were not moved on the target the last time."""
        return dict(self._group_sync.skipped)

    def _topic_chores(self) -> list[Chore]:
        config = self._config
        chores = []
        if config.sync_topic_configs_enabled:
            chores.append(
                Chore(
                    "topic configs",
                    config.sync_topic_configs_interval,
                    lambda: sync_topic_configs(config, self._source, self._target),
                )
            )
        if config.sync_topic_acls_enabled:
            chores.append(
                Chore(
                    "topic ACLs",
                    config.sync_topic_acls_interval,
                    lambda: sync_topic_acls(config, self._source, self._target),
                )
            )
        return chores

    def _close(self) -> None:
        for schedule in self._schedules:
            if schedule.ident is not None:
                schedule.join()
        for closing in (
            self._source,
            self._target,
            self._groups_source,
            self._groups_target,
            self.syncs,
            self._checkpointer,
        ):
            closing.close()
