"""An mm2.properties as a whole: clusters, the flows that run, the flows that only send heartbeats."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path

from heliograph.config.clients import strip_prefix
from heliograph.config.fields import CONNECTORS, Part, invalid
from heliograph.config.flow import FlowConfig, flow_config
from heliograph.config.lint import lint_mirror, split_flow_key
from heliograph.config.mistakes import MissingSetting
from heliograph.config.precedence import connector_props, worker_props
from heliograph.config.properties import Properties, Written, read_properties
from heliograph.config.providers import resolve
from heliograph.config.settings import fields_of
from heliograph.config.settings_checkpoint import CheckpointSettings
from heliograph.config.settings_connector import ConnectorSettings
from heliograph.config.settings_rest import RestSettings
from heliograph.config.settings_source import SourceSettings
from heliograph.config.settings_worker import DriverSettings
from heliograph.model import Flow


@dataclass(frozen=True, slots=True, repr=False)
class MirrorConfig:
    """What a dedicated mirror does; `other_flows` are not enabled. `written` is the file with expressions intact."""

    file: str
    clusters: tuple[str, ...]
    flows: tuple[FlowConfig, ...]
    heartbeat_flows: tuple[FlowConfig, ...]
    other_flows: tuple[FlowConfig, ...]
    warnings: tuple[str, ...]
    written: Properties

    def __repr__(self) -> str:
        return f"MirrorConfig({self.file}: {', '.join(str(flow.flow) for flow in self.flows)})"

    __str__ = __repr__


def load_mirror(path: Path, environment: Mapping[str, str] | None = None) -> MirrorConfig:
    """Load and check an mm2.properties; ConfigError says the first thing that is wrong with it."""
    written = read_properties(Path(path))
    file = resolve(written, os.environ if environment is None else environment)
    DriverSettings(file.entries, file.file)
    RestSettings(file.entries, file.file)
    clusters = _clusters(file)
    _check_flows(file.entries, clusters)
    flows: list[FlowConfig] = []
    beating: list[FlowConfig] = []
    others: list[FlowConfig] = []
    warnings = [*file.warnings, *lint_mirror(file.entries, clusters)]
    for source, target in permutations(clusters, 2):
        config = _load_flow(file, Flow(source, target))
        others.append(config)
        if not config.heartbeats.emits and f"{config.flow}.enabled" not in file.entries:
            continue  # MM2 starts nothing for such a pair, even if a bare `enabled` is true
        if config.common.enabled:
            flows.append(config)
            warnings += _checkpoint_warnings(config)
        elif config.heartbeats.emits:
            beating.append(config)
    if not flows:
        pair = f"{clusters[0]}->{clusters[-1]}" if len(clusters) > 1 else "A->B"
        raise MissingSetting(
            file.file, f"{pair}.enabled", "no flow is enabled; set at least one to true"
        )
    return MirrorConfig(
        file.file,
        clusters,
        tuple(flows),
        tuple(beating),
        tuple(other for other in others if other not in flows),
        tuple(dict.fromkeys(warnings)),
        written,
    )


def _clusters(file: Properties) -> tuple[str, ...]:
    declared = DriverSettings.clusters
    clusters = tuple(dict.fromkeys(declared.read(file.entries, file.file)))
    if not all(clusters):
        raise invalid(
            declared.name, file.entries[declared.name], "names separated by commas, such as A, B"
        )
    return clusters


def _check_flows(props: Mapping[str, Written], clusters: tuple[str, ...]) -> None:
    enabled = ConnectorSettings.enabled
    for key, value in props.items():
        pair, rest = split_flow_key(key, clusters)
        if pair is None or rest != enabled.name or not enabled.read({rest: value}):
            continue
        if strangers := [alias for alias in pair if alias not in clusters]:
            known = ", ".join(clusters)
            raise invalid(key, value, f"{strangers[0]} is not a cluster; clusters={known}")
        if pair[0] == pair[1]:
            raise invalid(key, value, "a flow joins two different clusters")


def _load_flow(file: Properties, flow: Flow) -> FlowConfig:
    worker = worker_props(file.entries, flow)
    for field in fields_of(Part.WORKER):
        field.read(worker, file.file)
    connectors: dict[Part, dict[str, str]] = {
        part: connector_props(file.entries, flow, part) for part in CONNECTORS
    }
    connectors[Part.SOURCE] = _spark(file.entries) | connectors[Part.SOURCE]
    return flow_config(
        connectors,
        worker,
        file.file,
        {"source": f"{flow.source}.", "target": f"{flow.target}."},
    )


def _spark(props: Mapping[str, str]) -> dict[str, str]:
    return {f"spark.{key}": value for key, value in strip_prefix(props, "spark.").items()}


def _checkpoint_warnings(config: FlowConfig) -> list[str]:
    """Say why a flow writes no checkpoints; MM2 refuses its checkpoint connector and continues."""
    props = config.connectors[Part.CHECKPOINT]
    return [
        f"{value.origin}: {value.origin.key}: {config.flow} writes no checkpoints and syncs no groups"
        for field in (
            CheckpointSettings.emit_checkpoints_enabled,
            SourceSettings.emit_offset_syncs_enabled,
        )
        if isinstance(value := props.get(field.name), Written) and not field.read(props)
    ]
