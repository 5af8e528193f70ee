"""Connectors defined in files: dedicated mode, where a flow has all three, and a standalone worker.

Their configurations are those of the files. They can be paused, stopped, resumed and restarted until this
process ends; the next process starts as the file says.
"""

import threading
from collections import Counter
from collections.abc import Mapping, Sequence

from heliograph.config.fields import CONNECTORS, Part
from heliograph.config.flow import FlowConfig
from heliograph.config.naming import naming_of
from heliograph.config.precedence import CLASS_NAMES
from heliograph.connect.connector_offsets import check_stopped, read_offsets, write_offsets
from heliograph.connect.herder import (
    Config,
    ConnectorInfo,
    ConnectorStatus,
    Offset,
    RestError,
    TargetState,
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
from heliograph.flows.upkeep import GroupStatus
from heliograph.kafka.cluster import ask_cluster_id
from heliograph.observe.flow_status import FlowStatus, KeptGroups, PartitionStatus
from heliograph.running.jobs import slices_for
from heliograph.spark.engine import Engine

_READ_ONLY = (
    "connectors of this process are those of its file. Change the file, and start it again."
)


class Supervisor:
    """A herder that starts and stops connectors together; in between, each runs independently."""

    def __init__(
        self, connectors: Mapping[str, tuple[Part, FlowConfig]], worker_id: str = "127.0.0.1:0"
    ) -> None:
        """Take what to run: by name, which of the three connectors, of which flow."""
        for _, config in connectors.values():
            naming_of(
                config
            )  # a policy that cannot be loaded is a mistake in the file: reported at once
        self._parts = connectors
        self._flows = [config for part, config in connectors.values() if part is Part.SOURCE]
        slots = sum(slices_for(config) for config in self._flows)
        spark = {key: value for config in self._flows for key, value in config.spark.items()}
        self._spark = SparkHost(slots, spark)
        self._worker_id = worker_id
        self._targets = dict.fromkeys(self._parts, TargetState.STARTED)
        self._restarts: Counter[str] = Counter()
        self._paused: set[str] = set()  # checkpoint connectors of flows that another driver has
        self._instances = Instances(self._make)
        self._lock = threading.Lock()

    @property
    def engine(self) -> Engine:
        return self._spark.engine

    def start_spark(self) -> None:
        """Start Spark while other things are prepared; returns at once."""
        if self._flows:
            self._spark.start()

    def start(self) -> None:
        """Start all. Spark starts meanwhile: it takes longer than finding the topics."""
        self.start_spark()
        self._reconcile()

    def flows(self) -> list[FlowStatus]:
        """Return every flow as it is now, also one that is paused or stopped."""
        return self._instances.flows(self.sources())

    def sources(self) -> dict[str, FlowConfig]:
        """Return the flows by the names of the connectors that copy them."""
        return {n: config for n, (part, config) in self._parts.items() if part is Part.SOURCE}

    def partitions(self, flow: str) -> list[PartitionStatus]:
        return self._instances.partitions(flow)

    def groups(self, flow: str) -> list[GroupStatus]:
        return self._instances.groups(flow)

    def kept_groups(self) -> list[KeptGroups]:
        return self._instances.kept_groups()

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
        _, config = next(iter(self._parts.values()))
        return ask_cluster_id(config.target_admin)

    def health(self) -> tuple[str, str]:
        if not self.alive():
            return "unhealthy", "Spark's JVM is gone; start heliograph again."
        if self._flows and not self.engine.wait(0):
            return "starting", "Spark is coming up."
        return "healthy", f"{len(self._parts)} connectors are looked after."

    def connectors(self) -> list[str]:
        return sorted(self._parts)

    def info(self, name: str) -> ConnectorInfo:
        part, config = self._find(name)
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
        part, config = self._find(name)
        return read_offsets(part, config)

    def alter_offsets(self, name: str, offsets: list[Offset] | None) -> None:
        part, config = self._find(name)
        check_stopped(self.status(name))
        write_offsets(part, config, offsets)

    def _find(self, name: str) -> tuple[Part, FlowConfig]:
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
        part, config = self._parts[name]

        def on_owned(owned: bool) -> None:
            """Write no checkpoints while another process has the flow; continue when it is ours again."""
            threading.Thread(
                target=self._pause_checkpoints if not owned else self._resume_checkpoints,
                args=(config,),
                name=f"{name} checkpoints",
                daemon=True,
            ).start()

        return make_instance(part, config, self._spark, on_owned)

    def _pause_checkpoints(self, config: FlowConfig) -> None:
        for name, (part, other) in self._parts.items():
            started = self._targets[name] is TargetState.STARTED
            if part is Part.CHECKPOINT and other.flow == config.flow and started:
                self._paused.add(name)
                self.set_target_state(name, TargetState.STOPPED)

    def _resume_checkpoints(self, config: FlowConfig) -> None:
        for name in sorted(self._paused):
            if self._parts[name][1].flow == config.flow:
                self._paused.discard(name)
                if self._targets[name] is TargetState.STOPPED:
                    self.set_target_state(name, TargetState.STARTED)


def dedicated_connectors(
    flows: Sequence[FlowConfig], beating: Sequence[FlowConfig] = ()
) -> dict[str, tuple[Part, FlowConfig]]:
    """Return the connectors of a file's flows, and of those that copy nothing but still send heartbeats.

    Each is named as in MM2, after its flow.
    """
    found = [(part, config) for config in flows for part in CONNECTORS]
    found += [(Part.HEARTBEAT, config) for config in beating]
    return {f"{config.flow}.{CLASS_NAMES[part]}": (part, config) for part, config in found}


def _read_only(name: str) -> RestError:
    return RestError(
        403,
        f"{name}: connectors of this process are those of its file. Change it, and start it again.",
    )
