"""Hand-written stand-ins for parts of our own, never for a broker."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from heliograph.config.flow import FlowConfig
from heliograph.connect.herder import (
    Config,
    ConnectorInfo,
    ConnectorStatus,
    Offset,
    RestError,
    RunState,
    TargetState,
    TaskStatus,
)
from heliograph.flows.upkeep import GroupStatus
from heliograph.observe.flow_status import FlowStatus, KeptGroups, PartitionStatus

_WORKER = "127.0.0.1:8083"
_RUN_STATES = {
    TargetState.STARTED: RunState.RUNNING,
    TargetState.PAUSED: RunState.PAUSED,
    TargetState.STOPPED: RunState.STOPPED,
}


@dataclass(slots=True)
class _Kept:
    config: Config
    state: TargetState
    tasks: int = 0
    topics: list[str] = field(default_factory=list)
    offsets: list[Offset] = field(default_factory=list)

    @property
    def is_lame(self) -> bool:
        return "source.cluster.bootstrap.servers" not in self.config


class InMemoryHerder:
    """Keeps connectors and runs none: one of two partitions, a group and a heartbeat behaves as if it did."""

    def __init__(self) -> None:
        self.kept: dict[str, _Kept] = {}
        self.health_told = ("healthy", "All is well.")

    def cluster_id(self) -> str:
        return "in-memory"

    def health(self) -> tuple[str, str]:
        return self.health_told

    def connectors(self) -> list[str]:
        return sorted(self.kept)

    def info(self, name: str) -> ConnectorInfo:
        kept = self._find(name)
        return ConnectorInfo(
            name, dict(kept.config), tuple(_task(kept, n) for n in range(kept.tasks))
        )

    def status(self, name: str) -> ConnectorStatus:
        kept = self._find(name)
        if kept.is_lame and kept.state is TargetState.STARTED:
            return ConnectorStatus(name, RunState.FAILED, _WORKER, (), "no source cluster")
        state = _RUN_STATES[kept.state]
        tasks = tuple(TaskStatus(n, state, _WORKER) for n in range(kept.tasks))
        return ConnectorStatus(name, state, _WORKER, tasks)

    def put_config(
        self,
        name: str,
        config: Mapping[str, str],
        *,
        must_be_new: bool = False,
        state: TargetState = TargetState.STARTED,
    ) -> tuple[ConnectorInfo, bool]:
        is_new = name not in self.kept
        if must_be_new and not is_new:
            raise RestError(409, f"Connector {name} already exists")
        if is_new:
            self.kept[name] = _Kept(dict(config), state)
            info = self.info(name)
            self._run(self.kept[name])
            return info, True
        self.kept[name].config = dict(config)
        return self.info(name), False

    def delete(self, name: str) -> None:
        self._find(name)
        del self.kept[name]

    def set_target_state(self, name: str, state: TargetState) -> None:
        kept = self._find(name)
        kept.state = state
        self._run(kept)

    def restart(
        self, name: str, *, include_tasks: bool = False, only_failed: bool = False
    ) -> ConnectorStatus:
        now = self.status(name)
        failed = now.state is RunState.FAILED
        state = RunState.RESTARTING if failed or not only_failed else now.state
        restarted = include_tasks and not only_failed
        tasks = tuple(
            TaskStatus(task.index, RunState.RESTARTING if restarted else task.state, _WORKER)
            for task in now.tasks
        )
        return ConnectorStatus(name, state, _WORKER, tasks, now.trace)

    def restart_task(self, name: str, index: int) -> None:
        if index >= self._find(name).tasks:
            raise RestError(404, f"Unknown task: {name}-{index}")

    def topics(self, name: str) -> list[str]:
        return self._find(name).topics

    def reset_topics(self, name: str) -> None:
        self._find(name).topics = []

    def offsets(self, name: str) -> list[Offset]:
        return self._find(name).offsets

    def alter_offsets(self, name: str, offsets: list[Offset] | None) -> None:
        kept = self._find(name)
        if kept.state is not TargetState.STOPPED or kept.tasks:
            raise RestError(
                400,
                "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for "
                f"the specified connector by issuing a 'PUT' request to the '/connectors/{name}/stop' endpoint",
            )
        changed = {} if offsets is None else {str(old["partition"]): old for old in kept.offsets}
        for new in offsets or ():
            changed[str(new["partition"])] = new
        kept.offsets = [offset for offset in changed.values() if offset["offset"] is not None]

    def flows(self) -> list[FlowStatus]:
        return []

    def sources(self) -> dict[str, FlowConfig]:
        return {}

    def partitions(self, flow: str) -> list[PartitionStatus]:
        raise RestError(404, flow)

    def groups(self, flow: str) -> list[GroupStatus]:
        raise RestError(404, flow)

    def kept_groups(self) -> list[KeptGroups]:
        return []

    def _find(self, name: str) -> _Kept:
        if name not in self.kept:
            raise RestError(404, f"Connector {name} not found")
        return self.kept[name]

    def _run(self, kept: _Kept) -> None:
        if kept.state is TargetState.STOPPED:
            kept.tasks = 0
        if kept.state is not TargetState.STARTED or kept.is_lame:
            return
        kind = kept.config["connector.class"]
        kept.tasks = 2 if kind.endswith("SourceConnector") else 1
        if "Source" in kind and not kept.offsets:
            kept.topics = ["A.orders"]
            kept.offsets = [
                {
                    "partition": {"cluster": "A", "partition": n, "topic": "orders"},
                    "offset": {"offset": 9},
                }
                for n in range(2)
            ]
        if "Checkpoint" in kind and not kept.offsets:
            place = {"partition": 0, "topic": "A.orders", "group": "billing"}
            kept.offsets = [{"partition": place, "offset": {"offset": 0}}]


def _task(kept: _Kept, index: int) -> Config:
    kind = kept.config["connector.class"].removesuffix("Connector")
    given = (
        {"task.assigned.groups": "billing"}
        if "Checkpoint" in kind
        else {"task.assigned.partitions": f"orders-{index}"}
    )
    return {**kept.config, "task.class": f"{kind}Task", "task.index": str(index), **given}
