"""One worker of a Connect group: runs its share of the connectors, and answers for all of them.

The group's config topic holds the connectors: any worker may write it, and all follow it. What they do
is in the status topic. So every worker can answer every request by itself, and none needs another one.
"""

import logging
import threading
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

from heliograph.config.connectors import (
    ConnectorConfig,
    WorkerConfig,
    connector_config,
    is_source,
)
from heliograph.config.flow import FlowConfig
from heliograph.config.properties import properties_of
from heliograph.connect.config_store import ConfigStore
from heliograph.connect.connector_offsets import check_stopped, read_offsets, write_offsets
from heliograph.connect.herder import (
    Config,
    ConnectorInfo,
    ConnectorStatus,
    Offset,
    Report,
    RestError,
    RunState,
    TargetState,
    TaskReport,
    planned_restart,
    status_of,
)
from heliograph.connect.instances import (
    Instance,
    Instances,
    SparkHost,
    Wanted,
    make_instance,
)
from heliograph.connect.membership import Assignment, Membership
from heliograph.connect.status_store import StatusStore
from heliograph.errors import MirrorError
from heliograph.flows.upkeep import GroupStatus
from heliograph.kafka.cluster import ask_cluster_id
from heliograph.observe.flow_status import FlowStatus, KeptGroups, PartitionStatus
from heliograph.spark.masters import is_local

log = logging.getLogger(__name__)

_TICK = timedelta(milliseconds=500)
_STOPPING = timedelta(seconds=30)
_SLOTS = 256  # Spark's threads; an idle one costs nothing


