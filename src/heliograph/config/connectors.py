"""Connectors as Connect takes them, and the worker that runs them: JSON or properties files."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from heliograph.config.clients import endpoint
from heliograph.config.fields import Part, invalid
from heliograph.config.flow import FlowConfig, flow_config
from heliograph.config.lint import lint_connector, lint_worker
from heliograph.config.mistakes import MissingSetting
from heliograph.config.precedence import CLASS_NAMES, CLASSES, with_new_names
from heliograph.config.properties import Origin, Properties, Written, read_json, read_properties
from heliograph.config.providers import resolve
from heliograph.config.settings import fields_of
from heliograph.config.settings_checkpoint import CheckpointSettings
from heliograph.config.settings_connector import ConnectorSettings
from heliograph.config.settings_rest import RestSettings
from heliograph.config.settings_source import SourceSettings
from heliograph.config.settings_worker import WorkerSettings
from heliograph.errors import ConfigError
from heliograph.model import Endpoint

_NEEDED_BY_GROUPS = (
    WorkerSettings.group_id,
    WorkerSettings.offset_storage_topic,
    WorkerSettings.config_storage_topic,
    WorkerSettings.status_storage_topic,
)


@dataclass(frozen=True, slots=True, repr=False)
class ConnectorConfig:
    """One connector: which of the three it is and the flow it works for."""

    file: str
    name: str
    part: Part
    config: FlowConfig
    warnings: tuple[str, ...]
    written: Properties

    def __repr__(self) -> str:
        return f"ConnectorConfig({self.name}: {self.part} of {self.config.flow})"

    __str__ = __repr__


@dataclass(frozen=True, slots=True, repr=False)
class WorkerConfig:
    """A Connect worker: the cluster that holds its three topics, and how REST is reached."""

    file: str
    endpoint: Endpoint
    group_id: str
    listeners: tuple[str, ...]
    props: Mapping[str, str]
    warnings: tuple[str, ...] = field(default=())

    @property
    def spark(self) -> dict[str, str]:
        """Its settings for Spark."""
        return {key: str(value) for key, value in self.props.items() if key.startswith("spark.")}

    def __repr__(self) -> str:
        return f"WorkerConfig({self.file}: {self.group_id} at {self.endpoint})"

    __str__ = __repr__


def load_connector(
    path: Path,
    worker: WorkerConfig | None = None,
    environment: Mapping[str, str] | None = None,
) -> ConnectorConfig:
    """Load and check one connector; without a name in it, it takes the file's."""
    path = Path(path)
    written = read_json(path) if path.suffix == ".json" else read_properties(path)
    return connector_config(written, path.stem, worker, environment)


def connector_config(
    written: Properties,
    name: str,
    worker: WorkerConfig | None = None,
    environment: Mapping[str, str] | None = None,
) -> ConnectorConfig:
    """Check one connector that was already parsed; `name` applies if it has none."""
    file = resolve(
        written,
        os.environ if environment is None else environment,
        worker.props if worker else None,
    )
    entries = {"name": Written(name, Origin(file.file, 1, "name"))} | dict(file.entries)
    part = _part(entries, file.file)
    props = with_new_names(entries)
    if part is Part.CHECKPOINT and ConnectorSettings.enabled.read(props):
        for switch in (
            CheckpointSettings.emit_checkpoints_enabled,
            SourceSettings.emit_offset_syncs_enabled,
        ):
            if not switch.read(props):
                raise invalid(switch.name, props[switch.name], "true, or remove the connector")
    config = flow_config(
        {part: props},
        worker.props if worker else {},
        file.file,
        {"source": "source.cluster.", "target": "target.cluster."},
        worker.endpoint if worker else None,
    )
    if worker is not None:
        # One Spark runs all connectors of a worker: the Spark settings in the worker's file win.
        config = replace(config, spark={**config.spark, **worker.spark})
    warnings = (*file.warnings, *lint_connector(file.entries))
    return ConnectorConfig(file.file, str(entries["name"]), part, config, warnings, written)


def is_source(props: Mapping[str, str]) -> bool:
    """Whether these are properties of a source connector; an unknown class is not one."""
    try:
        return _part(props, "") is Part.SOURCE
    except ConfigError:
        return False


def load_standalone(path: Path, environment: Mapping[str, str] | None = None) -> WorkerConfig:
    """Load and check a connect-standalone.properties; positions are kept in a file or in a topic."""
    file = _read_worker(path, environment)
    props = file.entries
    kept_in = WorkerSettings.offset_storage_file_filename.name
    if not (props.get(kept_in) or props.get(WorkerSettings.offset_storage_topic.name)):
        raise MissingSetting(file.file, kept_in, "a standalone worker keeps its positions there")
    return _worker(file, group_id="", client_id="standalone")


def load_worker(path: Path, environment: Mapping[str, str] | None = None) -> WorkerConfig:
    """Load and check a connect-distributed.properties."""
    file = _read_worker(path, environment)
    props = file.entries
    for needed in _NEEDED_BY_GROUPS:
        if not props.get(needed.name):
            raise MissingSetting(file.file, needed.name, "a distributed worker needs a name for it")
    group_id = str(props[WorkerSettings.group_id.name])
    return _worker(file, group_id=group_id, client_id=group_id)


def _read_worker(path: Path, environment: Mapping[str, str] | None) -> Properties:
    """Return a worker's file, resolved, with every declared key checked."""
    file = resolve(read_properties(Path(path)), os.environ if environment is None else environment)
    for declared in fields_of(Part.WORKER):
        declared.read(file.entries, file.file)
    return file


def _worker(file: Properties, *, group_id: str, client_id: str) -> WorkerConfig:
    props = file.entries
    return WorkerConfig(
        file.file,
        endpoint(props, "worker", client_id, file.file, ""),
        group_id,
        RestSettings.listeners.read(props),
        props,
        (*file.warnings, *lint_worker(props)),
    )


def _part(props: Mapping[str, str], file: str) -> Part:
    declared = ConnectorSettings.connector_class
    name = declared.read(props, file).strip()
    for part, class_name in CLASSES.items():
        # Connect finds a plug-in by its full name, its simple name, or that without "Connector".
        simple = CLASS_NAMES[part]
        if name in (class_name, simple, simple.removesuffix("Connector")):
            return part
    raise invalid(declared.name, props[declared.name], "one of " + ", ".join(CLASSES.values()))
