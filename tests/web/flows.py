"""Flows for pages of a process that runs none."""

from dataclasses import dataclass, field
from pathlib import Path

from heliograph.config.flow import FlowConfig
from heliograph.config.mirror import load_mirror
from heliograph.flows.upkeep import GroupStatus
from heliograph.observe.flow_status import FlowStatus, PartitionStatus, status_at_rest
from tests.fakes import InMemoryHerder


@dataclass
class Known(InMemoryHerder):
    """A process that has these flows, none of which runs."""

    configs: list[FlowConfig] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def flows(self) -> list[FlowStatus]:
        return [status_at_rest(config) for config in self.configs]

    def sources(self) -> dict[str, FlowConfig]:
        return {f"of {config.flow}": config for config in self.configs}

    def partitions(self, flow: str) -> list[PartitionStatus]:  # noqa: ARG002
        return []

    def groups(self, flow: str) -> list[GroupStatus]:  # noqa: ARG002
        return []


def flow_config(
    folder: Path, source: str = "127.0.0.1:1", target: str = "127.0.0.1:1"
) -> FlowConfig:
    """Return A->B between these brokers; unless told otherwise nobody listens there."""
    file = folder / "mm2.properties"
    file.write_text(
        "clusters = A, B\nA->B.enabled = true\n"
        f"A.bootstrap.servers = {source}\nB.bootstrap.servers = {target}\n"
    )
    return load_mirror(file, {}).flows[0]