class Worker:
    """A herder whose connectors are shared by a group."""

    def __init__(self, config: WorkerConfig, url: str, version: str) -> None:
        self._config = config
        self._id = url.split("://", 1)[-1].rstrip("/")
        self._configs = ConfigStore(config)
        self._statuses = StatusStore(config, version)
        self._spark = SparkHost(_SLOTS, config.spark)
        self._instances = Instances(self._make)
        self._membership = Membership(config, url, self._assigned, self._all_connectors)
        self._share: tuple[int, frozenset[str]] = -1, frozenset()
        self._restarts: Counter[str] = Counter()
        self._told: dict[str, Report] = {}
        self._read_before: dict[str, tuple[Config, FlowConfig]] = {}
        self._known: set[str] = set()
        self._wake = threading.Event()
        self._applied = threading.Condition()
        self._done_with: tuple[int, frozenset[str]] | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="worker", daemon=True)

    def start(self) -> None:
        """Read the group's topics, create them if needed, and join the group."""
        self._configs.open()
        self._statuses.open()
        self._thread.start()
        self._membership.start()

    def stop(self) -> None:
        """Stop this worker's connectors and leave the group: the others take over at once."""
        self._membership.close()
        self._stopping.set()
        self._wake.set()
        self._thread.join(_STOPPING.total_seconds())
        self._instances.reconcile({})
        self._spark.close()
        self._configs.close()
        self._statuses.close()

    def alive(self) -> bool:
        """Whether this worker can still do its work."""
        return self._spark.engine.alive()

    def flows(self) -> list[FlowStatus]:
        """Return the flows whose data this worker copies, or would if they were not paused or stopped."""
        return self._instances.flows(self.sources())

    def sources(self) -> dict[str, FlowConfig]:
        """Return the flows of this worker by the names of the connectors that copy them."""
        _, mine = self._share
        found = {}
        for name in sorted(mine):
            properties = self._configs.properties(name)
            if properties is not None and is_source(properties):
                with suppress(MirrorError):  # its connector has FAILED for that reason
                    found[name] = self._read(name, properties)
        return found

    def _read(self, name: str, properties: Config) -> FlowConfig:
        """Return a connector's flow; it is read again only if it has changed."""
        kept = self._read_before.get(name)
        if kept is None or kept[0] != properties:
            kept = properties, self._connector(name).config
            self._read_before[name] = kept
        return kept[1]

    def partitions(self, flow: str) -> list[PartitionStatus]:
        return self._instances.partitions(flow)

    def groups(self, flow: str) -> list[GroupStatus]:
        return self._instances.groups(flow)

    def kept_groups(self) -> list[KeptGroups]:
        return self._instances.kept_groups()

    def cluster_id(self) -> str:
        return ask_cluster_id(self._config.endpoint)

    def health(self) -> tuple[str, str]:
        return self._membership.state()

    def connectors(self) -> list[str]:
        return self._configs.connectors()

    def info(self, name: str) -> ConnectorInfo:
        return ConnectorInfo(name, self._properties(name), self._configs.tasks(name))

    def status(self, name: str) -> ConnectorStatus:
        if self._configs.properties(name) is not None:
            _, mine = self._share
            report = self._instances.reports().get(name) if name in mine else None
            told = self._status(name, report) if report else self._statuses.status(name)
            if told is not None:
                return told
        raise RestError(404, f"No status found for connector {name}")

    def put_config(
        self,
        name: str,
        config: Mapping[str, str],
        *,
        must_be_new: bool = False,
        state: TargetState = TargetState.STARTED,
    ) -> tuple[ConnectorInfo, bool]:
        self._configs.refresh()
        is_new = self._configs.properties(name) is None
        if must_be_new and not is_new:
            raise RestError(409, f"Connector {name} already exists")
        self._configs.put_connector(name, {**config, "name": name}, state if is_new else None)
        self._wake.set()
        return self.info(name), is_new

    def delete(self, name: str) -> None:
        self._properties(name)
        self._configs.remove_connector(name)
        self._statuses.delete_connector(name)
        self._statuses.delete_topics(name)
        self._wake.set()

    def set_target_state(self, name: str, state: TargetState) -> None:
        if self._configs.properties(name) is None:
            raise RestError(404, f"Unknown connector {name}")
        if state is TargetState.STOPPED:
            self._configs.put_tasks(name, ())
        self._configs.put_target_state(name, state)
        self._wake.set()

    def restart(
        self, name: str, *, include_tasks: bool = False, only_failed: bool = False
    ) -> ConnectorStatus:
        if self._configs.properties(name) is None:
            raise RestError(404, f"Unknown connector: {name}")
        now = self.status(name)
        self._configs.request_restart(name, include_tasks=include_tasks, only_failed=only_failed)
        self._wake.set()
        return planned_restart(now, include_tasks=include_tasks, only_failed=only_failed)

    def restart_task(self, name: str, index: int) -> None:
        self._properties(name)
        if index not in {task.index for task in self.status(name).tasks}:
            raise RestError(404, f"Unknown task: {name}-{index}")
        # A slice is not restarted alone: its connector is, and continues the others where they were.
        self._configs.request_restart(name, include_tasks=True, only_failed=False)
        self._wake.set()

    def topics(self, name: str) -> list[str]:
        return self._statuses.topics(name)

    def reset_topics(self, name: str) -> None:
        self._statuses.delete_topics(name)

    def offsets(self, name: str) -> list[Offset]:
        connector = self._connector(name)
        return read_offsets(connector.part, connector.config)

    def alter_offsets(self, name: str, offsets: list[Offset] | None) -> None:
        connector = self._connector(name)
        check_stopped(self.status(name))
        write_offsets(connector.part, connector.config, offsets)

    def _properties(self, name: str) -> Config:
        found = self._configs.properties(name)
        if found is None:
            raise RestError(404, f"Connector {name} not found")
        return found

    def _connector(self, name: str) -> ConnectorConfig:
        written = properties_of(self._properties(name), f"connector {name}")
        return connector_config(written, name, self._config)

    def _make(self, name: str, wanted: Wanted) -> Instance:
        written = properties_of(dict(wanted.config), f"connector {name}")
        connector = connector_config(written, name, self._config)
        for warning in connector.warnings:
            log.warning("connector %s: %s", name, warning)
        return make_instance(connector.part, connector.config, self._spark)

    def _all_connectors(self) -> set[str]:
        self._configs.refresh()
        return set(self._configs.connectors())

    def _assigned(self, assignment: Assignment) -> None:
        """Take a new assignment; return when everything outside it has stopped."""
        share = assignment.generation, frozenset(assignment.connectors)
        with self._applied:
            self._share = share
            self._wake.set()
            done = self._applied.wait_for(
                lambda: self._done_with == share or self._stopping.is_set(),
                _STOPPING.total_seconds(),
            )
        log.info("worker %s has connectors=%s", self._id, sorted(assignment.connectors))
        if not done:
            log.warning("connectors do not stop in time; what they write from now on is fenced off")

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._wake.wait(_TICK.total_seconds())
            self._wake.clear()
            try:
                self._work()
            except MirrorError as exc:
                log.warning("worker %s: %s", self._id, exc)
            except Exception:  # the edge of a thread that must not end
                log.exception("worker %s", self._id)

    def _work(self) -> None:
        """Bring what runs here in line with what the group's topics and the group say."""
        with self._applied:
            share = self._share
        generation, mine = share
        self._reconcile(mine)
        with self._applied:
            self._done_with = share
            self._applied.notify_all()
        # A status is deleted after its connector: if this sees the status gone, it must see the connector gone.
        self._statuses.refresh()
        self._configs.refresh()
        names = set(self._configs.connectors())
        if names != self._known:
            self._known = names
            self._membership.rejoin()
        self._reconcile(mine)
        self._have_spark_ready()
        for name, report in self._instances.reports().items():
            self._tell(name, report, generation)
            for topic in self._instances.topics(name):
                self._statuses.put_topic(name, topic)

    def _reconcile(self, mine: frozenset[str]) -> None:
        self._count_restarts(mine)
        wanted = {}
        for name in mine:
            config = self._configs.properties(name)
            if config is not None:
                target = self._configs.target_state(name)
                written = tuple(sorted(config.items()))
                starts = self._restarts[name] + self._configs.births(name)
                wanted[name] = Wanted(written, target, starts)
        for gone in set(self._told) - set(wanted):
            del self._told[gone]
        self._instances.reconcile(wanted)

    def _count_restarts(self, mine: frozenset[str]) -> None:
        """Count what must start again though its configuration is the same.

        Connect restarts the connector, and not its tasks, if the same configuration is written again. Here
        that only matters for one that has failed.
        """
        asked = {(row.name, row.only_failed) for row in self._configs.take_restarts()}
        asked |= {(name, True) for name in self._configs.take_written()}
        for name in {
            name for name, failed in asked if name in mine and self._is_affected(name, failed)
        }:
            self._restarts[name] += 1

    def _have_spark_ready(self) -> None:
        """Start Spark before a source connector arrives: this is most of the pause when one moves here.

        Not before one copies elsewhere, so that two do not delay each other at a group's start; and not on
        a Spark cluster, whose cores would be idle.
        """
        if self._spark.started or not is_local(self._config.spark):
            return
        if any(map(self._copies, self._configs.connectors())):
            log.info("worker %s has Spark stand by", self._id)
            self._spark.start()

    def _copies(self, name: str) -> bool:
        told = self._statuses.status(name)
        if told is None or RunState.RUNNING not in {task.state for task in told.tasks}:
            return False
        return is_source(self._configs.properties(name) or {})

    def _is_affected(self, name: str, only_failed: bool) -> bool:
        report = self._instances.reports().get(name)
        if report is None or not only_failed:
            return report is not None
        return RunState.FAILED in (report.state, *(task.state for task in report.tasks))

    def _tell(self, name: str, report: Report, generation: int) -> None:
        """Report what changed of a connector since the last time."""
        before = self._told.get(name)
        # One that was deleted and recreated at once has lost its status, and may never have stopped here.
        if before == report and self._statuses.status(name) is not None:
            return
        if report.state is not RunState.PAUSED:
            self._tell_tasks(name, report)
        status = self._status(name, report)
        if self._statuses.put_connector_status(status, generation, unless_newer=True):
            told = self._statuses.status(name)
            for task in told.tasks if told else ():
                if task.index >= len(status.tasks):
                    self._statuses.delete_task(name, task.index)
            for task in status.tasks:
                self._statuses.put_task_status(name, task, generation, unless_newer=True)
        self._told[name] = report

    def _tell_tasks(self, name: str, report: Report) -> None:
        own = self._configs.properties(name)
        if own is None:
            return
        tasks = tuple({**own, **task.config} for task in report.tasks)
        if tasks != self._configs.tasks(name):
            self._configs.put_tasks(name, tasks)

    def _status(self, name: str, report: Report) -> ConnectorStatus:
        """Return a report as Connect's status; a paused connector keeps its tasks."""
        if report.state is RunState.PAUSED:
            kept = tuple(TaskReport(task, RunState.PAUSED) for task in self._configs.tasks(name))
            report = replace(report, tasks=kept)
        return status_of(name, self._id, report)
