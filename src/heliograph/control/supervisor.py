"""All flows of one file, with MirrorMaker 2's three connectors each: dedicated mode, as a herder.

Their configurations are those of the file. They can be paused, stopped, resumed and restarted until this
process ends; the next one starts as the file says.
"""

import threading
from collections import Counter
from collections.abc import Mapping, Sequence

from heliograph.config.fields import Part
from heliograph.config.flow import FlowConfig
from heliograph.config.precedence import CLASS_NAMES
from heliograph.control.connect import (
    Config,
    ConnectorInfo,
    ConnectorStatus,
    Offset,
    RestError,
    TargetState,
    planned_restart,
    status_of,
)
from heliograph.control.connector_offsets import check_stopped, read_offsets, write_offsets
from heliograph.control.instances import (
    Instance,
    Instances,
    SparkHost,
    Wanted,
    make_instance,
)
from heliograph.control.runner import FlowStatus, PartitionStatus, slices_for, status_at_rest
from heliograph.dataplane.session import Engine
from heliograph.flows.upkeep import GroupStatus
from heliograph.kafka.cluster import Cluster

_READ_ONLY = (
    "connectors of this process are those of its file. Change the file, and start it again."
)


class Supervisor:
    """Starts and stops flows together; between the two, each goes its own way."""

    def __init__(
        self,
        flows: Sequence[FlowConfig],
        beating: Sequence[FlowConfig] = (),
        worker_id: str = "127.0.0.1:0",
    ) -> None:
        """Take the flows to run, and those that are not run but beat all the same."""
        slots = sum(slices_for(config) for config in flows)
        spark = {key: value for config in flows for key, value in config.spark.items()}
        self._spark = SparkHost(slots, spark)
        self._worker_id = worker_id
        self._flows = flows
        self._parts = {
            connector_name(config, part): (config, part)
            for config in flows
            for part in (Part.SOURCE, Part.CHECKPOINT, Part.HEARTBEAT)
        } | {connector_name(config, Part.HEARTBEAT): (config, Part.HEARTBEAT) for config in beating}
        self._targets = dict.fromkeys(self._parts, TargetState.STARTED)
        self._restarts: Counter[str] = Counter()
        self._instances = Instances(self._make)
        self._lock = threading.Lock()

    @property
    def engine(self) -> Engine:
        return self._spark.engine

    def start(self) -> None:
        """Start every flow. Spark comes up meanwhile: it takes longer than finding the topics."""
        self._spark.start()
        self._reconcile()

    def flows(self) -> list[FlowStatus]:
        """Return every flow as it is now, also one that is paused or stopped."""
        running = {status.flow: status for status in self._instances.flows()}
        return [running.get(str(c.flow)) or status_at_rest(c) for c in self._flows]

    def partitions(self, flow: str) -> list[PartitionStatus]:
        return self._instances.partitions(flow)

    def groups(self, flow: str) -> list[GroupStatus]:
        return self._instances.groups(flow)

    def alive(self) -> bool:
        """Whether this driver can still do its work."""
        return self._spark.engine.alive()

    def stop_flows(self) -> None:
        """Drain and save every flow; Spark stays up."""
        with self._lock:
            self._instances.reconcile({})

    def stop(self) -> None:
        """Drain and save every flow, then stop Spark."""
        self.stop_flows()
        self._spark.close()

    def cluster_id(self) -> str:
        cluster = Cluster(self._flows[0].target_admin)
        try:
            return cluster.cluster_id()
        finally:
            cluster.close()

    def health(self) -> tuple[str, str]:
        if not self.alive():
            return "unhealthy", "Spark's JVM is gone; start heliograph again."
        if not self.engine.wait(0):
            return "starting", "Spark is coming up."
        return "healthy", f"{len(self._flows)} flows are looked after."

    def connectors(self) -> list[str]:
        return sorted(self._parts)

    def info(self, name: str) -> ConnectorInfo:
        config, part = self._find(name)
        own: Config = {**config.connectors[part], "name": name}
        tasks = tuple({**own, **task.config} for task in self._instances.report(name).tasks)
        return ConnectorInfo(name, own, tasks)

    def status(self, name: str) -> ConnectorStatus:
        self._find(name)
        return status_of(name, self._worker_id, self._instances.report(name))

    def put_config(
        self,
        name: str,
        config: Mapping[str, str],  # noqa: ARG002 - refused whatever it is
        *,
        must_be_new: bool = False,  # noqa: ARG002
        state: TargetState = TargetState.STARTED,  # noqa: ARG002
    ) -> tuple[ConnectorInfo, bool]:
        raise _read_only(name)

    def delete(self, name: str) -> None:
        raise _read_only(name)

    def set_target_state(self, name: str, state: TargetState) -> None:
        self._find(name)
        self._targets[name] = state
        self._reconcile()

    def restart(
        self, name: str, *, include_tasks: bool = False, only_failed: bool = False
    ) -> ConnectorStatus:
        now = self.status(name)
        plan = planned_restart(now, include_tasks=include_tasks, only_failed=only_failed)
        if plan != now:
            self._restarts[name] += 1
            self._reconcile()
        return plan

    def restart_task(self, name: str, index: int) -> None:
        if index >= len(self.status(name).tasks):
            raise RestError(404, f"Unknown task: {name}-{index}")
        self._restarts[name] += 1
        self._reconcile()

    def topics(self, name: str) -> list[str]:
        return sorted(self._instances.topics(name))

    def reset_topics(self, name: str) -> None:
        raise _read_only(name)

    def offsets(self, name: str) -> list[Offset]:
        config, part = self._find(name)
        return read_offsets(part, config)

    def alter_offsets(self, name: str, offsets: list[Offset] | None) -> None:
        config, part = self._find(name)
        check_stopped(self.status(name))
        write_offsets(part, config, offsets)

    def _find(self, name: str) -> tuple[FlowConfig, Part]:
        found = self._parts.get(name)
        if found is None:
            raise RestError(404, f"Connector {name} not found")
        return found

    def _reconcile(self) -> None:
        with self._lock:
            self._instances.reconcile(
                {
                    name: Wanted((), target, self._restarts[name])
                    for name, target in self._targets.items()
                }
            )

    def _make(self, name: str, _wanted: Wanted) -> Instance:
        config, part = self._parts[name]

        def on_fatal() -> None:
            """Write no more checkpoints beside the process that has the flow now."""
            checkpoints = connector_name(config, Part.CHECKPOINT)
            stopping = threading.Thread(
                target=self.set_target_state, args=(checkpoints, TargetState.STOPPED), daemon=True
            )
            stopping.start()

        return make_instance(part, config, self._spark, on_fatal)


def _read_only(name: str) -> RestError:
    return RestError(
        403,
        f"{name}: connectors of this process are those of its file. Change it, and start it again.",
    )


def connector_name(config: FlowConfig, part: Part) -> str:
    """Return what a connector of a flow is called in this process: MM2's name after the flow's."""
    return f"{config.flow}.{CLASS_NAMES[part]}"
